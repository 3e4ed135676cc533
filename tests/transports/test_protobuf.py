"""Protobuf over HTTP: each direction by itself, and errors as clear as those of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_django.protocol import mcp_pb2 as pb
from mcp_django.protocol import protobuf
from mcp_django.transports.http import formats
from mcp_django.transports.http.formats import PROTOBUF_STREAM_TYPE, PROTOBUF_TYPE
from tests.axes import HTTP
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


def test_either_direction_may_be_protobuf(admin: HTTPPeer) -> None:
    headers = {"Content-Type": "Application/MCP+Protobuf; v=1", "Accept": "APPLICATION/MCP+PROTOBUF;q=0.5"}
    large = packed({**PING, "params": {"a": "x" * 40_000}})

    in_json = admin.http("POST", packed(PING), SENDS)

    assert (in_json.headers["content-type"], in_json.json) == ("application/json", PONG)
    assert unpacked(admin.http("POST", json.dumps(PING).encode(), WANTS)) == PONG
    assert unpacked(admin.http("POST", packed(PING), headers)) == PONG
    assert unpacked(admin.http("POST", large, {**SENDS, **WANTS})) == PONG


def test_protobuf_comes_only_where_it_is_named(admin: HTTPPeer) -> None:
    for accept in ("*/*", "application/*", "application/json, application/mcp+protobuf;q=0"):
        assert admin.http("POST", packed(PING), {**SENDS, "Accept": accept}).json == PONG


def test_a_caller_who_is_not_known_is_refused_in_protobuf(peers: Peers, users: Any) -> None:
    answer = peers(None).http("POST", packed(PING), {**SENDS, **WANTS})

    assert (answer.status, unpacked(answer)["error"]["data"]["reason"]) == (401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_bytes_that_are_no_message_are_refused(admin: HTTPPeer) -> None:
    for body in (packed(PING)[:-1], b"\xff" * 50, json.dumps(PING).encode(), packed(PING) * 2, b""):
        answer = admin.http("POST", body, {**SENDS, **WANTS})

        assert (answer.status, unpacked(answer)["error"]["code"]) == (400, -32700)


def test_what_goes_before_an_answer_makes_it_a_sequence_for_clients_that_take_one(
    admin: HTTPPeer, declared: Declared
) -> None:
    def chatty(request: Any) -> str:
        """Tells how far it is."""
        request.mcp.progress(1, total=2, message="half")
        return "done"

    declared.tool(chatty)
    params = {"name": "chatty", "arguments": {}, "_meta": meta(MODERN, progressToken="t")}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    headers = {**admin.modern_headers("tools/call", params), **SENDS, **WANTS}

    answer = admin.http("POST", packed(message), headers)
    alone = unpacked(admin.http("POST", packed(message), {**headers, "Accept": PROTOBUF_TYPE}))

    assert alone["result"]["content"][0]["text"] == "done"
    assert answer.headers["content-type"] == PROTOBUF_STREAM_TYPE
    progress, result = events(answer.body)
    assert (progress["method"], progress["params"]["message"]) == ("notifications/progress", "half")
    assert (result["id"], result["result"]["content"][0]["text"]) == (7, "done")


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
