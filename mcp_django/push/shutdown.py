"""Ending streams before the server ends: servers wait for open streams before they tell an application anything."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any
from weakref import WeakSet

from mcp_django.push.hub import Hub

#: How long Daphne is held back for streams and sockets to be written to their end, and how often that is looked at.
_TWISTED_SECONDS, _TWISTED_STEP = 2.0, 0.05

_hubs: WeakSet[Hub] = WeakSet()
os.register_at_fork(after_in_child=_hubs.clear)
_chained = False


def close_hub_at_shutdown(hub: Hub) -> None:
    """Close the hub's streams when the process is asked to end, ahead of what the server does then."""
    global _chained  # noqa: PLW0603
    _hubs.add(hub)
    if not _chained and threading.current_thread() is threading.main_thread():
        _chained = True
        for number in (signal.SIGTERM, signal.SIGINT):
            _chain(number)
        _hook_twisted()


def _close_hubs() -> None:
    for hub in list(_hubs):
        with contextlib.suppress(RuntimeError):  # Its loop is over.
            hub.loop.call_soon_threadsafe(hub.close)


def _chain(number: signal.Signals) -> None:
    """Close the hubs at a signal that ends the process, which a job in the background of a script is told to ignore."""
    previous = signal.getsignal(number)
    if not callable(previous) and previous is not signal.SIG_DFL:
        return

    def handle(received: int, frame: FrameType | None) -> Any:
        _close_hubs()
        if callable(previous):
            return previous(received, frame)
        signal.signal(received, signal.SIG_DFL)
        return signal.raise_signal(received)

    signal.signal(number, handle)


def _hook_twisted() -> None:
    """Daphne's reactor has no lifespan: it is asked to wait a moment, until the streams are written to their end."""
    reactor = getattr(sys.modules.get("twisted.internet"), "reactor", None)
    if reactor is None or "daphne.server" not in sys.modules:
        return
    from twisted.internet.task import deferLater

    def before(waited: float = 0.0) -> Any:
        if waited == 0.0:
            _close_hubs()
        elif waited >= _TWISTED_SECONDS or all(hub.is_empty for hub in _hubs):
            return None
        return deferLater(reactor, _TWISTED_STEP, before, waited + _TWISTED_STEP)

    reactor.addSystemEventTrigger("before", "shutdown", before)
