"""Bodies over 16 kB: they are read for callers who may be let in, and share the memory of MAX_BODY_MEMORY.

Otherwise somebody without a token could fill the memory with bodies that nobody has asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from http import HTTPStatus
from threading import Lock

from mcp_django.access import origins
from mcp_django.access.authentication import OUR_CLASSES, authenticate, queue_key
from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import ADDRESS, ADDRESSES_PART, Tally
from mcp_django.core.types import Receive
from mcp_django.exchange.principals import Principal
from mcp_django.protocol.errors import Overloaded
from mcp_django.protocol.revisions import LEGACY, MODERN, MODERN_REVISIONS, Era
from mcp_django.transports.http import headers as mcp_headers
from mcp_django.transports.http.base import View
from mcp_django.transports.http.incoming import ClientLeft
from mcp_django.transports.http.messages import HTTPRequest, HTTPResponse

#: Bodies up to this are read before their caller is known.
SMALL_BODY_BYTES = 16_384


class BodyMemory:
    """The memory that larger bodies take in this process, by caller."""

    def __init__(self) -> None:
        self._held = Tally()
        self._lock = Lock()

    def take(self, key: str, size: int) -> None:
        """Hold ``size`` bytes more of a caller. Raises Overloaded."""
        with self._lock:
            if not self._has_room(key, size):
                raise Overloaded("The server holds too many long messages (MAX_BODY_MEMORY). Try again in a moment.")
            self._held.add(key, size)

    def give_back(self, key: str, size: int) -> None:
        with self._lock:
            self._held.add(key, -size)

    def _has_room(self, key: str, size: int) -> bool:
        conf = get_conf()
        # One body fits into each part, however the two settings are chosen.
        least = conf.MAX_BODY_BYTES
        in_all, of_addresses = conf.MAX_BODY_MEMORY, conf.MAX_BODY_MEMORY // ADDRESSES_PART
        own = in_all // 2
        if key.startswith(ADDRESS):
            own = of_addresses // 2
            if self._held.of_addresses + size > max(of_addresses, least):
                return False
        return self._held.total + size <= max(in_all, least) and self._held[key] + size <= max(own, least)


class HeadView(View):
    """Finds the principal of a request by its head, before its body is read."""

    def dispatch(self) -> HTTPResponse:
        origins.check(self.request)
        self.principal = authenticate(self.request, fresh=True)
        return self.handle(self.principal)

    def handle(self, principal: Principal) -> HTTPResponse:
        return HTTPResponse(HTTPStatus.OK)

    @property
    def era(self) -> Era:
        return MODERN if self.http.headers.get(mcp_headers.VERSION) in MODERN_REVISIONS else LEGACY


class LargeBody:
    """One body over 16 kB, which counts as held until the block of it ends."""

    def __init__(self, site: MCPSite, request: HTTPRequest, receive: Receive, begun: bytes, *, ended: bool) -> None:
        self._head = HeadView(site, request, push=True)
        self._receive = receive
        #: In one piece: a list of tiny chunks would take many times the memory that is counted.
        self._come = bytearray(begun)
        self._ended = ended
        #: The bytes that have come, and those of them that count as held, of which caller.
        self._size = len(begun)
        self._held = 0
        self._key = ""
        self._authenticated_at = 0.0

    def __enter__(self) -> LargeBody:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give back what the body holds."""
        self._come.clear()
        if self._held:
            memory.give_back(self._key, self._held)
            self._held = 0

    @property
    def principal(self) -> Principal | None:
        """The principal of the head, as long as it may be trusted: it need not be looked up again."""
        is_fresh = time.monotonic() - self._authenticated_at <= get_conf().TOKEN_CACHE_SECONDS
        return self._head.principal if is_fresh else None

    @property
    def is_turned_away(self) -> bool:
        return self._head.is_turned_away

    async def refusal(self) -> HTTPResponse | None:
        """The refusal of a request because of its head; None if its body may be read."""
        if queue_key(self._head.request) is not None and get_conf().AUTHENTICATION_CLASSES == OUR_CLASSES:
            return None
        # Only the project's own authentication classes know whether they accept the credentials.
        response = await self._head.respond_on_loop()
        self._authenticated_at = time.monotonic()
        return None if response.status == HTTPStatus.OK else response

    async def read(self) -> tuple[bytes | None, HTTPResponse | None]:
        """The body, None if it is longer than allowed; and the refusal, if there is no room for it."""
        self._key = queue_key(self._head.request) or ""
        if self._announced() > get_conf().MAX_BODY_BYTES:
            return None, None
        try:
            await self._read()
        except Overloaded as error:
            return None, self._head.refuse(error)
        if self._size > get_conf().MAX_BODY_BYTES:
            return None, None
        body = bytes(self._come)
        self._come.clear()
        return body, None

    def _announced(self) -> int:
        """The length that the head gives, or 0."""
        length = str(self._head.request.META.get("CONTENT_LENGTH") or "")
        return int(length[:20]) if length.isascii() and length.isdigit() else 0

    async def _read(self) -> None:
        limit, come = get_conf().MAX_BODY_BYTES, self._size
        while self._size <= limit:
            self._hold(come)
            if self._ended:
                return
            chunk = await self._next()
            self._come += chunk
            come = len(chunk)

    def _hold(self, size: int) -> None:
        memory.take(self._key, size)
        self._held += size

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunk: bytes = message.get("body", b"")
        self._size += len(chunk)
        self._ended = not message.get("more_body", False)
        return chunk

    async def drain(self) -> None:
        """Throw away what is still to come: a client that is still sending loses the answer if the server closes."""
        self._come.clear()
        conf = get_conf()
        with contextlib.suppress(ClientLeft, TimeoutError):
            async with asyncio.timeout(conf.REQUEST_SECONDS or None):
                while not self._ended and self._size <= conf.MAX_BODY_BYTES:
                    await self._next()


memory = BodyMemory()


def _after_fork() -> None:
    global memory  # noqa: PLW0603
    memory = BodyMemory()


os.register_at_fork(after_in_child=_after_fork)
