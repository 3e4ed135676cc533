"""update() is told, and does what Django's does."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from django.core.exceptions import FieldDoesNotExist
from django.db import IntegrityError, NotSupportedError, connection, models, transaction
from django.db.models import Count, F, Value
from django.db.models.functions import Concat

from mcp_django.core.events.changed_rows import ModelChange
from tests.push.bulk.conftest import UNKNOWN, statements, told, written
from tests.push.conftest import Heard
from tests.shop.models import Gadget, Ware

pytestmark = pytest.mark.every_database


def test_an_update_is_told_by_the_keys_of_the_rows_that_it_found(
    watched: Heard, gadgets: list[Gadget], wares: list[Ware]
) -> None:
    def locked() -> int:
        with transaction.atomic():
            return Ware.objects.select_for_update().filter(name="a").distinct().update(price=4)

    objects, of_gadget = Ware.objects, Ware.objects.filter(gadget__name="a")
    counted = Gadget.objects.annotate(number=Count("wares")).filter(number__gt=0).order_by("-name")
    found: dict[str, tuple[Callable[[], int], int, dict[str, ModelChange]]] = {
        "by a value": (
            lambda: objects.filter(price__gte=1).update(price=F("price") + 10), 2, {"ware": written("b", "c")}
        ),
        "no row": (lambda: objects.filter(price__gte=100).update(price=0), 0, {}),
        "none()": (lambda: objects.none().update(price=0), 0, {}),
        "a row": (lambda: objects.filter(name__in="ab").update(gadget=gadgets[0]), 2, {"ware": written("a", "b")}),
        "by a related row": (
            lambda: of_gadget.select_related("gadget").only("price").update(price=9), 2, {"ware": written("a", "b")}
        ),
        "ordered and annotated": (lambda: counted.update(count=1), 1, {"gadget": written(gadgets[0].pk)}),
        "values": (lambda: objects.values("price").filter(name="a").update(price=3), 1, {"ware": UNKNOWN}),
        "locked": (locked, 1, {"ware": written("a")}),
        "by a queryset of the project's own": (
            lambda: objects.cheap().filter(name="a").cheap().update(price=2),  # type: ignore[attr-defined]
            1, {"ware": written("a")},
        ),
        "all": (lambda: objects.update(price=5), 3, {"ware": written("a", "b", "c")}),
    }  # fmt: skip

    done = {}
    for name, (update, *_) in found.items():
        done[name] = update(), watched.changes()

    assert done == {name: (number, told(**changes)) for name, (_, number, changes) in found.items()}


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


def test_the_cache_of_an_updated_queryset_is_dropped_and_reading_is_not_told(
    watched: Heard, gadgets: list[Gadget], wares: list[Ware]
) -> None:
    found = Ware.objects.filter(name="a")
    before = [ware.price for ware in found]
    Gadget.objects.in_bulk([gadgets[0].pk])
    list(Gadget.objects.iterator())
    heard_by_reading = list(watched.events)

    found.update(price=6)

    assert heard_by_reading == []
    assert (before, [ware.price for ware in found]) == ([0], [6])


def test_a_model_that_nobody_watches_is_asked_for_no_keys(heard: Heard) -> None:
    Gadget.objects.create(name="a", code="a")

    assert statements(lambda: Gadget.objects.update(count=1)) == ["UPDATE"]
    assert heard.events == []


def others_write() -> None:
    """Another connection lets a row meet the condition of the test."""

    def write() -> None:
        models.QuerySet(Ware).filter(name="c").update(price=1)
        connection.close()

    other = Thread(target=write)
    other.start()
    other.join()


def test_a_row_that_comes_to_meet_the_condition_meanwhile_is_not_changed_in_silence(
    watched: Heard, wares: list[Ware], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Ware.objects.filter(price=1)
    read = type(asked).values_list

    def read_then_others_write(self: Any, *fields: Any, **options: Any) -> Any:
        rows = list(read(self, *fields, **options)[:10])
        others_write()
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

    with transaction.atomic():
        list(Ware.objects.all())
        others_write()
        assert Ware.objects.filter(price=1).update(price=100) == 2

    assert watched.changes() == told(ware=written("b", "c"))


@pytest.mark.parametrize("work", [
    lambda: Ware.objects.bulk_create([Ware(name="d"), Ware(name="e")]),
    lambda: Ware.objects.bulk_update([Ware.objects.get(name="a")], ["price"]),
], ids=["bulk_create", "bulk_update"])  # fmt: skip
def test_keys_that_cannot_be_written_fail_no_bulk_operation(
    watched: Heard, wares: list[Ware], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, work: Any
) -> None:
    def key_of(row: Any, attribute: str) -> str:
        raise RuntimeError("no text")

    monkeypatch.setattr("mcp_django.push.bulk.key_of", key_of)
    monkeypatch.setattr("mcp_django.push.receivers.key_of", key_of)

    work()

    assert watched.changes() == told(ware=UNKNOWN)
    assert "The keys of changed rows cannot be read" in caplog.text
