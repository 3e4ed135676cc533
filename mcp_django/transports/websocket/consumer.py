"""The socket: who may open it, what its frames are, and how it ends."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
from http import HTTPStatus
from typing import Any

from channels.consumer import AsyncConsumer

from mcp_django.access import origins, tickets
from mcp_django.access.authentication import authenticate, authenticate_login
from mcp_django.access.principals import Principal
from mcp_django.access.requests import MCPRequest, from_scope
from mcp_django.conf import get_conf
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import InternalError, InvalidRequest, MCPError, Unauthenticated
from mcp_django.protocol.revisions import LEGACY
from mcp_django.push.hub import get_hub
from mcp_django.push.shutdown import close_hub_at_shutdown
from mcp_django.sites import MCPSite, site
from mcp_django.transports.conversation import DuplexConversation
from mcp_django.workers import get_workers

JSON = dict[str, Any]

logger = logging.getLogger("mcp_django")

SUBPROTOCOL = "mcp"

# RFC 6455 §7.4.1.
_GOING_AWAY, _UNSUPPORTED_DATA, _POLICY, _TOO_BIG = 1001, 1003, 1008, 1009
#: Where the server lets an application say nothing but 1000 and 3000 to 4999, as Daphne does: 4001 stands for 1001.
_PRIVATE = 3000
_MAX_FAULTS = 10
_TOKEN_PREFIX = "mcp_"  # noqa: S105


class MCPConsumer(AsyncConsumer):  # type: ignore[misc]
    """A socket: one reader, one task a message, one writer at a time, and no channel of its own.

    Channels' own consumer would open a channel of the layer for each socket, and handle one message at a time.
    """

    is_counted = False
    #: Its session is its own.
    session_key = None

    def __init__(self, site: MCPSite = site) -> None:
        self.site = site

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self._asgi_send = send
        self._write_lock = asyncio.Lock()
        self._is_gone = False
        self._faults = 0
        self._ending: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        await receive()  # websocket.connect
        self.request = _with_bearer(from_scope(scope))
        try:
            self.principal = await get_workers().run(self._admit)
            subprotocol = self._subprotocol()
        except MCPError as error:
            await self._deny(error)
            return
        except Exception:
            logger.exception("A socket could not be opened")
            await self._deny(InternalError())
            return
        await send({"type": "websocket.accept", "subprotocol": subprotocol})
        hub = get_hub()
        close_hub_at_shutdown(hub)
        self.conversation = DuplexConversation(self.site, self.principal, self.request, self._write, self.close)
        hub.join(self)
        try:
            await self._read(receive)
        finally:
            hub.leave(self)
            self.conversation.leave()

    def close(self, *, going_away: bool = False) -> None:
        """End the socket, after its listens have been told."""
        if not self._ending.done():
            self._ending.set_result(_GOING_AWAY if going_away else _POLICY)

    # Who is there.

    def _admit(self) -> Principal:
        """The principal of the upgrade request. Raises MCPError."""
        ticket = tickets.take(self.request)
        if ticket is not None:
            origins.check(self.request)
            if self.request.META.get("HTTP_AUTHORIZATION"):
                raise _bad_request("Send a ticket or the header Authorization, not both.")
            return tickets.redeem(ticket)
        if self.request.META.get("HTTP_AUTHORIZATION") or not self.request.META.get("HTTP_COOKIE"):
            origins.check(self.request)
            return authenticate(self.request, fresh=True)
        # A browser sends the cookie whatever page asks it to, so the page must be one of ours.
        origins.check(self.request, required=True)
        return authenticate_login(self.request) or authenticate(self.request, fresh=True)

    def _subprotocol(self) -> str | None:
        """What is agreed on. Raises InvalidRequest."""
        offered = self.scope.get("subprotocols") or []
        if offered and SUBPROTOCOL not in offered:
            raise _bad_request(f"The only subprotocol is {SUBPROTOCOL!r}.")
        return SUBPROTOCOL if offered else None

    async def _deny(self, error: MCPError) -> None:
        """Refuse the upgrade: with an HTTP answer where the server can give it, else with the 403 of a close."""
        if "websocket.http.response" not in (self.scope.get("extensions") or {}):
            await self._asgi_send({"type": "websocket.close"})
            return
        body = jsonrpc.encode(jsonrpc.error_message(None, error, LEGACY))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if isinstance(error, Unauthenticated):
            headers.append((b"www-authenticate", error.challenge.encode("latin-1")))
        status = int(error.http_status or HTTPStatus.FORBIDDEN)
        await self._asgi_send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await self._asgi_send({"type": "websocket.http.response.body", "body": body})

    # Frames.

    async def _read(self, receive: Any) -> None:
        """Take frames in until the socket ends, from either side."""
        while True:
            receiving = asyncio.ensure_future(receive())
            try:
                await asyncio.wait({receiving, self._ending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not receiving.done():
                    receiving.cancel()
            if receiving.cancelled() or not receiving.done():
                await self._finish(self._ending.result())
                return
            received = receiving.result()
            if received["type"] == "websocket.disconnect":
                return
            if received["type"] == "websocket.receive":
                code = await self._take(received)
                if code is not None:
                    await self._finish(code)
                    return

    async def _take(self, received: JSON) -> int | None:
        """Take one frame in; the close code, if the socket is to end."""
        text = received.get("text")
        if text is None:
            return _UNSUPPORTED_DATA
        if len(text) > get_conf().MAX_BODY_BYTES or len(text.encode()) > get_conf().MAX_BODY_BYTES:
            return _TOO_BIG
        try:
            value = jsonrpc.decode(text)
            await self.conversation.take(value)
        except jsonrpc.Malformed as malformed:
            return await self._fault(malformed.error, malformed.request_id)
        except MCPError as error:
            return await self._fault(error, None)
        self._faults = 0
        return None

    async def _fault(self, error: MCPError, request_id: jsonrpc.RequestId | None) -> int | None:
        """Say what is wrong with a frame; a client that sends nothing else is shown out."""
        await self._write(jsonrpc.encode(jsonrpc.error_message(request_id, error, LEGACY)))
        self._faults += 1
        return _POLICY if self._faults >= _MAX_FAULTS else None

    async def _write(self, body: bytes) -> None:
        """Send a frame. To a client that is gone nothing is sent: the reader hears of it too, and ends the socket."""
        text = body.decode()
        async with self._write_lock:
            if self._is_gone:
                return
            try:
                await self._asgi_send({"type": "websocket.send", "text": text})
            except Exception:  # noqa: BLE001 - each server has its own
                self._is_gone = True

    async def _finish(self, code: int) -> None:
        """End the listens as the specification says, then the socket."""
        await self.conversation.finish()
        try:
            await self._asgi_send({"type": "websocket.close", "code": code})
        except Exception:  # noqa: BLE001 - each server has its own
            with contextlib.suppress(Exception):  # The client is gone.
                await self._asgi_send({"type": "websocket.close", "code": _PRIVATE + code})


def _bad_request(message: str) -> InvalidRequest:
    refused = InvalidRequest(message)
    refused.http_status = HTTPStatus.BAD_REQUEST
    return refused


def _with_bearer(request: MCPRequest) -> MCPRequest:
    """The request with a token that came as a Basic password taken for a Bearer token.

    The official Python client can send credentials only so, from ``ws://user:TOKEN@host``.
    """
    scheme, _, encoded = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return request
    try:
        _, _, password = base64.b64decode(encoded, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        return request
    if password.startswith(_TOKEN_PREFIX):
        request.META["HTTP_AUTHORIZATION"] = f"Bearer {password}"
    return request
