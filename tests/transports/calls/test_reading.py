"""Who may read the stream of a call, how much of it there may be, and what is not an answer."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from demo_project.flights.models import Airline
from mcp_django import ModelMCP, site
from mcp_django.exchange.cancellation import Cancellation, Running
from mcp_django.models import StreamEvent
from mcp_django.transports.http import asgi, event_log
from mcp_django.transports.http.endpoint import EndpointView
from mcp_django.transports.http.messages import HTTPResponse
from mcp_django.transports.http.routes import Route
from tests.end_to_end.servers import wait_for
from tests.support.asgi import ASGICall
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.http import ASGIPeer
from tests.support.peers import MODERN, Message, Peers, Socket, SocketPeer
from tests.support.talking import call, in_session, talk
from tests.transports.calling import Gate, begin, message, resume
from tests.transports.calls.conftest import HTTP_ASGI, LEVEL, bypassing_middleware, hub_of, over_http, text_of

ORIGIN = "https://app.example.com"


# Who may read it, and how much of it there may be.


@over_http
def test_a_page_of_an_allowed_origin_may_read_the_stream(peer: ASGIPeer, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "ALLOWED_ORIGINS": [ORIGIN]}
    stream = begin(peer, "count", "2025-11-25", headers={"Origin": ORIGIN}, _meta={"progressToken": 1})
    assert stream.headers["content-type"] == "text/event-stream"
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.3}
    timed_out = begin(peer, "slow", MODERN, headers={"Origin": ORIGIN})

    for answer in (stream, timed_out):
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["vary"] == "Origin"
    gate.opened.set()


@over_http
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_ten_thousand_steps(peer: ASGIPeer, revision: str) -> None:
    """Those that do not fit are left out, and everybody else is answered meanwhile."""
    params = {"name": "count", "arguments": {"steps": 10_000}, "_meta": {"progressToken": 1}}

    said = talk(peer, revision, "tools/call", params)

    steps = [step for step, _, _ in said.progress]
    assert steps == sorted(set(steps))
    assert said.text == "counted"
    assert StreamEvent.objects.count() == (len(steps) + 1 if revision != MODERN else 0)


@bypassing_middleware
def test_a_flood_for_a_client_that_is_gone_holds_up_nobody(peer: ASGIPeer, gate: Gate) -> None:
    """A legacy call goes on without its client; what it says goes nowhere, and the loop has other things to do."""
    stream = begin(peer, "until_cancelled", "2025-11-25")
    assert gate.reached.wait(30)
    stream.leave()

    assert peer.result("2025-11-25", "ping") == {}
    gate.opened.set()


class Stalled:
    """A client that reads the beginning of an answer, and nothing after it, but whose connection stays."""

    def __init__(self, peer: ASGIPeer, message: Message, headers: dict[str, str]) -> None:
        self.loop = peer.loop
        self.first = b""
        self.loop.run(self._open(peer, peer.scope("POST", peer.headers(headers)), json.dumps(message).encode()))

    async def _open(self, peer: ASGIPeer, scope: Message, body: bytes) -> None:
        self._begun = asyncio.Event()
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.task = asyncio.ensure_future(peer.application(scope, self.inbox.get, self._send))
        await self.inbox.put({"type": "http.request", "body": body, "more_body": False})
        await asyncio.wait_for(self._begun.wait(), 30)

    async def _send(self, sent: Message) -> None:
        if sent["type"] == "http.response.body":
            self.first = sent["body"]
            self._begun.set()
            await asyncio.Event().wait()

    def leave(self) -> None:
        async def leave() -> None:
            await self.inbox.put({"type": "http.disconnect"})
            await asyncio.wait({self.task}, timeout=30)

        self.loop.run(leave())


@over_http
def test_who_comes_back_does_not_wait_for_the_connection_that_was_lost(
    peer: ASGIPeer, gate: Gate, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is not told of every lost connection: it takes it for a client that reads slowly."""
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 5_000}
    monkeypatch.setattr(event_log, "_READER_SECONDS", 0.1)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "until_cancelled"}}
    lost = Stalled(peer, body, in_session(peer, "2025-11-25"))
    priming = lost.first.decode().split("id: ")[1].split("\n")[0]
    wait_for(lambda: StreamEvent.objects.count() > 30, "more events than wait for a client")
    gate.opened.set()

    *_, answer = resume(peer, "2025-11-25", priming).events()

    assert text_of(message(answer)) == "stopped"
    lost.leave()


@over_http
def test_a_client_that_does_not_read_has_no_more_time_than_others(peer: ASGIPeer, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 5_000, "REQUEST_SECONDS": 2.0}
    params = {"name": "until_cancelled", "_meta": peer.meta(**{LEVEL: "info"})}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    stalled = Stalled(peer, body, peer.modern_headers("tools/call", params))

    assert gate.left.wait(30)

    assert gate.cancelled
    stalled.leave()


@over_http
def test_what_a_request_says_gives_it_no_more_time(peer: ASGIPeer, gate: Gate, settings: Any) -> None:
    """The tool says something every moment. If its time began anew with that, it would never end."""
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 2.0}
    peer.session("2025-11-25")

    said = call(peer, "until_cancelled", "2025-11-25")

    assert said.answer["error"]["data"]["reason"] == "REQUEST_TIMED_OUT"
    assert gate.left.wait(30)
    assert gate.cancelled


# What is not an answer.


@pytest.mark.parametrize("transport", [*HTTP_ASGI, "websocket", "stdio"])
def test_a_handler_that_wants_to_end_the_process(declared: Declared, users: Any, peers: Peers) -> None:
    def leave(request: Any) -> str:
        """Exit."""
        raise SystemExit(3)

    declared.resource("leave://it", leave)
    declared.tool(leave)
    peer = peers(token_of(users.admin))

    for revision in ("2025-11-25", MODERN):
        error = peer.error(revision, "resources/read", {"uri": "leave://it"})
        assert (error["code"], error["data"]) == (-32603, {"reason": "INTERNAL_ERROR"})
        assert peer.call("leave", revision)["isError"] is True


@over_http
def test_nothing_but_what_it_listens_to_goes_on_the_stream_of_a_listen(
    peer: ASGIPeer, declared: Declared, flights: Any
) -> None:
    """A hook that logs does not take the place of the acknowledgement."""

    class Chatty(ModelMCP):
        def get_queryset(self, request: Any) -> Any:
            if hasattr(request, "exchange"):
                request.mcp.log("error", "looked")
                request.mcp.progress(1)
            return super().get_queryset(request)

    declared.model(Airline, Chatty)
    wanted = {"resourceSubscriptions": ["db://flights/airline/UA"]}
    params = {"notifications": wanted, "_meta": peer.meta(**{LEVEL: "debug", "progressToken": 1})}
    body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}

    stream = peer.stream("POST", MODERN, peer.modern_headers(body["method"], params), json.dumps(body).encode())

    opened = stream.next()
    assert opened["method"] == "notifications/subscriptions/acknowledged"
    assert opened["params"]["notifications"] == wanted


@bypassing_middleware
def test_a_stream_that_is_never_begun_is_given_up(peer: ASGIPeer, gate: Gate) -> None:
    """The server ends a request just when its answer is there."""
    peer.session("2025-11-25")

    async def run() -> None:
        class EndingView(EndpointView):
            async def respond_on_loop(self) -> HTTPResponse:
                response = await super().respond_on_loop()
                task.cancel()
                return response

        application = asgi.HTTPApplication(site, Route("mcp", "endpoint", EndingView))
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "slow", "_meta": peer.meta(**{LEVEL: "info"})}}  # fmt: skip
        scope = peer.scope("POST", peer.headers(peer.modern_headers("tools/call", body["params"])))
        exchange = ASGICall(application, scope)
        task = exchange.task
        await exchange.inbox.put({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
        await asyncio.wait({task}, timeout=30)
        assert task.cancelled()

    peer.loop.run(run())

    gate.opened.set()
    assert gate.left.wait(30)
    assert gate.cancelled
    wait_for(lambda: not hub_of(peer)._members, "the end of the call")


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_that_breaks_while_it_is_written_to_is_no_error(
    peer: SocketPeer, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """Servers raise, each its own exception, where an application writes to a client that is gone."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        async def send_or_fail(sent: Message) -> None:
            if sent["type"] == "websocket.send":
                raise OSError("the client is gone")
            await send(sent)

        await peer.application(scope, receive, send_or_fail)

    socket = Socket(peer.loop, application, {"Authorization": f"Bearer {peer.token}"})
    params = {"name": "slow", "_meta": peer.meta(**{LEVEL: "info"})}
    socket.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert gate.reached.wait(30)
    gate.opened.set()
    assert gate.left.wait(30)

    socket.close()

    # What becomes of the tasks of the one is known before the other is answered.
    assert peer.result("2025-11-25", "ping") == {}
    gc.collect()
    assert caplog.records == []


def test_requests_begin_while_the_sweep_asks_which_there_are() -> None:
    """Each holds the lock: a dictionary of weak references alone is not safe for that."""
    running, held = Running(), []

    class Watched(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            held.append(running._lock.locked())
            super().__setitem__(key, value)

        def __iter__(self) -> Iterator[str]:
            held.append(running._lock.locked())
            return super().__iter__()

    running._cancellations = Watched()  # type: ignore[assignment]
    running["mine"] = Cancellation()

    assert list(running) == ["mine"]
    assert held == [True, True]
