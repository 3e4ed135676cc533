"""Which models are watched, and what of their signals becomes a change."""

from __future__ import annotations

import sys
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
from mcp_django.bridge.site_signals import registry_changed
from mcp_django.core.events.changed_rows import ModelChange
from mcp_django.push import first_sign
from mcp_django.push.receivers import watch
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


def test_a_row_is_told_of_its_concrete_model_its_parent_and_its_children(heard: Heard) -> None:
    def save(row: models.Model) -> Any:
        row.save()
        return row.pk

    def delete(row: models.Model) -> Any:
        key = row.pk
        row.delete()
        assert row.pk is None
        return key

    book = Book.objects.create(name="lamps", author="x")
    product, proxy = Product.objects.create(name="lamp"), CheapProduct.objects.create(name="lamp")
    heard.events.clear()
    writes: dict[str, Callable[[], Any]] = {
        "a proxy": lambda: save(CheapProduct(name="candle")),
        "a child": lambda: save(Book(name="candles", author="x")),
        "the parent of a child alone": lambda: save(Product.objects.get(pk=book.pk)),
        "a key in another spelling": lambda: save(Product(pk=f"0{product.pk}", name="lantern")),
    }
    deletes = {
        "a row": lambda: delete(product),
        "a proxy": lambda: delete(CheapProduct.objects.get(pk=proxy.pk)),
        "a child": lambda: delete(book),
    }

    for name, work in writes.items():
        key = int(work())
        assert (name, heard.changes()) == (name, told(**either(written(key))))
    for name, work in deletes.items():
        key = work()
        assert (name, heard.changes()) == (name, told(**either(deleted(key))))


# Deletes.


def test_the_rows_of_a_deleted_queryset_are_told(heard: Heard, tags: list[Tag]) -> None:
    Tag.objects.all().delete()

    assert heard.changes() == told(tag=deleted("a", "b"))


def test_clearing_sessions_stays_one_statement(heard: Heard) -> None:
    ended = timezone.now() - timedelta(days=1)
    Session.objects.bulk_create(Session(session_key=str(number), expire_date=ended) for number in range(50))

    statements = delete_statements(Session.objects.filter(expire_date__lt=timezone.now()).delete)

    assert len(statements) == 1


def test_a_model_has_no_receiver_that_nobody_needs(heard: Heard) -> None:
    Tag.objects.create(name="the receivers are connected by now")

    signals = [pre_save, post_save, pre_delete, post_delete, m2m_changed]
    heard_by = [
        (model, signal)
        for model, silent in [
            (Unwatched, signals),
            (Session, signals),
            (Apikey, signals),
            (Tag, [pre_save, pre_delete]),
        ]
        for signal in silent
        if signal.has_listeners(model)
    ]

    assert heard_by == []
    assert post_save.has_listeners(Tag) and post_delete.has_listeners(Tag)


# Which models.


def test_a_model_is_watched_from_when_it_is_registered_until_it_is_unregistered(heard: Heard) -> None:
    site.register(Unwatched, fields="__all__")
    row = Unwatched.objects.create(name="x")
    heard_of = heard.changes()
    site.unregister(Unwatched)

    Unwatched.objects.create(name="y")

    assert heard_of == told(unwatched=written(row.pk))
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


def test_watch_false_keeps_a_model_silent_and_its_deletes_fast(heard: Heard, registered: Callable[..., None]) -> None:
    registered(Unwatched, fields="__all__", watch=False)
    # The admin exposes this one.
    registered(Tag, watch=False)

    Unwatched.objects.bulk_create(Unwatched(name=str(number)) for number in range(5))
    Unwatched(name="saved").save()
    Tag.objects.create(name="a")
    statements = delete_statements(Unwatched.objects.all().delete)

    assert heard.events == []
    assert len(statements) == 1


def test_bulk_writes_send_no_signal_and_are_not_told(heard: Heard) -> None:
    Tag.objects.bulk_create([Tag(name="a"), Tag(name="b")])
    Product.objects.update(name="x")

    assert heard.events == []


# Many to many, from both sides.


def test_a_relation_is_told_of_both_sides_whichever_changes_it(heard: Heard, product: Product, tags: list[Tag]) -> None:
    """Of a side that is cleared, nobody says whom it held."""
    a, b = tags
    book = Book.objects.create(name="lamps", author="x")
    heard.events.clear()
    of_product, of_book = either(written(product.pk)), either(written(book.pk))
    works: dict[str, tuple[Callable[[], Any], dict[str, ModelChange]]] = {
        "added": (lambda: product.tags.add(a, b), {**of_product, "tag": written("a", "b")}),
        "removed": (lambda: product.tags.remove(b), {**of_product, "tag": written("b")}),
        "removed from the other side": (lambda: a.product_set.remove(product), {**of_product, "tag": written("a")}),
        "added from the other side": (lambda: a.product_set.add(product), {**of_product, "tag": written("a")}),
        "added by a proxy": (
            lambda: CheapProduct.objects.get(pk=product.pk).tags.add(b),
            {**of_product, "tag": written("b")},
        ),
        "cleared": (product.tags.clear, {**of_product, "tag": UNKNOWN}),
        "added to a child": (lambda: book.tags.add(a), {**of_book, "tag": written("a")}),
        "added to a child from the other side": (
            lambda: b.product_set.add(book.product_ptr),
            {**of_book, "tag": written("b")},
        ),
        "cleared from the other side": (a.product_set.clear, {**either(UNKNOWN), "tag": written("a")}),
    }

    heard_of = {}
    for name, (work, _) in works.items():
        work()
        heard_of[name] = heard.changes()

    assert heard_of == {name: told(**changes) for name, (_, changes) in works.items()}


# A key that cannot be written down: the project's write goes on, and the whole model counts as changed.


@pytest.fixture
def unreadable(product: Product, tags: list[Tag], monkeypatch: pytest.MonkeyPatch) -> None:
    """No key can be written as text."""

    def spelled_key(field: Any, value: Any) -> str:
        raise RuntimeError("no text")

    monkeypatch.setattr("mcp_django.push.receivers.spelled_key", spelled_key)


def test_a_key_that_cannot_be_written_fails_no_save_and_no_relation(
    unreadable: None, product: Product, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    tag = Tag.objects.get(name="a")

    tag.save()
    after_save = heard.changes()
    product.tags.add("b")
    related = list(product.tags.values_list("name", flat=True))
    after_relation = heard.changes()
    tag.delete()

    assert after_save == heard.changes() == told(tag=UNKNOWN)
    assert after_relation == told(product=UNKNOWN, book=UNKNOWN, tag=UNKNOWN)
    assert related == ["b"]
    assert "A changed row of shop.Tag could not be noted" in caplog.text and "no text" in caplog.text


def test_a_change_that_cannot_be_noted_at_all_fails_no_save(
    tags: list[Tag], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def note(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr("mcp_django.push.receivers.note", note)

    Tag.objects.create(name="c")

    assert Tag.objects.filter(name="c").exists()
    assert "A change of shop.Tag is not pushed" in caplog.text


def test_a_query_does_not_fail_where_another_thread_holds_the_import(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_django.push.receivers", None)

    first_sign._begin(sender=None)

    assert first_sign.NOT_YET in caplog.text
