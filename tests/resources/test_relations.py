"""Relations in fields, filters, orders and searches; and that a row which is hidden is nowhere to be found."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Count, F
from django.http import HttpRequest
from django.test import override_settings
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from demo_project.flights.models import Airline, Airport, Disruption, Flight, Plane
from mcp_django import ModelMCP
from mcp_django.resources import rows
from mcp_django.resources.errors import InvalidQuery
from mcp_django.resources.policy import Rights
from tests.shop.models import (
    Book,
    CheapProduct,
    Locker,
    Making,
    Part,
    Person,
    Product,
    Remark,
    Supplier,
    Tag,
    Unwatched,
    Visit,
    Warranty,
)  # fmt: skip
from tests.support.asking import DirectPeer, all_rows, errors_of, request_of, rights_on
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared

Admin: Any = admin.ModelAdmin


class Scoped(ModelMCP):
    """Shows what is open, but to root everything."""

    def get_queryset(self, request: HttpRequest) -> Any:
        every = super().get_queryset(request)
        return every if request.user.get_username() == "root" else every.filter(open=True)


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def clerk(db: None) -> User:
    """Sees what is open."""
    return User.objects.create_superuser("clerk")


@pytest.fixture
def flights(root: User) -> None:
    """Six flights, in turn from JFK, EWR and LGA, the first two of which have a report."""
    make_flights(6)
    for number, note in ((1, "fog"), (2, "hail")):
        Disruption.objects.create(id=number, flight_id=number, kind="weather", note=note)


@pytest.fixture
def ops(flights: None) -> User:
    """Sees the flights from JFK: 1 and 4."""
    user = make_staff(
        "ops", *(f"flights.view_{name}" for name in ("flight", "airport", "airline", "plane", "disruption"))
    )
    user.groups.create(name="JFK operations")
    return user


@pytest.fixture
def shop(declared: Declared, root: User) -> None:
    """Parts of an open supplier, of a hidden one and of none."""
    declared.model(Supplier, Scoped, fields=["name", "code", "rating", "parent"])
    declared.model(Part, Scoped, fields=["name", "weight", "supplier", "makers"], search_fields=["=supplier__name"])
    declared.model(Warranty, ModelMCP, fields=["part", "months"])
    north = Supplier.objects.create(id=1, name="north", code="n", rating=3)
    south = Supplier.objects.create(id=2, name="south", code="s", rating=5, open=False)
    Supplier.objects.create(id=3, name="branch", code=None, parent=south)
    for number, supplier in enumerate((north, south, None), 1):
        part = Part.objects.create(id=number, name=f"part {number}", weight=number * 10, supplier=supplier)
        Making.objects.create(id=number, part=part, maker_id=number, open=number != 1)


def read(model: Any, user: User, *fields: str, **asked: Any) -> list[list[Any]]:
    return all_rows(model, user, fields=fields, **{"order_by": ["pk"], **asked})


def keys(model: Any, user: User, **asked: Any) -> list[Any]:
    return [row[0] for row in read(model, user, "pk", **asked)]


def filtered(model: Any, user: User, asked: Any) -> list[Any]:
    return keys(model, user, filter=asked)


def refusal(model: Any, user: User, **asked: Any) -> str:
    with pytest.raises(InvalidQuery) as raised:
        rows.find(rights_on(model, user), rows.RecordQuery(**asked))
    [error] = raised.value.errors
    return error["message"]


# Forward.


def test_fields_of_related_rows(root: User, flights: None) -> None:
    assert read(Flight, root, "origin__name", "plane__seats", limit=4)[:3] == [
        [1, "JFK", None], [2, "EWR", 149], [3, "LGA", 149],
    ]  # fmt: skip
    assert read(Disruption, root, "flight__origin__name", "flight__departs_at") == [
        [1, "JFK", "2013-01-01T10:00:00Z"], [2, "EWR", "2013-01-01T11:00:00Z"],
    ]  # fmt: skip


def test_a_record_with_fields_of_related_rows(root: User, flights: None) -> None:
    record = rows.get(
        rights_on(Flight, root), 2, ["origin__name", "disruptions", "disruptions__note", "disruptions__count"]
    )

    assert record is not None
    assert record.values == {
        "id": 2, "origin__name": "EWR", "disruptions": [2], "disruptions__note": ["hail"], "disruptions__count": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("asked", "expected"), [
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
])  # fmt: skip
def test_filters_by_a_related_row(root: User, flights: None, asked: Any, expected: list[int]) -> None:
    assert filtered(Flight, root, asked) == expected


def test_filters_two_relations_away(root: User, flights: None) -> None:
    assert filtered(Disruption, root, {"flight__origin__name": "EWR"}) == [2]
    assert filtered(Disruption, root, {"flight": {"origin": {"name": "EWR"}}}) == [2]
    assert filtered(Disruption, root, {"flight": {"origin__name": "EWR", "number": 1001}}) == [2]


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


@pytest.mark.parametrize(("asked", "expected"), [
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
])  # fmt: skip
def test_filters_by_many_rows(root: User, flights: None, asked: Any, expected: list[str]) -> None:
    assert filtered(Airport, root, asked) == expected


def test_lists_end_at_a_limit_and_say_so(root: User, flights: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.resources.rows.MAX_RELATED", 2)
    page = rows.find(
        rights_on(Airline, root),
        rows.RecordQuery(fields=["flights", "flights__number", "flights__count", "flights__origin__name"]),
    )

    assert page.rows == [
        ["AA", [2, 4], [1001, 1003], 3, ["EWR", "JFK"]], ["UA", [1, 3], [1000, 1002], 3, ["JFK", "LGA"]],
    ]  # fmt: skip
    assert page.notes == [
        f"{name} lists at most 2 rows. Ask flights.flight itself for the others."
        for name in ("flights", "flights__number", "flights__origin__name")
    ]


def test_a_list_of_long_texts_is_cut(root: User, flights: None) -> None:
    Disruption.objects.update(note="x" * 5_000)

    page = rows.find(rights_on(Flight, root), rows.RecordQuery(fields=["disruptions__note"], filter={"id": 1}))

    assert page.rows == [[1, '["' + "x" * 1_998 + "…"]]
    assert page.notes == [
        "Values of disruptions__note ending in … were cut at 2000 characters; get_record gives them whole."
    ]


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
    assert read(Part, root, "warranty", "warranty__months", "warranty__count") == [
        [1, [1], [24], 1], [2, [], [], 0], [3, [], [], 0],
    ]  # fmt: skip
    assert filtered(Part, root, {"warranty__months__gte": 12}) == [1]
    assert filtered(Part, root, {"warranty__isnull": True}) == [2, 3]


def test_a_model_that_points_to_itself_by_another_key(root: User, shop: None) -> None:
    assert read(Supplier, root, "parent", "parent__name", "parent__parent__name", "branches__name") == [
        [1, None, None, None, []], [2, None, None, None, ["branch"]], [3, "s", "south", None, []],
    ]  # fmt: skip
    assert filtered(Supplier, root, {"not": {"parent": "n"}}) == [1, 2, 3]
    assert filtered(Supplier, root, {"parent__isnull": True}) == [1, 2]
    assert filtered(Supplier, root, {"branches__name": "branch"}) == [2]


def test_a_key_that_is_not_shown_hides_the_relation(root: User, declared: Declared) -> None:
    declared.model(Person, fields=["name"])
    declared.model(Visit, fields="__all__")

    assert list(rights_on(Visit, root).columns) == ["id"]
    assert "visits" not in rights_on(Person, root).relations
    assert refusal(Person, root, filter={"visits__isnull": True}) == "no field 'visits'. Allowed: id, name."


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


# To rows of any model.


@pytest.fixture
def remarks(shop: None, declared: Declared) -> None:
    """About a part that is seen by all, one that is hidden, what nobody shows, what is gone, and nothing."""
    Part.objects.filter(pk=2).update(open=False)
    declared.model(Remark, fields="__all__")
    kinds = [ContentType.objects.get_for_model(model) for model in (Part, Part, Unwatched, Part, Part)]
    unseen = Unwatched.objects.create(name="x")
    for number, (kind, key) in enumerate(zip(kinds, (1, 2, unseen.pk, 99, "x"), strict=True), 1):
        Remark.objects.create(id=number, text=f"remark {number}", kind=kind, key=str(key))
    Remark.objects.create(id=6, text="remark 6")


def test_a_row_of_any_model_is_read_as_its_uri(root: User, clerk: User, remarks: None) -> None:
    nothing = [[number, None] for number in range(3, 7)]

    assert read(Remark, root, "about") == [[1, "db://shop/part/1"], [2, "db://shop/part/2"], *nothing]
    assert read(Remark, clerk, "about") == [[1, "db://shop/part/1"], [2, None], *nothing]
    assert "kind" not in rights_on(Remark, root).columns


def test_a_row_of_any_model_is_not_compared(root: User, remarks: None) -> None:
    for name in ("about", "about__name", "remarks", "remarks__text"):
        head = name.partition("__")[0]
        model = Remark if head == "about" else Part
        assert refusal(model, root, filter={name: "x"}).startswith(f"no field '{head}'.")
        assert "no field to order by" in refusal(model, root, order_by=[name])


def test_a_row_of_any_model_in_the_admin(root: User, remarks: None, declared: Declared) -> None:
    class Own(Admin):
        list_display = ["text", "about"]

    declared.close()
    declared.admin(Remark, Own)
    declared.model(Part, fields=["name"])

    assert read(Remark, root, "about")[0] == [1, "db://shop/part/1"]


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

    monkeypatch.setattr("mcp_django.resources.columns.MAX_RELATIONS", 3)
    assert filtered(Airport, root, {"any": [condition] * 3}) == ["EWR"]
    assert refusal(Airport, root, filter={"any": [condition] * 4}) == ("more than 3 conditions on related rows.")
    lists = [f"departures__{name}" for name in ("number", "status", "notes", "distance")]
    assert read(Airport, root, *lists[:3], filter={"faa": "IAH"}) == [["IAH", [], [], []]]
    assert refusal(Airport, root, fields=lists) == "follow more than 3 relations."


# What is hidden.


HIDDEN = [None, None, None, None]


def test_a_hidden_row_reads_as_null(ops: User) -> None:
    found = read(Disruption, ops, "flight", "flight__number", "flight__origin", "flight__origin__name")

    assert found == [[1, 1, 1000, "JFK", "JFK"], [2, *HIDDEN]]


def test_a_record_of_a_hidden_row_reads_as_null(ops: User) -> None:
    record = rows.get(rights_on(Disruption, ops), 2, ["flight", "flight__number"])

    assert record is not None and record.values == {"id": 2, "flight": None, "flight__number": None}
    assert DirectPeer(ops).read("db://flights/disruption/2")["flight"] is None


@pytest.mark.parametrize("asked", [
    {"flight": 2}, {"flight__in": [2]}, {"flight__gte": 2}, {"flight__range": [2, 9]}, {"flight__pk": 2},
    {"flight__id__gt": 1}, {"flight__number": 1001}, {"flight__number__in": [1001]}, {"flight": {"number": 1001}},
    {"flight": {"pk": 2}}, {"flight__origin": "EWR"}, {"flight__origin__name": "EWR"}, {"flight": {"not": {"id": 1}}},
    {"flight": {"origin": {"not": {"name": "JFK"}}}}, {"flight__isnull": False, "id": 2},
    {"flight__notes__contains": "1"}, {"flight__number__isnull": False, "id": 2},
    {"not": {"flight__isnull": True}, "id": 2},
    {"flight__disruptions__note": "hail"}, {"flight__disruptions__count": 1, "id": 2},
    {"flight__disruptions__isnull": False, "id": 2}, {"not": {"flight__number": None}, "id": 2},
])  # fmt: skip
def test_finding_a_hidden_row_by_a_filter(ops: User, root: User, asked: Any) -> None:
    assert filtered(Disruption, root, asked) == [2]
    assert filtered(Disruption, ops, asked) == []


@pytest.mark.parametrize("asked", [
    {"flight": None}, {"flight__isnull": True}, {"flight__pk": None}, {"flight__number": None},
    {"flight__origin": None}, {"flight__origin__name": None}, {"flight__number__isnull": True}, {"not": {"flight": 1}},
    {"not": {"flight": 2}, "id": 2},
    {"not": {"flight__number__gte": 0}}, {"not": {"flight__isnull": False}}, {"not": {"flight": {"number__gte": 0}}},
    {"not": {"flight__in": [1]}},
])  # fmt: skip
def test_a_hidden_row_is_found_as_null(ops: User, asked: Any) -> None:
    assert filtered(Disruption, ops, asked) == [2]


def test_counting_hidden_rows(ops: User) -> None:
    assert read(Airport, ops, "departures__count", "departures") == [
        ["EWR", 0, []], ["IAH", 0, []], ["JFK", 2, [1, 4]], ["LGA", 0, []],
    ]  # fmt: skip
    assert filtered(Airport, ops, {"departures__count__gte": 1}) == ["JFK"]
    assert filtered(Airport, ops, {"departures__isnull": True}) == ["EWR", "IAH", "LGA"]
    assert filtered(Airport, ops, {"not": {"departures": {"number__gte": 0}}}) == ["EWR", "IAH", "LGA"]
    assert filtered(Airport, ops, {"departures__disruptions__note": "hail"}) == []
    page = rows.find(rights_on(Airport, ops), rows.RecordQuery(filter={"departures__status": "cancelled"}, total=True))
    assert (page.rows, page.total) == ([], 0)


def test_lists_through_a_hidden_row(ops: User) -> None:
    assert read(Plane, ops, "flights", "flights__count") == [["N14228", [], 0]]
    assert read(Airline, ops, "flights__number", "flights__origin__name") == [
        ["AA", [1003], ["JFK"]], ["UA", [1000], ["JFK"]],
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["flight", "flight__number", "flight__pk", "flight__origin__name"])
def test_ordering_by_a_hidden_row(ops: User, root: User, path: str) -> None:
    assert keys(Disruption, root, order_by=[f"-{path}"])
    assert "no field to order by" in refusal(Disruption, ops, order_by=[path])
    assert refusal(Disruption, ops, order_by=[path, "-id"]) == refusal(Disruption, ops, order_by=[f"-{path}"])


def test_searching_for_a_hidden_row(ops: User, root: User) -> None:
    for text in ("1001", "N14228"):
        assert keys(Disruption, root, search=text) == [2]
        assert keys(Disruption, ops, search=text) == []
    assert keys(Disruption, ops, search="1000") == [1]


def test_completing_the_key_of_a_hidden_row(ops: User, root: User) -> None:
    def suggested(user: User) -> list[str]:
        params = {
            "ref": {"type": "ref/resource", "uri": "db://flights/disruption{?flight}"},
            "argument": {"name": "flight", "value": ""},
        }
        found: list[str] = DirectPeer(user).result("2025-11-25", "completion/complete", params)["completion"]["values"]
        return found

    assert suggested(root) == ["1", "2", "3", "4", "5", "6"]
    assert suggested(ops) == ["1", "4"]


@pytest.mark.parametrize(
    "ending", ["", "__in", "__isnull", "__number", "__number__gt", "__origin__name", "__disruptions__count"]
)
def test_a_model_that_may_not_be_viewed_does_not_exist(flights: None, ending: str) -> None:
    """What is said of it is word by word what is said of a name that was never there."""
    few = make_staff("few", "flights.view_disruption")

    def said(name: str) -> list[Any]:
        peer = DirectPeer(few)
        asked: list[dict[str, Any]] = [
            {"filter": {name + ending: 1}}, {"filter": {name: {"id": 1}}}, {"filter": {"not": {name + ending: None}}},
            {"order_by": [name + ending]}, {"fields": [name + ending]},
        ]  # fmt: skip
        answers = [peer.call("find_records", model="flights.disruption", **question) for question in asked]
        answers.append(peer.call("get_record", model="flights.disruption", id=1, fields=[name + ending]))
        assert all(errors_of(answer) for answer in answers)
        return [str(answer).replace(name, "?") for answer in answers]

    assert said("flight") == said("zzzzzz")


def test_what_leads_from_a_model_that_may_not_be_viewed_does_not_exist(flights: None) -> None:
    few = make_staff("few", "flights.view_airport")

    assert rights_on(Airport, few).relations == {}
    assert refusal(Airport, few, filter={"departures__count": 1}).startswith("no field 'departures'.")


def test_a_field_that_is_excluded_on_the_related_model(root: User, flights: None, declared: Declared) -> None:
    declared.model(Airport, exclude=["name"])

    for asked in ("filter", "fields", "order_by"):
        hidden, absent = (
            refusal(Flight, root, **{asked: {f"origin__{name}": "x"} if asked == "filter" else [f"origin__{name}"]})
            for name in ("name", "zzzz")
        )
        assert hidden.replace("name'", "?'") == absent.replace("zzzz'", "?'")
    assert keys(Flight, root, search="united") == [1, 3, 5]
    assert read(Flight, root, "origin__altitude", filter={"id": 1}) == [[1, 10]]


def test_the_fields_that_the_related_model_names(root: User, flights: None, declared: Declared) -> None:
    declared.model(Flight, fields=["number"])

    assert read(Airport, root, "name", filter={"faa": "JFK"}) == [["JFK", "JFK"]]
    # Flights do not tell where they leave from, so that airports do not tell which flights leave.
    assert list(rights_on(Airport, root).relations) == ["weather"]
    assert read(Disruption, root, "flight__number") == [[1, 1000], [2, 1001]]
    assert refusal(Disruption, root, fields=["flight__origin"]) == (
        "no field 'flight__origin'. Did you mean flight__id? Allowed: flight__id, flight__number."
    )


def test_a_model_whose_permission_is_asked_of_each_object(root: User, flights: None, declared: Declared) -> None:
    class EachFlight(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.origin_id == "JFK"

    declared.model(Flight, EachFlight)

    assert "flight" not in rights_on(Disruption, root).columns
    assert "departures" not in rights_on(Airport, root).relations
    assert keys(Disruption, root, search="1001") == []
    # The other way round there is no such question: an airport is visible or not.
    assert read(Flight, root, "origin__name") == [[1, "JFK"], [4, "JFK"]]


def test_a_hook_that_fails_hides_what_it_was_asked_of(
    root: User, flights: None, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ModelMCP):
        def get_exclude(self, request: HttpRequest) -> Any:
            raise RuntimeError

    declared.model(Airport, Broken)
    rights = rights_on(Airport, root)

    assert (list(rights.columns), rights.relations, rights.computed) == (["faa"], {}, {})
    assert "get_exclude failed" in caplog.text


def test_a_reverse_relation_that_is_excluded(root: User, flights: None, declared: Declared) -> None:
    declared.model(Airport, exclude=["departures"])

    assert list(rights_on(Airport, root).relations) == ["arrivals", "weather"]


def test_rows_between_that_are_hidden(clerk: User, root: User, shop: None, declared: Declared) -> None:
    names = ["makers", "makers__count", "makers__name"]
    assert read(Part, clerk, *names) == [[1, [1], 1, ["north"]], [2, [], 0, []], [3, [3], 1, ["branch"]]]

    declared.model(Making, Scoped, fields=["part", "maker"])

    assert read(Part, root, *names)[0] == [1, [1], 1, ["north"]]
    assert read(Part, clerk, *names) == [[1, [], 0, []], [2, [], 0, []], [3, [3], 1, ["branch"]]]
    assert filtered(Part, clerk, {"makers__name": "north"}) == []
    assert filtered(Part, clerk, {"makers__isnull": True}) == [1, 2]
    assert filtered(Supplier, clerk, {"makes__count__gte": 1}) == [3]


@pytest.mark.parametrize("fields", [["part"], ["maker"], []])
def test_rows_between_whose_keys_are_not_shown(root: User, shop: None, declared: Declared, fields: list[str]) -> None:
    declared.model(Making, fields=fields)

    assert "makers" not in rights_on(Part, root).relations
    assert "makes" not in rights_on(Supplier, root).relations


def test_a_hidden_row_in_a_key_of_another_column(clerk: User, root: User, shop: None) -> None:
    assert read(Supplier, root, "parent", "parent__name")[2] == [3, "s", "south"]
    assert read(Supplier, clerk, "parent", "parent__name", "parent__rating") == [
        [1, None, None, None],
        [3, None, None, None],
    ]
    assert filtered(Supplier, clerk, {"parent": "s"}) == []
    assert filtered(Supplier, clerk, {"parent__startswith": "s"}) == []
    assert filtered(Supplier, clerk, {"not": {"parent": "s"}}) == [1, 3]


def test_the_parent_of_a_child_by_inheritance_is_hidden(clerk: User, declared: Declared) -> None:
    class Cheap(ModelMCP):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(stock=1)

    declared.model(Product, Cheap, fields=["name", "price", "weight"])
    declared.model(Book, fields=["author", "product_ptr"])
    hidden = Book.objects.create(author="Austen", name="Emma", price=3, weight=1.5, stock=0)
    shown = Book.objects.create(author="Defoe", name="Roxana", price=4, weight=2.5, stock=1)

    assert read(Book, clerk, "author", "product_ptr__name", "product_ptr__price") == [
        [hidden.pk, "Austen", None, None], [shown.pk, "Defoe", "Roxana", "4.00"],
    ]  # fmt: skip
    assert filtered(Book, clerk, {"product_ptr__name": "Emma"}) == []
    assert filtered(Book, clerk, {"product_ptr__name": None}) == [hidden.pk]
    assert "no field to order by" in refusal(Book, clerk, order_by=["product_ptr__weight"])
    assert filtered(Book, clerk, {"pk": hidden.pk}) == [hidden.pk]


def test_a_row_whose_key_is_that_of_a_hidden_row(clerk: User, declared: Declared) -> None:
    class Annas(ModelMCP):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(name="Anna")

    declared.model(Person, Annas, fields=["name"])
    declared.model(Locker, fields=["number"])
    for name in ("Anna", "Bert"):
        Locker.objects.create(owner=Person.objects.create(name=name, badge=name), number=len(name))
    anna = Person.objects.get(name="Anna").pk

    assert read(Locker, clerk, "number", "owner__name") == [[anna, 4, "Anna"]]
    assert read(Person, clerk, "locker", "locker__count") == [[anna, [anna], 1]]


def test_secrets_of_related_rows(root: User, declared: Declared) -> None:
    declared.model(Product, fields="__all__")
    declared.model(Book, fields=["author", "product_ptr"])
    Book.objects.create(author="Austen", name="Emma")

    assert "api_key" not in refusal(Book, root, fields=["product_ptr__nope"])
    for asked in ({"fields": ["product_ptr__api_key"]}, {"filter": {"product_ptr__api_key__startswith": "sk"}}):
        assert refusal(Book, root, **asked)
    assert refusal(Disruption, root, filter={"reported_by__password__startswith": "md5"})


# Querysets of the project's that are not plain.


@pytest.mark.parametrize("change", [
    lambda every: every.annotate(reports=Count("disruptions")),
    lambda every: every.annotate(reports=Count("disruptions")).filter(reports__gte=0),
    lambda every: every.distinct(),
    lambda every: every.filter(origin__name__in=["JFK", "EWR", "LGA"]).select_related("origin"),
    lambda every: every.filter(disruptions__isnull=True) | every.filter(disruptions__isnull=False),
    lambda every: every.filter(carrier__flights__number__gte=0),
    lambda every: every.order_by("-disruptions__note").only("number"),
    lambda every: every.annotate(name=F("origin__name")).defer("notes"),
], ids=range(8))  # fmt: skip
def test_querysets_with_joins_and_aggregates(root: User, flights: None, declared: Declared, change: Any) -> None:
    class Joined(ModelMCP):
        def get_queryset(self, request: HttpRequest) -> Any:
            return change(super().get_queryset(request))

    declared.model(Flight, Joined)
    Disruption.objects.create(id=3, flight_id=1, kind="crew", note="late")

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


# What is computed.


@pytest.fixture
def computed(root: User, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of every kind in the admin's list of flights."""
    monkeypatch.setattr(
        Flight, "route", property(lambda self: f"{self.origin_id}-{self.destination_id}"), raising=False
    )
    monkeypatch.setattr(Flight, "api_token", "hunter2", raising=False)

    @admin.display(description="Miles")
    def miles(flight: Flight) -> int:
        return flight.distance

    class Own(Admin):
        list_display = [
            "number", "route", "description", "late", "link", "fails", "reports", miles, "get_status_display", "long",
            "nothing", "api_token",
        ]  # fmt: skip

        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).annotate(count=Count("disruptions"))

        @admin.display(description="What it is", ordering="-origin__name")
        def description(self, flight: Flight) -> str:
            return f"flight {flight.number}"

        @admin.display(boolean=True)
        def late(self, flight: Flight) -> bool:
            return flight.number % 2 == 1

        def link(self, flight: Flight) -> str:
            return format_html('<a href="/x/{}">{} &amp; &lt;b&gt;</a>', flight.pk, flight.number)

        def fails(self, flight: Flight) -> Any:
            return mark_safe("<" * 10) if flight.pk == 2 else 1 / (flight.pk - 1)

        def reports(self, flight: Any) -> int:
            return int(flight.count)

        def long(self, flight: Flight) -> str:
            return "y" * 5_000

        def nothing(self, flight: Flight) -> None:
            return None

    declared.admin(Flight, Own)
    make_flights(2)
    Disruption.objects.create(flight_id=2, kind="crew")


def test_columns_that_are_computed(computed: None, root: User) -> None:
    names = ["route", "description", "late", "link", "reports", "miles", "get_status_display", "nothing"]

    assert read(Flight, root, *names) == [
        [1, "JFK-IAH", "flight 1000", False, "1000 & <b>", 0, 1400, "on time", None],
        [2, "EWR-IAH", "flight 1001", True, "1001 & <b>", 1, 1401, "on time", None],
    ]
    rights = rights_on(Flight, root)
    assert {name: column.title for name, column in rights.computed.items()} == {
        "route": "Route", "description": "What it is", "late": "Late", "link": "Link", "fails": "Fails",
        "reports": "Reports", "miles": "Miles", "get_status_display": "Status",
        "long": "Long", "nothing": "Nothing",
    }  # fmt: skip
    record = rows.get(rights, 2, ["route", "long"])
    assert record is not None and record.values == {"id": 2, "route": "EWR-IAH", "long": "y" * 5_000}


def test_a_computed_text_is_cut(computed: None, root: User) -> None:
    page = rows.find(rights_on(Flight, root), rows.RecordQuery(fields=["long"], limit=1))

    assert page.rows == [[1, "y" * 2_000 + "…"]]
    assert page.notes == ["Values of long ending in … were cut at 2000 characters; get_record gives them whole."]


def test_a_computed_column_that_fails_is_null_and_logged(
    computed: None, root: User, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    assert read(Flight, root, "fails")[0] == [1, None]
    assert "flights.flight.fails failed" in caplog.text


def test_a_computed_column_is_ordered_as_it_says(computed: None, root: User) -> None:
    assert keys(Flight, root, order_by=["description"], limit=1) == [1, 2]
    assert keys(Flight, root, order_by=["-description"], limit=1) == [2, 1]
    for name in ("route", "late", "miles"):
        assert refusal(Flight, root, order_by=[name]).startswith(f"no field to order by '{name}'.")


def test_computed_columns_are_not_filtered(computed: None, root: User) -> None:
    for name in ("route", "description", "count", "reports"):
        assert refusal(Flight, root, filter={name: "x"}).startswith(f"no field '{name}'.")


def test_a_computed_column_of_a_secret_name_is_hidden(computed: None, root: User, declared: Declared) -> None:
    assert "api_token" not in rights_on(Flight, root).computed
    declared.model(Flight, fields=["number", "api_token"])
    assert read(Flight, root, "api_token") == [[1, "hunter2"], [2, "hunter2"]]


def test_a_computed_column_that_is_excluded(computed: None, root: User, declared: Declared) -> None:
    declared.model(Flight, exclude=["route"])

    message = refusal(Flight, root, fields=["route"])
    assert message.startswith("no field 'route'. Did you mean notes? Allowed: ")
    assert message.count("route") == 1


def test_computed_columns_are_those_of_get_fields_where_a_project_has_its_own(
    computed: None, root: User, declared: Declared
) -> None:
    class Own(ModelMCP):
        def get_fields(self, request: HttpRequest) -> Any:
            return ["number", "route", "shout"]

        def shout(self, flight: Flight) -> str:
            return f"{flight.number}!"

    declared.model(Flight, Own)

    assert list(rights_on(Flight, root).computed) == ["route", "shout"]
    assert read(Flight, root, "shout") == [[1, "1000!"], [2, "1001!"]]


def test_a_computed_column_ordered_by_what_is_hidden(clerk: User, declared: Declared, shop: None) -> None:
    class Own(Scoped):
        fields = ["by"]

        @admin.display(ordering="maker__name")
        def by(self, making: Making) -> str:
            return making.maker.name

    declared.model(Making, Own)

    assert rights_on(Making, clerk).computed["by"].order is None
    assert refusal(Making, clerk, order_by=["by"]).startswith("no field to order by 'by'.")


def test_rights_are_looked_up_by_label(root: User) -> None:
    assert Rights.of(rights_on(Flight, root).rights.site, request_of(root)).of_label("flights.nope") is None
