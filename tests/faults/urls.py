"""The demo's URLs, and what a server holds inside: told to whoever tries faults on it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import threading
from collections import Counter
from typing import Any

from django.http import HttpRequest, JsonResponse
from django.urls import path

from demo_project.urls import urlpatterns as of_the_demo
from mcp_django.core.running import workers
from mcp_django.exchange.cancellation import RUNNING
from mcp_django.push import hub as hubs

_counted: Counter[str] = Counter()
_resync = hubs.Hub.resync


def _count_resync(hub: hubs.Hub) -> None:
    _counted["resyncs"] += 1
    _resync(hub)


hubs.Hub.resync = _count_resync  # type: ignore[method-assign]


async def held(request: HttpRequest) -> JsonResponse:
    """Numbers of what the process holds, this request left out."""
    if "collect" in request.GET:
        gc.collect()
        # What is free goes back to the system, where the C library can: what stays is what is held.
        with contextlib.suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
    hub = hubs.find_hub()
    pool = workers._workers
    found: dict[str, Any] = {
        "tasks": len(asyncio.all_tasks()),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "listeners": 0 if hub is None else len(hub._listeners),
        "members": 0 if hub is None else len(hub._members),
        "watched": 0 if hub is None else sum(map(len, hub._index.values())),
        "expected": 0 if hub is None else len(hub.waiters._expected),
        "stored_streams": 0 if hub is None else len(hub.waiters.stored_streams),
        "running": len(RUNNING),
        "taken": 0 if pool is None else pool._accepted.total,
        "resyncs": _counted["resyncs"],
    }
    return JsonResponse(found)


urlpatterns = [path("held/", held), *of_the_demo]
