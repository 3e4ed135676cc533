"""What is written in bulk, or by Django itself, without a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import LazySettings
from django.core.exceptions import FieldDoesNotExist
from django.db import IntegrityError, NotSupportedError, connection, models, transaction
from django.db.models import Count, F, Value
from django.db.models.functions import Concat
from django.test.utils import CaptureQueriesContext
from django.utils.connection import ConnectionDoesNotExist

from mcp_django import changed
from mcp_django.events.changes import ModelChange
from tests.push.conftest import Heard
from tests.shop.models import Gadget, Gizmo, Person, Product, SpareGadget, Tag, Unwatched, Ware
from tests.support.declared import Declared

UNKNOWN = ModelChange(None, set())
TWO_DATABASES = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def told(*, alias: str = "default", **models_: ModelChange) -> dict[tuple[str, str], ModelChange]:
    return {(alias, f"shop.{name}"): change for name, change in models_.items()}


def written(*keys: Any) -> ModelChange:
    return ModelChange({str(key) for key in keys}, set())


def deleted(*keys: Any) -> ModelChange:
    return ModelChange(set(), {str(key) for key in keys})


def statements(work: Callable[[], Any]) -> list[str]:
    """The verbs of what the work asks of the database."""
    with CaptureQueriesContext(connection) as captured:
        work()
    return [query["sql"].split(" ", 1)[0] for query in captured]


@pytest.fixture
def watched(heard: Heard, declared: Declared) -> Iterator[Heard]:
    """What is heard of gadgets and wares."""
    declared.model(Gadget, fields="__all__")
    declared.model(Ware, fields="__all__")
    Tag.objects.create(name="the receivers are connected by now")
    heard.events.clear()
    return heard


@pytest.fixture
def gadgets(watched: Heard) -> list[Gadget]:
    gadgets = [Gadget.objects.create(name=name, code=name) for name in "abc"]
    watched.events.clear()
    return gadgets


@pytest.fixture
def wares(watched: Heard) -> list[Ware]:
    wares = [Ware.objects.create(name=name, price=price) for price, name in enumerate("abc")]
    watched.events.clear()
    return wares


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch, watched: Heard) -> None:
    monkeypatch.setattr("mcp_django.events.changes.MAX_CHANGED_KEYS", 2)
    watched.join()


# bulk_create


def test_rows_that_are_made_in_bulk_are_told(watched: Heard) -> None:
    made = Gadget.objects.bulk_create([Gadget(name="a"), Gadget(name="b")])

    if connection.features.can_return_rows_from_bulk_insert:
        assert watched.changes() == told(gadget=written(*(gadget.pk for gadget in made)))
    else:
        assert watched.changes() == told(gadget=UNKNOWN)


def test_rows_that_bring_their_keys_are_told_by_them(watched: Heard) -> None:
    Ware.objects.bulk_create(Ware(name=name) for name in "abc")

    assert watched.changes() == told(ware=written("a", "b", "c"))


def test_rows_that_are_made_in_batches_are_told_at_once(watched: Heard) -> None:
    Ware.objects.bulk_create([Ware(name=name) for name in "abc"], 1)

    assert len(watched.events) == 1
    assert watched.changes() == told(ware=written("a", "b", "c"))


def test_no_rows_are_no_change(watched: Heard) -> None:
    assert Ware.objects.bulk_create([]) == []
    assert Ware.objects.bulk_update([], ["price"]) == 0

    assert watched.events == []


def test_rows_that_may_be_ignored_are_told_as_the_model_where_the_database_gives_no_keys(
    watched: Heard, gadgets: list[Gadget]
) -> None:
    Gadget.objects.bulk_create([Gadget(name="x", code="a"), Gadget(name="y", code="y")], ignore_conflicts=True)

    assert watched.changes() == told(gadget=UNKNOWN)


def test_rows_with_keys_that_may_be_ignored_are_told_by_them(watched: Heard, wares: list[Ware]) -> None:
    Ware.objects.bulk_create([Ware(name="a"), Ware(name="new")], ignore_conflicts=True)

    assert watched.changes() == told(ware=written("a", "new"))


def _conflict(*fields: str) -> dict[str, Any]:
    """What ``bulk_create`` is told to update; only some databases are told by which fields."""
    named = {"unique_fields": fields} if connection.features.supports_update_conflicts_with_target else {}
    return {"update_conflicts": True, "update_fields": ["name"], **named}


def test_rows_that_are_updated_in_the_place_of_new_ones_are_told(watched: Heard, gadgets: list[Gadget]) -> None:
    Gadget.objects.bulk_create([Gadget(name="x", code="a"), Gadget(name="y", code="y")], **_conflict("code"))

    change = watched.changes()
    made = Gadget.objects.get(code="y")
    if connection.features.can_return_rows_from_bulk_insert:
        assert change == told(gadget=written(gadgets[0].pk, made.pk))
    else:
        assert change == told(gadget=UNKNOWN)
    assert Gadget.objects.get(code="a").name == "x"


def test_a_row_that_is_found_by_another_key_than_the_new_one_brings_is_told(
    watched: Heard, gadgets: list[Gadget]
) -> None:
    Gadget.objects.bulk_create([Gadget(pk=1_000_000, name="x", code="a")], **_conflict("code"))

    assert watched.changes() == told(gadget=UNKNOWN)
    assert Gadget.objects.get(code="a").pk == gadgets[0].pk


def test_rows_that_are_found_by_their_keys_are_told_by_them(watched: Heard, gadgets: list[Gadget]) -> None:
    if not connection.features.supports_update_conflicts_with_target:
        pytest.skip("MariaDB is not told by which fields rows are found")

    Gadget.objects.bulk_create([Gadget(pk=gadgets[0].pk, name="x", code="a")], **_conflict("pk"))

    assert watched.changes() == told(gadget=written(gadgets[0].pk))


def test_more_new_rows_than_max_changed_keys_are_told_as_the_model(few_keys: None, watched: Heard) -> None:
    Ware.objects.bulk_create(Ware(name=name) for name in "abc")

    assert watched.changes() == told(ware=UNKNOWN)


def test_rows_that_could_not_be_made_are_not_told(watched: Heard, wares: list[Ware]) -> None:
    with pytest.raises(IntegrityError):
        Ware.objects.bulk_create([Ware(name="new"), Ware(name="a")])

    assert watched.events == []


# bulk_update


def test_rows_that_are_updated_in_bulk_are_told_by_their_keys(watched: Heard, gadgets: list[Gadget]) -> None:
    for gadget in gadgets[:2]:
        gadget.count = 7

    assert Gadget.objects.bulk_update(gadgets[:2], ["count"]) == 2
    assert watched.changes() == told(gadget=written(gadgets[0].pk, gadgets[1].pk))


def test_a_bulk_update_asks_for_no_keys_and_is_told_at_once(watched: Heard, wares: list[Ware]) -> None:
    verbs = statements(lambda: Ware.objects.bulk_update((ware for ware in wares), ["price"], batch_size=1))

    assert [verb for verb in verbs if verb in ("SELECT", "UPDATE")] == ["UPDATE"] * 3
    assert len(watched.events) == 1
    assert watched.changes() == told(ware=written("a", "b", "c"))


def test_a_bulk_update_that_finds_no_row_is_not_told(watched: Heard, wares: list[Ware]) -> None:
    Ware.objects.bulk_update([Ware(name="gone", price=1)], ["price"])

    assert watched.events == []


# update


def test_an_update_is_told_by_the_keys_of_the_rows_that_it_found(watched: Heard, wares: list[Ware]) -> None:
    assert Ware.objects.filter(price__gte=1).update(price=F("price") + 10) == 2

    assert watched.changes() == told(ware=written("b", "c"))
    assert list(Ware.objects.order_by("name").values_list("price", flat=True)) == [0, 11, 12]


def test_an_update_that_found_no_row_is_not_told(watched: Heard, wares: list[Ware]) -> None:
    assert Ware.objects.filter(price__gte=100).update(price=0) == 0
    assert Ware.objects.none().update(price=0) == 0

    assert watched.events == []


def test_a_row_that_leaves_the_condition_by_the_update_is_told(watched: Heard, wares: list[Ware]) -> None:
    Ware.objects.filter(price=1).update(price=5)

    assert watched.changes() == told(ware=written("b"))


def test_an_update_of_many_rows_is_told_as_the_model_and_changes_them_all(
    few_keys: None, watched: Heard, wares: list[Ware]
) -> None:
    assert Ware.objects.update(price=5) == 3

    assert watched.changes() == told(ware=UNKNOWN)
    assert set(Ware.objects.values_list("price", flat=True)) == {5}


def test_an_update_of_the_key_is_told_as_the_model_since_nobody_knows_the_new_one(
    watched: Heard, wares: list[Ware]
) -> None:
    Ware.objects.filter(name="a").update(name=Concat(F("name"), Value("x")))

    assert watched.changes() == told(ware=UNKNOWN)
    assert Ware.objects.filter(name="ax").exists()


def test_an_update_of_ordered_and_annotated_rows_is_told(
    watched: Heard, gadgets: list[Gadget], wares: list[Ware]
) -> None:
    Ware.objects.filter(name="a").update(gadget=gadgets[0])
    watched.events.clear()
    counted = Gadget.objects.annotate(number=Count("wares")).filter(number__gt=0).order_by("-name")

    assert counted.update(count=1) == 1

    assert watched.changes() == told(gadget=written(gadgets[0].pk))


def test_an_update_by_a_related_row_is_told(watched: Heard, gadgets: list[Gadget], wares: list[Ware]) -> None:
    Ware.objects.filter(name__in="ab").update(gadget=gadgets[0])
    watched.events.clear()

    assert Ware.objects.filter(gadget__name="a").select_related("gadget").only("price").update(price=9) == 2

    assert watched.changes() == told(ware=written("a", "b"))


def test_an_update_of_values_or_of_locked_rows_is_told(watched: Heard, wares: list[Ware]) -> None:
    Ware.objects.values("price").filter(name="a").update(price=3)
    of_values = watched.changes()
    with transaction.atomic():
        Ware.objects.select_for_update().filter(name="a").distinct().update(price=4)

    assert of_values == told(ware=UNKNOWN)
    assert watched.changes() == told(ware=written("a"))


def test_what_django_refuses_to_update_is_refused_with_its_own_words(watched: Heard, wares: list[Ware]) -> None:
    with pytest.raises(TypeError, match="once a slice has been taken"):
        Ware.objects.all()[:1].update(price=1)
    with pytest.raises(NotSupportedError, match="update"):
        Ware.objects.union(Ware.objects.all()).update(price=1)
    # In a transaction, which goes on.
    with transaction.atomic():
        with pytest.raises(FieldDoesNotExist):
            Ware.objects.update(nothing=1)
        Ware.objects.filter(name="b").update(price=8)

    assert watched.changes() == told(ware=written("b"))


def test_an_update_that_fails_is_not_told(watched: Heard, gadgets: list[Gadget]) -> None:
    with pytest.raises(IntegrityError):
        Gadget.objects.filter(code="a").update(code="b")

    assert watched.events == []


def test_the_cache_of_an_updated_queryset_is_dropped(watched: Heard, wares: list[Ware]) -> None:
    found = Ware.objects.filter(name="a")
    before = [ware.price for ware in found]

    found.update(price=6)

    assert (before, [ware.price for ware in found]) == ([0], [6])


def test_a_queryset_of_the_projects_own_goes_on_to_chain(watched: Heard, wares: list[Ware]) -> None:
    Ware.objects.cheap().filter(name="a").cheap().update(price=2)  # type: ignore[attr-defined]

    assert watched.changes() == told(ware=written("a"))


def test_a_model_that_nobody_watches_is_asked_for_no_keys(heard: Heard) -> None:
    Gadget.objects.create(name="a", code="a")

    assert statements(lambda: Gadget.objects.update(count=1)) == ["UPDATE"]
    assert heard.events == []


def test_reading_is_not_told(watched: Heard, gadgets: list[Gadget]) -> None:
    Gadget.objects.in_bulk([gadgets[0].pk])
    list(Gadget.objects.iterator())

    assert watched.events == []


def test_a_row_that_comes_to_meet_the_condition_meanwhile_is_not_changed_in_silence(
    watched: Heard, wares: list[Ware], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Ware.objects.filter(price=1)
    read = type(asked).values_list

    def read_then_others_write(self: Any, *fields: Any, **options: Any) -> Any:
        rows = list(read(self, *fields, **options)[:10])

        def write() -> None:
            models.QuerySet(Ware).filter(name="c").update(price=1)
            connection.close()

        other = Thread(target=write)
        other.start()
        other.join()
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(type(asked), "values_list", read_then_others_write)
        assert asked.update(price=100) == 1

    assert watched.changes() == told(ware=written("b"))
    assert list(Ware.objects.order_by("name").values_list("price", flat=True)) == [0, 100, 1]


def test_an_update_in_a_transaction_waits_for_another_writer_as_djangos_does(watched: Heard, wares: list[Ware]) -> None:
    def add() -> None:
        if connection.vendor == "sqlite":
            # As Django does by default: a transaction takes its lock with the first statement that writes.
            connection.ensure_connection()
            connection.transaction_mode = "DEFERRED"
        for _ in range(20):
            with transaction.atomic():
                Ware.objects.filter(name="a").update(price=F("price") + 1)
        connection.close()

    threads = [Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert Ware.objects.get(name="a").price == 60
    assert watched.changes() == told(ware=written("a"))


def test_an_update_sees_what_others_committed_since_the_transaction_began(watched: Heard, wares: list[Ware]) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite refuses to write in a transaction that has read what others have changed since")

    def write() -> None:
        models.QuerySet(Ware).filter(name="c").update(price=1)
        connection.close()

    with transaction.atomic():
        list(Ware.objects.all())
        other = Thread(target=write)
        other.start()
        other.join()
        assert Ware.objects.filter(price=1).update(price=100) == 2

    assert watched.changes() == told(ware=written("b", "c"))


# Inheritance and proxies.


def test_a_bulk_change_by_a_proxy_is_one_of_its_concrete_model(watched: Heard, gadgets: list[Gadget]) -> None:
    SpareGadget.objects.filter(name="a").update(count=1)

    assert watched.changes() == told(gadget=written(gadgets[0].pk))


def test_an_update_of_a_child_is_one_of_its_parent_and_the_other_way_round(watched: Heard, declared: Declared) -> None:
    declared.model(Gizmo, fields="__all__")
    gizmo, other = (Gizmo.objects.create(name=name) for name in "ab")
    watched.events.clear()
    both = told(gadget=written(gizmo.pk), gizmo=written(gizmo.pk))

    Gizmo.objects.filter(name="a").update(size=3, count=4)
    by_child = watched.changes()
    Gadget.objects.filter(name="a").update(count=5)

    assert by_child == both
    assert watched.changes() == both
    gizmo.refresh_from_db()
    assert (gizmo.size, gizmo.count) == (3, 5)
    other.refresh_from_db()
    assert (other.size, other.count) == (0, 0)


def test_a_bulk_update_of_children_is_one_of_their_parents(watched: Heard, declared: Declared) -> None:
    declared.model(Gizmo, fields="__all__")
    gizmo = Gizmo.objects.create(name="a")
    watched.events.clear()

    gizmo.size = 3
    Gizmo.objects.bulk_update([gizmo], ["size"])

    assert watched.changes() == told(gadget=written(gizmo.pk), gizmo=written(gizmo.pk))


# Relations.


def test_an_update_of_related_rows_is_told(watched: Heard, gadgets: list[Gadget], wares: list[Ware]) -> None:
    Ware.objects.filter(name__in="ab").update(gadget=gadgets[0])
    watched.events.clear()

    gadgets[0].wares.filter(name="a").update(price=4)
    gadgets[0].wares.bulk_create([Ware(name="d", gadget=gadgets[0])])

    assert watched.changes() == told(ware=written("a", "d"))


def test_relations_that_are_set_from_the_other_side_are_told_where_the_base_manager_tells(
    watched: Heard, gadgets: list[Gadget], wares: list[Ware]
) -> None:
    gadgets[0].wares.add(wares[0], wares[1])
    added = watched.changes()
    gadgets[0].wares.remove(wares[0])
    removed = watched.changes()
    gadgets[0].wares.clear()

    assert added == told(ware=written("a", "b"))
    assert removed == told(ware=written("a"))
    assert watched.changes() == told(ware=written("b"))


# Deletes.


def test_a_raw_delete_is_told(watched: Heard, wares: list[Ware]) -> None:
    assert Ware.objects.filter(name__in="ab")._raw_delete("default") == 2

    assert watched.changes() == told(ware=deleted("a", "b"))
    assert Ware.objects.count() == 1


def test_a_raw_delete_of_many_rows_is_told_as_the_model(few_keys: None, watched: Heard, wares: list[Ware]) -> None:
    assert Ware.objects.all()._raw_delete("default") == 3

    assert watched.changes() == told(ware=UNKNOWN)


def test_rows_whose_relation_a_delete_leaves_empty_are_told_by_a_base_manager_that_tells(
    watched: Heard, gadgets: list[Gadget], wares: list[Ware]
) -> None:
    Ware.objects.filter(name__in="ab").update(gadget=gadgets[0])
    watched.events.clear()
    key = gadgets[0].pk

    gadgets[0].delete()

    assert watched.changes() == told(gadget=deleted(key), ware=written("a", "b"))


def test_rows_whose_relation_a_delete_leaves_empty_are_told_as_their_model_otherwise(
    watched: Heard, declared: Declared, django_assert_num_queries: Any
) -> None:
    declared.model(Person, fields="__all__", use_admin=False)
    person = Person.objects.create(name="a", badge="1")
    Gadget.objects.create(name="a", person=person)
    key = person.pk
    watched.events.clear()

    person.delete()

    assert watched.changes() == told(person=deleted(key), gadget=UNKNOWN)
    assert Gadget.objects.get().person is None


def test_a_delete_of_what_no_relation_lets_go_is_told_alone(watched: Heard, wares: list[Ware]) -> None:
    wares[0].delete()

    assert watched.changes() == told(ware=deleted("a"))


def test_a_relation_that_the_delete_of_an_unwatched_row_leaves_empty_is_told_by_a_base_manager_that_tells(
    heard: Heard, declared: Declared
) -> None:
    declared.model(Ware, fields="__all__")
    gadget = Gadget.objects.create(name="a")
    Ware.objects.create(name="w", gadget=gadget)
    heard.events.clear()

    gadget.delete()

    assert heard.changes() == told(ware=written("w"))


# Transactions and databases.


def test_bulk_changes_are_told_at_the_commit_and_those_of_a_rolled_back_savepoint_are_not(watched: Heard) -> None:
    with transaction.atomic():
        Ware.objects.bulk_create([Ware(name="a"), Ware(name="b")])
        with pytest.raises(RuntimeError), transaction.atomic():
            Ware.objects.bulk_create([Ware(name="lost")])
            Ware.objects.filter(name="a").update(price=1)
            raise RuntimeError
        with transaction.atomic():
            Ware.objects.filter(name="b").update(price=1)
        Ware.objects.bulk_update([Ware(name="b", price=3)], ["price"])
        before = list(watched.events)

    assert before == []
    assert watched.changes() == told(ware=written("a", "b"))


def test_a_rolled_back_bulk_change_is_never_told(watched: Heard, wares: list[Ware]) -> None:
    with transaction.atomic():
        Ware.objects.bulk_create([Ware(name="lost")])
        Ware.objects.update(price=3)
        Ware.objects.filter(name="a")._raw_delete("default")
        changed(Ware)
        transaction.set_rollback(True)

    assert watched.events == []


@TWO_DATABASES
def test_bulk_changes_name_the_database_that_they_happened_on(watched: Heard) -> None:
    there = Ware.objects.using("other")
    there.bulk_create([Ware(name="a"), Ware(name="b")])
    there.filter(name="a").update(price=1)
    there.filter(name="b")._raw_delete("other")
    changed(Ware, ["c"], using="other")

    assert watched.changes() == told(alias="other", ware=ModelChange({"a", "b", "c"}, {"b"}))


class WritesElsewhere:
    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "other" if model is Ware else None


@TWO_DATABASES
def test_a_router_says_where_a_bulk_change_happens(watched: Heard, settings: LazySettings) -> None:
    settings.DATABASE_ROUTERS = [WritesElsewhere()]

    Ware.objects.bulk_create([Ware(name="a"), Ware(name="b")])
    Ware.objects.filter(name="a").update(price=1)
    Ware.objects.bulk_update([Ware(name="b")], ["price"])
    changed(Ware, ["c"])

    assert watched.changes() == told(alias="other", ware=written("a", "b", "c"))


def test_without_autocommit_a_bulk_change_is_made_and_not_told(watched: Heard, wares: list[Ware]) -> None:
    transaction.set_autocommit(False)
    try:
        Ware.objects.filter(name="a").update(price=7)
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    assert Ware.objects.get(name="a").price == 7
    assert watched.events == []


# Async code.


def test_the_async_methods_are_told(watched: Heard) -> None:
    async def work() -> None:
        await Ware.objects.abulk_create([Ware(name=name) for name in "abc"])
        await Ware.objects.abulk_update([Ware(name="a", price=1)], ["price"])
        await Ware.objects.filter(name="b").aupdate(price=1)

    async_to_sync(work)()

    assert [{**changes} for changes, _ in watched.events] == [
        told(ware=written("a", "b", "c")),
        told(ware=written("a")),
        told(ware=written("b")),
    ]


# changed()


def test_what_raw_sql_changed_is_told_by_its_keys(watched: Heard, gadgets: list[Gadget]) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("UPDATE shop_gadget SET count = 1")
        changed(Gadget, [gadget.pk for gadget in gadgets])
        before = list(watched.events)

    assert before == []
    assert watched.changes() == told(gadget=written(*(gadget.pk for gadget in gadgets)))


@pytest.mark.parametrize("model", [Gadget, SpareGadget, "shop.Gadget", "shop.gadget"])
def test_a_changed_model_may_be_named_in_many_ways(watched: Heard, model: Any) -> None:
    changed(model)
    changed(model, (1, "02"))

    assert [{**changes} for changes, _ in watched.events] == [told(gadget=UNKNOWN), told(gadget=written(1, 2))]


def test_a_model_of_a_migration_is_the_installed_one(watched: Heard) -> None:
    from django.db.migrations.state import ModelState, ProjectState

    state = ProjectState({("shop", "ware"): ModelState.from_model(Ware, exclude_rels=True)})
    historical = state.apps.get_model("shop", "Ware")

    changed(historical, ["a"])

    assert historical is not Ware
    assert watched.changes() == told(ware=written("a"))


def test_rows_may_be_given_in_the_place_of_their_keys(watched: Heard, gadgets: list[Gadget]) -> None:
    changed(Gadget, Gadget.objects.filter(name="a"))

    assert watched.changes() == told(gadget=written(gadgets[0].pk))


def test_a_changed_child_is_a_changed_parent(watched: Heard, declared: Declared) -> None:
    declared.model(Gizmo, fields="__all__")

    changed(Gizmo, [5])

    assert watched.changes() == told(gadget=written(5), gizmo=written(5))


def test_no_keys_are_no_change(watched: Heard) -> None:
    changed(Gadget, [])

    assert watched.events == []


def test_a_changed_model_that_nobody_watches_is_no_error(watched: Heard) -> None:
    changed(Unwatched, [1])
    changed("shop.unwatched")

    assert watched.events == []


def test_more_changed_keys_than_max_changed_keys_are_told_as_the_model(few_keys: None, watched: Heard) -> None:
    changed(Gadget, range(3))

    assert watched.changes() == told(gadget=UNKNOWN)


class Abstract(models.Model):
    class Meta:
        abstract = True
        app_label = "shop"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("shop.gadgte",), LookupError, r"App 'shop' doesn't have a 'gadgte' model\."),
        (
            (Gadget(),),
            TypeError,
            r"changed\(\) takes a model, or its name as 'app_label.ModelName', and not <Gadget: >\.",
        ),
        ((Abstract,), TypeError, r"changed\(\) takes a model, .*"),
        ((Gadget, "12"), TypeError, r"changed\(\) takes a list of keys, and not '12'\."),
        ((Gadget, 12), TypeError, r"changed\(\) takes a list of keys, and not 12\."),
        ((Gadget, ["x"]), ValueError, r"'x' is no key of shop\.Gadget\."),
        ((Gadget, [None]), ValueError, r"None is no key of shop\.Gadget\."),
        ((Unwatched, ["x"]), ValueError, r"'x' is no key of shop\.Unwatched\."),
        ((Ware, [Gadget(pk=1)]), ValueError, r"<Gadget: > is no key of shop\.Ware\."),
        ((Gadget, [Gadget()]), ValueError, r"<Gadget: > is no key of shop\.Gadget\."),
    ],
)
def test_what_is_misspelt_is_refused(
    watched: Heard, arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        changed(*arguments)

    assert watched.events == []


def test_a_misspelt_database_is_refused(watched: Heard) -> None:
    with pytest.raises(ConnectionDoesNotExist):
        changed(Product, using="defualt")
