"""Protobuf over HTTP: each direction by itself, and errors as clear as those of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_django.protocol import jsonrpc, protobuf
from mcp_django.protocol import mcp_pb2 as pb
from mcp_django.transports.http import formats
from mcp_django.transports.http.formats import PROTOBUF_STREAM_TYPE, PROTOBUF_TYPE
from tests.conftest import HTTP
from tests.support.declared import Declared
from tests.support.http import parse_events
from tests.support.peers import MODERN, Answered, HTTPPeer, Peers, meta
from tests.support.protobuf import sse_event

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
SENDS = {"Content-Type": PROTOBUF_TYPE}
WANTS = {"Accept": f"{PROTOBUF_TYPE}, {PROTOBUF_STREAM_TYPE}"}

pytestmark = [pytest.mark.own_form, pytest.mark.parametrize("transport", HTTP)]


def packed(message: Any) -> bytes:
    return protobuf.encode(json.dumps(message).encode())


def unpacked(answer: Answered) -> Any:
    assert answer.headers["content-type"] == PROTOBUF_TYPE
    return protobuf.decode(answer.body)


def events(body: bytes) -> list[Any]:
    """The messages of a stream that is read to its end."""
    written = b""
    while body:
        length, begin = body[0], 1
        if length & 0x80:
            length, begin = (length & 0x7F) | body[1] << 7, 2
        written += sse_event(pb.Event.FromString(body[begin : begin + length]))
        body = body[begin + length :]
    return [json.loads(event.data) for event in parse_events(written) if event.data]


def test_both_directions_may_be_protobuf(admin: HTTPPeer) -> None:
    assert unpacked(admin.http("POST", packed(PING), {**SENDS, **WANTS})) == PONG


def test_a_message_of_protobuf_may_be_answered_in_json(admin: HTTPPeer) -> None:
    answer = admin.http("POST", packed(PING), SENDS)

    assert (answer.headers["content-type"], answer.json) == ("application/json", PONG)


def test_a_message_of_json_may_be_answered_in_protobuf(admin: HTTPPeer) -> None:
    assert unpacked(admin.http("POST", json.dumps(PING).encode(), WANTS)) == PONG


@pytest.mark.parametrize("accept", ["*/*", "application/*", "application/json, application/mcp+protobuf;q=0"])
def test_protobuf_comes_only_where_it_is_named(admin: HTTPPeer, accept: str) -> None:
    assert admin.http("POST", packed(PING), {**SENDS, "Accept": accept}).json == PONG


def test_types_may_have_parameters_and_any_case(admin: HTTPPeer) -> None:
    headers = {"Content-Type": "Application/MCP+Protobuf; v=1", "Accept": "APPLICATION/MCP+PROTOBUF;q=0.5"}

    assert unpacked(admin.http("POST", packed(PING), headers)) == PONG


def test_a_caller_who_is_not_known_is_refused_in_protobuf(peers: Peers, users: Any) -> None:
    answer = peers(None).http("POST", packed(PING), {**SENDS, **WANTS})

    assert (answer.status, unpacked(answer)["error"]["data"]["reason"]) == (401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("body", [packed(PING)[:-1], b"\xff" * 50, json.dumps(PING).encode(), packed(PING) * 2, b""])
def test_bytes_that_are_no_message_are_refused(admin: HTTPPeer, body: bytes) -> None:
    answer = admin.http("POST", body, {**SENDS, **WANTS})

    assert answer.status == 400
    assert unpacked(answer)["error"]["code"] == -32700


def test_a_body_that_is_too_long_is_refused_before_it_is_read(admin: HTTPPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 50_000}
    long = {**PING, "params": {"a": "x" * 60_000}}

    answer = admin.http("POST", packed(long), {**SENDS, **WANTS})

    assert (answer.status, unpacked(answer)["error"]["data"]["reason"]) == (413, "REQUEST_ENTITY_TOO_LARGE")


def test_a_body_over_16_kb_is_read(admin: HTTPPeer) -> None:
    assert unpacked(admin.http("POST", packed({**PING, "params": {"a": "x" * 40_000}}), {**SENDS, **WANTS})) == PONG


def test_what_goes_before_an_answer_makes_it_a_sequence(admin: HTTPPeer, declared: Declared, transport: str) -> None:
    def chatty(request: Any) -> str:
        """Tells how far it is."""
        request.mcp.progress(1, total=2, message="half")
        return "done"

    declared.tool(chatty)
    params = {"name": "chatty", "arguments": {}, "_meta": meta(MODERN, progressToken="t")}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    headers = {**admin.modern_headers("tools/call", params), **SENDS, **WANTS}

    answer = admin.http("POST", packed(message), headers)

    assert answer.headers["content-type"] == PROTOBUF_STREAM_TYPE
    progress, result = events(answer.body)
    assert (progress["method"], progress["params"]["message"]) == ("notifications/progress", "half")
    assert (result["id"], result["result"]["content"][0]["text"]) == (7, "done")


def test_a_client_that_takes_no_sequence_gets_the_answer_alone(admin: HTTPPeer, declared: Declared) -> None:
    def chatty(request: Any) -> str:
        """Tells how far it is."""
        request.mcp.progress(1, total=2, message="half")
        return "done"

    declared.tool(chatty)
    params = {"name": "chatty", "arguments": {}, "_meta": meta(MODERN, progressToken="t")}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    headers = {**admin.modern_headers("tools/call", params), **SENDS, "Accept": PROTOBUF_TYPE}

    assert unpacked(admin.http("POST", packed(message), headers))["result"]["content"][0]["text"] == "done"


def test_a_session_of_an_older_revision_is_opened_and_ended(admin: HTTPPeer) -> None:
    client = {"name": "tests", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    opened = admin.http("POST", packed({**PING, "method": "initialize", "params": params}), {**SENDS, **WANTS})
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], **SENDS, **WANTS}

    listed = unpacked(admin.http("POST", packed({**PING, "method": "tools/list"}), session))

    assert unpacked(opened)["result"]["protocolVersion"] == "2025-11-25"
    assert any(tool["name"] == "find_records" for tool in listed["result"]["tools"])
    assert admin.http("DELETE", b"", session).status == 204
    ended = admin.http("POST", packed({**PING, "method": "tools/list"}), session)
    assert (ended.status, unpacked(ended)["error"]["data"]["reason"]) == (404, "SESSION_NOT_FOUND")


def test_a_batch_is_answered_as_a_batch(admin: HTTPPeer) -> None:
    session = {"Mcp-Session-Id": admin.session("2025-03-26"), **SENDS, **WANTS}

    answer = unpacked(admin.http("POST", packed([PING, {**PING, "id": "b"}]), session))

    assert answer == [PONG, {**PONG, "id": "b"}]


def test_without_the_package_there_is_json_alone(admin: HTTPPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where protobuf is not installed, its import fails."""

    def fail(self: Any) -> None:
        raise ImportError

    monkeypatch.setattr(formats.ProtobufFormat, "__init__", fail)
    formats.protobuf_format.cache_clear()
    try:
        refused = admin.http("POST", packed(PING), SENDS)
        answered = admin.http("POST", json.dumps(PING).encode(), {"Accept": f"{PROTOBUF_TYPE}, application/json"})
    finally:
        formats.protobuf_format.cache_clear()

    assert (refused.status, refused.json["error"]["message"]) == (415, "Send Content-Type: application/json.")
    assert answered.json == PONG


def test_an_answer_is_the_same_in_both_formats(admin: HTTPPeer, flights: Any) -> None:
    params = {"name": "find_records", "arguments": {"model": "flights.flight"}, "_meta": meta(MODERN)}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = admin.modern_headers("tools/call", params)

    packed_answer = unpacked(admin.http("POST", packed(message), {**headers, **SENDS, **WANTS}))

    assert jsonrpc.encode(packed_answer) == jsonrpc.encode(
        admin.http("POST", json.dumps(message).encode(), headers).json
    )
