"""Pages of groups."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from demo_project.flights.models import Airport, Flight
from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery, Table, aggregate
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import cursors
from tests.bridge.resources.aggregates.conftest import error
from tests.support.asking import DirectPeer, rights_on

pytestmark = pytest.mark.every_database


def pages(rights: ModelRights, **asked: Any) -> list[Table]:
    found = [aggregate(rights, AggregateQuery(**asked))]
    while (cursor := found[-1].next_cursor) is not None:
        found.append(aggregate(rights, AggregateQuery(**asked, cursor=cursor)))
    return found


ASKED: list[dict[str, Any]] = [
    {"group_by": ["number"]}, {"group_by": ["number"], "order_by": ["-max:distance"]},
    {"group_by": ["origin", "number"], "order_by": ["-median:distance", "count"]},
    {"group_by": ["plane", "number"], "having": {"share@some": 1}, "conditions": {"some": {"number__gt": 1002}}},
]  # fmt: skip


def test_pages_are_the_groups_in_order(flights: ModelRights) -> None:
    for asked in ASKED:
        whole = aggregate(flights, AggregateQuery(**asked))
        for limit in (1, 4, 5, 12):
            found = pages(flights, **asked, limit=limit)
            assert [row for page in found for row in page.rows] == whole.rows, asked
            assert {len(page.rows) for page in found[:-1]} <= {limit}
            assert [note for page in found for note in page.notes] == []


def test_a_page_that_was_cut_for_its_bytes_has_a_next_one(flights: ModelRights) -> None:
    for flight in Flight.objects.all():
        Flight.objects.filter(pk=flight.pk).update(notes=f"{flight.number}{'x' * 900}")

    with override_settings(MCP={"MAX_RESULT_BYTES": 6_000}):
        found = pages(flights, group_by=["notes"])

    assert [len(page.rows) for page in found] == [2] * 6
    assert found[0].notes == ["The table was cut at 2 groups, since more would exceed 2000 bytes."]


def test_the_last_page_and_totals_have_no_cursor(flights: ModelRights) -> None:
    found = [
        aggregate(flights, AggregateQuery(group_by=groups, limit=12)).next_cursor
        for groups in (["number"], ["status"], [])
    ]

    assert found == [None, None, None]


def test_pages_end_somewhere(flights: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.bridge.resources.aggregates.aggregates.MAX_PAGED_GROUPS", 4)

    found = pages(flights, group_by=["number"], limit=2)

    assert [len(page.rows) for page in found] == [2, 2, 2]
    assert found[-1].notes == ["There are more groups than these 6. Narrow the query with filter or having."]


def test_the_tool_takes_and_gives_a_cursor(flights: ModelRights) -> None:
    peer = DirectPeer(User.objects.get())
    asked = {"model": "flights.flight", "group_by": ["number"], "limit": 11}

    first = peer.call("aggregate_records", **asked)["structuredContent"]
    second = peer.call("aggregate_records", **asked, cursor=first["next_cursor"])["structuredContent"]

    assert second == {"columns": ["number", "count"], "rows": [[1011, 1]]}


@pytest.fixture
def cursor(flights: ModelRights) -> str:
    found = aggregate(flights, AggregateQuery(group_by=["number"], limit=2)).next_cursor
    assert found is not None
    return found


def test_a_cursor_goes_on_with_another_limit(flights: ModelRights, cursor: str) -> None:
    assert aggregate(flights, AggregateQuery(group_by=["number"], limit=1, cursor=cursor)).rows == [[1002, 1]]


OTHERS: list[dict[str, Any]] = [
    {"group_by": ["status"]}, {"group_by": []}, {"group_by": ["number"], "filter": {"status": "on_time"}},
    {"group_by": ["number"], "order_by": ["-count"]}, {"group_by": ["number"], "having": {"count": 1}},
    {"group_by": ["number"], "search": "united"}, {"group_by": ["number"], "conditions": {"x": {"number": 1}}},
    {"group_by": ["number"], "measures": ["sum:distance"]},
]  # fmt: skip


def test_a_cursor_in_another_question_of_another_user_or_of_another_model(flights: ModelRights, cursor: str) -> None:
    other = rights_on(Flight, User.objects.create_superuser("other"))
    airports = rights_on(Airport, User.objects.get(username="root"))

    for asked in OTHERS:
        assert error(flights, **asked, cursor=cursor)["field"] == "cursor", asked
    assert error(other, group_by=["number"], cursor=cursor)["field"] == "cursor"
    assert error(airports, group_by=["faa"], cursor=cursor)["field"] == "cursor"


def test_forging_a_cursor(flights: ModelRights, cursor: str) -> None:
    changed = cursor[:4] + ("B" if cursor[4] == "A" else "A") + cursor[5:]
    for forged in ("", "x", ":::", cursor[:-1], f"x{cursor}", changed, "999999999"):
        assert error(flights, group_by=["number"], cursor=forged)["field"] == "cursor"


def test_a_cursor_of_rows_is_no_cursor_of_groups(flights: ModelRights) -> None:
    mine = flights.rights.request.mcp.principal.key
    of_rows = cursors.make_cursor([5], cursors.query_digest("flights.flight", {}, "", ["id"], "default"), mine)

    assert error(flights, group_by=["number"], cursor=of_rows)["field"] == "cursor"
