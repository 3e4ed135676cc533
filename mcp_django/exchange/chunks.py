"""The chunks of a result, which go to the client while its tool still runs, as the client takes them.

Each is a ``notifications/progress`` (2026-07-28 basic/patterns/progress). Its text is the ``message``, and our own key
in ``_meta`` has the same as JSON. MCP itself knows no partial results.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from mcp_django.conf import get_conf
from mcp_django.protocol.errors import RequestCancelled
from mcp_django.protocol.jsonrpc import encode, is_request_id, notification_message
from mcp_django.protocol.projection import progress_params
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

CHUNK_META_KEY = "mcp-django/chunk"

#: A client gets at most 20 chunks a second, beside the last one.
CHUNK_SECONDS = 0.05
#: What comes sooner is put into one chunk, up to about so many bytes. Then the tool waits.
_CHUNK_BYTES = 256_000
#: Room in a notification for everything but its parts.
_FRAME_BYTES = 2_000
#: How often a tool that waits looks whether the event loop still runs.
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a result, as the client's revision knows it: a content block, or a row. ``text`` says the same."""

    value: JSON
    text: str
    #: How many bytes they take as JSON.
    value_bytes: int
    text_bytes: int
    #: Whether it is a piece of a text, which goes on if another piece follows.
    is_piece: bool = False

    @property
    def size(self) -> int:
        """The bytes that it takes in a chunk."""
        return self.value_bytes + self.text_bytes


def joined(parts: Iterable[Part]) -> list[JSON]:
    """The values of the parts. The pieces of one text are one block."""
    values: list[JSON] = []
    for is_piece, group in groupby(parts, lambda part: part.is_piece):
        same = list(group)
        text = "".join(part.text for part in same) if is_piece else ""
        values += [{"type": "text", "text": text}] if is_piece else [part.value for part in same]
    return values


def row_part(row: Any) -> Part:
    """The part for a row, which is JSON."""
    encoded = encode(row)
    text = encoded.decode()
    return Part(row, text, len(encoded) + 1, len(encode(text)))


class ChunkStream:
    """Sends the parts of a result in chunks, one by one: the next one goes when the transport has taken the last.

    Parts are put in one thread, or on one event loop; the transport takes them on its own loop. Meanwhile no more than
    two chunks wait, whatever the client does. A run that follows a question does not send again what was sent.
    """

    def __init__(
        self, exchange: Exchange, kind: Literal["content", "rows"], columns: Sequence[str] | None = None
    ) -> None:
        self._exchange: Exchange | None = exchange
        self._kind = kind
        #: The names of the values of each row.
        self._columns = columns
        self._lock = Lock()
        self._parts: list[Part] = []
        self._size = 0
        #: How many parts were put, and how many of them were sent before this run.
        self._count, self._sent_before = 0, exchange.sent.parts
        #: Whether a chunk may go: none is on its way, and the last one went long enough ago.
        self._is_free = True
        self._sent_at = 0.0
        self._waiting: Future[None] | None = None
        exchange.cancellation.when_cancelled(self._wake)

    @staticmethod
    def most_bytes() -> int:
        """How large a part may be."""
        return get_conf().page_bytes - _FRAME_BYTES

    def put(self, part: Part) -> None:
        """Send a part, and wait as long as the client has too much to read. Raises RequestCancelled."""
        self._count += 1
        while (waiting := self._add(part)) is not None:
            try:
                waiting.result(_LOOK_SECONDS)
            except FutureTimeout:
                self._check_loop()

    async def aput(self, part: Part) -> None:
        """As ``put``, on an event loop."""
        self._count += 1
        while (waiting := self._add(part)) is not None:
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await asyncio.wrap_future(waiting)
            except TimeoutError:
                self._check_loop()

    def end(self) -> None:
        """Send what is left. The stream drops its request, since the request's cancellation refers to the stream."""
        with self._lock:
            if self._parts and self._exchange is not None and not self._exchange.cancelled:
                self._send(self._exchange)
            self._parts.clear()
            self._exchange = None

    def _check_loop(self) -> None:
        """Raises RequestCancelled where nothing takes chunks any more."""
        if self._exchange is None or not self._exchange.connection.is_live:
            raise RequestCancelled

    def _add(self, part: Part) -> Future[None] | None:
        """Take a part in; or return what to wait for, before it has room."""
        exchange = self._exchange
        if exchange is None or exchange.cancelled:
            raise RequestCancelled
        if self._count <= self._sent_before:
            return None
        with self._lock:
            if self._parts and self._size + part.size > _CHUNK_BYTES:
                if not self._is_free:
                    self._waiting = Future()
                    # It may have been cancelled just now, before there was anything to wake.
                    if exchange.cancelled:
                        raise RequestCancelled
                    return self._waiting
                self._send(exchange)
            self._parts.append(part)
            self._size += part.size
            if self._is_free:
                self._send(exchange)
        return None

    def _send(self, exchange: Exchange) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        self._is_free = False
        self._sent_at = time.monotonic()
        sent, token = exchange.sent, exchange.params.get("_meta", {}).get("progressToken")
        chunk: JSON = {"first": sent.parts, "count": len(parts), self._kind: joined(parts)}
        if self._columns is not None:
            chunk["columns"] = list(self._columns)
        # A client without a token has asked for chunks by STREAM_PARAM, and a notification needs a token.
        params: JSON = {"progressToken": token if is_request_id(token) else exchange.request_id}
        params["_meta"] = {CHUNK_META_KEY: chunk}
        if text := ("\n" if self._kind == "rows" else "").join(part.text for part in parts):
            params["message"] = text
        with sent.lock:
            sent.parts += len(parts)
            # The progress that a tool reports itself has another unit, which the number of parts must not run ahead of.
            counts = not sent.is_reported and sent.parts > sent.progress
            sent.progress = sent.parts if counts else math.nextafter(sent.progress, math.inf)
            params["progress"] = sent.progress
            params = progress_params(params, exchange.revision)
            body = encode(notification_message("notifications/progress", params))
            exchange.usage.streamed += len(body)
            exchange.connection.send_chunk(body, self._taken)

    # Called on the transport's loop.

    def _taken(self) -> None:
        """The transport has taken a chunk."""
        left = self._sent_at + CHUNK_SECONDS - time.monotonic()
        asyncio.get_running_loop().call_later(max(0.0, left), self._go_on)

    def _go_on(self) -> None:
        with self._lock:
            self._is_free = True
            # A tool that waits sends the parts itself, since a large chunk would hold the loop.
            if self._parts and self._waiting is None and self._exchange is not None:
                self._send(self._exchange)
        self._wake()

    def _wake(self) -> None:
        """Let the tool go on; from any thread."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            with suppress(InvalidStateError):  # The tool does not wait any more.
                waiting.set_result(None)
