"""Attacks on the audit trail that succeeded once: each is a test named after what it tried."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from demo_project.flights.models import Flight
from mcp_django import ModelMCP
from mcp_django.audit.anonymous import AnonymousCounts
from mcp_django.audit.lines import caller, line
from mcp_django.audit.recorder import Recorder
from mcp_django.audit.recorder import recorder as the_recorder
from mcp_django.exchange.principals import Principal
from mcp_django.models import Call
from mcp_django.models.call_queries import CallQuerySet
from mcp_django.server import trail
from tests.audit.conftest import Rows
from tests.end_to_end.servers import wait_for
from tests.support.base import MODERN
from tests.support.data import token_of
from tests.support.duplex import DuplexPeer
from tests.support.peers import Peers

CANARY = "CANARY-4f9a1c"


class Audited(ModelMCP):
    fields = ["number", "status"]
    audit_fields = ["number"]


def test_writing_a_secret_into_the_lookup_of_an_allowed_field(
    peers: Peers, users: Any, flights: Any, rows: Rows, declared: Any
) -> None:
    declared.model(Flight, Audited)
    peer = peers(token_of(users.admin))

    arguments = {"model": "flights.flight", "filter": {f"number__{CANARY}": 1}}
    peer.request(MODERN, "tools/call", {"name": "find_records", "arguments": arguments})
    peer.request(MODERN, "resources/read", {"uri": f"db://flights/flight?number__{CANARY}=1"})

    found = rows("values")
    assert len(found) == 2
    assert CANARY not in str(found)


def test_filling_the_memory_by_refused_calls_whose_lines_wait(
    peers: Peers, users: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that waits must not keep its request, whose params may be as long as a body."""
    exchanges: list[Any] = []
    waiting: list[Any] = []
    record = trail._record

    def watch(exchange: Any, ms: float) -> None:
        exchanges.append(weakref.ref(exchange.request))
        record(exchange, ms)

    peer = peers(token_of(users.admin))
    monkeypatch.setattr(trail, "_record", watch)
    monkeypatch.setattr(the_recorder, "put", waiting.append)
    for name in ("nothing", 3):
        peer.request(MODERN, "tools/call", {"name": name, "arguments": {}})
    peer.request(MODERN, "resources/read", {"uri": "db://flights/flight?nothing=1"})

    assert len(waiting) == len(exchanges) == 3
    # The server may still be at the end of the last answer.
    wait_for(lambda: gc.collect() >= 0 and not any(found() for found in exchanges), "the end of the requests")


def test_filling_the_memory_by_a_long_name_of_the_client(
    peers: Peers, users: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Any] = []
    peer = peers(token_of(users.admin))
    monkeypatch.setattr(the_recorder, "put", waiting.append)
    meta = {"io.modelcontextprotocol/clientInfo": {"name": "n" * 100_000, "version": "1"}}
    peer.request(MODERN, "tools/call", {"name": "describe_models", "_meta": meta})

    [(_, noted)] = waiting
    assert len(noted.client_name) < 100


def test_a_client_that_calls_itself_like_the_console_of_a_person(
    peers: Peers, users: Any, flights: Any, rows: Rows
) -> None:
    alike = [
        "console of admin", "Console  Of admin", "\u200bconsole of admin", "console_of_admin",
        "\uff43onsole of admin", "c\u043ensole \u03bff admin",
    ]  # fmt: skip
    others = ["Visual Studio Code", "console", "consoles", "\u043f\u043e\u043c\u043e\u0449\u043d\u0438\u043a", ""]
    peer = peers(token_of(users.admin))

    for name in [*alike, *others]:
        meta = {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
        peer.request(MODERN, "tools/call", {"name": "describe_models", "arguments": {}, "_meta": meta})

    shown = [row["client_name"] for row in rows("client_name")]
    assert [name.startswith("calls itself ") for name in shown] == [True] * len(alike) + [False] * len(others)
    assert shown[len(alike) :] == others


@pytest.fixture
def recorder(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.setattr(Recorder, "_start", lambda self: None)
    monkeypatch.setattr("mcp_django.audit.recorder.is_test_run", lambda: False)
    yield Recorder()


@pytest.mark.every_database
def test_losing_the_lines_of_others_by_one_that_no_driver_takes(recorder: Recorder) -> None:
    """A lone surrogate raises no error of the database, but of the driver."""

    def made(at: float, name: str) -> Any:
        return line(at, kind="call", outcome="done", name=name)

    for name in ("before", "\udc80", "after"):
        recorder.put((made, 1_000_000.0, name))
    recorder.flush()
    recorder.flush()

    assert list(Call.objects.order_by("pk").values_list("name", flat=True)) == ["before", "after", ""]
    assert Call.objects.get(kind=Call.Kind.LOST).count == 1


class LongKey:
    """A user of a project whose key is a text."""

    def __init__(self, pk: str) -> None:
        self.pk = pk


def test_acting_under_the_key_of_a_user_whose_key_begins_alike_or_who_has_no_user_name() -> None:
    keys = [caller(Principal(LongKey(pk), frozenset()))["user_id"] for pk in ("a" * 80 + "x", "a" * 80 + "y", "7")]  # type: ignore[arg-type]
    rows = [line(0.0, user_id=key) for key in keys]

    assert rows[0] != rows[1]
    assert keys[2] == "7", "a line is left"


def test_losing_the_answer_of_a_call_whose_outcome_cannot_be_written(
    peers: Peers, users: Any, rows: Rows, audited: Any, declared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An InterfaceError is no DatabaseError."""

    def change(request: Any) -> str:
        """Changes."""
        monkeypatch.setattr(CallQuerySet, "update", gone)
        return "changed"

    def gone(*args: Any, **values: Any) -> None:
        raise InterfaceError("connection already closed")

    audited(AUDIT="strict")
    declared.tool(change)
    peer = peers(token_of(users.ops))

    assert peer.call("change")["content"][0]["text"] == "changed"
    assert rows("name", "outcome") == [{"name": "change", "outcome": "unknown"}]


@pytest.mark.every_database
def test_losing_the_counts_of_callers_by_a_connection_that_is_closed(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any) -> None:
        raise InterfaceError("connection already closed")

    recorder.count("site", "request", "refused", "http", "UNAUTHENTICATED", "192.0.2.1")
    with monkeypatch.context() as closed:
        closed.setattr(AnonymousCounts, "_write", gone)
        assert not recorder.flush() or recorder.anonymous
    recorder.flush()

    assert Call.objects.get().count == 1


@pytest.mark.parametrize("transport", ["websocket"])
def test_leaving_no_line_by_a_batch_that_is_refused(peers: Peers, users: Any, rows: Rows, audited: Any) -> None:
    audited(MAX_IN_FLIGHT=0)
    peer = peers(token_of(users.admin))
    assert isinstance(peer, DuplexPeer)

    peer.connect().ask([{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}])

    assert [row["reason"] for row in rows("reason")] == ["LIMIT_EXCEEDED"]


@pytest.mark.parametrize("mode", ["on", "strict"])
def test_passing_for_refused_by_an_answer_that_is_too_long(
    peers: Peers, users: Any, rows: Rows, audited: Any, declared: Any, mode: str
) -> None:
    """The tool has changed what it was to change."""

    def change(request: Any, size: int) -> str:
        """Changes."""
        return "x" * size

    audited(AUDIT=mode, MAX_RESULT_BYTES=5_000)
    declared.tool(change)
    # Too long for an answer alone, and for a result.
    for size in (4_850, 10_000):
        peers(token_of(users.ops)).request(MODERN, "tools/call", {"name": "change", "arguments": {"size": size}})

    assert rows("name", "outcome", "reason") == [{"name": "change", "outcome": "done", "reason": ""}] * 2


def test_silencing_the_server_while_strict_refuses_every_change(
    peers: Peers, users: Any, audited: Any, declared: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def change(request: Any) -> str:
        """Changes."""
        return "changed"

    def away(*args: Any, **values: Any) -> None:
        raise OperationalError("locked")

    audited(AUDIT="strict")
    declared.tool(change)
    peer = peers(token_of(users.ops))
    monkeypatch.setattr(CallQuerySet, "create", away)

    refused = peer.request(MODERN, "tools/call", {"name": "change", "arguments": {}})

    assert refused["error"]["data"]["reason"] == "AUDIT_UNAVAILABLE"
    assert "could not be written" in caplog.text and "locked" in caplog.text
