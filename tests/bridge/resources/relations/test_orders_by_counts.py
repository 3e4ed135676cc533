"""Rows in the order of how many related rows they have: page by page, and by the visible ones alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Count

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django.bridge.resources.reading import rows
from mcp_django.bridge.resources.reading.schema import describe_model
from tests.bridge.resources.conftest import showing
from tests.bridge.resources.relations.conftest import keys, read, refusal
from tests.shop.models import Making, Part, Supplier, Tag, Warranty
from tests.support.asking import rights_on
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


def test_rows_come_in_the_order_of_a_count_page_by_page(root: User) -> None:
    make_flights(11)  # JFK and EWR have four, LGA three, IAH none.
    up = [["IAH", 0], ["LGA", 3], ["EWR", 4], ["JFK", 4]]
    down = [["EWR", 4], ["JFK", 4], ["LGA", 3], ["IAH", 0]]

    for limit in (1, 2, 3, 20):
        for name, expected in (("departures__count", up), ("-departures__count", down)):
            assert read(Airport, root, "departures__count", order_by=[name, "name"], limit=limit) == expected, limit
    # It need not be shown.
    assert keys(Airport, root, order_by=["-departures__count", "faa"], limit=1) == ["EWR", "JFK", "LGA", "IAH"]


def test_a_count_among_other_orders(root: User, shop: None) -> None:
    Part.objects.update(supplier=None)

    for limit in (1, 2):
        found = keys(Supplier, root, order_by=["parts__count", "-branches__count", "-name"], limit=limit)
        assert found == [2, 1, 3]


def test_relations_of_each_kind_order_rows(root: User, declared: Declared) -> None:
    declared.model(Part, fields=["name", "tags", "makers"])
    for other in (Tag, Supplier, Warranty):
        declared.model(other, fields="__all__")
    for number in range(1, 4):
        part = Part.objects.create(id=number, name="x")
        for index in range(number):
            part.tags.add(Tag.objects.get_or_create(name=f"tag {index}")[0])
            maker, _ = Supplier.objects.get_or_create(id=index + 1, name=f"maker {index}")
            Making.objects.create(part=part, maker=maker)
    Warranty.objects.create(part_id=2, months=1)

    kinds: list[tuple[Any, str]] = [(Part, "tags"), (Part, "makers"), (Tag, "parts"), (Part, "warranty")]
    for model, name in kinds:
        counted = model.objects.annotate(number=Count(name)).order_by("-number", "-pk")
        found = keys(model, root, order_by=[f"-{name}__count"], limit=1)
        assert found == list(counted.values_list("pk", flat=True)), name


def test_a_cursor_of_a_count_is_short_and_is_its_own(root: User, flights: None) -> None:
    asked = rows.RecordQuery(order_by=["-departures__count"], limit=1)
    cursor = rows.find(rights_on(Airport, root), asked).next_cursor

    assert cursor is not None and len(cursor) <= 60
    for other in ("departures__count", "-arrivals__count"):
        assert refusal(Airport, root, order_by=[other], cursor=cursor).startswith("not a cursor of this query")


def test_rows_of_a_queryset_that_counts_itself_are_ordered(root: User, flights: None, declared: Declared) -> None:
    declared.model(Airline, showing(lambda every: every.annotate(number=Count("flights")).filter(number__gte=1)))
    Flight.objects.filter(pk=1).update(carrier="AA")

    assert keys(Airline, root, order_by=["-flights__count"], limit=1) == ["AA", "UA"]


def test_the_total_and_the_filter_of_rows_in_the_order_of_a_count(root: User, flights: None) -> None:
    asked = rows.RecordQuery(
        order_by=["-departures__count"], filter={"departures__count__gte": 1}, fields=["faa"], total=True
    )

    page = rows.find(rights_on(Airport, root), asked)

    assert (page.rows, page.total) == ([["LGA"], ["JFK"], ["EWR"]], 3)


def test_counting_hidden_rows_by_ordering(root: User, clerk: User, shop: None) -> None:
    Part.objects.filter(pk=1).update(supplier=2)
    Part.objects.filter(pk=2).update(supplier=2, open=False)
    Part.objects.filter(pk=3).update(supplier=3, open=False)
    Supplier.objects.update(open=True)

    assert read(Supplier, root, "parts__count", order_by=["-parts__count"]) == [[2, 2], [3, 1], [1, 0]]
    assert read(Supplier, clerk, "parts__count", order_by=["-parts__count"]) == [[2, 1], [3, 0], [1, 0]]


def test_ordering_by_rows_of_a_model_that_may_not_be_viewed(db: None, flights: None) -> None:
    few = make_staff("few", "flights.view_airport")

    hidden, absent = (refusal(Airport, few, order_by=[f"{name}__count"]) for name in ("departures", "zzzzzzzzzz"))

    assert hidden.replace("departures", "?") == absent.replace("zzzzzzzzzz", "?")


def test_an_order_by_related_rows_says_by_what_they_do_order(root: User, flights: None) -> None:
    message = "each row has many of these. Rows can be ordered only by their number: departures__count."

    for name in ("departures", "-departures__number", "departures__count__gt"):
        assert refusal(Airport, root, order_by=[name]) == message
    assert "Did you mean departures__count?" in refusal(Airport, root, order_by=["departure__count"])
    assert "order_by: -departures__count" in describe_model(rights_on(Airport, root))["relations_help"]
