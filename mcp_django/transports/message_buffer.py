"""The messages of a request that go ahead of its answer: the handler's thread puts them, the transport takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from mcp_django.conf import get_conf
from mcp_django.protocol.jsonrpc import encode, notification_message
from mcp_django.protocol.types import JSON

#: This many messages may wait for a slow client, within a limit on their bytes. Further progress and log messages are
#: left out: the handler never waits.
_MAX_WAITING = 100


def no_reader() -> None:
    """For messages that nobody waits for."""


class Chunk(bytes):
    """A message with a part of the result. It is not stored for a client that comes back, which gets the result."""


@dataclass(slots=True)
class MessageBuffer:
    """The messages of one request, encoded, in their order."""

    #: Called in the thread of ``put``, once there is something to take.
    on_put: Callable[[], None] = no_reader
    #: Whether anything was put, so that the answer follows it in a stream.
    used: bool = False
    #: Milliseconds after which the client is to come back for the rest, once the handler asked for that.
    retry_ms: int | None = None
    _lock: Lock = field(default_factory=Lock)
    _waiting: deque[bytes] = field(default_factory=deque)
    _bytes: int = 0
    #: Called when the chunks among the waiting messages are taken.
    _on_take: list[Callable[[], None]] = field(default_factory=list)
    #: How many log messages were left out, and the level of the last one, which the client asked for.
    _left_out: int = 0
    _level: str = ""
    _closed: bool = False

    def put(self, message: JSON) -> None:
        """Take a message in. One that is too large for a client, or comes after the answer, is left out."""
        body = encode(message)
        with self._lock:
            if self._closed:
                return
            self.used = True
            if len(self._waiting) >= _MAX_WAITING or self._bytes + len(body) > get_conf().page_bytes:
                # Later progress replaces earlier progress. A line of the log says how many others are missing.
                if message["method"] == "notifications/message":
                    self._left_out += 1
                    self._level = message["params"]["level"]
                return
            self._waiting.append(body)
            self._bytes += len(body)
        self.on_put()

    def put_chunk(self, body: bytes, taken: Callable[[], None]) -> None:
        """Take a part of the result in. Until ``close``, each is kept: its sender waits until ``taken`` is called."""
        with self._lock:
            if self._closed:
                return
            self.used = True
            self._waiting.append(Chunk(body))
            self._bytes += len(body)
            self._on_take.append(taken)
        self.on_put()

    def close_stream(self, retry_ms: int) -> None:
        """The handler lets the client go; it is to come back for the rest."""
        self.retry_ms = retry_ms
        self.used = True
        self.on_put()

    def take(self) -> list[bytes]:
        """The waiting messages, and a line that says how many log messages were left out since."""
        with self._lock:
            taken, left_out, level = list(self._waiting), self._left_out, self._level
            self._waiting.clear()
            self._bytes = self._left_out = 0
            on_take, self._on_take = self._on_take, []
        for callback in on_take:
            callback()
        if left_out:
            data = f"{left_out} log messages were left out: they are too large, or more than the client reads."
            taken.append(encode(notification_message("notifications/message", {"level": level, "data": data})))
        return taken

    def close(self) -> None:
        """The answer is there: nothing may follow it."""
        with self._lock:
            self._closed = True
        # The callback usually belongs to an object that has this buffer: the cycle would keep the whole request until
        # garbage is collected.
        self.on_put = no_reader
