"""What a process waits for that any process may bring: answers, messages, cancellations, events of stored streams.

A control wakes what waits for it. Where no bus carries controls, the sweep finds in the database what they report. A
request is cancelled only if the database says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection
from typing import Protocol

from mcp_django.core.events.controls import Control, ControlKind
from mcp_django.core.running.workers import get_workers
from mcp_django.exchange.cancellation import RUNNING
from mcp_django.protocol.errors import Overloaded
from mcp_django.push.dropped import dropped
from mcp_django.push.sessions import mailbox, stored_questions, streams

logger = logging.getLogger("mcp_django")

#: Sweeps between two renewals of the leases of stored streams.
_LEASE_TURNS = 5


class Writer(Protocol):
    """Stores a stream, and writes it to the client that sent the request, if there is one."""

    def detach(self) -> None:
        """Write to this client no more."""


class Reader(Protocol):
    """Gives a client the rest of a stored stream."""

    #: The number of the last event that it has read.
    number: int

    def close(self) -> None:
        """End it."""


class Waiters:
    """The controls that parts of this process wait for. On the hub's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._expected: dict[Control, set[asyncio.Event]] = defaultdict(set)
        #: Stored streams that this process writes, and those that it reads.
        self.stored_streams: dict[str, Writer] = {}
        self._readers: dict[str, Reader] = {}
        #: The sweep in which the leases of the streams that this process writes were renewed.
        self._renewed_in = 0

    def expect(self, control: Control) -> asyncio.Event:
        """An event that is set when the control comes, whichever process it comes from; until ``unexpect``."""
        event = asyncio.Event()
        self._expected[control].add(event)
        return event

    def unexpect(self, control: Control, event: asyncio.Event) -> None:
        self._expected[control].discard(event)
        if not self._expected[control]:
            del self._expected[control]

    def begin_reading(self, stream: str, reader: Reader) -> asyncio.Event:
        """Make this the only reader of a stored stream. The event is set when there is more to read."""
        writer, older = self.stored_streams.get(stream), self._readers.get(stream)
        self._readers[stream] = reader
        # A client that comes back has lost its earlier connection, or does not want it any more.
        if writer is not None:
            writer.detach()
        if older is not None:
            older.close()
        return self.expect(Control(ControlKind.STREAM, stream))

    def end_reading(self, stream: str, reader: Reader, event: asyncio.Event) -> None:
        self.unexpect(Control(ControlKind.STREAM, stream), event)
        if self._readers.get(stream) is reader:
            del self._readers[stream]

    def wake(self, control: Control) -> None:
        """Wake everything that waits for the control."""
        for event in self._expected.get(control, ()):
            event.set()

    async def look_for_cancelled(self, keys: Collection[str]) -> None:
        """Cancel those of these requests that the database says are cancelled: anybody may have forged the controls."""
        asked = [Control(ControlKind.CANCEL, key) for key in keys if RUNNING.get(key) is not None]
        if not asked:
            return  # Other processes answer them.
        try:
            found = await get_workers().run(mailbox.arrived, asked)
        except Overloaded:
            return  # The sweep looks again.
        except Exception:
            logger.exception("It is not known whether requests were cancelled; the sweep looks again")
            return
        dropped.add(ControlKind.CANCEL, len(asked) - len(found))
        for control in found:
            self._cancel(control.key)

    def _cancel(self, key: str) -> None:
        running = RUNNING.get(key)
        # The sweep finds a message for as long as it is kept, so the request may be cancelled already.
        if running is not None and not running.cancelled:
            running.cancel()
            # Not awaited: an interrupt takes its time, and the events of all others wait behind this one.
            self._loop.run_in_executor(None, running.queries.interrupt)

    async def look(self, turn: int) -> None:
        """Find in the database what no bus reports, and renew the leases of the streams that this process writes."""
        # The leases come first, and again in the next sweep if this fails: a stream without a lease counts as lost.
        if self.stored_streams and turn - self._renewed_in >= _LEASE_TURNS:
            await get_workers().run(streams.renew, list(self.stored_streams))
            self._renewed_in = turn
        controls = [*self._expected, *(Control(ControlKind.CANCEL, key) for key in RUNNING)]
        for control in await get_workers().run(_arrived, controls) if controls else ():
            if control.kind is ControlKind.CANCEL:
                self._cancel(control.key)
            else:
                self.wake(control)
        read = {stream: reader.number for stream, reader in self._readers.items()}
        for stream in await get_workers().run(streams.with_news, read) if read else ():
            self.wake(Control(ControlKind.STREAM, stream))


def _arrived(controls: Collection[Control]) -> list[Control]:
    """Those of the controls that are due by what the database holds. For stored streams see ``streams.with_news``."""
    asked = {control.key for control in controls if control.kind is ControlKind.QUESTION}
    answered = stored_questions.answered(asked) if asked else ()
    mailed = [control for control in controls if control.kind in (ControlKind.MAIL, ControlKind.CANCEL)]
    return [
        *(Control(ControlKind.QUESTION, question_id) for question_id in answered),
        *(mailbox.arrived(mailed) if mailed else ()),
    ]
