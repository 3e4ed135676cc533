"""Ends streams before the server ends: servers wait for open streams before they notify an application.

A signal that ends the process is held back until the streams and sockets, and the audit trail, are written to their
end. That works with uvicorn, granian and Daphne, which end by a signal. Hypercorn's workers get none, and are watched.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from types import FrameType
from typing import Any
from weakref import WeakSet

from mcp_django.audit.recorder import recorder
from mcp_django.core.compat.servers import ends_of_hypercorn, signal_handler, twisted_reactor
from mcp_django.push.hub import Hub

#: How long a server is held back until streams and sockets are written to their end, and how often we look whether they
#: are.
_END_SECONDS, _STEP_SECONDS = 2.0, 0.05

_hubs: WeakSet[Hub] = WeakSet()
_watching: set[asyncio.Task[None]] = set()
_chained = False
_is_ending = False


def close_hub_at_shutdown(hub: Hub) -> None:
    """Close the hub's streams when the process is asked to end, before the server acts on it. On the loop."""
    global _chained  # noqa: PLW0603
    if hub not in _hubs:
        _hubs.add(hub)
        _watch_hypercorn(hub)
    if not _chained and threading.current_thread() is threading.main_thread():
        _chained = True
        for number in (signal.SIGTERM, signal.SIGINT):
            _chain(number, hub.loop)
        _hook_twisted()


def _close_hubs() -> None:
    for hub in list(_hubs):
        with contextlib.suppress(RuntimeError):  # Its loop is over.
            hub.loop.call_soon_threadsafe(hub.close)


def _are_empty() -> bool:
    """Whether all streams have ended, and the audit trail is written."""
    return all(hub.is_empty for hub in list(_hubs)) and not recorder.has_waiting


def _chain(number: signal.Signals, loop: asyncio.AbstractEventLoop) -> None:
    """Close the hubs at a signal that ends the process; not at one that is ignored, as in a script's background job."""
    # A handler of the loop, as granian adds one, bypasses the handlers of signal.signal.
    by_loop = signal_handler(loop, number)
    if by_loop is not None:
        loop.add_signal_handler(number, lambda: None if _hold_back(number) else by_loop())
        return
    previous = signal.getsignal(number)
    if not callable(previous) and previous is not signal.SIG_DFL:
        return

    def handle(received: int, frame: FrameType | None) -> Any:
        if _hold_back(received):
            return None
        if callable(previous):
            return previous(received, frame)
        signal.signal(received, signal.SIG_DFL)
        return signal.raise_signal(received)

    signal.signal(number, handle)


def _hold_back(number: int) -> bool:
    """Close the hubs at the first signal. True: it is sent again when their streams are written to their end."""
    global _is_ending  # noqa: PLW0603
    if _is_ending:
        return False
    _is_ending = True
    recorder.end()
    _close_hubs()
    if _are_empty():
        return False
    # Not on the loop: a blocked loop must not keep the process from ending.
    threading.Thread(target=_send_again, args=(number,), name="mcp_django-shutdown", daemon=True).start()
    return True


def _send_again(number: int) -> None:
    deadline = time.monotonic() + _END_SECONDS
    while not _are_empty() and time.monotonic() < deadline:
        time.sleep(_STEP_SECONDS)
    os.kill(os.getpid(), number)


def _watch_hypercorn(hub: Hub) -> None:
    """Close the hub when hypercorn ends. Its workers get no signal, nor other notice before their streams have ended.

    ``worker_serve`` sets an event that ends idle connections at once. It ends the hub's streams too.
    """
    for terminated in ends_of_hypercorn(hub.loop):
        watch = hub.loop.create_task(_close_after(terminated, hub))
        _watching.add(watch)
        watch.add_done_callback(_watching.discard)


async def _close_after(terminated: Any, hub: Hub) -> None:
    await terminated.wait()
    hub.close()


def _hook_twisted() -> None:
    """Let Daphne's reactor, which has no lifespan, wait a moment until the streams are written to their end."""
    reactor = twisted_reactor()
    if reactor is None:
        return
    from twisted.internet.task import deferLater

    def before(waited: float = 0.0) -> Any:
        if waited == 0.0:
            _close_hubs()
        elif waited >= _END_SECONDS or _are_empty():
            return None
        return deferLater(reactor, _STEP_SECONDS, before, waited + _STEP_SECONDS)

    reactor.addSystemEventTrigger("before", "shutdown", before)


def _after_fork() -> None:
    """A child has none of its parent's hubs, but it keeps the signal handlers."""
    global _is_ending  # noqa: PLW0603
    _is_ending = False
    _hubs.clear()
    _watching.clear()


os.register_at_fork(after_in_child=_after_fork)
