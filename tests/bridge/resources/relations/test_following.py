"""Fields of related rows: read, filtered, ordered by, and how far a relation is followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Count, F
from django.http import HttpRequest
from django.test import override_settings

from demo_project.flights.models import Airline, Airport, Disruption, Flight, Plane
from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import rows
from tests.bridge.resources.conftest import showing
from tests.bridge.resources.relations.conftest import Admin, filtered, keys, read, refusal
from tests.shop.models import (
    Book,
    CheapProduct,
    Part,
    Product,
    Supplier,
    Tag,
    Warranty,
)  # fmt: skip
from tests.support.asking import all_rows, rights_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


# Forward.


def test_the_permission_of_a_related_model_is_asked_only_where_a_column_needs_it(
    root: User, flights: None, declared: Declared
) -> None:
    asked: list[str] = []

    class Noted(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            if obj is None:
                asked.append(self.label)
            return super().has_view_permission(request, obj)

    for model in (Airline, Airport, Plane):
        declared.model(model, type("Own", (Noted,), {"object_permissions": False}))
    fields: dict[str, list[str]] = {
        "number": [], "origin": ["flights.airport"], "carrier__name": ["flights.airline"],
    }  # fmt: skip

    for name, expected in fields.items():
        asked.clear()
        page = rows.find(rights_on(Flight, root), rows.RecordQuery(fields=[name], order_by=["departs_at"]))
        assert (page.columns, asked) == (["id", name], expected)
    asked.clear()
    conditions = rows.RecordQuery(fields=["number"], filter={"carrier__name__startswith": "U"})
    rows.find(rights_on(Flight, root), conditions)
    assert asked == ["flights.airline"]


def test_fields_of_related_rows(root: User, flights: None) -> None:
    assert read(Flight, root, "origin__name", "plane__seats", limit=4)[:3] == [
        [1, "JFK", None], [2, "EWR", 149], [3, "LGA", 149],
    ]  # fmt: skip
    assert read(Disruption, root, "flight__origin__name", "flight__departs_at") == [
        [1, "JFK", "2013-01-01T05:00:00-05:00"], [2, "EWR", "2013-01-01T06:00:00-05:00"],
    ]  # fmt: skip


FORWARD = [
    ({"origin__name": "JFK"}, [1, 4]),
    ({"origin__name__in": ["JFK", "EWR"]}, [1, 2, 4, 5]),
    ({"origin": {"name": "JFK", "altitude__gte": 10}}, [1, 4]),
    ({"origin": {"any": [{"name": "JFK"}, {"faa": "LGA"}]}}, [1, 3, 4, 6]),
    ({"origin__pk": "JFK"}, [1, 4]),
    ({"plane__seats__gt": 100}, [2, 3, 5, 6]),
    ({"not": {"plane__seats__gt": 100}}, [1, 4]),
    ({"plane__seats": None}, [1, 4]),
    ({"plane__year": None}, [1, 2, 3, 4, 5, 6]),
    ({"plane__year__isnull": False}, []),
    ({"plane__isnull": True}, [1, 4]),
    ({"plane__pk__isnull": "true"}, [1, 4]),
]  # fmt: skip


def test_filters_by_a_related_row(root: User, flights: None) -> None:
    assert {str(asked): filtered(Flight, root, asked) for asked, _ in FORWARD} == {
        str(asked): found for asked, found in FORWARD
    }
    for asked in (
        {"flight__origin__name": "EWR"}, {"flight": {"origin": {"name": "EWR"}}},
        {"flight": {"origin__name": "EWR", "number": 1001}},
    ):  # fmt: skip
        assert filtered(Disruption, root, asked) == [2], asked


def test_orders_by_a_field_of_a_related_row_page_by_page(root: User, flights: None) -> None:
    Plane.objects.update(year=None)
    Plane.objects.create(
        tailnum="N2", type="Rotorcraft", manufacturer="B", model="1", engines=1, seats=2, engine="Turbo-fan", year=1990
    )
    Flight.objects.filter(pk=4).update(plane_id="N2")

    for limit in (1, 2, 5):
        by_origin = keys(Flight, root, order_by=["origin__name", "-number"], limit=limit)
        by_year = keys(Flight, root, order_by=["-plane__year", "plane__seats"], limit=limit)
        assert by_origin == [5, 2, 4, 1, 6, 3]
        assert by_year == list(
            Flight.objects.order_by("-plane__year", "plane__seats", "pk").values_list("pk", flat=True)
        )


def test_an_order_that_is_declared_may_follow_a_relation(root: User, flights: None, declared: Declared) -> None:
    declared.model(Flight, ordering=["-origin__name", "-id"])

    assert [row[0] for row in all_rows(Flight, root, fields=["pk"], limit=2)] == [6, 3, 4, 1, 5, 2]


# To many rows.


TO_MANY = [
    ({"departures__number": 1001}, ["EWR"]),
    ({"departures__departs_at__gte": "2013-01-01T14:00:00Z"}, ["EWR", "LGA"]),
    # One row meets all of a nested filter; two conditions may be met by two rows.
    ({"departures": {"number": 1000, "status": "cancelled"}}, []),
    ({"departures__number": 1001, "departures__status": "cancelled"}, ["EWR"]),
    ({"departures": {"number": 1004, "status": "cancelled"}}, ["EWR"]),
    ({"departures": {"carrier__name": "United", "status": "on_time"}}, ["JFK", "LGA"]),
    ({"not": {"departures__status": "cancelled"}}, ["IAH", "JFK", "LGA"]),
    ({"departures__isnull": True}, ["IAH"]),
    ({"departures__isnull": False}, ["EWR", "JFK", "LGA"]),
    ({"departures__count": 2}, ["EWR", "JFK", "LGA"]),
    ({"departures__count": 0}, ["IAH"]),
    ({"departures__count__gte": "1", "arrivals__count__lt": 1}, ["EWR", "JFK", "LGA"]),
    ({"departures__plane": None}, ["JFK"]),
    ({"departures__disruptions__note": "hail"}, ["EWR"]),
    ({"departures__disruptions__isnull": False}, ["EWR", "JFK"]),
    ({"departures": {"disruptions__count": 1}}, ["EWR", "JFK"]),
]  # fmt: skip


def test_filters_by_many_rows(root: User, flights: None) -> None:
    assert {str(asked): filtered(Airport, root, asked) for asked, _ in TO_MANY} == {
        str(asked): found for asked, found in TO_MANY
    }


def test_long_texts_in_a_list_are_cut_one_by_one(root: User, flights: None) -> None:
    Disruption.objects.update(note="x" * 5_000)

    page = rows.find(rights_on(Flight, root), rows.RecordQuery(fields=["disruptions__note"], filter={"id": 1}))

    assert page.rows == [[1, ["x" * 2_000 + "…"]]]
    assert page.notes == ["Values of disruptions__note ending in … were cut at 2000 characters."]


def test_many_to_many_from_both_sides(root: User, declared: Declared) -> None:
    declared.model(Part, fields=["name", "tags"])
    declared.model(Tag, fields="__all__")
    tags = [Tag.objects.create(name=name) for name in ("blue", "red")]
    Part.objects.create(id=1, name="bolt").tags.set(tags)
    Part.objects.create(id=2, name="nut").tags.set(tags[:1])

    assert read(Part, root, "tags", "tags__count") == [[1, ["blue", "red"], 2], [2, ["blue"], 1]]
    assert read(Tag, root, "parts__name", "parts__count") == [["blue", ["bolt", "nut"], 2], ["red", ["bolt"], 1]]
    assert filtered(Part, root, {"tags": {"name": "red"}}) == [1]
    assert filtered(Tag, root, {"parts__name": "nut"}) == ["blue"]
    assert filtered(Tag, root, {"not": {"parts__name": "nut"}}) == ["red"]


def test_one_to_one_from_both_sides(root: User, shop: None) -> None:
    Warranty.objects.create(id=1, part_id=1, months=24)

    assert read(Warranty, root, "part__name", "months") == [[1, "part 1", 24]]
    assert read(Part, root, "warranty__months", "warranty__count") == [[1, [24], 1], [2, [], 0], [3, [], 0]]
    assert filtered(Part, root, {"warranty__months__gte": 12}) == [1]
    assert filtered(Part, root, {"warranty__isnull": True}) == [2, 3]


def test_a_model_that_points_to_itself_by_another_key(root: User, shop: None) -> None:
    assert read(Supplier, root, "parent", "parent__name", "parent__parent__name", "branches__name") == [
        [1, None, None, None, []], [2, None, None, None, ["branch"]], [3, "s", "south", None, []],
    ]  # fmt: skip
    assert filtered(Supplier, root, {"not": {"parent": "n"}}) == [1, 2, 3]
    assert filtered(Supplier, root, {"parent__isnull": True}) == [1, 2]
    assert filtered(Supplier, root, {"branches__name": "branch"}) == [2]


def test_a_child_by_inheritance(root: User, declared: Declared) -> None:
    declared.model(Book, fields=["name", "author", "tags"])
    declared.model(Product, fields=["name", "price"])
    declared.model(Tag, fields="__all__")
    book = Book.objects.create(name="Emma", author="Austen", price=3)
    book.tags.create(name="old")

    assert read(Book, root, "name", "tags", "tags__count") == [[book.pk, "Emma", ["old"], 1]]
    assert filtered(Book, root, {"tags__name": "old"}) == [book.pk]
    # That a product is a book is for those to tell who show books.
    assert "book" not in rights_on(Product, root).relations


def test_a_proxy(root: User, declared: Declared) -> None:
    declared.model(CheapProduct, fields=["name", "tags"])
    declared.model(Tag, fields="__all__")
    product = Product.objects.create(name="lamp")
    product.tags.create(name="old")

    assert read(CheapProduct, root, "name", "tags") == [[product.pk, "lamp", ["old"]]]
    assert filtered(CheapProduct, root, {"tags": {"name": "old"}}) == [product.pk]


# Which may be named, and how far.


def test_a_search_looks_in_related_rows_as_the_admin_does(root: User, flights: None, declared: Declared) -> None:
    class Own(Admin):
        search_fields = ["^origin__name", "=carrier__name", "disruptions__note", "number__exact", "origin__nope"]

    declared.admin(Flight, Own)

    assert keys(Flight, root, search="jf") == [1, 4]
    assert keys(Flight, root, search="fk") == []
    assert keys(Flight, root, search="american") == [2, 4, 6]
    assert keys(Flight, root, search="america") == []
    assert keys(Flight, root, search="fo") == [1]
    assert keys(Flight, root, search="1003 jfk") == [4]


def test_filter_fields_name_paths(root: User, flights: None, declared: Declared) -> None:
    declared.model(Flight, filter_fields=["status", "origin__name", "disruptions__note", "secret", "origin__secret"])

    assert filtered(Flight, root, {"origin__name": "JFK"}) == [1, 4]
    assert filtered(Flight, root, {"origin": {"name": "JFK"}}) == [1, 4]
    assert filtered(Flight, root, {"disruptions__note": "fog"}) == [1]
    allowed = "Allowed: disruptions__note, origin__name, status."
    assert refusal(Flight, root, filter={"number": 1}) == f"no field 'number'. {allowed}"
    assert refusal(Flight, root, filter={"carrier__name": "x"}) == f"no field 'carrier'. {allowed}"
    assert refusal(Flight, root, filter={"origin__altitude": 1}) == "no field 'altitude'. Allowed: name."
    assert refusal(Flight, root, filter={"origin": "JFK"}).startswith("no field 'origin'.")
    for asked in ({"disruptions__count": 1}, {"disruptions__isnull": True}):
        assert refusal(Flight, root, filter=asked).startswith("no field 'disruptions'.")


def test_filter_fields_of_a_related_model(root: User, flights: None, declared: Declared) -> None:
    declared.model(Airport, filter_fields=["name"])

    assert filtered(Flight, root, {"origin__name": "JFK"}) == [1, 4]
    assert refusal(Flight, root, filter={"origin__altitude": 1}) == "no field 'altitude'. Allowed: name."
    assert read(Flight, root, "origin__altitude", filter={"id": 1}) == [[1, 10]]


def test_a_relation_is_followed_no_further_than_allowed(root: User, flights: None) -> None:
    too_deep = "follows relations more than 2 deep (MAX_RELATION_DEPTH)."

    assert refusal(Disruption, root, filter={"flight__origin__departures__number": 1}) == too_deep
    assert refusal(Disruption, root, filter={"flight": {"origin": {"departures__count": 1}}}) == too_deep
    assert refusal(Airline, root, fields=["flights__origin__departures__number"]) == too_deep
    assert refusal(Disruption, root, order_by=["flight__origin__departures__number"]) == too_deep
    with override_settings(MCP={"MAX_RELATION_DEPTH": 0}):
        assert filtered(Flight, root, {"origin": "JFK"}) == [1, 4]
        for asked in ({"fields": ["origin__name"]}, {"fields": ["disruptions"]}, {"filter": {"origin__name": "x"}}):
            assert refusal(Flight, root, **asked)
        assert rights_on(Flight, root).relations == {}


def test_no_more_relations_are_followed_than_allowed(
    root: User, flights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition = {"departures__number": 1001}

    monkeypatch.setattr("mcp_django.bridge.resources.fields.columns.MAX_RELATIONS", 3)
    assert filtered(Airport, root, {"any": [condition] * 3}) == ["EWR"]
    assert refusal(Airport, root, filter={"any": [condition] * 4}) == ("more than 3 conditions on related rows.")
    lists = ["departures__number", "departures__status", "departures__carrier__name", "departures__plane__seats"]
    table = {"columns": ["number", "status", "carrier__name", "plane__seats"], "rows": []}
    assert read(Airport, root, *lists, filter={"faa": "IAH"}) == [["IAH", table]]
    assert refusal(Airport, root, fields=[*lists, "arrivals"]) == "follow more than 3 relations."


# Querysets of the project's that are not plain.


CHANGES: list[Callable[[Any], Any]] = [
    lambda every: every.annotate(reports=Count("disruptions")),
    lambda every: every.annotate(reports=Count("disruptions")).filter(reports__gte=0),
    lambda every: every.distinct(),
    lambda every: every.filter(origin__name__in=["JFK", "EWR", "LGA"]).select_related("origin"),
    lambda every: every.filter(disruptions__isnull=True) | every.filter(disruptions__isnull=False),
    lambda every: every.filter(carrier__flights__number__gte=0),
    lambda every: every.order_by("-disruptions__note").only("number"),
    lambda every: every.annotate(name=F("origin__name")).defer("notes"),
]  # fmt: skip


def test_querysets_with_joins_and_aggregates(root: User, flights: None, declared: Declared) -> None:
    Disruption.objects.create(id=3, flight_id=1, kind="crew", note="late")

    for change in CHANGES:
        declared.close()
        declared.model(Flight, showing(change))
        assert read(Flight, root, "origin__name", "disruptions__count", "disruptions", limit=4)[:3] == [
            [1, "JFK", 2, [1, 3]], [2, "EWR", 1, [2]], [3, "LGA", 0, []],
        ]  # fmt: skip
        assert keys(Flight, root, order_by=["origin__name", "-id"], limit=2) == [5, 2, 4, 1, 6, 3]
        assert filtered(Flight, root, {"disruptions__note": "late", "origin__name": "JFK"}) == [1]
        assert filtered(Flight, root, {"disruptions__count": 2}) == [1]
        assert read(Airport, root, "departures__count", "departures__number")[0] == ["EWR", 2, [1001, 1004]]
        assert filtered(Airport, root, {"departures__count__gt": 1}) == ["EWR", "JFK", "LGA"]
        assert filtered(Airport, root, {"departures": {"disruptions__count": 2}}) == ["JFK"]
        assert read(Disruption, root, "flight", "flight__number", "flight__origin__name")[0] == [1, 1, 1000, "JFK"]
        assert filtered(Disruption, root, {"not": {"flight__origin__name": "JFK"}}) == [2]
        page = rows.find(rights_on(Flight, root), rows.RecordQuery(filter={"disruptions__isnull": False}, total=True))
        assert page.total == 2
