"""The two methods of the service, for one client each: how it is let in, what it says, and the status at the end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import unquote

import grpc
from django.conf import settings
from grpc.aio import ServicerContext

from mcp_django.access import challenges
from mcp_django.access.authentication import key_of
from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import run_patiently
from mcp_django.exceptions import MCPError
from mcp_django.exchange.addresses import address_behind
from mcp_django.exchange.requests import MCPRequest, from_scope, from_settings
from mcp_django.protocol import jsonrpc, protobuf
from mcp_django.protocol.errors import InvalidRequest, Paused, Unauthenticated
from mcp_django.server import trail
from mcp_django.transports.http.bodies import SMALL_BODY_BYTES, memory
from mcp_django.transports.http.messages import headers_of
from mcp_django.transports.lasting import admission
from mcp_django.transports.lasting.duplex import DuplexConnection
from mcp_django.transports.lasting.duplex_request import era_of_message
from mcp_django.transports.lasting.frames import FrameWire
from mcp_django.transports.lasting.lasting import Ending, LastingConnection
from mcp_django.transports.pacing import hold_refusal

TRANSPORT = "grpc"

#: Why a session ends, as its client is told (grpc.io/docs/guides/status-codes). An idle one ends with OK.
_ENDINGS: Mapping[Ending, tuple[grpc.StatusCode, str]] = {
    Ending.GOING_AWAY: (grpc.StatusCode.UNAVAILABLE, "The server is ending. Open another session in a moment."),
    Ending.POLICY: (
        grpc.StatusCode.UNAUTHENTICATED,
        "The credentials do not hold any more, or nothing was said at all.",
    ),
    Ending.FAULTS: (grpc.StatusCode.INVALID_ARGUMENT, "Ten messages in a row were not JSON-RPC messages."),
    Ending.CRASHED: (grpc.StatusCode.INTERNAL, "The server has made an error, which is in its log."),
    Ending.NOT_READ: (grpc.StatusCode.RESOURCE_EXHAUSTED, "The client did not read for too long (WRITE_SECONDS)."),
}
#: Refusals before there is an answer in JSON-RPC. The others are faults of the request itself.
_STATUSES: Mapping[int, grpc.StatusCode] = {
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.INTERNAL_SERVER_ERROR: grpc.StatusCode.INTERNAL,
}
#: Metadata that is no header: a login of the site is for browsers, the URL is that of BASE_URL, whatever a client says,
#: and the proxies that GRPC_TRUSTED_PROXIES counts are not those of HTTP.
_NO_HEADERS = re.compile("cookie|host|content-length|forwarded|x-forwarded-.*")
_FORWARDED = "x-forwarded-for"
_PEER = re.compile(r"ipv[46]:\[?([^\]]*)\]?:([0-9]+)")
#: Methods that open something that lasts, which needs a Session.
_OF_SESSIONS = ("initialize", "subscriptions/listen")
_DRAIN_SECONDS = 5.0
#: How long the end of a session may take.
_END_SECONDS = 1.0


class GRPCWire(FrameWire):
    """The outgoing messages of a session."""

    __slots__ = ()

    def frame(self, body: bytes) -> bytes:
        return protobuf.encode(body)


class Session(LastingConnection):
    """One stream in both directions: a conversation, as on a socket."""

    transport = TRANSPORT

    def __init__(self, site: MCPSite, context: ServicerContext[bytes, bytes]) -> None:
        super().__init__(site)
        self._context = context
        self.wire = GRPCWire(context.write)

    async def run(self) -> None:
        """Serve the client until its stream ends."""
        refused = await self.admit(request_of(self._context).restrict(self.site))
        if refused is not None:
            await refuse(self._context, self.site, self.request, refused)
        await self.serve()

    async def begin(self) -> None:
        await self._context.send_initial_metadata(())

    async def receive(self) -> bytes | None:
        message = await self._context.read()
        return message if isinstance(message, bytes) else None  # EOF, at the end of what the client sends

    async def decode(self, frame: bytes) -> Any:
        return await decode(frame, key_of(self.principal, self.request))

    async def left(self) -> None:
        """The client sends nothing more, and waits for the answers that it is still owed."""
        await self.connection.drain(get_conf().REQUEST_SECONDS or _DRAIN_SECONDS)

    async def finish(self, ending: Ending) -> None:
        if self.connection.paused is not None:
            async with asyncio.timeout(_END_SECONDS):
                await refuse(self._context, self.site, self.request, self.connection.paused)
        if ending is Ending.GOING_AWAY:
            await self.connection.drain(_DRAIN_SECONDS)
        if ending in _ENDINGS:
            async with asyncio.timeout(_END_SECONDS):
                await self._context.abort(*_ENDINGS[ending])


async def call(site: MCPSite, context: ServicerContext[bytes, bytes]) -> bytes:
    """The answer to one request. What goes before it is left out: only a session can carry that."""
    request, caller = request_of(context).restrict(site), None
    try:
        caller = principal = await admission.admit(site, request)
        key = key_of(principal, request)
        message = jsonrpc.parse(await decode(await _body_of(context, key), key))
        if not isinstance(message, jsonrpc.Request):
            raise InvalidRequest("Call takes one request. Open a Session for anything else.")
    except jsonrpc.Malformed as malformed:
        await refuse(context, site, request, malformed.error)
    except MCPError as error:
        trail.refuse(site, request, caller, error, TRANSPORT)
        await refuse(context, site, request, error)
    except TimeoutError:
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "The message took too long to come (REQUEST_SECONDS).")
    connection = DuplexConnection(site, principal, request.copy(), _leave_out, lambda: None, transport=TRANSPORT)
    try:
        if message.method in _OF_SESSIONS:
            needs = InvalidRequest(f"{message.method} opens something that outlasts a Call. Open a Session.")
            return protobuf.encode(connection.refuse(message, needs, era_of_message(message)).body)
        answer = await connection.answer_alone(message)
    finally:
        connection.leave()
    if answer is None:
        await context.abort(*_ENDINGS[Ending.POLICY])
    return protobuf.encode(answer)


async def _body_of(context: ServicerContext[bytes, bytes], key: str) -> bytes:
    """The message of a call, read once its caller is known. Raises Overloaded and TimeoutError."""
    # Its length is known only once it is there.
    most = get_conf().MAX_BODY_BYTES
    memory.take(key, most)
    try:
        async with asyncio.timeout(get_conf().REQUEST_SECONDS or None):
            body = await context.read()
    finally:
        memory.give_back(key, most)
    return body if isinstance(body, bytes) else b""


async def decode(body: bytes, key: str) -> Any:
    """The JSON value of a message; of a long one in a worker. Raises MCPError."""
    if len(body) <= SMALL_BODY_BYTES:
        return protobuf.decode(body)
    return await run_patiently(protobuf.decode, body, principal_key=key)


async def _leave_out(body: bytes) -> None:
    """Write nothing."""


def request_of(context: ServicerContext[bytes, bytes]) -> MCPRequest:
    """The request that opened a call: the metadata are its headers, and its URL is that of ``MCP["BASE_URL"]``."""
    base = from_settings()
    peer = _PEER.fullmatch(unquote(context.peer() or ""))
    metadata = context.invocation_metadata() or ()
    forwarded = ",".join(str(value) for name, value in metadata if name == _FORWARDED)
    address = address_behind(get_conf().GRPC_TRUSTED_PROXIES or 0, peer[1] if peer else "", forwarded)
    return from_scope({
        "path": base.path,
        "scheme": base.scheme,
        "headers": [(b"host", base.META["HTTP_HOST"].encode()), *_headers_of(context)],
        "client": (address, int(peer[2]) if peer else 0) if address else None,
    })  # fmt: skip


def _headers_of(context: ServicerContext[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    secure: tuple[str, str] = settings.SECURE_PROXY_SSL_HEADER or ("", "")
    tells_scheme = secure[0].removeprefix("HTTP_").replace("_", "-").lower()
    return [
        (name.encode(), value.encode("latin-1", "replace"))
        for name, value in context.invocation_metadata() or ()
        if isinstance(value, str) and not _NO_HEADERS.fullmatch(name) and name != tells_scheme
    ]


async def refuse(
    context: ServicerContext[bytes, bytes], site: MCPSite, request: MCPRequest, error: MCPError
) -> NoReturn:
    """End a call before there is an answer. The trailing metadata are what the headers of HTTP would be."""
    if isinstance(error, Unauthenticated):
        error.challenge = challenges.complete(error.challenge, site, request)
    # A known caller may wait a little too, though it is not part of a crowd.
    await hold_refusal()
    http_status = int(error.http_status or HTTPStatus.BAD_REQUEST)
    metadata = [(name.lower(), value) for name, value in headers_of(error, http_status).items()]
    status = _STATUSES.get(http_status, grpc.StatusCode.INVALID_ARGUMENT)
    if isinstance(error, Paused):
        status = grpc.StatusCode.UNAVAILABLE
    await context.abort(status, error.message, (*metadata, ("mcp-reason", error.reason)))
    raise AssertionError("abort raises")
