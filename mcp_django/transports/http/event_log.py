"""The events of a call: ready to be written, and stored where the client may come back for them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_django.conf import get_conf
from mcp_django.core.running.workers import run_patiently
from mcp_django.push.hub import get_hub
from mcp_django.push.sessions import streams
from mcp_django.transports.message_buffer import Chunk

if TYPE_CHECKING:
    from mcp_django.transports.http.endpoint import EndpointView

logger = logging.getLogger("mcp_django")

_PRIMING_RETRY_MS = 500
#: How long to wait for a client that does not read, and can come back for what it missed.
_READER_SECONDS = 15.0


class EventLog:
    """The events of one call. On the loop; one writes, one takes."""

    def __init__(self, view: EndpointView) -> None:
        self._view = view
        #: Whether the connection that the request came on is written to. Another one may read the stored events.
        self.is_attached = True
        self._is_finished = False
        self._is_hurried = False
        #: The events that the client has not taken yet, and how many bytes they are.
        self._ready: deque[bytes] = deque()
        self._unread = 0
        self._more = asyncio.Event()
        self._taken = asyncio.Event()
        #: The key of the stored stream, the number of its next event, and the bytes that it holds.
        self._key = ""
        self._number = 1
        self._size = 0

    # Called by the writer of the stream.

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be ready for this client."""
        return self._is_finished or not self.is_attached

    def take(self) -> bytes:
        """The bytes that are ready to be written."""
        ready = b"".join(self._ready)
        self._ready.clear()
        self._unread = 0
        self._more.clear()
        self._taken.set()
        return ready

    async def ready(self) -> None:
        """Wait until something is ready, or all is over."""
        await self._more.wait()

    def detach(self) -> None:
        """Stop writing to this client."""
        self.is_attached = False
        self._ready.clear()
        self._more.set()
        self._taken.set()

    # For the call.

    async def open(self) -> None:
        """Begin to store events, where the client may come back for them."""
        session, request_id = self._view.session, self._view.request_id
        if session is None or request_id is None:
            return
        try:
            self._key = await run_patiently(streams.open_stream, session.key, request_id)
        except Exception:
            logger.exception("A stream could not be stored, and its client cannot come back for its rest")
        if not self._key:
            return
        get_hub().waiters.stored_streams[self._key] = self
        if self._view.is_resumable:
            self._put(self._view.format.event(b"", streams.event_id(self._key, 0), _PRIMING_RETRY_MS))

    async def write(self, bodies: Sequence[bytes]) -> None:
        """Send messages, and wait while the client has too much to read."""
        if bodies:
            await self._write(bodies)
            await self._make_room()

    async def finish(self, bodies: Sequence[bytes]) -> None:
        """Send the last messages."""
        try:
            await self._write(bodies, last=True)
        finally:
            self._is_finished = True
            self._more.set()

    def hurry(self) -> None:
        """Stop waiting for the client to read."""
        self._is_hurried = True
        self._taken.set()

    def release(self, retry_ms: int) -> None:
        """Let the client go, if it can come back."""
        if self._key and self._view.is_resumable:
            self._put(self._view.format.event(b"", retry_ms=retry_ms))
            self.is_attached = False
            self._more.set()

    # Storing and writing.

    async def _write(self, bodies: Sequence[bytes], *, last: bool = False) -> None:
        number = self._number
        stored = [body for body in bodies if not isinstance(body, Chunk)]
        if self._key and (stored or last):
            await self._store(stored, last=last)
        for body in bodies:
            event_id = ""
            if self._key and not isinstance(body, Chunk):
                event_id = streams.event_id(self._key, number)
                number += 1
            self._put(self._view.format.event(body, event_id))

    def _put(self, chunk: bytes) -> None:
        if self.is_attached:
            self._ready.append(chunk)
            self._unread += len(chunk)
            self._more.set()

    async def _make_room(self) -> None:
        """Wait for a client that reads slowly, but not for ever: it may have come back on another connection, because a
        server does not notice every connection that is lost."""
        while self.is_attached and self._unread > get_conf().page_bytes and not self._is_hurried:
            self._taken.clear()
            try:
                async with asyncio.timeout(_READER_SECONDS if self._key else None):
                    await self._taken.wait()
            except TimeoutError:
                self.detach()

    async def _store(self, bodies: Sequence[bytes], *, last: bool) -> None:
        """Store events; a stream that gets too large, or whose session has ended, cannot be resumed any more."""
        self._size += sum(map(len, bodies))
        kept = False
        try:
            if self._size <= get_conf().MAX_STREAM_BYTES:
                texts = [body.decode() for body in bodies]
                kept = await run_patiently(
                    lambda: streams.add_events(self._key, self._number, texts, ended=last, report=not self.is_attached)
                )
            else:
                await run_patiently(streams.drop, self._key)
        except Exception:
            logger.exception("Events of a stream could not be stored")
        self._number += len(bodies)
        if last or not kept:
            get_hub().waiters.stored_streams.pop(self._key, None)
        if not kept:
            self._key = ""
