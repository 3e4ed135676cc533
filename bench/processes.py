"""What a process costs among 1, 5, 15 and 30 of them, while nothing happens and by event: whether anything grows.

.venv/bin/python -m bench.processes [--processes N ...] [--seconds N] [--statements] [--check]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import median

import httpx

from bench.cluster import Cluster, cluster
from bench.goals import Goal
from bench.memory import SESSION, URI
from bench.sockets_client import Sockets

PROCESSES = (1, 5, 15, 30)
SECONDS = 60
#: Sockets of each process: each listens to the row that is saved, and to the list of tools.
_SOCKETS = 3
#: How long a publisher takes until it repeats its number as seldom as it ever does: 0.25 + 0.5 + … + 30 s.
_SETTLE_SECONDS = 65
#: So often each event happens, and the seconds from one to the next. What it leads to is over by then.
_EVENTS, _PAUSE_SECONDS = 8, 3.0
#: How much more a process may cost among many than among few: while nothing happens, and for an event, which is so
#: little that other processes of the machine, and its caches, make a difference.
_IDLE_GROWTH, _EVENT_GROWTH = 1.3, 2.0
#: The page asks every process, and each hears what all answer: its cost to a process grows with their number.
CONNECTIONS = "the page Connections"


@dataclass(frozen=True)
class Spent:
    """What was counted between two moments."""

    seconds: float
    messages: int
    statements: int
    #: Seconds of the processor that each server has had, the middle one and all of them.
    each: float
    all: float

    @property
    def minutes(self) -> float:
        return self.seconds / 60


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.processes", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--processes", type=int, nargs="+", default=PROCESSES, help="how many servers there are")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"how long nothing happens ({SECONDS})")
    parser.add_argument("--statements", action="store_true", help="name the statements that are asked")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal is missed")
    options = parser.parse_args(arguments)
    with cluster() as run:
        idle: dict[int, Spent] = {}
        events: dict[int, Mapping[str, Spent]] = {}
        for number in options.processes:
            with _listening(run, number) as sockets:
                sockets.drain(_SETTLE_SECONDS)
                idle[number] = _while_nothing_happens(run, sockets, options.seconds, options.statements)
                events[number] = _by_event(run, sockets, idle[number])
                print(number, idle[number], *events[number].items(), sep="\n  ", file=sys.stderr, flush=True)
    _print(idle, events)
    goals = list(_goals(idle, events))
    print("\nGoals", *goals, sep="\n")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


@contextmanager
def _listening(run: Cluster, number: int) -> Iterator[Sockets]:
    """So many servers, each with sockets that listen, and with a session that the others have heard of.

    From then on it repeats the number of its last event, as every process does that has ever saved something.
    """
    from bench.fanout import listen_message
    from bench.principals import Principals

    tokens = Principals.made(_SOCKETS).tokens
    listen = listen_message([URI], toolsListChanged=True)
    sockets = Sockets()
    with run.serving(number) as servers, closing(sockets):
        for server in servers:
            for token in tokens:
                [[opened]] = sockets.open(server.websocket_url, [token])
                opened.send(listen)
                list(sockets.gather(1))
            _begin_session(f"{server.origin}/mcp", tokens[0])
        yield sockets


def _begin_session(url: str, token: str) -> None:
    """Open a stored session that watches a resource."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    with httpx.Client(headers={**headers, "Content-Type": "application/json"}, timeout=60) as client:
        for message in SESSION:
            answer = client.post(url, content=message).raise_for_status()
            if "mcp-session-id" in answer.headers:
                client.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]


def _while_nothing_happens(run: Cluster, sockets: Sockets, seconds: int, names_statements: bool) -> Spent:
    before = dict(run.counted())
    spent = _spent(run, lambda: sockets.drain(seconds))
    if names_statements:
        more = {text: count - before.get(text, 0) for text, count in run.counted()}
        for text in sorted(more, key=lambda text: -more[text])[:8]:
            print(f"{more[text]:6} {text[:150]}", file=sys.stderr)
    return spent


def _spent(run: Cluster, work: Callable[[], None]) -> Spent:
    def counts() -> tuple[float, int, int, list[float]]:
        seconds = [server.processor_seconds() for server in run.servers]
        return time.monotonic(), run.messages(), run.statements(), seconds

    before = counts()
    work()
    after = counts()
    servers = [now - then for then, now in zip(before[3], after[3], strict=True)]
    return Spent(after[0] - before[0], after[1] - before[1], after[2] - before[2], median(servers), sum(servers))


def _by_event(run: Cluster, sockets: Sockets, idle: Spent) -> Mapping[str, Spent]:
    """What one event of each kind costs, what is spent while nothing happens taken off."""
    from django.contrib.auth.models import User

    from demo_project.flights.models import Airline
    from mcp_django.models import AccessToken, Tool
    from mcp_django.push.roll_call import ask_everybody

    airline, tool = Airline.objects.get(pk="UA"), Tool.objects.filter(enabled=True)[0]
    user = User.objects.filter(username__startswith="bench-")[0]
    tokens = [AccessToken.objects.create_token(user=user, name="revoked")[0] for _ in range(_EVENTS)]

    def switch() -> None:
        tool.enabled = not tool.enabled
        tool.save()

    events: Mapping[str, Callable[[], object]] = {
        "a save that everybody watches": airline.save,
        "a tool is switched on or off": switch,
        "a token is revoked": lambda: tokens.pop().revoke(),
        CONNECTIONS: ask_everybody,
    }
    found = {}
    for name, event in events.items():

        def happen(event: Callable[[], object] = event) -> None:
            for _ in range(_EVENTS):
                event()
                sockets.drain(_PAUSE_SECONDS)

        spent = _spent(run, happen)
        found[name] = _of_one(spent, idle)
    return found


def _of_one(spent: Spent, idle: Spent) -> Spent:
    """What one of the events has cost, beyond what is spent while nothing happens."""
    share = spent.seconds / idle.seconds

    def beyond(all_of_them: float, while_idle: float) -> float:
        return max(0.0, all_of_them - share * while_idle) / _EVENTS

    return Spent(
        spent.seconds / _EVENTS,
        round(beyond(spent.messages, idle.messages)),
        round(beyond(spent.statements, idle.statements)),
        beyond(spent.each, idle.each),
        beyond(spent.all, idle.all),
    )


def _print(idle: Mapping[int, Spent], events: Mapping[int, Mapping[str, Spent]]) -> None:
    print("\n## While nothing happens, in a minute\n")
    print("| processes | messages of the bus | statements of a process | processor of a process | processor of all |")
    print("|---:|---:|---:|---:|---:|")
    for number, spent in idle.items():
        figures = f"{spent.messages / spent.minutes:,.1f} | {spent.statements / spent.minutes / number:,.0f}"
        each, in_all = (1_000 * seconds / spent.minutes for seconds in (spent.each, spent.all))
        print(f"| {number} | {figures} | {each:,.0f} ms | {in_all:,.0f} ms |")
    print(f"\n## One event, {_SOCKETS} sockets at each process\n")
    print("| event | processes | messages of the bus | statements of all | processor of a process | processor of all |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in next(iter(events.values())):
        for number, costs in events.items():
            spent = costs[name]
            processor = f"{1_000 * spent.each:,.1f} ms | {1_000 * spent.all:,.1f} ms"
            print(f"| {name} | {number} | {spent.messages} | {spent.statements} | {processor} |")


def _goals(idle: Mapping[int, Spent], events: Mapping[int, Mapping[str, Spent]]) -> Iterator[Goal]:
    """What a process costs among the most, to what it costs among the fewest that have others beside them."""
    fewest, most = next((number for number in sorted(idle) if number > 1), min(idle)), max(idle)
    few, many = idle[fewest], idle[most]
    where = f"a process among {most}, to one among {fewest}"
    each = (many.messages / many.minutes / most) / (few.messages / few.minutes / fewest)
    yield Goal(f"idle, messages, {where}", each, _IDLE_GROWTH)
    each = (many.statements / many.minutes / most) / (few.statements / few.minutes / fewest)
    yield Goal(f"idle, statements, {where}", each, _IDLE_GROWTH)
    yield Goal(f"idle, processor, {where}", (many.each / many.minutes) / (few.each / few.minutes), _IDLE_GROWTH)
    for name in events[most]:
        growth = events[most][name].each / max(events[fewest][name].each, 1e-6)
        yield Goal(f"{name}, processor, {where}", growth, most / fewest if name == CONNECTIONS else _EVENT_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
