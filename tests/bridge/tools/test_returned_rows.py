"""Tools that return rows of a model: written as get_record and find_records write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections, models
from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airport, Flight, Plane
from mcp_django.exchange.requests import MCPRequest
from tests.bridge.resources.conftest import showing
from tests.support.asking import DirectPeer, listed, text_of
from tests.support.data import make_flights
from tests.support.declared import Declared
from tests.support.peers import REVISIONS, Peer

pytestmark = pytest.mark.every_database

#: Annotations of many rows. None: the function has no annotation.
MANY: list[Any] = [
    QuerySet[Airport], models.QuerySet, list[Airport], tuple[Airport, ...], set[Airport], Iterable[Airport], None,
    None,
]  # fmt: skip


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


def give(
    declared: Declared, value: Callable[[], Any], annotation: Any = None, name: str = "give", **options: Any
) -> None:
    """Declare a tool that returns the value."""

    def function(request: HttpRequest) -> Any:
        """Give."""
        return value()

    function.__annotations__["return"] = Any if annotation is None else annotation
    declared.tool(function, name=name, **{"read_only": True, **options})


def found(peer: Peer, model: str = "flights.airport", **asked: Any) -> Any:
    """What find_records says."""
    return peer.call("find_records", model=model, **asked)["structuredContent"]


# What is returned.


def test_a_row_is_the_record_of_get_record(root: DirectPeer, declared: Declared) -> None:
    give(declared, lambda: Flight.objects.get(pk=2), Flight)

    record = root.call("get_record", model="flights.flight", id="2")

    assert root.call("give") == record
    assert listed(root, "give")["outputSchema"] == listed(root, "get_record")["outputSchema"] == {"type": "object"}


def test_a_row_that_may_be_none_is_under_result(root: DirectPeer, declared: Declared) -> None:
    for name, key in (("one", "JFK"), ("none", "XXX")):
        give(declared, lambda key=key: Airport.objects.filter(pk=key).first(), Airport | None, name)

    record = root.call("get_record", model="flights.airport", id="JFK")["structuredContent"]

    assert root.call("one")["structuredContent"] == {"result": record}
    assert json.loads(text_of(root.call("one"))) == {"result": record}
    assert root.call("none")["structuredContent"] == {"result": None}
    assert listed(root, "one")["outputSchema"]["required"] == ["result"]


def test_many_rows_are_the_page_of_find_records_in_the_order_of_the_function(
    root: DirectPeer, declared: Declared
) -> None:
    page = found(root, order_by=["-faa"])

    for number, annotation in enumerate(MANY):
        rows = Airport.objects.order_by("-faa")
        give(declared, [rows.all, lambda rows=rows: list(rows)][number % 2], annotation, f"m{number}")
        result = root.call(f"m{number}")

        assert json.loads(text_of(result)) == page, annotation
        assert result.get("structuredContent", page) == page, annotation
        assert ("outputSchema" in listed(root, f"m{number}")) == (annotation is not None)


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_revision_has_the_rows(root: DirectPeer, declared: Declared, revision: str) -> None:
    give(declared, Airport.objects.all, QuerySet[Airport])
    give(declared, Airport.objects.first, Airport | None, "first")

    for name in ("give", "first"):
        result = root.request(revision, "tools/call", {"name": name, "arguments": {}})["result"]

        assert ("structuredContent" in result) == (revision >= "2025-06-18")
        assert "EWR" in result["content"][0]["text"]


def test_querysets_of_every_kind_are_read(root: DirectPeer, declared: Declared) -> None:
    def read_before() -> QuerySet[Airport]:
        rows = Airport.objects.filter(name="JFK")
        for row in rows:
            row.name = "Kennedy"
            row.save()
        return rows

    every, plain = Airport.objects, Airport.objects.order_by()
    ranked = every.annotate(place=Window(RowNumber(), order_by=F("faa").desc()))
    kinds: dict[str, tuple[Callable[[], Any], list[str]]] = {
        "slice": (lambda: every.order_by("faa")[1:3], ["IAH", "JFK"]),
        "reversed": (lambda: every.order_by("faa").reverse(), ["LGA", "JFK", "IAH", "EWR"]),
        "union": (lambda: plain.filter(faa="LGA").union(plain.filter(faa="EWR")).order_by("faa"), ["EWR", "LGA"]),
        "joined": (lambda: every.filter(departures__number__gte=1000).order_by("faa"), ["EWR", "JFK", "LGA"]),
        "counted": (lambda: every.annotate(n=Count("departures")).filter(n=2).order_by("faa"), ["EWR", "JFK", "LGA"]),
        "ranked": (lambda: ranked.filter(place__lte=2).order_by("faa"), ["JFK", "LGA"]),
        "deferred": (lambda: every.only("faa").defer("name").filter(faa="JFK"), ["JFK"]),
        "related": (lambda: every.prefetch_related("departures").filter(faa="JFK"), ["JFK"]),
        "locked": (lambda: every.select_for_update().filter(faa="JFK"), ["JFK"]),
        "raw": (lambda: every.raw("SELECT * FROM flights_airport WHERE faa = 'JFK'"), ["JFK"]),
        "none": (every.none, []),
        "read": (read_before, ["JFK"]),
        "twice": (lambda: [every.get(pk="JFK"), every.get(pk="EWR"), every.get(pk="JFK")], ["JFK", "EWR"]),
    }
    for name, (value, _) in kinds.items():
        give(declared, value, None if name in ("raw", "twice") else QuerySet[Airport], name, read_only=False)

    read = {name: json.loads(text_of(root.call(name))) for name in kinds}

    assert {name: [row[0] for row in page["rows"]] for name, page in read.items()} == {
        name: keys for name, (_, keys) in kinds.items()
    }
    assert "Kennedy" in str(read["read"])


def test_what_the_function_left_on_an_instance_is_not_shown(root: DirectPeer, declared: Declared) -> None:
    def changed() -> Airport:
        row = Airport.objects.get(pk="JFK")
        row.name = "never saved"
        return row

    give(declared, changed, Airport)
    give(declared, lambda: Airport.objects.annotate(extra=F("name")), QuerySet, "annotated")

    assert root.call("give")["structuredContent"]["name"] == "JFK"
    assert "extra" not in str(root.call("annotated"))


def test_the_serializer_of_the_model_writes_the_record(root: DirectPeer, declared: Declared) -> None:
    from rest_framework import serializers

    class Short(serializers.ModelSerializer[Airport]):
        class Meta:
            model = Airport
            fields = ["faa"]

    declared.model(Airport, serializer_class=Short)
    give(declared, lambda: Airport.objects.get(pk="JFK"), Airport)

    assert root.call("give")["structuredContent"] == {"faa": "JFK"}


def test_a_row_that_was_just_made_is_returned(root: DirectPeer, declared: Declared) -> None:
    def make() -> Plane:
        return Plane.objects.create(tailnum="N1", type="Rotorcraft", manufacturer="A", model="B", engines=1, seats=2)

    give(declared, make, Plane, read_only=False)

    assert root.call("give")["structuredContent"]["tailnum"] == "N1"


def test_an_async_function_returns_a_queryset_that_a_worker_reads(
    declared: Declared, admin: Peer, flights: Any
) -> None:
    async def late(request: HttpRequest) -> QuerySet[Airport]:
        """Late."""
        return Airport.objects.order_by("faa")

    async def one(request: HttpRequest) -> Airport:
        """One."""
        return await Airport.objects.aget(pk="JFK")

    async def nothing(request: HttpRequest) -> list[Airport]:
        """Nothing."""
        return []

    for function in (late, one, nothing):
        declared.tool(function, read_only=True)

    for _ in range(2):
        assert [row[0] for row in admin.call("late")["structuredContent"]["rows"]] == ["EWR", "IAH", "JFK", "LGA"]
        assert json.loads(text_of(admin.call("one")))["faa"] == "JFK"
        assert admin.call("nothing")["structuredContent"]["rows"] == []


# How much.


def test_a_page_takes_the_same_statements_however_many_rows_it_has(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, showing(lambda every: every.exclude(number=1), fields="__all__"))
    rows = Flight.objects.order_by("pk")
    for count in (2, 6):
        give(declared, lambda count=count: rows.filter(pk__lte=count), QuerySet[Flight], f"lazy_{count}")
        give(declared, lambda count=count: list(rows.filter(pk__lte=count)), list[Flight], f"list_{count}")

    taken = {}
    for name in ("lazy_2", "lazy_6", "list_2", "list_6"):
        root.call(name)
        with CaptureQueriesContext(connections["default"]) as statements:
            root.call(name)
        taken[name] = len([one for one in statements if "flights_flight" in one["sql"]])

    assert taken == {"lazy_2": 2, "lazy_6": 2, "list_2": 3, "list_6": 3}


def test_rows_beyond_the_limit_are_left_out_and_the_result_says_how_to_get_them(
    root: DirectPeer, declared: Declared, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "MAX_ROWS": 2}
    rows = Airport.objects.order_by("faa")
    kinds = {"lazy": rows, "slice": rows[:3], "list": list(rows), "exact": rows[:2]}
    for name, value in kinds.items():
        give(declared, lambda value=value: value, QuerySet, name)

    results = {name: root.call(name)["structuredContent"] for name in kinds}

    assert [[row[0] for row in result["rows"]] for result in results.values()] == [["EWR", "IAH"]] * 4
    more = "These are the first 2 rows, and more follow. Ask for less, or ask find_records for flights.airport."
    assert [result.get("more") for result in results.values()] == [more, more, more, None]
    assert next(iter(results["lazy"])) == "more"


def test_a_page_that_is_too_large_is_cut(root: DirectPeer, declared: Declared) -> None:
    Flight.objects.update(notes="x" * 1_500)
    give(declared, Flight.objects.all, QuerySet)

    with override_settings(MCP={"MAX_RESULT_BYTES": 15_000, "MAX_TEXT": 1_000}):
        page = root.call("give")["structuredContent"]

    assert 1 <= len(page["rows"]) < 6
    assert page["more"].startswith(f"These are the first {len(page['rows'])} rows, and more follow.")
    assert any("were cut at 1000 characters" in note for note in page["notes"])


def test_the_rows_are_counted_as_read(root: DirectPeer, declared: Declared) -> None:
    seen: list[Any] = []

    def some(request: MCPRequest, count: int) -> QuerySet[Airport]:
        """Some."""
        seen.append(request.mcp)
        return Airport.objects.order_by("faa")[:count]

    declared.tool(some, read_only=True)

    for count in (3, 1):
        root.call("some", count=count)

    assert [(one.usage.model, one.usage.rows) for one in seen] == [("flights.airport", 3), ("flights.airport", 1)]
