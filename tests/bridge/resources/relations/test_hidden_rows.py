"""Attempts to learn of hidden rows, fields and models through a relation."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest

from demo_project.flights.models import Airport, Disruption, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import rows
from tests.bridge.resources.conftest import each, showing
from tests.bridge.resources.relations.conftest import Scoped, filtered, keys, read, refusal
from tests.shop.models import (
    Book,
    Locker,
    Making,
    Part,
    Person,
    Product,
    Supplier,
)  # fmt: skip
from tests.support.asking import DirectPeer, errors_of, rights_on
from tests.support.data import make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


@pytest.fixture
def ops(flights: None) -> User:
    """Sees the flights from JFK: 1 and 4."""
    user = make_staff(
        "ops", *(f"flights.view_{name}" for name in ("flight", "airport", "airline", "plane", "disruption"))
    )
    user.groups.create(name="JFK operations")
    return user


def test_a_hidden_row_reads_as_null(ops: User) -> None:
    found = read(Disruption, ops, "flight", "flight__number", "flight__origin", "flight__origin__name")
    record = rows.get(rights_on(Disruption, ops), 2, ["flight", "flight__number"])

    assert found == [[1, 1, 1000, "JFK", "JFK"], [2, None, None, None, None]]
    assert record is not None and record.values == {"id": 2, "flight": None, "flight__number": None}
    assert DirectPeer(ops).read("db://flights/disruption/2")["flight"] is None


FOUND: list[dict[str, Any]] = [
    {"flight": 2}, {"flight__in": [2]}, {"flight__gte": 2}, {"flight__range": [2, 9]}, {"flight__pk": 2},
    {"flight__id__gt": 1}, {"flight__number": 1001}, {"flight__number__in": [1001]}, {"flight": {"number": 1001}},
    {"flight": {"pk": 2}}, {"flight__origin": "EWR"}, {"flight__origin__name": "EWR"}, {"flight": {"not": {"id": 1}}},
    {"flight": {"origin": {"not": {"name": "JFK"}}}}, {"flight__isnull": False, "id": 2},
    {"flight__notes__contains": "1"}, {"flight__number__isnull": False, "id": 2},
    {"not": {"flight__isnull": True}, "id": 2},
    {"flight__disruptions__note": "hail"}, {"flight__disruptions__count": 1, "id": 2},
    {"flight__disruptions__isnull": False, "id": 2}, {"not": {"flight__number": None}, "id": 2},
]  # fmt: skip


def test_finding_a_hidden_row_by_a_filter(ops: User, root: User) -> None:
    for asked in FOUND:
        assert filtered(Disruption, root, asked) == [2], asked
        assert filtered(Disruption, ops, asked) == [], asked


AS_NULL: list[dict[str, Any]] = [
    {"flight": None}, {"flight__isnull": True}, {"flight__pk": None}, {"flight__number": None},
    {"flight__origin": None}, {"flight__origin__name": None}, {"flight__number__isnull": True}, {"not": {"flight": 1}},
    {"not": {"flight": 2}, "id": 2},
    {"not": {"flight__number__gte": 0}}, {"not": {"flight__isnull": False}}, {"not": {"flight": {"number__gte": 0}}},
    {"not": {"flight__in": [1]}},
]  # fmt: skip


def test_a_hidden_row_is_found_as_null(ops: User) -> None:
    assert [asked for asked in AS_NULL if filtered(Disruption, ops, asked) != [2]] == []


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


def test_ordering_by_a_hidden_row(ops: User, root: User) -> None:
    for path in ("flight", "flight__number", "flight__pk", "flight__origin__name"):
        assert keys(Disruption, root, order_by=[f"-{path}"])
        assert "no field to order by" in refusal(Disruption, ops, order_by=[path])
        assert refusal(Disruption, ops, order_by=[path, "-id"]) == refusal(Disruption, ops, order_by=[f"-{path}"])


def test_searching_for_a_hidden_row(ops: User, root: User) -> None:
    for text in ("1001", "N14228"):
        assert keys(Disruption, root, search=text) == [2]
        assert keys(Disruption, ops, search=text) == []
    assert keys(Disruption, ops, search="1000") == [1]


def test_a_model_that_may_not_be_viewed_does_not_exist(flights: None) -> None:
    """What is said of it is word by word what is said of a name that was never there."""
    peer = DirectPeer(make_staff("few", "flights.view_disruption"))

    def said(name: str, ending: str) -> list[Any]:
        asked: list[dict[str, Any]] = [
            {"filter": {name + ending: 1}}, {"filter": {name: {"id": 1}}}, {"filter": {"not": {name + ending: None}}},
            {"order_by": [name + ending]}, {"fields": [name + ending]},
        ]  # fmt: skip
        answers = [peer.call("find_records", model="flights.disruption", **question) for question in asked]
        answers.append(peer.call("get_record", model="flights.disruption", id=1, fields=[name + ending]))
        assert all(errors_of(answer) for answer in answers)
        return [str(answer).replace(name, "?") for answer in answers]

    for ending in ("", "__in", "__isnull", "__number", "__number__gt", "__origin__name", "__disruptions__count"):
        assert said("flight", ending) == said("zzzzzz", ending)


def test_what_leads_from_a_model_that_may_not_be_viewed_does_not_exist(flights: None) -> None:
    few = make_staff("few", "flights.view_airport")

    assert rights_on(Airport, few).relations == {}
    assert refusal(Airport, few, filter={"departures__count": 1}).startswith("no field 'departures'.")


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
    declared.model(Flight, each(lambda obj: obj.origin_id == "JFK"))

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


def test_rows_between_that_are_hidden(clerk: User, root: User, shop: None, declared: Declared) -> None:
    names = ["makers__name", "makers__count"]
    assert read(Part, clerk, *names) == [[1, ["north"], 1], [2, [], 0], [3, ["branch"], 1]]

    declared.model(Making, Scoped, fields=["part", "maker"])

    assert read(Part, root, *names)[0] == [1, ["north"], 1]
    assert read(Part, clerk, *names) == [[1, [], 0], [2, [], 0], [3, ["branch"], 1]]
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
    declared.model(Product, showing(lambda every: every.filter(stock=1)), fields=["name", "price", "weight"])
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
    declared.model(Person, showing(lambda every: every.filter(name="Anna")), fields=["name"])
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
