"""Which models are watched, and what of their signals becomes a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection, models
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete, pre_save
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django import site
from mcp_django.events.changes import ModelChange
from mcp_django.push.receivers import watch
from mcp_django.sites import registry_changed
from tests.push.conftest import Heard
from tests.shop.models import Apikey, Book, CheapProduct, Product, Tag, Unwatched
from tests.support.declared import Declared


def told(**models_: ModelChange) -> dict[tuple[str, str], ModelChange]:
    return {("default", f"shop.{name}"): change for name, change in models_.items()}


def written(*keys: Any) -> ModelChange:
    return ModelChange({str(key) for key in keys}, set())


def deleted(*keys: Any) -> ModelChange:
    return ModelChange(set(), {str(key) for key in keys})


def either(change: ModelChange) -> dict[str, ModelChange]:
    """Of a product and of a book: a signal of the parent does not say whether its row has a child."""
    return {"product": change, "book": change}


UNKNOWN = ModelChange(None, set())


def delete_statements(work: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        work()
    return [query["sql"] for query in captured if query["sql"].startswith("DELETE")]


@pytest.fixture
def product(heard: Heard) -> Product:
    product = Product.objects.create(name="lamp")
    heard.events.clear()
    return product


@pytest.fixture
def tags(heard: Heard) -> list[Tag]:
    tags = [Tag.objects.create(name=name) for name in ("a", "b")]
    heard.events.clear()
    return tags


@pytest.fixture
def registered() -> Iterator[Callable[..., None]]:
    """Registers a model for one test."""
    models_: list[type[models.Model]] = []

    def register(model: type[models.Model], **options: Any) -> None:
        site.register(model, **options)
        models_.append(model)

    yield register
    for model in models_:
        site.unregister(model)


# Inheritance.


def test_a_saved_proxy_is_a_change_of_its_concrete_model(heard: Heard) -> None:
    product = CheapProduct.objects.create(name="lamp")

    assert heard.changes() == told(**either(written(product.pk)))


def test_a_deleted_proxy_is_a_delete_of_its_concrete_model(heard: Heard, product: Product) -> None:
    key = product.pk

    CheapProduct.objects.get(pk=key).delete()

    assert heard.changes() == told(**either(deleted(key)))


def test_a_saved_child_is_a_change_of_its_parent_too(heard: Heard) -> None:
    book = Book.objects.create(name="lamps", author="x")

    assert heard.changes() == told(**either(written(book.pk)))


def test_a_deleted_child_is_a_delete_of_its_parent_too(heard: Heard) -> None:
    book = Book.objects.create(name="lamps", author="x")
    key = book.pk
    heard.events.clear()

    book.delete()

    assert heard.changes() == told(**either(deleted(key)))


def test_a_save_of_the_parent_alone_is_a_change_of_the_child(heard: Heard) -> None:
    book = Book.objects.create(name="lamps", author="x")
    heard.events.clear()

    Product.objects.get(pk=book.pk).save()

    assert heard.changes() == told(**either(written(book.pk)))


# Deletes.


def test_a_deleted_row_is_told_with_the_key_that_it_had(heard: Heard, product: Product) -> None:
    key = product.pk

    product.delete()

    assert product.pk is None
    assert heard.changes() == told(**either(deleted(key)))


def test_the_rows_of_a_deleted_queryset_are_told(heard: Heard, tags: list[Tag]) -> None:
    Tag.objects.all().delete()

    assert heard.changes() == told(tag=deleted("a", "b"))


def test_clearing_sessions_stays_one_statement(heard: Heard) -> None:
    ended = timezone.now() - timedelta(days=1)
    Session.objects.bulk_create(Session(session_key=str(number), expire_date=ended) for number in range(50))

    statements = delete_statements(Session.objects.filter(expire_date__lt=timezone.now()).delete)

    assert len(statements) == 1


@pytest.mark.parametrize("model", [Unwatched, Session, Apikey])
@pytest.mark.parametrize("signal", [pre_save, post_save, pre_delete, post_delete, m2m_changed])
def test_a_model_that_is_not_exposed_has_no_receiver(heard: Heard, signal: Any, model: Any) -> None:
    Tag.objects.create(name="the receivers are connected by now")

    assert not signal.has_listeners(model)


@pytest.mark.parametrize("signal", [pre_save, pre_delete])
def test_an_exposed_model_has_no_receiver_before_it_is_written(heard: Heard, signal: Any) -> None:
    Tag.objects.create(name="the receivers are connected by now")

    assert not signal.has_listeners(Tag)


# Which models.


def test_a_model_that_is_registered_later_is_watched(heard: Heard, registered: Callable[..., None]) -> None:
    registered(Unwatched, fields="__all__")

    row = Unwatched.objects.create(name="x")

    assert heard.changes() == told(unwatched=written(row.pk))


def test_a_model_that_is_unregistered_is_watched_no_more(heard: Heard) -> None:
    site.register(Unwatched, fields="__all__")
    site.unregister(Unwatched)

    Unwatched.objects.create(name="x")

    assert heard.events == []
    assert not post_delete.has_listeners(Unwatched)


def test_a_tool_changes_no_model_and_is_no_work_for_the_receivers(heard: Heard, declared: Declared) -> None:
    sent: list[Any] = []

    def receive(**kwargs: Any) -> None:
        sent.append(kwargs["site"])

    def nothing(request: HttpRequest) -> str:
        """Does nothing."""
        return ""

    registry_changed.connect(receive)
    try:
        declared.tool(nothing)
        before_models = list(sent)
        declared.model(Unwatched, fields="__all__")
    finally:
        registry_changed.disconnect(receive)

    assert "nothing" in site.tools
    assert before_models == []
    assert sent == [site]


def test_receivers_stay_where_the_same_models_are_watched(heard: Heard) -> None:
    targets = watch.targets_of(Product)
    assert targets

    registry_changed.send(type(site), site=site)

    assert watch.targets_of(Product) is targets


def test_watch_false_keeps_the_model_silent_and_its_deletes_fast(heard: Heard, registered: Callable[..., None]) -> None:
    registered(Unwatched, fields="__all__", watch=False)

    Unwatched.objects.bulk_create(Unwatched(name=str(number)) for number in range(5))
    Unwatched(name="saved").save()
    statements = delete_statements(Unwatched.objects.all().delete)

    assert heard.events == []
    assert len(statements) == 1


def test_watch_false_silences_a_model_that_the_admin_exposes(heard: Heard, registered: Callable[..., None]) -> None:
    registered(Tag, watch=False)

    Tag.objects.create(name="a")

    assert heard.events == []


def test_bulk_writes_send_no_signal_and_are_not_told(heard: Heard) -> None:
    Tag.objects.bulk_create([Tag(name="a"), Tag(name="b")])
    Product.objects.update(name="x")

    assert heard.events == []


# Many to many, from both sides.


def test_adding_a_related_row_changes_both(heard: Heard, product: Product, tags: list[Tag]) -> None:
    product.tags.add(*tags)

    assert heard.changes() == told(**either(written(product.pk)), tag=written("a", "b"))


def test_adding_from_the_other_side_changes_both(heard: Heard, product: Product, tags: list[Tag]) -> None:
    tags[0].product_set.add(product)

    assert heard.changes() == told(**either(written(product.pk)), tag=written("a"))


def test_removing_a_related_row_changes_both(heard: Heard, product: Product, tags: list[Tag]) -> None:
    product.tags.add(*tags)
    heard.events.clear()

    product.tags.remove(tags[1])

    assert heard.changes() == told(**either(written(product.pk)), tag=written("b"))


def test_removing_from_the_other_side_changes_both(heard: Heard, product: Product, tags: list[Tag]) -> None:
    product.tags.add(*tags)
    heard.events.clear()

    tags[1].product_set.remove(product)

    assert heard.changes() == told(**either(written(product.pk)), tag=written("b"))


def test_clearing_tells_the_other_side_as_a_model_since_nobody_says_whom_it_held(
    heard: Heard, product: Product, tags: list[Tag]
) -> None:
    product.tags.add(*tags)
    heard.events.clear()

    product.tags.clear()

    assert heard.changes() == told(**either(written(product.pk)), tag=UNKNOWN)


def test_clearing_from_the_other_side_tells_the_first_as_a_model(
    heard: Heard, product: Product, tags: list[Tag]
) -> None:
    product.tags.add(*tags)
    heard.events.clear()

    tags[0].product_set.clear()

    assert heard.changes() == told(**either(UNKNOWN), tag=written("a"))


def test_relating_a_child_changes_the_child_and_its_parent(heard: Heard, tags: list[Tag]) -> None:
    book = Book.objects.create(name="lamps", author="x")
    heard.events.clear()

    book.tags.add(tags[0])

    assert heard.changes() == told(**either(written(book.pk)), tag=written("a"))


def test_relating_a_child_from_the_other_side_changes_the_child_too(heard: Heard, tags: list[Tag]) -> None:
    book = Book.objects.create(name="lamps", author="x")
    heard.events.clear()

    tags[0].product_set.add(book.product_ptr)

    assert heard.changes() == told(**either(written(book.pk)), tag=written("a"))


def test_relating_through_a_proxy_changes_its_concrete_model(heard: Heard, product: Product, tags: list[Tag]) -> None:
    CheapProduct.objects.get(pk=product.pk).tags.add(tags[0])

    assert heard.changes() == told(**either(written(product.pk)), tag=written("a"))


def test_a_key_that_was_assigned_in_another_spelling_is_told_as_the_database_spells_it(
    heard: Heard, product: Product
) -> None:
    Product(pk=f"0{product.pk}", name="lantern").save()

    assert heard.changes() == told(**either(written(product.pk)))


# A key that cannot be written down: the project's write goes on, and the whole model counts as changed.


@pytest.fixture
def unreadable(product: Product, tags: list[Tag], monkeypatch: pytest.MonkeyPatch) -> None:
    """No key can be written as text."""

    def spelled_key(field: Any, value: Any) -> str:
        raise RuntimeError("no text")

    monkeypatch.setattr("mcp_django.push.receivers.spelled_key", spelled_key)


def test_a_key_that_cannot_be_written_fails_no_save(
    unreadable: None, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    tag = Tag.objects.get(name="a")

    tag.save()
    after_save = heard.changes()
    tag.delete()

    assert after_save == heard.changes() == told(tag=UNKNOWN)
    assert "A changed row of shop.Tag could not be noted" in caplog.text and "no text" in caplog.text


def test_a_key_that_cannot_be_written_fails_no_relation(unreadable: None, product: Product, heard: Heard) -> None:
    product.tags.add("a")

    assert heard.changes() == told(product=UNKNOWN, book=UNKNOWN, tag=UNKNOWN)
    assert list(product.tags.values_list("name", flat=True)) == ["a"]


def test_a_change_that_cannot_be_noted_at_all_fails_no_save(
    tags: list[Tag], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def note(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr("mcp_django.push.receivers.note", note)

    Tag.objects.create(name="c")

    assert Tag.objects.filter(name="c").exists()
    assert "A change of shop.Tag is not pushed" in caplog.text
