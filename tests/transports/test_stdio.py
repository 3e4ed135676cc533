"""Lines of stdio, and how a conversation on pipes ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from mcp_django.transports.stdio.pipes import Lines
from tests.support import schemas
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peers, Pipes, StdioPeer, meta
from tests.support.raw import assert_next_is_mine, error
from tests.transports.gates import ENTER, Gate

on_stdio = pytest.mark.parametrize("transport", ["stdio"])

PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}


def modern(request_id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**(params or {}), "_meta": meta()}}


def listen(request_id: Any, *uris: str) -> dict[str, Any]:
    return modern(request_id, "subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris)}})


@pytest.fixture
def pipes(admin: StdioPeer) -> Pipes:
    """A connection before any message."""
    connection = admin.connect()
    assert isinstance(connection, Pipes)
    return connection


def too_long(limit: int) -> dict[str, Any]:
    return error(-32603, "LIMIT_EXCEEDED", f"A line may be at most {limit} bytes long (MAX_BODY_BYTES).")


# Lines.


def lines_of(limit: int, chunks: list[bytes]) -> list[bytes | None]:
    lines = Lines(limit)
    return [*(line for chunk in chunks for line in lines.feed(chunk)), *lines.end()]


def test_lines_are_cut_wherever_the_chunks_end() -> None:
    for chunks in (
        [b"a\nbc\n\nd"], [b"a", b"\n", b"b", b"c\n", b"\nd"], [b"a\r\nbc\r\n\r\nd"],
        [b"a\r", b"\n \nbc\r", b"\n\t\r\nd\r"],
    ):  # fmt: skip
        assert lines_of(100, chunks) == [b"a", b"bc", b"d"]


def test_a_line_beyond_the_limit_is_told_once_and_skipped_to_its_end_and_nothing_of_it_kept() -> None:
    for end in (b"\n", b"\r\n"):
        stream = end.join([b"12345", b"123456", b"x" * 50, b"54321", b""])
        for size in (1, 2, 3, 5, 8, 100):
            chunks = [stream[start : start + size] for start in range(0, len(stream), size)]

            assert lines_of(5, chunks) == [b"12345", None, None, b"54321"], (end, size)
    lines = Lines(1_000)

    found = [line for _ in range(100) for line in lines.feed(b"x" * 1_000)]

    assert found == [None]
    assert len(lines._begun) == 0


@on_stdio
def test_blank_lines_are_skipped(pipes: Pipes) -> None:
    pipes.send_bytes(b"\n  \r\n\r\n\t\n" + PING + b"\r\n\n")

    assert pipes.answer() == PONG
    assert_next_is_mine(pipes)


@on_stdio
def test_what_is_no_json_is_told_and_reading_goes_on(pipes: Pipes) -> None:
    """However often: nobody else is on the connection."""
    lines = [b"{", b"hello", b"\xff\xfe", b'{"jsonrpc": "2.0"}}', b"\x00"] * 4

    pipes.send_bytes(b"\n".join([*lines, PING, b""]))

    for _ in lines:
        refused = pipes.answer()
        schemas.check(refused, MODERN)
        assert "id" not in refused
        assert refused["error"]["code"] == -32700
    assert pipes.answer() == PONG


@on_stdio
def test_a_line_beyond_the_limit_is_told_before_it_ends_and_the_next_one_is_served(
    admin: StdioPeer, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 100}
    pipes = admin.connect()
    assert isinstance(pipes, Pipes)

    pipes.send_bytes(b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * 100)
    refused = pipes.answer()
    pipes.send_bytes(b"x" * 300_000 + b'"}\n' + PING.ljust(100) + b"\n" + PING.ljust(101) + b"\n")
    answers = [pipes.answer() for _ in range(2)]

    assert refused == too_long(100)
    assert sorted(answers, key=str) == sorted([PONG, too_long(100)], key=str)
    assert_next_is_mine(pipes)


@on_stdio
def test_a_message_has_no_line_break_in_it(admin: StdioPeer, declared: Declared) -> None:
    def breaks(request: Any) -> str:
        """Give every line break there is."""
        return "\n\r\u2028\u2029\x85\x0b\x0c"

    declared.tool(breaks, read_only=True)

    # The peer reads lines.
    assert admin.call("breaks")["content"] == [{"type": "text", "text": "\n\r\u2028\u2029\x85\x0b\x0c"}]


@on_stdio
def test_messages_of_many_pipe_buffers_pass_both_ways(admin: StdioPeer, declared: Declared) -> None:
    def echo(request: Any, text: str) -> str:
        """Give the text back."""
        return text

    declared.tool(echo, read_only=True)
    text = "世" * 130_000

    assert admin.call("echo", text=text)["content"] == [{"type": "text", "text": text}]


@on_stdio
def test_the_id_of_an_answer_that_was_read_may_be_used_again(pipes: Pipes) -> None:
    for _ in range(100):
        assert pipes.ask(json.loads(PING)) == PONG


# A session that is not waited for.


@on_stdio
def test_what_is_sent_right_behind_initialize_belongs_to_its_session(pipes: Pipes) -> None:
    client = {"name": "tests", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}

    pipes.send_bytes(
        b"".join(
            json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
            for message in (
                {"id": 1, "method": "initialize", "params": params},
                {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/list"},
            )
        )
    )
    opened, listed = pipes.answer(), pipes.answer()

    assert (opened["id"], opened["result"]["protocolVersion"]) == (1, "2025-06-18")
    assert listed["id"] == 2
    schemas.check(listed, "2025-06-18", "tools/list")


# The end.


@on_stdio
def test_a_last_line_that_does_not_end_is_answered(pipes: Pipes) -> None:
    pipes.send_bytes(PING)
    pipes.end_input()

    assert pipes.answer() == PONG
    pipes.wait_ended()


@on_stdio
def test_what_is_in_flight_at_the_end_of_the_input_is_answered(pipes: Pipes, gate: Gate) -> None:
    pipes.send(modern("last", "tools/call", ENTER))
    gate.wait_for_entry()

    pipes.end_input()
    gate.open()

    assert pipes.answer()["id"] == "last"
    pipes.wait_ended()
    assert not pipes.server.refused


@on_stdio
def test_a_call_that_goes_on_and_on_does_not_hold_the_end_up(pipes: Pipes, gate: Gate) -> None:
    pipes.send(modern("stuck", "tools/call", ENTER))
    gate.wait_for_entry()

    pipes.end_input()

    pipes.wait_ended()
    assert pipes.answers.empty()


@on_stdio
def test_a_listen_is_completed_at_the_end_of_the_input(pipes: Pipes, flights: Any) -> None:
    pipes.send(listen("mine", "db://flights/flight/1"))
    pipes.loop.run(pipes.notifications.get(), 60)

    pipes.end_input()

    completion = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": "mine"}}
    assert pipes.answer() == {"jsonrpc": "2.0", "id": "mine", "result": completion}
    pipes.wait_ended()


@on_stdio
def test_a_client_that_stops_reading_holds_up_itself_and_nobody_else(users: Users, peers: Peers) -> None:
    deaf, other = peers(token_of(users.admin)), peers(token_of(users.admin))
    assert isinstance(deaf, StdioPeer)
    pipes = deaf.connect(reads=False)

    # More answers than the pipe and the server keep: the server stops reading, and the client could not send more.
    pipes.send_until_full(json.dumps(modern("again", "tools/list")).encode() + b"\n")

    assert "find_records" in other.tools()
    assert pipes.server._writer._pending < 1_000_000


@on_stdio
def test_a_client_that_closes_its_end_ends_the_conversation(users: Users, peers: Peers) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, StdioPeer)
    pipes = peer.connect(reads=False)

    pipes.end_output()
    pipes.send_bytes(PING + b"\n")

    pipes.wait_ended()
    assert not pipes.server.refused


@on_stdio
@pytest.mark.parametrize("end", [lambda user: user.delete(), lambda user: User.objects.update(is_active=False)],
                         ids=["deleted", "inactive"])  # fmt: skip
def test_a_user_who_is_gone_gets_no_further_answer(
    users: Users, peers: Peers, settings: Any, end: Callable[[User], None]
) -> None:
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 60, "TOKEN_CACHE_SECONDS": 0}
    peer = peers(token_of(users.viewer))
    assert isinstance(peer, StdioPeer)
    assert "find_records" in peer.tools()

    end(users.viewer)
    connection = peer.connection(MODERN)
    connection.send(modern(1, "tools/list"))

    connection.assert_shut_out()
    assert connection.answers.empty()


@on_stdio
def test_the_scopes_of_the_command_bound_what_its_user_may(users: Users, peers: Peers) -> None:
    reading, acting = peers(token_of(users.admin, "read")), peers(token_of(users.admin, "read", "actions"))

    more = set(acting.tools()) - set(reading.tools())

    assert "flights_flight_mark_cancelled" in more
    assert (
        reading.error(MODERN, "tools/call", {"name": "flights_flight_mark_cancelled", "arguments": {}})["code"]
        == -32602
    )


@on_stdio
def test_a_writing_call_reads_its_user_anew(users: Users, flights: Any, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 60, "TOKEN_CACHE_SECONDS": 60}
    peer = peers(token_of(users.admin))
    assert isinstance(peer, StdioPeer)
    assert "flights_flight_mark_cancelled" in peer.tools()

    User.objects.update(is_active=False)  # No signal.
    connection = peer.connection(MODERN)
    answer = connection.ask(
        modern(1, "tools/call", {"name": "flights_flight_mark_cancelled", "arguments": {"ids": [flights[0].pk]}})
    )

    assert answer["error"]["data"]["reason"] == "UNAUTHENTICATED"
    flights[0].refresh_from_db()
    assert flights[0].status != "cancelled"
