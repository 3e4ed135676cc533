"""Real threads, queues and locks, also where gevent has replaced those of the standard library.

Under gevent a "thread" is a greenlet of the thread that serves requests. An event loop in it would make Django refuse
every ORM call of the site.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


def _original(module: str, name: str) -> Any:
    # What has patched a module is imported.
    monkey: Any = sys.modules.get("gevent.monkey")
    return monkey.get_original(module, name) if monkey is not None and monkey.is_module_patched(module) else None


def start_thread(target: Callable[[], None]) -> None:
    """Start a daemon thread of the operating system."""
    start = _original("_thread", "start_new_thread") or _original("thread", "start_new_thread")
    if start is not None:
        start(target, ())
    else:
        threading.Thread(target=target, name="mcp_django publisher", daemon=True).start()


def new_queue() -> queue.SimpleQueue[Any]:
    made: queue.SimpleQueue[Any] = (_original("queue", "SimpleQueue") or queue.SimpleQueue)()
    return made


def new_event() -> threading.Event:
    made: threading.Event = (_original("threading", "Event") or threading.Event)()
    return made


def new_lock() -> threading.Lock:
    """A lock that a thread and a greenlet may share. The holder must not wait for anything."""
    made: threading.Lock = (_original("_thread", "allocate_lock") or threading.Lock)()
    return made


def sleep(seconds: float) -> None:
    (_original("time", "sleep") or time.sleep)(seconds)
