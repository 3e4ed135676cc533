"""A thousand saves a second through Redis for ten minutes: whether a notification is lost, and what memory does.

.venv/bin/python -m bench.steady [--minutes N] [--rate N] [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.asgi_server import ROOT
from bench.cluster import Cluster, Member, cluster
from bench.goals import Goal
from bench.memory import own_bytes
from bench.sockets_client import Socket, Sockets

if TYPE_CHECKING:
    from demo_project.flights.models import Plane

MINUTES, RATE = 10, 1_000
#: Sockets, and how many planes each of them watches alone: what one listen may watch (MAX_SUBSCRIPTIONS).
_SOCKETS, _EACH = 20, 200
#: Of so many planes a client reads one whenever it is notified of it.
_READ_ONE_IN = 20
#: Minutes in which caches and pools fill, if there are more.
_WARM_MINUTES = 2
#: How long nothing has come when everything has.
_QUIET_SECONDS = 3.0
#: What a server logs of a gap in the numbers of the bus.
_LOST = "events of another process were lost"
_UPDATED = re.compile(rb'"notifications/resources/updated","params":\{"uri":"(db://flights/plane/\w+)"')
_READ = re.compile(rb'"id":"(db://flights/plane/\w+)"')
_MODEL = re.compile(rb'\\"model\\": ?\\"(\d+)\\"')


def plane(number: int) -> Plane:
    """The plane with this number, as it is first saved."""
    from demo_project.flights.models import Plane

    return Plane(
        tailnum=f"S{number}", type="Rotorcraft", manufacturer="-", model="0", engines=2, seats=4, engine="Turbo-fan"
    )


def _uri(number: int) -> str:
    return f"db://flights/plane/S{number}"


@dataclass
class Clients:
    """What the clients were notified of, and what they have read then. All are read by one thread."""

    sockets: Sockets
    #: URI → the socket that watches it.
    watching: Mapping[str, Socket]
    heard: Counter[str] = field(default_factory=Counter)
    #: URI → the last state that was read.
    read: dict[str, str] = field(default_factory=dict)
    #: Frames that say neither.
    strange: list[bytes] = field(default_factory=list)

    def listen(self, ended: threading.Event) -> None:
        """Take what comes until the event is set and nothing has come for a while."""
        while True:
            try:
                for _, frame in self.sockets.gather(1, _QUIET_SECONDS):
                    self._take(frame)
            except TimeoutError:
                if ended.is_set():
                    return

    def _take(self, frame: bytes) -> None:
        if (updated := _UPDATED.search(frame)) is not None:
            uri = updated[1].decode()
            self.heard[uri] += 1
            if int(uri.rpartition("S")[2]) % _READ_ONE_IN == 0:
                self.watching[uri].send(_read_message(uri))
        elif (answered := _READ.search(frame)) is not None and (model := _MODEL.search(frame)) is not None:
            self.read[answered[1].decode()] = model[1].decode()
        else:
            self.strange.append(frame)


def _read_message(uri: str) -> bytes:
    from bench.fanout import META

    params = {"uri": uri, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": uri, "method": "resources/read", "params": params}).encode()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.steady", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=int, default=MINUTES, help=f"how long is saved ({MINUTES})")
    parser.add_argument("--rate", type=int, default=RATE, help=f"how many saves a second ({RATE})")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args(arguments)
    with cluster() as run:
        goals = list(_measure(run, options.minutes, options.rate))
    print("\nGoals", *goals, sep="\n")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


def _measure(run: Cluster, minutes: int, rate: int) -> Iterator[Goal]:
    from demo_project.flights.models import Plane

    Plane.objects.bulk_create(plane(number) for number in range(_SOCKETS * _EACH))
    with run.serving(1) as [server], _clients(server) as clients, _saver() as saver:
        # A server that has just joined the bus looks again, once or twice.
        resyncs, gaps = server.resyncs(), run.logged(_LOST)
        print(f"\n## {rate:,} saves a second, {_SOCKETS} sockets that watch {_EACH} planes each\n")
        print("| minute | saves a second | messages of the bus | server | saving process |\n|---|---|---|---|---|")
        memory, saves, seconds = [], 0, 0.0
        for minute in range(1, minutes + 1):
            messages = run.messages()
            done = _saved(saver, clients, rate)
            saves, seconds = saves + done["saves"], seconds + done["seconds"]
            server.inside(collect=True)
            memory.append((server.memory(), own_bytes(saver.pid)))
            sizes = " | ".join(f"{size / 1e6:.1f} MB" for size in memory[-1])
            pace = done["saves"] / done["seconds"]
            print(f"| {minute} | {pace:,.0f} | {run.messages() - messages:,} | {sizes} |", flush=True)
        resyncs, gaps = server.resyncs() - resyncs, run.logged(_LOST) - gaps
    rows = dict(Plane.objects.filter(tailnum__startswith="S").values_list("tailnum", "model"))
    stale = [uri for uri, model in clients.read.items() if rows[uri.rpartition("/")[2]] != model]
    unread = len(range(0, _SOCKETS * _EACH, _READ_ONE_IN)) - len(clients.read)
    heard = clients.heard.total()
    print(f"\n{saves:,} saves, {heard:,} notifications, {len(clients.read)} rows read, {len(clients.strange)} others")
    yield Goal("saves a second, less than was asked for", rate / (saves / seconds), 1.02)
    yield Goal("saves that nobody was notified of", _missed(clients.heard, saves), 0, "saves")
    yield Goal("rows whose last state was not read", len(stale) + unread, 0, "rows")
    yield Goal("frames that say something else", len(clients.strange), 0, "frames")
    yield Goal("gaps in the numbers of the bus", gaps, 0, "gaps")
    yield Goal("times that all had to look again", resyncs, 0, "times")
    warm = memory[min(_WARM_MINUTES, len(memory) - 1) :]
    for title, sizes_of in zip(("server", "saving process"), zip(*warm, strict=True), strict=True):
        yield Goal(f"memory of the {title}, last minute to the first warm one", sizes_of[-1] / sizes_of[0], 1.03)


def _missed(heard: Mapping[str, int], saves: int) -> int:
    """How many notifications are missing, row by row: the rows were saved in turn."""
    rounds, more = divmod(saves, _SOCKETS * _EACH)
    due = {_uri(number): rounds + (number < more) for number in range(_SOCKETS * _EACH)}
    return sum(max(0, count - heard[uri]) for uri, count in due.items())


@contextmanager
def _clients(server: Member) -> Iterator[Clients]:
    from bench.fanout import listening
    from bench.principals import Principals

    uris = [[_uri(first + number) for number in range(_EACH)] for first in range(0, _SOCKETS * _EACH, _EACH)]
    tokens = Principals.made(_SOCKETS).tokens
    with listening(server, tokens, resources=uris) as sockets:
        # The last listen was sent on the first socket.
        watching = {uri: one for one, watched in zip(sockets, reversed(uris), strict=True) for uri in watched}
        yield Clients(sockets, watching)


@contextmanager
def _saver() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.saver", str(_SOCKETS * _EACH)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _saved(saver: subprocess.Popen[str], clients: Clients, rate: int) -> Mapping[str, Any]:
    """What the saver says of a minute, once the clients have heard of it. Raises ValueError where it has failed."""
    assert saver.stdin is not None
    assert saver.stdout is not None
    saver.stdin.write(json.dumps({"seconds": 60, "rate": rate}) + "\n")
    saver.stdin.flush()
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(clients.listen, ended)
        try:
            done: dict[str, Any] = json.loads(saver.stdout.readline())
        finally:
            ended.set()
        listening.result()
    return done


if __name__ == "__main__":
    sys.exit(main())
