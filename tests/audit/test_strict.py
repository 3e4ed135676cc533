"""AUDIT = "strict": no call that may change data is made before it is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, transaction

from demo_project.flights.models import Flight
from mcp_django import MCPSite
from mcp_django.audit import strict
from mcp_django.audit.recorder import recorder
from mcp_django.models import Call
from tests.audit.conftest import Rows
from tests.support.base import MODERN
from tests.support.data import switch_on, token_of
from tests.support.peers import Peers

ACTION = "flights_flight_mark_cancelled"


@pytest.fixture(autouse=True)
def _strict(audited: Callable[..., None]) -> None:
    audited(AUDIT="strict")


@pytest.mark.http_and_duplex
def test_the_line_is_there_while_the_tool_runs_and_has_its_outcome_after(
    peers: Peers, users: Any, rows: Rows, declared: Any
) -> None:
    seen: list[Any] = []

    def change(request: Any) -> str:
        """Changes something."""
        seen.extend(Call.objects.filter(kind="call").values_list("name", "outcome"))
        return "Done"

    declared.tool(change)

    peers(token_of(users.ops)).call("change")

    assert seen == [("change", "unknown")]
    assert rows("name", "outcome") == [{"name": "change", "outcome": "done"}]


def test_a_tool_that_only_reads_is_written_down_as_always(
    peers: Peers, users: Any, flights: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(strict, "begin", begun.append)

    peers(token_of(users.ops)).call("find_records", model="flights.flight")

    assert begun == [] and [row["outcome"] for row in rows("outcome")] == ["done"]


def test_a_tool_is_not_run_where_its_line_cannot_be_written(
    peers: Peers, users: Any, flights: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on(ACTION)
    peer = peers(token_of(users.admin))

    def away(*_: Any, **__: Any) -> Any:
        raise OperationalError("the server has gone away")

    monkeypatch.setattr("django.db.models.query.QuerySet.create", away)

    error = peer.error(MODERN, "tools/call", {"name": ACTION, "arguments": {"ids": ["1"]}})

    monkeypatch.undo()
    assert error["data"]["reason"] == "AUDIT_UNAVAILABLE" and "Nothing was changed" in error["message"]
    assert Flight.objects.get(pk=1).status != "cancelled"


def test_a_process_that_ends_during_a_call_leaves_its_line_as_unknown(
    peers: Peers, users: Any, rows: Rows, declared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(request: Any) -> str:
        """Changes something."""
        return "Done"

    declared.tool(change)
    monkeypatch.setattr(strict, "end", lambda key, line: None)

    peers(token_of(users.ops)).call("change")

    assert rows("name", "outcome") == [{"name": "change", "outcome": "unknown"}]


@pytest.mark.every_database
def test_the_line_outlives_a_transaction_that_is_rolled_back(
    peers: Peers, users: Any, flights: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project's context opens the transaction, and the line stands outside of it."""
    switch_on(ACTION)

    @contextmanager
    def in_transaction(self: Any, request: Any) -> Iterator[None]:
        with transaction.atomic():
            yield
            transaction.set_rollback(True)

    monkeypatch.setattr(MCPSite, "call_context", in_transaction)

    peers(token_of(users.admin)).call(ACTION, ids=["1"])

    assert Flight.objects.get(pk=1).status != "cancelled"
    assert rows("name", "outcome", "keys") == [{"name": ACTION, "outcome": "done", "keys": " 1 "}]


@pytest.mark.every_database
def test_a_transaction_that_is_not_ours_is_refused(transactional_db: None) -> None:
    with transaction.atomic(), pytest.raises(strict.NotWritten):
        strict.begin(())

    assert not recorder.has_waiting


def test_a_refused_tool_is_written_down_as_refused(peers: Peers, users: Any, rows: Rows) -> None:
    peer = peers(token_of(users.admin, "read"))

    peer.error(MODERN, "tools/call", {"name": "unknown_tool", "arguments": {}})

    assert rows("name", "outcome", "reason") == [
        {"name": "unknown_tool", "outcome": "refused", "reason": "TOOL_NOT_FOUND"}
    ]
