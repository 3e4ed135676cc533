"""Attempts to learn of hidden rows, fields and single rows from what is said of an unknown value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import keys
from mcp_django.bridge.resources.reading.values import fetch_values
from tests.bridge.resources.conftest import each
from tests.shop.models import Tag
from tests.support.asking import DirectPeer, errors_of
from tests.support.asking import keys as found_keys
from tests.support.data import make_flights, make_staff, switch_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


class OnlyJFK(ModelMCP):
    search_fields = ("faa", "name")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(faa="JFK")


class EachAirport(ModelMCP):
    search_fields = ("faa", "name")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is None or obj.pk == "JFK"


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    Airport.objects.filter(faa="EWR").update(name="Newark Liberty Intl")
    return DirectPeer(User.objects.create_superuser("root"))


def asked_for(peer: DirectPeer, value: str, tool: str = "find_records", **asked: Any) -> tuple[str, list[str]]:
    """The answer, and the statements that it took, both without the value."""
    with CaptureQueriesContext(connection) as captured:
        answer = json.dumps(peer.call(tool, **asked))
    statements = [query["sql"] for query in captured if "flights_" in query["sql"]]
    return answer.replace(value, "?"), [sql.replace(value, "?").replace(value.lower(), "?") for sql in statements]


def test_telling_a_hidden_key_from_one_that_is_not_there(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, OnlyJFK)

    for tool in ("find_records", "aggregate_records"):
        for name in ("origin", "origin__in", "origin__pk", "destination__faa"):
            hidden, absent = (
                asked_for(root, key, tool, model="flights.flight", filter={name: [key] if "__in" in name else key})
                for key in ("EWR", "XYZ")
            )
            assert hidden == absent, (tool, name)
            assert "no visible flights.airport has the key" in hidden[0]


def test_telling_the_record_of_a_hidden_key_from_one_that_is_not_there(root: DirectPeer, declared: Declared) -> None:
    for options in (OnlyJFK, EachAirport):
        declared.close()
        declared.model(Airport, options)
        hidden, absent = (
            asked_for(root, key, "get_record", model="flights.airport", id=key)[0] for key in ("EWR", "XYZ")
        )
        assert hidden == absent, options
        for guess in ("Newark", "EW", "ewr", "Liberty", "newark liberty intl"):
            [error] = errors_of(root.call("get_record", model="flights.airport", id=guess))
            assert error["message"] == f"no flights.airport with the primary key {guess}.", options


@pytest.mark.parametrize("secret", ["xq7secret", "nothing"])
def test_guessing_a_hidden_row_by_the_rows_that_it_takes_the_place_of(
    root: DirectPeer, declared: Declared, secret: str
) -> None:
    """No more than 200 rows are read. One that is hidden would be among them, and the last one that is like it not."""

    declared.model(Tag, each(lambda obj: not obj.name.startswith("z"), fields="__all__", search_fields=("name",)))
    Tag.objects.bulk_create([Tag(name=f"a{number:03}") for number in range(199)])
    Tag.objects.bulk_create([Tag(name="q7secret"), Tag(name=f"z {secret}")])

    [error] = errors_of(root.call("get_record", model="shop.tag", id="xq7secret"))

    assert error["message"] == "no shop.tag with the primary key xq7secret."


def test_guessing_a_hidden_field_by_what_is_suggested(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, exclude=["name"], search_fields=["faa", "name", "time_zone"])

    [error] = errors_of(root.call("find_records", model="flights.flight", filter={"origin": "Liberty"}))

    assert error["message"] == "no visible flights.airport has the key 'Liberty'."


def test_a_hidden_row_that_holds_an_old_value(root: DirectPeer) -> None:
    """A member of the group sees the flights from JFK: 1 and 4."""
    ops = make_staff("ops", "flights.view_flight")
    ops.groups.create(name="JFK operations")
    Flight.objects.filter(pk=2).update(status="diverted")

    hidden, absent = (
        asked_for(DirectPeer(ops), value, model="flights.flight", filter={"status": value})
        for value in ("diverted", "divertex")
    )

    assert found_keys(root, filter={"status": "diverted"}) == [2]
    assert hidden == absent
    assert '"isError": true' in hidden[0]


@pytest.mark.parametrize("held", ["diverted", "divertex"])
def test_telling_that_a_single_row_has_an_old_value_of_a_choice(root: DirectPeer, held: str) -> None:
    """Where groups of few rows are hidden, a note says what the model says, whatever the rows hold."""
    Flight.objects.filter(pk=2).update(status=held)

    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        told, statements = asked_for(root, "diverted", "aggregate_records", model="flights.flight",
                                     filter={"status": "diverted"})  # fmt: skip

    assert "status: status has no choice '?'." in told
    assert json.loads(told)["isError"] is False
    assert len(statements) == 1


def test_telling_that_a_single_row_of_a_private_model_has_a_key(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, min_group_rows=3, fields="__all__", search_fields=["name"])

    for key in ("EWR", "XYZ", "Newark"):
        found = root.call("aggregate_records", model="flights.flight", filter={"origin__in": [key, "QQQ"]})
        [error] = errors_of(root.call("get_record", model="flights.airport", id=f"{key}Q"))
        assert "notes" not in found["structuredContent"], key
        assert error["message"] == f"no flights.airport with the primary key {key}Q."


@pytest.mark.parametrize("held", ["diverted", "on_time"])
def test_telling_that_a_row_that_is_checked_one_by_one_has_an_old_value(
    root: DirectPeer, declared: Declared, held: str
) -> None:
    declared.model(Flight, each(lambda obj: obj.pk == 1, fields="__all__"))
    Flight.objects.filter(pk=2).update(status=held)

    answer = root.call("find_records", model="flights.flight", filter={"status": "diverted"})

    assert answer["structuredContent"]["rows"] == []
    assert answer["structuredContent"]["notes"] == [
        "status: status has no choice 'diverted'. Allowed: on_time, delayed, cancelled.",
        "A rule of this project limits which rows of flights.flight you see.",
    ]


def test_ids_of_an_action_suggest_no_hidden_row(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airline, fields="__all__", search_fields=["name"])
    switch_on("flights_flight_mark_cancelled")

    errors = errors_of(root.call("flights_flight_mark_cancelled", ids=["1", "99", "note"]))

    assert [(error["field"], error["message"]) for error in errors] == [
        ("ids.1", "no flights.flight with the primary key 99."),
        ("ids.2", "no flights.flight with the primary key note."),
    ]


# More than a question should be.


def test_a_filter_of_fifty_doubtful_values_asks_few_of_them(root: DirectPeer) -> None:
    asked = {"any": [{"carrier": f"{number:02}"} for number in range(49)]}

    with CaptureQueriesContext(connection) as captured:
        errors = errors_of(root.call("find_records", model="flights.flight", filter=asked))

    assert len(errors) == 5
    assert len([query for query in captured if "flights_" in query["sql"]]) <= 5 * 2 + 2 * 3


def test_ids_by_the_thousand_suggest_for_few_of_them(root: DirectPeer) -> None:
    switch_on("flights_flight_mark_cancelled")

    with CaptureQueriesContext(connection) as captured:
        errors = errors_of(root.call("flights_flight_mark_cancelled", ids=[f"x{number}" for number in range(1_000)]))

    assert len(errors) == 50
    assert len([query for query in captured if "flights_flight" in query["sql"]]) <= 2 + 2 * 3


def test_reading_a_large_table_for_one_suggestion(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    Airport.objects.bulk_create(
        Airport(faa=f"{number:03}", name="x" * 100, latitude=1, longitude=1, altitude=1, utc_offset=0)
        for number in range(500)
    )
    read: list[int] = []

    def counted(queryset: Any) -> list[Any]:
        found = fetch_values(queryset)
        read.append(len(found))
        return found

    monkeypatch.setattr(keys, "fetch_values", counted)

    for guess in ("QQ", "x", "00", "!"):
        read.clear()
        root.call("get_record", model="flights.airport", id=guess)

        assert read and sum(read) <= 200


STRANGE = [
    "x" * 10_000, "%", "_", "%%%", "' OR 1=1 --", "\\", "😀", " ", "a b c d e f " * 800, "\ufeff", "İ" * 300,
]  # fmt: skip


def test_huge_and_strange_values_are_only_values(root: DirectPeer) -> None:
    for value in STRANGE:
        for name in ("origin", "origin__pk", "status", "origin__in"):
            asked = {name: [value] if "__in" in name else value}
            result = root.call("find_records", model="flights.flight", filter=asked)
            [error] = errors_of(result)
            assert error["message"].startswith(("no visible flights.airport has the key", "status has no choice"))
            assert "Did you mean" not in error["message"]
            assert len(json.dumps(result)) < 2_000
