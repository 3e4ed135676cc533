"""A client may go away at any moment, and a tool may try anything: nothing of it stays, and the server goes on."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application
from django.db import connection
from django.http import HttpRequest

from mcp_django import MCPSite, site
from mcp_django.bridge.tools.base import Annotations
from mcp_django.bridge.tools.function import FunctionTool
from mcp_django.core.db.interrupts import Interruptible
from mcp_django.core.running.workers import get_workers
from mcp_django.exchange.cancellation import Cancellation
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.jsonrpc import encode
from mcp_django.push.hub import Hub, _hubs, get_hub
from mcp_django.push.listeners import Listener
from mcp_django.push.subscriptions import watch
from mcp_django.server.dispatch import respond
from mcp_django.transports.http.formats import JSON_FORMAT
from mcp_django.transports.http.streams import ListenerStream
from tests.support.asking import request_of
from tests.support.data import token_of
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, ASGICall, ASGIPeer, Message, Peers, meta
from tests.transports import waiting


async def _hub() -> Hub:
    return get_hub()


def listen(peer: ASGIPeer) -> tuple[Message, Message]:
    """The scope and the body of a listen."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta()}
    body = encode({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params})
    headers = peer.headers(peer.modern_headers("subscriptions/listen", params))
    return peer.scope("POST", headers), {"type": "http.request", "body": body, "more_body": False}


@pytest.mark.parametrize("transport", ["http-view-asgi"])
def test_a_client_that_leaves_while_middleware_holds_its_stream_leaves_no_listener(
    peers: Peers, users: Any, settings: Any, serving_loop: LoopThread
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.transports.waiting.hold_back"]
    settings.MCP = {**settings.MCP, "BYPASS_MIDDLEWARE": True}  # Otherwise there is no stream behind it.
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    peer.application = get_asgi_application()
    hub = serving_loop.run(_hub())
    scope, sent = listen(peer)

    async def leave() -> None:
        call = ASGICall(peer.application, scope)
        await call.inbox.put(sent)
        await waiting.holding.wait()
        assert len(hub._listeners) == 1
        await call.disconnect("http.disconnect")
        del call
        while hub._listeners:
            gc.collect()
            await asyncio.sleep(0.01)

    serving_loop.run(leave())


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_client_that_leaves_before_its_stream_begins_leaves_no_listener(
    peers: Peers, users: Any, serving_loop: LoopThread
) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    hub = serving_loop.run(_hub())
    scope, sent = listen(peer)

    async def refuse(message: Any) -> None:
        assert message["status"] == 200
        assert len(hub._listeners) == 1
        raise ConnectionResetError

    async def leave() -> None:
        received: asyncio.Queue[Any] = asyncio.Queue()
        await received.put(sent)
        with pytest.raises(ConnectionResetError):
            await peer.application(scope, received.get, refuse)

    serving_loop.run(leave())

    assert not hub._listeners


@pytest.mark.parametrize("transport", ["http-view-asgi"])
def test_a_stream_that_middleware_wraps_in_a_response_of_its_own_is_told(
    peers: Peers, users: Any, flights: Any, settings: Any
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.transports.waiting.wrap_again"]
    settings.MCP = {**settings.MCP, "BYPASS_MIDDLEWARE": True}  # Otherwise there is no stream behind it.
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    peer.application = get_asgi_application()

    watching = peer.watch(MODERN, ["db://flights/flight/1"])
    flights[0].save()

    assert watching.uris(1) == ["db://flights/flight/1"]


def listener_of(user: User) -> Listener:
    request = request_of(user)
    return Listener(site=site, principal=request.mcp.principal, request=request, subscription_id=1)


def test_a_subscription_of_a_listener_that_has_gone_is_not_indexed(db: None, serving_loop: LoopThread) -> None:
    gone = listener_of(User.objects.create_superuser("root"))
    subscription = watch(site, "db://flights/flight/1")
    assert subscription is not None

    async def watch_too_late() -> dict[Any, Any]:
        hub = get_hub()
        hub.add(gone)
        hub.remove(gone)
        hub.watch(gone, subscription)
        return hub._index["flights.flight"]

    assert serving_loop.run(watch_too_late()) == {}


def test_watching_again_what_is_watched_loses_nothing_that_is_pending(db: None, serving_loop: LoopThread) -> None:
    uri = "db://flights/flight/1"
    listener = listener_of(User.objects.create_superuser("root"))

    async def watch_twice() -> Any:
        hub = get_hub()
        hub.add(listener)
        for _ in range(2):
            subscription = watch(site, uri)
            assert subscription is not None
            hub.watch(listener, subscription)
            listener.notify_updated(uri)
        return await listener.next()

    assert [json.loads(body)["params"]["uri"] for body in serving_loop.run(watch_twice())] == [uri]


def test_a_stream_that_is_given_up_after_its_hub_ended_makes_no_other_hub(db: None, serving_loop: LoopThread) -> None:
    stream = ListenerStream(JSON_FORMAT, listener_of(User.objects.create_superuser("root")))

    async def give_up() -> None:
        stream.abandon()

    serving_loop.run(give_up())

    assert serving_loop.loop not in _hubs


def test_a_forked_child_has_workers_of_its_own(serving_loop: LoopThread) -> None:
    assert serving_loop.run(get_workers().run(lambda: 1)) == 1

    child = os.fork()
    if not child:
        try:
            os._exit(asyncio.run(asyncio.wait_for(get_workers().run(lambda: 7), 30)))
        except Exception:  # noqa: BLE001 - the child must end here, whatever happened
            traceback.print_exc()
            os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_interrupt_of_what_has_not_begun_holds_nobody_up(db: None) -> None:
    waiting_request = Interruptible()

    waiting_request.interrupt()

    with waiting_request.answering(), pytest.raises(Exception, match="cancelled"):
        connection.ensure_connection()
        connection.cursor().execute("SELECT 1")


class _Tidy(MCPSite):
    """Undoes in the database what it did there."""

    undone = False

    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            self.undone = True


class _NoConnection:
    push = False
    headers = None


def test_the_context_of_a_cancelled_call_is_undone(db: None) -> None:
    tidy = _Tidy("tidy")
    cancellation = Cancellation()

    def give_up(request: HttpRequest) -> str:
        """Be cancelled in the middle."""
        cancellation.cancel()
        cancellation.queries.interrupted = True
        return str(User.objects.count())

    tidy.add_tool(FunctionTool(give_up, annotations=Annotations(read_only=True)))
    request = request_of(User.objects.create_superuser("root"))
    connection_: Any = _NoConnection()
    reply = respond(
        Exchange(
            site=tidy, principal=request.mcp.principal, revision=MODERN, method="tools/call",
            params={"name": "give_up", "arguments": {}, "_meta": meta()}, request_id=1, client=Client(),
            connection=connection_, request=request, cancellation=cancellation,
        )
    )  # fmt: skip

    assert reply.failed
    assert tidy.undone
