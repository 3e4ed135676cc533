"""What is said of a search that finds nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airport, Flight, Plane
from tests.bridge.resources.conftest import showing
from tests.support.asking import DirectPeer
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

NOTHING = "The search found nothing. It looks for each word in notes."


@pytest.fixture
def peer(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def root(peer: DirectPeer, declared: Declared) -> DirectPeer:
    """Flights are searched by their notes alone."""
    declared.model(Flight, fields="__all__", search_fields=["notes"])
    return peer


def notes(peer: DirectPeer, tool: str = "find_records", **asked: Any) -> list[str]:
    answer = peer.call(tool, **{"model": "flights.flight", **asked})
    assert answer["isError"] is False, answer
    found: list[str] = answer["structuredContent"].get("notes", [])
    return [note for note in found if not note.startswith("Left out")]


HINTS = [
    ("nowhere", ""),
    ("Cancelled", ' status has such a choice: filter {"status": "cancelled"}.'),
    ("on time", ' status has such a choice: filter {"status": "on_time"}.'),
    ("jfk", ' origin or destination takes keys of flights.airport: filter {"origin": "JFK"}.'),
    ("flights JFK", ' origin or destination takes keys of flights.airport: filter {"origin": "JFK"}.'),
    ("N14228", ' plane takes keys of flights.plane: filter {"plane": "N14228"}.'),
    ("6", ' id holds such a value: filter {"id": 6}.'),
    ("flight 6", ""),
    ("all the flights from JFK", ""),
]  # fmt: skip


def test_it_says_where_it_looked_and_which_filter_may_be_meant(root: DirectPeer) -> None:
    Flight.objects.update(notes="")

    for search, hints in HINTS:
        assert notes(root, search=search) == [NOTHING + hints]
        assert notes(root, "aggregate_records", search=search) == [NOTHING + hints]
        assert notes(root, "aggregate_records", search=search, group_by=["status"]) == [NOTHING + hints]
    for word in ("x" * 200, "%", "' OR 1=1 --", "😀", "9" * 199):
        assert notes(root, search=word) == [NOTHING], word


def test_it_says_nothing_where_rows_are_found_or_on_the_next_page(root: DirectPeer) -> None:
    page = root.call("find_records", model="flights.flight", search="note", limit=2)["structuredContent"]

    assert notes(root, search="note") == []
    assert notes(root, "aggregate_records", search="note", measures=["max:departure_delay"], filter={"id": 5}) == []
    Flight.objects.update(notes="")
    assert notes(root, search="note", limit=2, cursor=page["next_cursor"]) == []


def test_guessing_a_hidden_row_by_a_hint(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, showing(lambda every: every.filter(faa="JFK")))

    def asked_for(word: str) -> tuple[list[str], list[str]]:
        with CaptureQueriesContext(connection) as captured:
            found = notes(root, search=word)
        statements = [query["sql"] for query in captured if "flights_" in query["sql"]]
        return found, [sql.replace(word, "?").replace(word.lower(), "?") for sql in statements]

    assert asked_for("EWR") == asked_for("XYZ")
    assert asked_for("EWR")[0] == [NOTHING, "A rule of this project limits which rows of flights.airport you see."]


def test_guessing_a_single_row_of_a_private_model_by_a_hint(root: DirectPeer, declared: Declared) -> None:
    declared.model(Plane, min_group_rows=3)

    assert notes(root, search="N14228") == [NOTHING]


def test_guessing_by_a_hint_a_field_that_is_hidden_or_that_no_filter_may_name(
    peer: DirectPeer, declared: Declared
) -> None:
    declared.model(Flight, fields=["number", "notes"], search_fields=["notes"])
    assert [notes(peer, search=word) for word in ("JFK", "cancelled")] == [[NOTHING]] * 2

    declared.close()
    declared.model(Flight, fields="__all__", search_fields=["notes"], filter_fields=["number"])
    assert notes(peer, search="JFK") == [NOTHING]


def test_telling_no_rows_from_a_few_where_small_groups_are_hidden(root: DirectPeer) -> None:
    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        none, few = (notes(root, "aggregate_records", search=word) for word in ("nowhere", "3"))

    assert none == few


def test_hints_take_few_statements(root: DirectPeer) -> None:
    with CaptureQueriesContext(connection) as captured:
        notes(root, search="a b c")

    assert len([query for query in captured if "flights_" in json.dumps(query["sql"])]) <= 6
