"""What the fuzzer, and reading the code as an adversary, have found: each once more by name."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from demo_project.flights.models import Flight
from mcp_django import ModelMCP, site
from mcp_django.core.db.interrupts import Interruptible
from mcp_django.core.hooks import call_hook
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import from_settings
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import ParseError
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.push.hub import get_hub
from mcp_django.transports.lasting.duplex import DuplexConnection
from tests.axes import HTTP
from tests.fuzz.strict import be_strict
from tests.shop.models import Product
from tests.support.asking import DirectPeer, errors_of
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import HTTPPeer, Peer, Peers, Socket, SocketPeer, meta
from tests.support.raw import send_modern, send_raw

pytestmark = pytest.mark.every_transport

NULL = "a\x00b"


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What is logged as an error from now on."""
    caplog.set_level(logging.ERROR)
    return caplog.records


# Null characters, which PostgreSQL takes in no text and in no JSON.


def test_a_client_with_a_null_character_in_its_name_is_served(
    admin: Peer, monkeypatch: pytest.MonkeyPatch, errors: list[logging.LogRecord]
) -> None:
    be_strict(monkeypatch)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"experimental": {NULL: {NULL: NULL}}},
        "clientInfo": {"name": NULL, "version": NULL},
    }

    raw = send_raw(admin, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))

    assert raw.message["result"]["protocolVersion"] == "2025-11-25"
    assert errors == []


def test_a_request_whose_id_holds_a_null_character_may_stream(
    admin: Peer, declared: Declared, monkeypatch: pytest.MonkeyPatch, errors: list[logging.LogRecord]
) -> None:
    def tell(request: Any) -> str:
        """Tells how far it is."""
        request.mcp.progress(1)
        return "done"

    be_strict(monkeypatch)
    declared.tool(tell, read_only=True)
    revision = "2025-11-25"
    message = {"jsonrpc": "2.0", "id": NULL, "method": "tools/call", "params": {"name": "tell", "arguments": {}}}
    message["params"] |= {"_meta": {"progressToken": NULL}}
    if isinstance(admin, HTTPPeer):
        body = json.dumps(message).encode()
        session = {"Mcp-Session-Id": admin.session(revision), "MCP-Protocol-Version": revision}
        answer = admin.http("POST", body, session)
        said = [json.loads(line[6:]) for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
    else:
        connection = admin.connection(revision)  # type: ignore[attr-defined]
        said = [connection.ask(message)]

    assert said[-1]["id"] == NULL
    assert said[-1]["result"]["content"] == [{"type": "text", "text": "done"}]
    assert errors == []


@pytest.mark.parametrize("transport", HTTP)
def test_a_response_of_any_id_is_taken_and_dropped(
    admin: HTTPPeer, monkeypatch: pytest.MonkeyPatch, errors: list[logging.LogRecord]
) -> None:
    be_strict(monkeypatch)
    session = {"Mcp-Session-Id": admin.session("2025-11-25"), "MCP-Protocol-Version": "2025-11-25"}
    ids = [NULL, "\x00", "mcp_django-\x00", 10**99, "x" * 1000]

    answers = [admin.post({"jsonrpc": "2.0", "id": one, "result": {}}, session) for one in ids]

    assert [(answer.status, answer.body) for answer in answers] == [(202, b"")] * len(ids)
    assert errors == []


# Values that a Decimal or a timedelta can hold, and a database cannot.


def test_a_number_that_no_database_holds_is_out_of_range(
    transactional_db: None, declared: Declared, errors: list[logging.LogRecord]
) -> None:
    declared.model(Product, ModelMCP)
    peer = DirectPeer(make_staff("buyer", "shop.view_product"))

    for condition, value in [
        ("lead_time__gt", "P999999999D"), ("lead_time__lt", "-P999999999D"), ("price__gt", "1e-999999"),
        ("price__gt", "0e-999999"), ("price__gt", "1." + "1" * 200),
    ]:  # fmt: skip
        [error] = errors_of(peer.call("find_records", model="shop.product", filter={condition: value}))
        assert (error["field"], error["message"]) == (f"filter.{condition}", "is out of range.")
    assert errors == []


# Work that a body of a megabyte can ask for.


@pytest.mark.own_form
@pytest.mark.parametrize("transport", ["http-asgi"])
def test_fifty_thousand_wrong_values_are_not_written_down_one_by_one(admin: Peer) -> None:
    raw = send_modern(admin, "subscriptions/listen", {"notifications": {"resourceSubscriptions": [1] * 50_000}})

    expected = "Invalid params of subscriptions/listen: 50000 values are wrong."
    assert raw.message["error"]["message"] == expected
    assert raw.message["error"]["data"] == {"reason": "INVALID_PARAMS", "errors": []}


def test_items_of_a_list_that_is_too_long_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    schema = Schema({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "maxItems": 1000})
    checker = schema._validator.TYPE_CHECKER
    monkeypatch.setattr(type(checker), "is_type", lambda self, value, kind: looked.append(kind) or kind == "array")

    errors = schema.errors([None] * 300_000)

    assert len(errors) == 1
    assert len(looked) < 10


def test_a_list_without_a_limit_is_looked_at_up_to_a_limit_of_ours() -> None:
    schema = Schema({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}})

    [error] = schema.errors([[1]] * 150_000)

    assert error == {
        "field": "", "message": "is nested too deeply, or too large, to be validated", "received": "array"
    }  # fmt: skip
    assert schema.errors([[1] * 1000] * 100) == []


def test_a_row_of_digits_is_gone_through_once() -> None:
    assert not jsonrpc._may_overflow(b"1" * 299)
    assert jsonrpc._may_overflow(b"x" + b"1" * 300)
    assert [found.span() for found in jsonrpc._DIGITS.finditer(b"x" + b"1" * 600 + b"x")] == [(1, 601)]


def test_a_number_that_only_infinity_could_hold_is_looked_for() -> None:
    for number in ("1e400", "1E400", "1e+400", "-1e0400", "0.1e4000", "[1, 1e999]", "1" * 400 + ".0"):
        assert jsonrpc._may_overflow(number.encode()), number
        with pytest.raises(ParseError, match="out of range"):
            jsonrpc.decode(number)


# A request that was given up.


def test_a_hook_that_fails_since_its_request_was_given_up_is_not_logged_and_is_no_refusal(
    transactional_db: None, errors: list[logging.LogRecord]
) -> None:
    queries = Interruptible()

    with pytest.raises(Exception, match="cancelled"), queries.answering():
        queries.interrupted = True
        call_hook(Flight.objects.count, 0, "FlightAdmin.get_queryset")

    assert errors == []


@pytest.mark.parametrize("transport", ["websocket", "stdio"])
def test_a_client_that_cancels_whatever_it_asks_leaves_no_error_in_the_log(
    admin: Any, flights: Any, errors: list[logging.LogRecord]
) -> None:
    connection = admin.connection("2025-11-25")
    for number in range(20):
        call = {"name": "find_records", "arguments": {"model": "flights.flight"}}
        connection.send({"jsonrpc": "2.0", "id": f"given up {number}", "method": "tools/call", "params": call})
        given_up = {"requestId": f"given up {number}", "reason": NULL}
        connection.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": given_up})

    connection.send({"jsonrpc": "2.0", "id": "last", "method": "tools/list"})
    answer = connection.answer()
    while answer["id"] != "last":  # Some were answered before they were given up.
        answer = connection.answer()

    assert "find_records" in [tool["name"] for tool in answer["result"]["tools"]]
    assert errors == []


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_keys_with_null_characters_name_no_session_and_no_stream(
    admin: HTTPPeer, monkeypatch: pytest.MonkeyPatch, errors: list[logging.LogRecord]
) -> None:
    be_strict(monkeypatch)
    session = {"Mcp-Session-Id": admin.session("2025-11-25"), "MCP-Protocol-Version": "2025-11-25"}

    unknown = admin.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Mcp-Session-Id": NULL})
    rest = admin.http("GET", headers={**session, "Accept": "text/event-stream", "Last-Event-ID": f"{NULL}-1"})

    assert (unknown.status, rest.status) == (404, 405)
    assert errors == []


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_cookie_that_hides_a_null_character_opens_no_socket_and_leaves_no_traceback(
    users: Any, peers: Peers, monkeypatch: pytest.MonkeyPatch, errors: list[logging.LogRecord]
) -> None:
    be_strict(monkeypatch)
    headers = {"Cookie": 'sessionid="aaaaaaaa\\000aaaaaaaa"', "Origin": "http://localhost"}
    peer = peers(None)
    assert isinstance(peer, SocketPeer)

    socket = Socket(peer.loop, peer.application, headers)

    assert socket.refused[0]["status"] == 401
    assert errors == []


def test_a_client_that_leaves_as_its_listen_opens_leaves_no_listener_behind(
    users: Any, serving_loop: LoopThread
) -> None:
    principal = Principal(users.admin, frozenset({"read"}), source=Source.COMMAND)
    request = from_settings().for_principal(principal)
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}
    message["params"] = {"notifications": {"toolsListChanged": True}, "_meta": meta()}

    async def listen_and_leave() -> tuple[list[bytes], int]:
        said: list[bytes] = []
        left = asyncio.Event()

        def leave() -> None:
            conversation.leave()
            left.set()

        async def write(body: bytes) -> None:
            said.append(body)
            # Behind this step of the task that writes, and before the first one of the listen's own.
            asyncio.get_running_loop().call_soon(leave)

        conversation = DuplexConnection(site, principal, request, write, lambda: None, transport="test")
        await conversation.take(message)
        await asyncio.wait_for(left.wait(), 60)
        await asyncio.sleep(0)
        return said, len(get_hub()._listeners)

    [acknowledgement], listeners = serving_loop.run(listen_and_leave())

    assert json.loads(acknowledgement)["method"] == "notifications/subscriptions/acknowledged"
    assert listeners == 0
