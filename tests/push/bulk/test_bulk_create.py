"""bulk_create and bulk_update are told."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection

from tests.push.bulk.conftest import UNKNOWN, statements, told, written
from tests.push.conftest import Heard
from tests.shop.models import Gadget, Ware

pytestmark = pytest.mark.every_database


# bulk_create


def test_rows_that_are_made_in_bulk_are_told(watched: Heard) -> None:
    made = Gadget.objects.bulk_create([Gadget(name="a"), Gadget(name="b")])

    if connection.features.can_return_rows_from_bulk_insert:
        assert watched.changes() == told(gadget=written(*(gadget.pk for gadget in made)))
    else:
        assert watched.changes() == told(gadget=UNKNOWN)


def test_rows_that_bring_their_keys_are_told_by_them_at_once(watched: Heard) -> None:
    Ware.objects.bulk_create([Ware(name=name) for name in "abc"], 1)
    in_batches = [{**changes} for changes, _ in watched.events]
    watched.events.clear()
    Ware.objects.bulk_create([Ware(name="a"), Ware(name="new")], ignore_conflicts=True)

    assert in_batches == [told(ware=written("a", "b", "c"))]
    assert watched.changes() == told(ware=written("a", "new"))


def test_rows_that_may_be_ignored_are_told_as_the_model_where_the_database_gives_no_keys(
    watched: Heard, gadgets: list[Gadget]
) -> None:
    Gadget.objects.bulk_create([Gadget(name="x", code="a"), Gadget(name="y", code="y")], ignore_conflicts=True)

    assert watched.changes() == told(gadget=UNKNOWN)


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


def test_rows_that_could_not_be_made_or_found_are_not_told(watched: Heard, wares: list[Ware]) -> None:
    with pytest.raises(IntegrityError):
        Ware.objects.bulk_create([Ware(name="new"), Ware(name="a")])
    Ware.objects.bulk_update([Ware(name="gone", price=1)], ["price"])
    assert Ware.objects.bulk_create([]) == []
    assert Ware.objects.bulk_update([], ["price"]) == 0

    assert watched.events == []


# bulk_update


def test_a_bulk_update_is_told_by_the_keys_of_its_rows_at_once_and_asks_for_none(
    watched: Heard, gadgets: list[Gadget]
) -> None:
    verbs = statements(lambda: Gadget.objects.bulk_update((gadget for gadget in gadgets), ["count"], batch_size=1))

    assert [verb for verb in verbs if verb in ("SELECT", "UPDATE")] == ["UPDATE"] * 3
    assert [{**changes} for changes, _ in watched.events] == [told(gadget=written(*(gadget.pk for gadget in gadgets)))]
    assert Gadget.objects.bulk_update(gadgets[:2], ["count"]) == 2
