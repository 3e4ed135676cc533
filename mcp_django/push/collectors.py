"""Collectors: they store the notifications of a session whose client polls, also between two polls.

A session has one collector, in the process that its last poll came to. When a poll comes to another process, that
process attaches a collector of its own first, and asks the older one to leave. The older one ends its poll, waits until
its hub has handled all that had come by then, and sends on what it could not store. So no change falls between, and
the newer one leaves out what it has stored itself.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

from mcp_django.conf import get_conf
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import Control, ControlKind
from mcp_django.core.events.publisher import flush
from mcp_django.core.running.workers import run_patiently
from mcp_django.protocol.jsonrpc import encode
from mcp_django.push.sessions import mailbox, polls

if TYPE_CHECKING:
    from mcp_django.protocol.types import JSON
    from mcp_django.push.hub import Hub
    from mcp_django.push.listeners import Listener

logger = logging.getLogger("mcp_django")

#: How long a client may take until its next poll.
GRACE_SECONDS = 120.0
#: How long a collector that leaves stays for changes of lists, which are compared half a second later.
_LINGER_SECONDS = 1.0
#: How long a collector waits for the one before it, beside the time in which sweeps find what no bus reports.
_HANDOVER_SECONDS = 5.0
#: The pause after notifications could not be stored.
_RETRY_SECONDS = 1.0

#: Not among the tasks of the hub, which end before the end of a collector is stored.
_tasks: set[asyncio.Task[None]] = set()


class Reader(Protocol):
    """A poll that waits."""

    def close(self) -> None:
        """Answer it at once."""


class Collector:
    """Stores the notifications of a listener for the polls of its session. On the hub's loop."""

    def __init__(self, hub: Hub, listener: Listener, session_key: str, stream: str) -> None:
        self.name = secrets.token_hex(16)
        self.listener = listener
        self._hub = hub
        self._session_key = session_key
        self._stream = stream
        self._readers: set[Reader] = set()
        self._is_over = False
        #: Set when the listener has something to store.
        self._woken = asyncio.Event()
        #: Notifications that are not stored yet.
        self._kept: list[bytes] = []
        #: The notifications that were stored since it is there. None once no older collector can send the same.
        self._stored: set[bytes] | None = set()
        #: The mail that came: what the collector before this one could not store, and the name of the one after it.
        self._inherited: list[bytes] | None = None
        self._successor = ""
        self._mail = Control(ControlKind.MAIL, self.name)
        self._mailed = hub.waiters.expect(self._mail)
        self._timer: asyncio.TimerHandle | None = None
        self._working: list[asyncio.Task[None]] = []

    def start(self, previous: str, *, has_missed: bool) -> None:
        """Begin to store. ``previous`` is the collector before this one.

        ``has_missed``: nobody collected for a while. Then the client is notified of everything that it watches.
        """
        self._hub.waiters.stored_streams[self._stream] = self
        if has_missed:
            self._notify_of_everything()
        self.listener.write_to(self)
        if not self._is_over:
            self._working = [_start(self._store()), _start(self._correspond(previous))]
            self._wait_for_poll()

    # For polls.

    @property
    def is_leaving(self) -> bool:
        """Whether it takes no more polls."""
        return self._is_over or bool(self._successor)

    def begin(self, reader: Reader) -> None:
        """A poll waits."""
        self._readers.add(reader)
        if self._timer is not None:
            self._timer.cancel()
        if self.is_leaving:
            reader.close()

    def end(self, reader: Reader) -> None:
        """The poll was answered."""
        self._readers.discard(reader)
        if not self._readers:
            self._wait_for_poll()

    def _wait_for_poll(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_over:
            self._timer = self._hub.loop.call_later(GRACE_SECONDS, self._let_go)

    def _let_go(self) -> None:
        self._end()
        self._finish(polls.let_go)

    # For the listener and the waiters.

    def wake(self) -> None:
        if not self.listener.closed:
            self._woken.set()
        elif not self._is_over:
            self._end()
            self._finish(polls.release)

    def detach(self) -> None:
        """Do nothing: a collector writes to no client."""

    # Storing.

    async def _store(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while taken := self.listener.take():
                self._kept += taken
            kept = list(self._kept)
            if not kept:
                continue
            try:
                # False: another collector has taken over, and will ask for them.
                stored: bool = await run_patiently(polls.collect, self._session_key, self.name, _texts(kept))
                if stored:
                    del self._kept[: len(kept)]
                    if self._stored is not None:
                        self._stored.update(kept)
            except Exception:
                logger.exception("Notifications could not be stored for a client that polls; trying again")
                await asyncio.sleep(_RETRY_SECONDS)
                self._woken.set()

    def _notify_of_everything(self) -> None:
        """Notify the client of everything that it watches, except live queries: their answers are compared."""
        for name in sorted(self.listener.lists):
            self.listener.notify_list_changed(name)
        for uri, subscription in self.listener.subscriptions.items():
            if not subscription.is_live:
                self.listener.notify_updated(uri)

    # The collectors before and after this one.

    async def _correspond(self, previous: str) -> None:
        if previous:
            await self._inherit(previous)
        self._stored = None
        while not self._successor:
            await self._read_mail()
        await self._leave()

    async def _inherit(self, previous: str) -> None:
        """Ask the collector before this one to leave, and take over what it could not store."""
        try:
            await run_patiently(_send, previous, {"successor": self.name})
            async with asyncio.timeout(_HANDOVER_SECONDS + 3 * get_conf().SWEEP_SECONDS):
                while self._inherited is None:
                    await self._read_mail()
        except Exception as error:
            if not isinstance(error, TimeoutError):
                logger.exception("A collector could not be asked to leave")
            # Its process is gone, and what it heard last with it.
            self._notify_of_everything()
        else:
            # What is being stored in this moment is still among those that are not stored yet.
            known = {*(self._stored or ()), *self._kept}
            self._kept += [body for body in self._inherited if body not in known]
            self._woken.set()

    async def _read_mail(self) -> None:
        await self._mailed.wait()
        self._mailed.clear()
        try:
            bodies = await run_patiently(mailbox.take, self._mail)
        except Exception:
            # The sweep finds it again.
            logger.exception("The mail of a collector could not be read; trying again")
            return
        for body in bodies:
            mail = from_json(body)
            if "successor" in mail:
                self._successor = mail["successor"]
            else:
                self._inherited = [text.encode() for text in mail["kept"]]

    async def _leave(self) -> None:
        """Leave to the successor, with what was not stored."""
        self._close_readers()
        await self._catch_up()
        while taken := self.listener.take():
            self._kept += taken
        try:
            await run_patiently(_send, self._successor, {"kept": _texts(self._kept)})
        except Exception:
            logger.exception("A collector could not send on what it had not stored")
        self.abandon()

    async def _catch_up(self) -> None:
        """Wait until the hub has handled all events that came before."""
        echo = Control(ControlKind.MAIL, f"{self.name}-echo")
        heard = self._hub.waiters.expect(echo)
        try:
            # The hub handles events one after the other, and the controls of an event before its changes.
            for _ in range(2):
                self._hub.receive(Changes(), [echo])
                await heard.wait()
                heard.clear()
        finally:
            self._hub.waiters.unexpect(echo, heard)
        await asyncio.sleep(_LINGER_SECONDS)

    # The end.

    def abandon(self) -> None:
        """Leave the hub, and the database as it is."""
        self._end()
        self.listener.abandon()
        self._hub.remove(self.listener)

    def _close_readers(self) -> None:
        for reader in list(self._readers):
            reader.close()

    def _end(self) -> None:
        """Stop storing, and answer the poll that waits."""
        if self._is_over:
            return
        self._is_over = True
        self._close_readers()
        if self._timer is not None:
            self._timer.cancel()
        waiters = self._hub.waiters
        waiters.unexpect(self._mail, self._mailed)
        if waiters.stored_streams.get(self._stream) is self:
            del waiters.stored_streams[self._stream]
        current = asyncio.current_task()
        for task in self._working:
            if task is not current:
                task.cancel()

    def _finish(self, last_word: Any) -> None:
        """Tell the database of the end. Until that is done, the process must not end."""

        async def finish() -> None:
            try:
                await run_patiently(last_word, self._session_key, self.name)
            except Exception:
                # Its lease ends by itself.
                logger.exception("The end of a collector could not be stored")
            finally:
                self.abandon()

        _start(finish())


def _send(name: str, mail: JSON) -> None:
    mailbox.put(Control(ControlKind.MAIL, name), encode(mail).decode())
    flush()


def _texts(bodies: list[bytes]) -> list[str]:
    return [body.decode() for body in bodies]


def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task
