"""How long the way of one call is: the files of ours that it enters, and its moves from one to another.

Only calls of functions are counted, not returns. A failure prints the way.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import mcp_django
from mcp_django.core.running.workers import close_workers
from mcp_django.exchange.chunks import CHUNK_SECONDS
from tests.support.data import token_of
from tests.support.peers import MODERN, ASGIPeer, Peer, Peers

_OURS = f"{Path(mcp_django.__file__).parent}/"
#: The whole call may enter so many files, and besides them so many of ``compat``, each of which stands for a part of
#: Django. The pauses, the calls that a pause ends, and the base of the kinds of tools are three of them.
_WHOLE, _COMPAT = 59, 5


class Way:
    """The functions of ours that are called, as (file, name, thread), in their order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int]] = []

    def trace(self, frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(_OURS):
            self.calls.append((path.removeprefix(_OURS), frame.f_code.co_qualname, threading.get_ident()))

    def before(self, file: str, name: str) -> Way:
        """The way to the first call of a function, which belongs to it.

        Of other threads, what came before this one had begun: what they do beside it comes as it happens.
        """
        end, thread = next(
            (i, thread) for i, (path, called, thread) in enumerate(self.calls) if path.endswith(file) and called == name
        )
        begun = next(i for i, call in enumerate(self.calls) if call[2] == thread)
        part = Way()
        part.calls = [*self.calls[:begun], *(call for call in self.calls[begun : end + 1] if call[2] == thread)]
        return part

    @property
    def files(self) -> list[str]:
        return sorted({path for path, _, _ in self.calls})

    @property
    def stations(self) -> list[str]:
        """The files one after the other, each with the functions that are called before the next one is entered."""
        visits = groupby(self.calls, key=lambda call: call[0])
        return [f"{path}: {', '.join(name for _, name, _ in calls)}" for path, calls in visits]

    def __str__(self) -> str:
        return "\n".join([f"{len(self.files)} files, {len(self.stations) - 1} moves", *self.stations])


@contextmanager
def traced(peer: Peer) -> Iterator[Way]:
    """Trace this thread, the loop that serves the peer, and workers."""
    way = Way()
    loop = peer.loop if isinstance(peer, ASGIPeer) else None
    # Those that are made now are traced from their beginning.
    close_workers()
    threading.setprofile(way.trace)
    _profile(loop, way.trace)
    try:
        yield way
    finally:
        _profile(loop, None)
        threading.setprofile(None)
        close_workers()


def _profile(loop: Any, trace: Any) -> None:
    async def set_there() -> None:
        # Behind a call that has just been answered: its last steps are no part of this one. The latest of them is the
        # chunk that may go next.
        await asyncio.sleep(CHUNK_SECONDS)
        sys.setprofile(trace)

    sys.setprofile(trace) if loop is None else loop.run(set_there())


@pytest.fixture
def way(settings: Any, peers: Peers, users: Any, flights: Any) -> Way:
    """The way of a second call: caches and the URLs are there, and the hub does nothing of its own meanwhile."""
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 3600}
    peer = peers(token_of(users.admin))
    asked = {"name": "find_records", "arguments": {"model": "flights.flight"}}
    peer.result(MODERN, "tools/call", asked)
    with traced(peer) as way:
        peer.result(MODERN, "tools/call", asked)
    return way


@pytest.mark.own_form
@pytest.mark.parametrize(
    ("transport", "files", "moves"), [("http-asgi", 17, 35), ("http-view-asgi", 18, 36), ("http-view-wsgi", 16, 31)]
)
def test_a_call_is_dispatched_after_few_files_and_moves(way: Way, files: int, moves: int) -> None:
    to_dispatch = way.before("dispatch.py", "respond")

    assert len(to_dispatch.files) <= files, str(to_dispatch)
    assert len(to_dispatch.stations) - 1 <= moves, str(to_dispatch)


@pytest.mark.own_form
@pytest.mark.parametrize("transport", ["http-asgi", "http-view-wsgi"])
def test_a_call_enters_few_files_in_all(way: Way) -> None:
    compat = [path for path in way.files if path.startswith("core/compat/")]

    assert len(way.files) - len(compat) <= _WHOLE, "\n".join([str(way), *way.files])
    assert len(compat) <= _COMPAT, compat


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-asgi"])
def test_a_call_that_listens_to_nothing_attaches_nothing_to_the_hub(way: Way) -> None:
    assert "transports/attachment.py" not in way.files, way
