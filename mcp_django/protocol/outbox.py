"""Messages of a request that go ahead of its answer: put by the handler's thread, taken by whoever writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any

from mcp_django.conf import get_conf
from mcp_django.protocol.jsonrpc import encode, notification_message

JSON = dict[str, Any]

#: What may wait for a slow client, beside the bytes of a message. Progress and log lines beyond are left out: the
#: handler never waits.
_MAX_WAITING = 100


def _nobody() -> None:
    """Nobody waits for what is put."""


class Outbox:
    """The messages of one request, encoded, in their order."""

    def __init__(self, on_put: Callable[[], None] = _nobody) -> None:
        #: Called in the thread of ``put``, once there is something to take.
        self.on_put = on_put
        #: Whether anything was put, so that the answer follows it in a stream.
        self.used = False
        self._lock = Lock()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        #: How many log messages were left out, and the level of the last: the client wants to be told of that level.
        self._left_out = 0
        self._level = ""
        self._closed = False
        #: Milliseconds after which the client is to come back for the rest, once the handler asked for that.
        self.retry_ms: int | None = None

    def put(self, message: JSON) -> None:
        """Take a message in. One that is too large for a client, or comes after the answer, is left out."""
        body = encode(message)
        with self._lock:
            if self._closed:
                return
            self.used = True
            if len(self._waiting) >= _MAX_WAITING or self._bytes + len(body) > get_conf().page_bytes:
                # Progress is only ever replaced by later progress; what a log lacks is said.
                if message["method"] == "notifications/message":
                    self._left_out += 1
                    self._level = message["params"]["level"]
                return
            self._waiting.append(body)
            self._bytes += len(body)
        self.on_put()

    def close_stream(self, retry_ms: int) -> None:
        """The handler lets the client go, who is to come back for the rest."""
        self.retry_ms = retry_ms
        self.used = True
        self.on_put()

    def take(self) -> list[bytes]:
        """What waits, and a line that says how many log messages were left out since."""
        with self._lock:
            taken, left_out, level = list(self._waiting), self._left_out, self._level
            self._waiting.clear()
            self._bytes = self._left_out = 0
        if left_out:
            data = f"{left_out} log messages were left out: they are too large, or more than the client reads."
            taken.append(encode(notification_message("notifications/message", {"level": level, "data": data})))
        return taken

    def close(self) -> None:
        """The answer is there: nothing may follow it."""
        with self._lock:
            self._closed = True
        # Whom it calls back has it, as a rule: such a circle would keep the whole request until garbage is collected.
        self.on_put = _nobody
