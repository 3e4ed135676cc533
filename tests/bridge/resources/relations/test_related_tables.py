"""Fields of many related rows: a small table in each row, all of them read by one statement."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.contenttypes.admin import GenericTabularInline
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airport, Flight
from mcp_django.bridge.resources.reading import related, rows
from mcp_django.protocol.errors import TooSlow
from tests.bridge.resources.conftest import showing
from tests.bridge.resources.relations.conftest import Admin, read, refusal
from tests.shop.models import Crate, Making, Part, Remark, Supplier, Tag, Warranty
from tests.support.asking import DirectPeer, all_rows, rights_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

Tabular: Any = admin.TabularInline
Generic: Any = GenericTabularInline
PARENTS = 20


def page_of(model: type[models.Model], user: User, *fields: str, **asked: Any) -> rows.Page:
    return rows.find(rights_on(model, user), rows.RecordQuery(fields=fields, **{"order_by": ["pk"], **asked}))


def table(columns: str, *found: list[Any]) -> Any:
    return {"columns": columns.split(), "rows": [*found]}


def test_several_fields_of_related_rows_are_one_table(root: User, flights: None) -> None:
    page = page_of(Airport, root, "name", "departures__number", "altitude", "departures__carrier__name")

    assert page.columns == ["faa", "name", "departures", "altitude"]
    assert page.rows[0] == ["EWR", "EWR", table("number carrier__name", [1001, "American"], [1004, "United"]), 10]
    assert page.rows[1] == ["IAH", "IAH", table("number carrier__name"), 10]


def test_keys_stand_in_the_table_as_their_own_column_or_alone_in_a_list(root: User, flights: None) -> None:
    page = page_of(Airport, root, "departures__number", "departures", "departures__count", filter={"faa": "EWR"})
    twice = page_of(Airport, root, "departures", "departures__pk", filter={"faa": "EWR"})

    assert page.columns == ["faa", "departures", "departures__count"]
    assert page.rows == [["EWR", table("number id", [1001, 2], [1004, 5]), 2]]
    assert twice.rows == [["EWR", [2, 5], [2, 5]]]


def test_a_record_and_a_resource_have_the_same_table(root: User, flights: None) -> None:
    peer = DirectPeer(root)
    expected = table("number status", [1001, "on_time"], [1004, "cancelled"])

    fields = ["departures__number", "departures__status", "departures__count"]
    record = peer.call("get_record", model="flights.airport", id="EWR", fields=fields)
    resource = peer.read("db://flights/airport?faa=EWR&fields=departures__number,departures__status")

    assert record["structuredContent"] == {"faa": "EWR", "departures": expected, "departures__count": 2}
    assert resource["rows"] == [["EWR", expected]]


# Each kind of relation, with one statement for all rows.


def _parts(declared: Declared) -> list[Part]:
    declared.model(Part, fields=["name", "tags", "makers", "remarks", "supplier"])
    for model in (Tag, Supplier):
        declared.model(model, fields="__all__")
    declared.admin(Remark, type("RemarkAdmin", (Admin,), {"list_display": ["text"], "fields": ["text", "kind", "key"]}))
    return Part.objects.bulk_create(Part(id=number, name=f"part {number}") for number in range(1, PARENTS + 1))


def foreign_key(declared: Declared) -> Any:
    _parts(declared)
    Supplier.objects.bulk_create(Supplier(id=100 + number, name=f"s{number}") for number in range(1, PARENTS + 1))
    Part.objects.update(supplier_id=models.F("id") + 100)
    return Supplier, "parts", "id name"


def key_of_another_column(declared: Declared) -> Any:
    declared.model(Supplier, fields="__all__")
    for number in range(1, PARENTS + 1):
        top = Supplier.objects.create(id=number, name="top", code=f"c{number}")
        Supplier.objects.create(id=100 + number, name=f"branch {number}", parent=top)
    return Supplier, "branches", "id name"


def many_to_many(declared: Declared) -> Any:
    for part in _parts(declared):
        part.tags.set(Tag.objects.get_or_create(name=name)[0] for name in (f"own {part.pk}", "all"))
    return Part, "tags", "name"


def many_to_many_from_the_other_side(declared: Declared) -> Any:
    many_to_many(declared)
    return Tag, "parts", "id name"


def model_between(declared: Declared) -> Any:
    for part in _parts(declared):
        maker = Supplier.objects.create(id=part.pk, name=f"maker {part.pk}")
        for _ in range(3):
            Making.objects.create(part=part, maker=maker)
    return Part, "makers", "id name rating"


def one_to_one(declared: Declared) -> Any:
    declared.model(Warranty, fields=["part", "months"])
    Warranty.objects.bulk_create(Warranty(part=part, months=part.pk) for part in _parts(declared))
    return Part, "warranty", "id months"


def generic(declared: Declared) -> Any:
    kind = ContentType.objects.get_for_model(Part)
    Remark.objects.bulk_create(Remark(text=f"on {part.pk}", kind=kind, key=str(part.pk)) for part in _parts(declared))
    return Part, "remarks", "id text"


def generic_of_uuids(declared: Declared) -> Any:
    _parts(declared)
    declared.model(Crate, fields="__all__")
    kind = ContentType.objects.get_for_model(Crate)
    for number in range(1, PARENTS + 1):
        crate = Crate.objects.create(id=uuid.UUID(int=number << 64))
        Remark.objects.create(text=f"on {number}", kind=kind, key=str(crate.pk))
    return Crate, "remarks", "id text"


def inline(declared: Declared) -> Any:
    maker = Supplier.objects.create(name="Acme")
    parts = Part.objects.bulk_create(Part(id=number, name="x") for number in range(1, PARENTS + 1))
    Making.objects.bulk_create(Making(part=part, maker=maker) for part in parts)
    own = type("MakingInline", (Tabular,), {"model": Making})
    declared.admin(Part, type("PartAdmin", (Admin,), {"list_display": ["name"], "inlines": [own]}))
    return Part, "makings", "id open"


def generic_inline(declared: Declared) -> Any:
    kind = ContentType.objects.get_for_model(Part)
    parts = Part.objects.bulk_create(Part(id=number, name="x") for number in range(1, PARENTS + 1))
    Remark.objects.bulk_create(Remark(text=f"on {part.pk}", kind=kind, key=str(part.pk)) for part in parts)
    own = type("RemarkInline", (Generic,), {"model": Remark, "ct_field": "kind", "ct_fk_field": "key"})
    declared.admin(Part, type("PartAdmin", (Admin,), {"list_display": ["name"], "inlines": [own]}))
    return Part, "remark", "id text"


KINDS = [
    foreign_key, key_of_another_column, many_to_many, many_to_many_from_the_other_side, model_between, one_to_one,
    generic, generic_of_uuids, inline, generic_inline,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_rows_take_one_more_statement(root: User, declared: Declared, kind: Callable[[Declared], Any]) -> None:
    model, relation, names = kind(declared)
    fields = [f"{relation}__{name}" for name in names.split()]
    plain, owners = page_of(model, root, "pk", limit=1), 1 + (kind is key_of_another_column)

    def statements(*asked: str) -> tuple[int, list[list[Any]]]:
        ContentType.objects.clear_cache()
        rights = rights_on(model, root)
        with CaptureQueriesContext(connection) as captured:
            page = rows.find(rights, rows.RecordQuery(fields=asked, order_by=["pk"], limit=PARENTS))
        return len(captured), page.rows

    (without, _), (with_table, found) = statements("pk"), statements(*fields)

    assert plain.rows
    assert with_table - without == owners
    assert len(found) == PARENTS
    # Each row alone is read without a rank, and holds the same.
    for row in found[:: PARENTS // 4]:
        alone = page_of(model, root, *fields, filter={"pk": row[0]})
        assert alone.rows == [row]
        assert row[1] if len(fields) == 1 else row[1]["rows"]


def test_rows_that_are_joined_several_times_are_shown_once(root: User, declared: Declared) -> None:
    model_between(declared)

    assert read(Part, root, "makers__name", limit=3)[:2] == [[1, ["maker 1"]], [2, ["maker 2"]]]


# Bounds.


def test_each_row_has_as_many_as_may_be_shown_and_the_note_says_so(
    root: User, flights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(related, "MAX_RELATED", 1)
    page = page_of(Airport, root, "departures__number", "departures__id")

    assert [len(row[1]["rows"]) for row in page.rows] == [1, 0, 1, 1]
    assert page.rows[0][1]["rows"] == [[1001, 2]]
    assert page.notes == ["departures lists at most 1 rows. Ask flights.flight itself for the others."]


def test_a_page_ends_before_it_has_too_many_related_rows(
    root: User, flights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(related, "MAX_IN_ALL", 5)
    monkeypatch.setattr(related, "MAX_RELATED", 2)
    whole = [["EWR", [1001, 1004]], ["IAH", []], ["JFK", [1000, 1003]], ["LGA", [1002, 1005]]]

    first = page_of(Airport, root, "departures__number")
    found = all_rows(Airport, root, fields=["departures__number"], order_by=["faa"])

    assert first.rows == whole[:1]
    assert first.next_cursor is not None
    assert first.notes == ["The page was cut at 1 rows, since more have over 5 related rows."]
    assert found == whole


def test_a_table_takes_no_more_bytes_than_it_may(root: User, flights: None, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 3_000}
    Flight.objects.update(notes="x" * 300)

    page = page_of(Airport, root, "departures__number", "departures__notes", filter={"faa": "EWR"})

    assert page.rows == [["EWR", table("number notes", [1001, "x" * 300])]]
    assert page.notes == ["departures lists rows of at most 500 bytes. Ask flights.flight itself for the others."]


def test_too_many_rows_to_rank_are_read_row_by_row(root: User, flights: None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = page_of(Airport, root, "departures__number", "departures__id").rows
    reading = related._read

    def slow(output: Any, owners: Any, chars: int) -> Any:
        if len(owners) > 1:
            raise TooSlow
        return reading(output, owners, chars)

    monkeypatch.setattr(related, "_read", slow)

    assert page_of(Airport, root, "departures__number", "departures__id").rows == expected


@pytest.mark.skipif("connection.vendor != 'mysql'", reason="of MariaDB")
def test_a_key_in_another_spelling_leads_to_its_row(root: User, flights: None) -> None:
    Flight.objects.filter(id=5).update(origin_id="ewr")

    assert page_of(Airport, root, "departures__number").rows[0] == ["EWR", [1001, 1004]]


# What may not be seen.


def test_reading_hidden_rows_in_a_table(root: User, clerk: User, shop: None) -> None:
    Part.objects.filter(id=1).update(open=False)
    fields = ["parts__name", "parts__weight"]

    assert read(Supplier, root, *fields)[0] == [1, table("name weight", ["part 1", 10])]
    assert read(Supplier, clerk, *fields) == [[1, table("name weight")], [3, table("name weight")]]


def test_reading_a_hidden_row_through_the_rows_of_a_table(root: User, clerk: User, shop: None) -> None:
    Part.objects.filter(id=2).update(supplier_id=1)
    Supplier.objects.filter(id=1).update(parent="s")
    fields = ["parts__supplier__parent", "parts__name"]
    names = "supplier__parent name"

    assert read(Supplier, root, *fields)[0] == [1, table(names, ["s", "part 1"], ["s", "part 2"])]
    assert read(Supplier, clerk, *fields)[0] == [1, table(names, [None, "part 1"], [None, "part 2"])]


def test_naming_a_hidden_field_in_a_table(root: User, shop: None) -> None:
    asked = {name: refusal(Part, root, fields=["warranty__months", f"warranty__{name}"]) for name in ("pin", "zzz")}

    assert asked["pin"].replace("pin", "?") == asked["zzz"].replace("zzz", "?")


NOTHING: list[Callable[[Any], Any]] = [
    lambda every: every.none(),
    lambda every: every.filter(pk__in=[]),
    lambda every: every.filter(number__lt=0),
    lambda every: every.none() | every.none(),
]  # fmt: skip


def test_rows_of_which_none_is_visible_are_empty_tables(root: User, flights: None, declared: Declared) -> None:
    for change in NOTHING:
        declared.close()
        declared.model(Flight, showing(change))
        found = read(Airport, root, "departures__number", "departures__id", order_by=["-departures__count", "faa"])
        assert found == [[code, table("number id")] for code in ("EWR", "IAH", "JFK", "LGA")]
