"""Attempts to learn of hidden rows from the statements, and so from the time, that an answer takes.

The permission is checked for each row, by a hook that asks the database nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airport, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.completers import complete_key
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.reading.matching import matching_keys
from mcp_django.push.live_answers import Viewer, keys_of
from mcp_django.push.sight import Sight
from mcp_django.push.subscriptions import watch
from tests.bridge.resources.conftest import each
from tests.support.asking import DirectPeer, request_of, rights_on
from tests.support.data import make_flights, switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

from mcp_django import site  # isort: skip

pytestmark = pytest.mark.every_database

CANCEL = "flights_flight_mark_cancelled"
#: The first 12 flights meet one of these, and none the other.
MATCHING, NOT_MATCHING = "2013-01-01", "1999-01-01"


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(12)
    switch_on(CANCEL)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def seen(declared: Declared, root: DirectPeer) -> set[int]:
    """The keys of the flights that agents see."""
    keys: set[int] = set()

    declared.model(
        Flight,
        each(
            lambda obj: obj.pk in keys,
            fields=("id", "number", "origin", "departs_at", "status", "disruptions"),
            search_fields=("notes",),
        ),
    )
    return keys


def statements(ask: Callable[[], Any]) -> list[str]:
    """The statements about flights, with lists of values as long as any other list."""
    with CaptureQueriesContext(connection) as captured:
        ask()
    asked = [query["sql"] for query in captured if "flights_" in query["sql"]]
    return [re.sub(r"IN \([^()]*\)", "IN (..)", sql.replace(NOT_MATCHING, MATCHING)) for sql in asked]


def departing(day: str) -> dict[str, Any]:
    return {"departs_at": day, "status__in": ["on_time", "cancelled"]}


ASKED: dict[str, Callable[[DirectPeer, str], Any]] = {
    "a page": lambda peer, day: peer.call("find_records", model="flights.flight", filter=departing(day)),
    "a short page": lambda peer, day: peer.call(
        "find_records", model="flights.flight", filter=departing(day), limit=1, total=True
    ),
    "related rows": lambda peer, day: peer.call(
        "find_records", model="flights.flight", filter=departing(day), fields=["number", "origin__name", "disruptions"]
    ),
    "a search": lambda peer, day: peer.call(
        "find_records", model="flights.flight", search="note" if day == MATCHING else "xyz9"
    ),
    "a query by URI": lambda peer, day: peer.request(
        MODERN, "resources/read", {"uri": f"db://flights/flight?departs_at={day}"}
    ),
    "a record": lambda peer, day: peer.call("get_record", model="flights.flight", id="3" if day == MATCHING else "999"),
    "a record by URI": lambda peer, day: peer.request(
        MODERN, "resources/read", {"uri": f"db://flights/flight/{3 if day == MATCHING else 999}"}
    ),
    "groups": lambda peer, day: peer.call("aggregate_records", model="flights.flight", filter=departing(day)),
    "an action by filter": lambda peer, day: peer.call(CANCEL, filter=departing(day)),
    "an action by ids": lambda peer, day: peer.call(CANCEL, ids=["3" if day == MATCHING else "999"]),
    "a condition through another model": lambda peer, day: peer.call(
        "find_records", model="flights.airport", filter={"departures__departs_at": day}
    ),
}


def test_telling_hidden_matches_from_none_by_the_statements(root: DirectPeer, seen: set[int]) -> None:
    for what, ask in ASKED.items():
        hidden, none = (statements(lambda ask=ask, day=day: ask(root, day)) for day in (MATCHING, NOT_MATCHING))  # type: ignore[misc]
        assert [without_values(sql) for sql in hidden] == [without_values(sql) for sql in none], what


def without_values(sql: str) -> str:
    """A statement without texts and numbers, which are those of the question."""
    return re.sub(r"'[^']*'|\b\d+\b", "?", sql)


@pytest.mark.parametrize("limit", [1, 3, 12])
def test_telling_how_many_rows_are_hidden_by_the_number_of_statements(
    root: DirectPeer, seen: set[int], monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Twelve rows match, in batches of four."""
    monkeypatch.setattr("mcp_django.bridge.resources.reading.rows._LOOKED_AT_ONCE", 4)
    monkeypatch.setattr("mcp_django.bridge.resources.reading.rows._MAX_LOOKS", 10)
    monkeypatch.setattr("mcp_django.bridge.resources.reading.matching._AT_ONCE", 4)
    found: dict[str, set[int]] = {"a page": set(), "the keys of a filter": set(), "completion": set()}
    for visible in (set(), {1}, {2, 11}, set(range(1, 13))):
        seen.clear()
        seen |= visible
        rights = rights_on(Flight, root.user)
        asked = {"model": "flights.flight", "filter": departing(MATCHING), "limit": limit}
        ways: dict[str, Callable[[], Any]] = {
            "a page": lambda asked=asked: root.call("find_records", **asked),  # type: ignore[misc]
            "the keys of a filter": lambda rights=rights: matching_keys(rights, departing(MATCHING), limit, []),  # type: ignore[misc]
            "completion": lambda rights=rights: complete_key(rights, ""),  # type: ignore[misc]
        }
        for way, ask in ways.items():
            found[way].add(len(statements(ask)))

    assert {way: len(counts) for way, counts in found.items()} == dict.fromkeys(found, 1)


def test_asking_the_hook_of_no_more_rows_than_a_page_needs(root: DirectPeer, declared: Declared) -> None:
    asked: list[int] = []

    class EachFlight(ModelMCP):
        fields = ("id", "number")
        ordering = ("-id",)

        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            asked.extend([] if obj is None else [obj.pk])
            return True

    declared.model(Flight, EachFlight)

    table = root.call("find_records", model="flights.flight", limit=2)["structuredContent"]

    assert [row[0] for row in table["rows"]] == [12, 11]
    assert asked == [12, 11, 10]


def test_telling_hidden_keys_from_none_by_the_statements_of_a_completion(root: DirectPeer, seen: set[int]) -> None:
    rights = rights_on(Flight, root.user)

    hidden, none = (statements(lambda typed=typed: complete_key(rights, typed)) for typed in ("1", "7777"))  # type: ignore[misc]

    assert len(hidden) == 2 * 19
    assert [without_values(sql) for sql in hidden[:2]] == [without_values(sql) for sql in none[:2]]


def test_telling_hidden_matches_from_none_by_the_statements_of_a_push(root: DirectPeer, seen: set[int]) -> None:
    def ways(day: str) -> dict[str, list[str]]:
        request = request_of(root.user)
        rights = Rights.of(site, request)
        model = rights.of_model(Flight)
        target = uris.parse(f"db://flights/flight?departs_at={day}")
        assert model is not None and target is not None
        matching = model.rows().filter(pk__in=[3] if day == MATCHING else [999])
        subscription = watch(site, f"db://flights/flight/{3 if day == MATCHING else 999}")
        assert subscription is not None
        asked: dict[str, Callable[[], Any]] = {
            "the answer of a live query": lambda: Viewer(site, request).answer(target),
            "the keys that are remembered": lambda: keys_of(model, matching),
            "a subscription": lambda: subscription.look(site, request),
            "a changed record": lambda: Sight(rights, [subscription]).record(model, subscription.key, "default"),
        }
        return {way: [without_values(sql) for sql in statements(ask)] for way, ask in asked.items()}

    hidden, none = ways(MATCHING), ways(NOT_MATCHING)

    assert all(hidden.values())
    assert hidden == none


def test_telling_airports_with_hidden_flights_from_others(root: DirectPeer, seen: set[int]) -> None:
    """No relation leads to a model whose permission is checked for each row."""
    result = root.call("find_records", model="flights.airport", fields=["departures"], filter={"faa": "JFK"})

    assert result["isError"]
    assert Airport.objects.filter(departures__isnull=False).exists()
