"""Asks every process which clients are connected to it, and collects the answers for a second at most."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from threading import Lock

from mcp_django.core.events import native_threads
from mcp_django.core.events.bus import BaseBus, LocalBus, get_bus
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import Control, ControlKind, ControlSet, sign, signed_text
from mcp_django.core.events.publisher import publisher
from mcp_django.push import presence
from mcp_django.push.dropped import dropped
from mcp_django.push.hub import serving_hubs
from mcp_django.push.presence import ConnectedClient

logger = logging.getLogger("mcp_django")

_SECONDS = 1.0
_STEP_SECONDS = 0.01
#: How many processes are shown, and for how long they are remembered, so that a silent one can be named.
_MAX_PROCESSES, _REMEMBERED_SECONDS = 100, 600.0


@dataclass
class ProcessAnswer:
    """What one process has answered so far."""

    name: str
    total: int
    listed: int
    dropped: int
    by_number: dict[int, ConnectedClient] = field(default_factory=dict)

    @property
    def clients(self) -> list[ConnectedClient]:
        """The newest connections first."""
        return [self.by_number[number] for number in sorted(self.by_number)]

    @property
    def is_complete(self) -> bool:
        return len(self.by_number) == self.listed

    @property
    def left_out(self) -> int:
        """Connections that are not named: an answer is bounded, and a part of it may be lost."""
        return max(0, self.total - len(self.by_number))


@dataclass(frozen=True)
class Answers:
    processes: list[ProcessAnswer]
    #: The names of processes that answered lately, and did not now.
    silent: list[str]
    #: Only this process was asked, since no bus reaches others.
    is_local: bool
    #: The bus could not be used.
    failed: bool = False

    @property
    def total(self) -> int:
        return sum(process.total for process in self.processes)


class RollCall:
    """One question: takes in the answers that have its nonce, and nothing else. A ``Receiver`` of the bus."""

    def __init__(self) -> None:
        self.nonce = secrets.token_hex(16)
        #: By the ids of the hubs.
        self.answered: dict[str, ProcessAnswer] = {}
        self.failed = False
        self._lock = native_threads.new_lock()

    def ask(self) -> None:
        self._ask(self.nonce)

    def _ask(self, text: str) -> None:
        publisher.put(Changes(), ControlSet([sign(ControlKind.ROLL_CALL, text)]))

    def receive(self, changes: Changes, controls: Iterable[Control]) -> None:
        for control in controls:
            if control.kind is not ControlKind.HERE:
                continue
            text = signed_text(control)
            if text is None:
                dropped.add(control.kind)
            elif text.startswith(self.nonce):
                # A hub is there: it is asked by its id.
                self._ask(text)
            else:
                part = presence.read(text)
                if part is not None and part.to == self.nonce:
                    with self._lock:
                        self._take(part)

    def _take(self, part: presence.Part) -> None:
        known = self.answered.get(part.hub)
        if known is None:
            if len(self.answered) >= _MAX_PROCESSES:
                return
            known = self.answered[part.hub] = ProcessAnswer(part.process, part.total, part.listed, part.dropped)
        if part.one is not None:
            known.by_number[part.number] = part.one

    def has_all_of(self, hubs: Iterable[str]) -> bool:
        """Whether these hubs have answered in full."""
        with self._lock:
            return all(hub in self.answered and self.answered[hub].is_complete for hub in hubs)

    def taken(self) -> dict[str, ProcessAnswer]:
        """The answers so far, which another thread may still add to."""
        with self._lock:
            return {
                hub: ProcessAnswer(one.name, one.total, one.listed, one.dropped, dict(one.by_number))
                for hub, one in self.answered.items()
            }


def ask_everybody() -> Answers:
    """Which clients are connected to which process, as each of them says now."""
    call, bus = RollCall(), get_bus()
    is_local = isinstance(bus, LocalBus)
    if isinstance(bus, LocalBus):
        _ask_here(call, bus)
    else:
        _ask_by(call, bus)
    answered = call.taken()
    silent = [hub.name for hub in answered.values() if not hub.is_complete]
    if not is_local and not call.failed:
        silent += _lately.missing({hub: one.name for hub, one in answered.items()})
    processes = sorted(answered.values(), key=lambda one: one.name)
    return Answers(processes, sorted(silent), is_local, call.failed)


def _ask_here(call: RollCall, bus: LocalBus) -> None:
    hubs = [hub.id for hub in serving_hubs()]
    bus.join(call)
    try:
        call.ask()
        _wait(lambda: call.has_all_of(hubs))
    finally:
        bus.leave(call)


def _ask_by(call: RollCall, bus: BaseBus) -> None:
    """Join the bus for a moment, in a thread with a loop of its own: a process without listeners has joined no bus."""
    ended = native_threads.new_event()

    def run() -> None:
        try:
            asyncio.run(_collect(call, bus))
        except Exception:
            call.failed = True
            logger.warning("The processes could not be asked for their connections", exc_info=True)
        finally:
            ended.set()

    native_threads.start_thread(run)
    # A broker that is away may take longer to say so.
    _wait(ended.is_set, 2 * _SECONDS)
    call.failed = call.failed or not ended.is_set()


async def _collect(call: RollCall, bus: BaseBus) -> None:
    async with aclosing(bus.subscribe(call.ask)) as events:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                async for event in events:
                    with contextlib.suppress(ValueError):  # A malformed event is none of ours.
                        call.receive(Changes(), ControlSet.from_json(event.get("controls", [])))


def _wait(is_done: Callable[[], bool], seconds: float = _SECONDS) -> None:
    """Wait in steps: under gevent other greenlets go on meanwhile, which an event of a real thread would not allow."""
    end = time.monotonic() + seconds
    while not is_done() and time.monotonic() < end:
        time.sleep(_STEP_SECONDS)


class _Lately:
    """The processes that answered in the last minutes, in the memory of this process alone."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, float]] = {}
        self._lock = Lock()

    def missing(self, present: dict[str, str]) -> list[str]:
        """The names of those that are not present. The present ones are remembered."""
        now = time.monotonic()
        with self._lock:
            kept = {hub: one for hub, one in self._names.items() if now - one[1] < _REMEMBERED_SECONDS}
            absent = [name for hub, (name, _) in kept.items() if hub not in present]
            newest = {**kept, **{hub: (name, now) for hub, name in present.items()}}
            self._names = dict(list(newest.items())[-_MAX_PROCESSES:])
        return absent


_lately = _Lately()
