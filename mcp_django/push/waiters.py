"""What a process waits for that may come to any process: answers, cancellations, and what follows on stored streams.

The bus tells of it where there is one, and the sweep finds it in the database where there is none.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from typing import Protocol

from mcp_django.exchange.running import RUNNING
from mcp_django.sessions import mailbox, questions, streams
from mcp_django.workers import get_workers

#: The addresses of requests that are to be cancelled begin with it.
_CANCEL = "cancel:"
#: The addresses of questions to users begin with it.
_QUESTION = "question:"
#: The addresses of stored streams that go on.
_STREAM = "stream:"
#: Sweeps between two renewals of the leases of stored streams.
_LEASE_TURNS = 5


class Writer(Protocol):
    """What stores a stream, while it writes to the client that has asked."""

    def detach(self) -> None:
        """Write to this client no more."""


class Reader(Protocol):
    """Gives a client the rest of a stored stream."""

    #: The number of the last event that it has read.
    number: int

    def close(self) -> None:
        """End it."""


class Addresses:
    """The addresses that a hub listens to. On its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._expected: dict[str, set[asyncio.Event]] = defaultdict(set)
        #: Stored streams that this process writes, and those that it reads.
        self.stored_streams: dict[str, Writer] = {}
        self._readers: dict[str, Reader] = {}
        #: The sweep in which the leases of the former were renewed.
        self._renewed_in = 0

    def expect(self, address: str) -> asyncio.Event:
        """Set when something came for the address, to whatever process; until ``unexpect``."""
        event = asyncio.Event()
        self._expected[address].add(event)
        return event

    def unexpect(self, address: str, event: asyncio.Event) -> None:
        self._expected[address].discard(event)
        if not self._expected[address]:
            del self._expected[address]

    def begin_reading(self, stream: str, reader: Reader) -> asyncio.Event:
        """Tell of a stored stream the newest reader alone. The event is set when there is more to read."""
        writer, older = self.stored_streams.get(stream), self._readers.get(stream)
        self._readers[stream] = reader
        # Whoever comes back has lost the connection that was there before, or does not want it any more.
        if writer is not None:
            writer.detach()
        if older is not None:
            older.close()
        return self.expect(_STREAM + stream)

    def end_reading(self, stream: str, reader: Reader, event: asyncio.Event) -> None:
        self.unexpect(_STREAM + stream, event)
        if self._readers.get(stream) is reader:
            del self._readers[stream]

    def wake(self, address: str) -> None:
        """Something came for the address."""
        running = RUNNING.get(address.removeprefix(_CANCEL)) if address.startswith(_CANCEL) else None
        # The sweep finds what was posted for as long as it is kept.
        if running is not None and not running.cancelled:
            running.cancel()
            # Not awaited: it takes its time, and everybody else's events wait behind this one.
            self._loop.run_in_executor(None, running.queries.interrupt)
        for event in self._expected.get(address, ()):
            event.set()

    async def look(self, turn: int) -> None:
        """Ask the database for what no bus tells of, and tell it which streams this process still writes."""
        # First, and again in the next sweep if it fails: a stream without a lease is taken for lost.
        if self.stored_streams and turn - self._renewed_in >= _LEASE_TURNS:
            await get_workers().run(streams.renew, list(self.stored_streams))
            self._renewed_in = turn
        addresses = [*self._expected, *(_CANCEL + key for key in RUNNING)]
        for address in await get_workers().run(_arrived, addresses) if addresses else ():
            self.wake(address)
        read = {stream: reader.number for stream, reader in self._readers.items()}
        for stream in await get_workers().run(streams.with_news, read) if read else ():
            self.wake(_STREAM + stream)


def _arrived(addresses: Collection[str]) -> list[str]:
    """Those of the addresses for which something came that the bus may not have told of."""
    asked = {address.removeprefix(_QUESTION) for address in addresses if address.startswith(_QUESTION)}
    found = [_QUESTION + question_id for question_id in questions.answered(asked)] if asked else []
    return [*found, *mailbox.arrived(addresses)]
