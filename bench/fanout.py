"""One save, and thousands of sockets that are told of it: from asking for the save to the last socket's frame."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Protocol

from tqdm import tqdm

from bench import asgi_server
from bench.goals import Goal
from bench.principals import Principals
from bench.sockets_client import Sockets, raise_open_files

#: What every request of the revision says of itself.
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def listen_message(uris: Sequence[str], **lists: bool) -> bytes:
    """A listen of these resources, and of lists, as ``toolsListChanged=True``."""
    params = {"_meta": META, "notifications": {"resourceSubscriptions": list(uris), **lists}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).encode()


#: Rounds of one contestant at least, and how long they may take beyond these.
_FEWEST_ROUNDS, _MOST_SECONDS = 3, 15.0

#: How long the sockets are quiet before the first change: without a bus, nothing comes unasked.
_NO_BUS_SECONDS = 0.1

#: Principals at most, where they are distinct.
_DISTINCT = 1_000

_LABELS = {
    "loop": "bare ASGI app that saves the row, and loops over its sockets",
    "ours": "mcp_django, one principal",
    "distinct": "mcp_django, {distinct:,} distinct principals",
    "group_send": "bare group_send to a consumer per socket",
}


class Server(Protocol):
    """What sockets are opened to."""

    @property
    def websocket_url(self) -> str: ...


@contextmanager
def listening(
    server: Server,
    tokens: Sequence[str],
    *,
    listens: bool = True,
    resources: Sequence[Sequence[str]] = (),
    quiet_seconds: float = 1,
) -> Iterator[Sockets]:
    """Sockets with these tokens, each with a listen that is acknowledged: for the one row, or for its ``resources``.

    They have been quiet for so long, since a server that has just joined its bus tells everybody to look.
    """
    raise_open_files()
    sockets = Sockets()
    messages = [listen_message(uris) for uris in resources]
    bodies = messages or [listen_message(["db://flights/airline/UA"])] * len(tokens)
    try:
        with tqdm(desc="opening sockets", total=len(tokens), disable=None, leave=False) as bar:
            for opened in sockets.open(server.websocket_url, tokens):
                if listens:
                    for one in opened:
                        one.send(bodies.pop())
                    missing = len(opened)
                    while missing:
                        # A server that has just joined its broker tells everybody to look, once.
                        missing -= sum(b"subscriptions/acknowledged" in frame for _, frame in sockets.gather(missing))
                bar.update(len(opened))
        sockets.drain(quiet_seconds)
        yield sockets
    finally:
        sockets.close()


def measure(principals: Principals, sizes: Sequence[int], rounds: int) -> list[Goal]:
    """Print a table of each contestant at each size; returns the goals of DESIGN's table of costs."""
    asgi_server.pin_load()
    print("\n## Fan-out\n\n| sockets | who notifies them | last socket | to the loop | processor |")
    print("|---|---|---|---|---|")
    goals = []
    for size in sizes:
        medians: dict[str, float] = {}
        for name, label in _LABELS.items():
            wall, processor = _told(name, principals, size, rounds)
            medians[name] = wall
            ratio = wall / medians["loop"]
            title = label.format(distinct=min(_DISTINCT, size))
            print(f"| {size:,} | {title} | {wall:.3f} s | {ratio:.2f} | {processor:.3f} s |", flush=True)
        to_loop, to_group_send = (1.8, 0.35) if size < 5_000 else (1.5, 0.15)
        goals.append(Goal(f"{size:,} sockets, to the loop", medians["ours"] / medians["loop"], to_loop))
        goals.append(Goal(f"{size:,} sockets, to group_send", medians["ours"] / medians["group_send"], to_group_send))
        if size <= _DISTINCT:
            each = (medians["distinct"] - medians["ours"]) / size * 1_000
            goals.append(Goal(f"{size:,} distinct principals, each", each, 0.09, "ms"))
    return goals


def _told(name: str, principals: Principals, size: int, rounds: int) -> tuple[float, float]:
    """Medians of the seconds until the last socket has its frame, and of the server's processor seconds."""
    ours = name in ("ours", "distinct")
    tokens = principals.of(min(_DISTINCT, size) if name == "distinct" else 1, size) if ours else [""] * size
    walls: list[float] = []
    processors: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {"BENCH_FANOUT": "ours" if ours else name, "BENCH_BUS": "", "REDIS_URL": ""}
        log = Path(folder, "server.log")
        with (
            asgi_server.uvicorn("bench.fanout_apps:application", log, **environment) as server,
            listening(server, tokens, listens=ours, quiet_seconds=_NO_BUS_SECONDS) as sockets,
        ):
            for number in range(-2, rounds):
                # What takes seconds is told apart in fewer rounds.
                if len(walls) >= _FEWEST_ROUNDS and sum(walls) > _MOST_SECONDS:
                    break
                processor, started = server.processor_seconds(), perf_counter()
                with server.asked("/fire"):
                    last = _last(sockets, size)
                if number >= 0:
                    walls.append(last - started)
                    processors.append(server.processor_seconds() - processor)
    return median(walls), median(processors)


def _last(sockets: Sockets, size: int) -> float:
    """When the last of so many notifications was read."""
    told = list(sockets.gather(size))
    strange = next((frame for _, frame in told if b"notifications/resources/updated" not in frame), None)
    if strange is not None:
        raise RuntimeError(f"a socket was told {strange.decode(errors='replace')}")
    return told[-1][0]
