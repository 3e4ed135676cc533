"""What stands in the audit trail after a request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from mcp_django.models import AccessToken, Call, Tool
from tests.audit.conftest import Rows
from tests.support.base import LEGACY, MODERN, wanted_of
from tests.support.data import switch_on, token_of
from tests.support.peers import Peer, Peers

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.own_form
@pytest.mark.every_transport
def test_a_call_is_written_down_with_who_what_and_what_came_of_it(
    peers: Peers, users: Any, flights: Any, rows: Rows, transport: str
) -> None:
    peer = peers(token_of(users.ops, name="laptop"))

    answer = peer.result(
        MODERN,
        "tools/call",
        {
            "name": "find_records",
            "arguments": {"model": "flights.flight", "limit": 3},
            "_meta": peer.meta(traceparent=f"00-{TRACE}-b7ad6b7169203331-01"),
        },
    )

    [row] = rows()
    token = AccessToken.objects.filter(user=users.ops).latest("pk")
    assert len(answer["structuredContent"]["rows"]) == 3
    assert row.pop("ms") > 0 and row.pop("queries") > 0 and row.pop("bytes") > 300 and row.pop("at") and row.pop("id")
    address = "" if transport == "stdio" else "127.0.0.1"
    by_token = {"token_id": token.pk, "token_name": "laptop"} if transport != "stdio" else {}
    assert row.pop("address") in (address, "")
    assert row.pop("request_id")
    assert {name: row[name] for name in ("token_id", "token_name") if by_token} == by_token
    expected = {
        "site": "mcp", "kind": "call", "outcome": "done", "reason": "", "user_id": str(users.ops.pk),
        "user_name": "ops", "client_id": "", "client_name": "tests", "revision": MODERN, "method": "tools/call",
        "name": "find_records", "model": "flights.flight", "uri": "", "arguments": '["model","limit"]', "values": "",
        "keys": "", "rows": 3, "trace_id": TRACE, "count": 1, "transport": transport.partition("-")[0],
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


@pytest.mark.every_transport
@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
def test_reads_prompts_and_subscriptions_are_written_down(
    peers: Peers, users: Any, flights: Any, rows: Rows, revision: str
) -> None:
    peer = peers(token_of(users.admin))

    peer.result(revision, "resources/read", {"uri": "db://flights/flight?origin=JFK&limit=2"})
    peer.result(revision, "resources/read", {"uri": "db://flights/flight/3"})
    if peer.push:
        peer.watch(revision, ["db://flights/flight/4"])

    found = rows("kind", "method", "uri", "model", "rows", "outcome", "arguments")
    read = {"kind": "read", "method": "resources/read", "model": "flights.flight", "outcome": "done", "arguments": ""}
    assert found[0] == {**read, "uri": "db://flights/flight", "rows": 2}
    assert found[1] == {**read, "uri": "db://flights/flight/3", "rows": 1}
    if peer.push:
        assert (found[2]["kind"], found[2]["outcome"]) == ("subscription", "done")
        assert "db://flights/flight/4" in (found[2]["uri"], *json.loads(found[2]["arguments"] or "[]"))


def test_lists_are_not_written_down(ops: Peer, rows: Rows) -> None:
    ops.result(MODERN, "tools/list")
    ops.result(MODERN, "resources/list")
    ops.result(MODERN, "server/discover")

    assert rows() == []


@pytest.mark.parametrize(("on", "written"), [(False, []), (True, [{"kind": "completion"}])])
def test_completion_is_written_down_where_the_project_wants_it(
    peers: Peers, users: Any, audited: Callable[..., None], rows: Rows, flights: Any, on: bool, written: Any
) -> None:
    audited(AUDIT_COMPLETION=on)
    peer = peers(token_of(users.ops))

    peer.result(
        MODERN,
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "db://flights/flight/{id}"},
            "argument": {"name": "id", "value": "1"},
        },
    )

    assert rows("kind") == written


def test_off_writes_nothing(peers: Peers, users: Any, audited: Callable[..., None], rows: Rows, flights: Any) -> None:
    audited(AUDIT="off")

    peers(token_of(users.ops)).call("find_records", model="flights.flight")

    assert rows() == []


@pytest.mark.every_database
def test_the_keys_of_changed_rows_are_written_down(peers: Peers, users: Any, flights: Any, rows: Rows) -> None:
    switch_on("flights_flight_mark_cancelled")
    peer = peers(token_of(users.admin))

    peer.call("flights_flight_mark_cancelled", ids=["3", "1"])

    [row] = rows("name", "model", "keys", "outcome", "arguments")
    assert row == {
        "name": "flights_flight_mark_cancelled",
        "model": "flights.flight",
        "keys": " 3 1 ",
        "outcome": "done",
        "arguments": '["ids"]',
    }
    assert Call.objects.filter(keys__contains=" 1 ").exists()


def test_a_tool_that_says_that_it_failed_has_failed(peers: Peers, users: Any, rows: Rows, declared: Any) -> None:
    def broken(request: Any) -> str:
        """Fails."""
        raise ValueError("secret text")

    declared.tool(broken)

    peers(token_of(users.ops)).call("broken")

    assert rows("name", "outcome") == [{"name": "broken", "outcome": "failed"}]


def test_a_question_is_a_row_and_the_run_with_the_answer_another(
    peers: Peers, users: Any, rows: Rows, declared: Any
) -> None:
    def careful(request: Any) -> str:
        """Asks first."""
        return str(request.mcp.elicit("Sure?", {"type": "object", "properties": {}}).action)

    declared.tool(careful)
    peer = peers(token_of(users.ops))
    peer.capabilities = {"elicitation": {}}

    asked = peer.result(MODERN, "tools/call", {"name": "careful", "arguments": {}})
    [key] = asked["inputRequests"]
    answers = {"inputResponses": {key: {"action": "accept", "content": {}}}, "requestState": asked["requestState"]}
    peer.result(MODERN, "tools/call", {"name": "careful", "arguments": {}, **answers})

    assert [row["outcome"] for row in rows("outcome")] == ["asked", "done"]


def test_rows_outlive_the_user_the_token_and_the_tool(peers: Peers, users: Any, flights: Any, rows: Rows) -> None:
    user = User.objects.create_superuser("leaving")
    peers(token_of(user, name="old")).call("find_records", model="flights.flight")
    recorded = rows("user_name", "token_name", "name")

    user.delete()
    Tool.objects.all().delete()

    assert rows("user_name", "token_name", "name")[: len(recorded)] == recorded
    assert recorded[-1] == {"user_name": "leaving", "token_name": "old", "name": "find_records"}


def test_a_listen_names_what_it_watches(peers: Peers, users: Any, flights: Any, rows: Rows) -> None:
    peer = peers(token_of(users.ops))

    peer.watch(MODERN, ["db://flights/flight?origin=JFK", "db://flights/flight/2", "somewhere://secret"])

    [row] = rows("method", "arguments")
    assert row["method"] == "subscriptions/listen"
    assert json.loads(row["arguments"]) == ["db://flights/flight", "db://flights/flight/2", "*"]
    assert wanted_of([])


def test_a_caller_without_a_user_is_counted_and_not_listed(
    peers: Peers, flights: Any, audited: Callable[..., None], rows: Rows
) -> None:
    audited(ANONYMOUS_SCOPES=["read"])
    peer = peers(None)

    for _ in range(3):
        peer.request(MODERN, "tools/call", {"name": "find_records", "arguments": {"model": "flights.flight"}})

    assert rows("kind", "user_id", "name", "count") == [{"kind": "call", "user_id": "", "name": "", "count": 3}]
