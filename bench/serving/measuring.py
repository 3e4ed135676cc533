"""Measuring a table: all answer the same, then take turns, so that what else the machine does falls on all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.serving import load
from bench.serving.calls import (
    INITIALIZE,
    JSON,
    LEGACY,
    OUR_ASYNC_TOOLS,
    OUR_TOOLS,
    THEIR_TOOLS,
    Call,
    ask,
    call,
    message,
    open_session,
)
from bench.serving.data import database_of, variables
from bench.serving.load import Reading
from bench.serving.processes import Running, Server, serving
from bench.serving.tables import SESSION, SOCKET, Line, Table

#: By the title of a line and the work.
Readings = Mapping[tuple[str, str], Reading]

_WARM_UP_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Contestant:
    """A line that is asked for one work: ``measure(seconds)``."""

    line: Line
    work: str
    measure: Callable[[int], Reading]


def measure(
    table: Table, folder: Path, tokens: Mapping[str, str], length: tuple[int, int], advance: Callable[[], object]
) -> Readings:
    """The medians of so many rounds of so many seconds.

    Raises RuntimeError where a server fails, or answers otherwise than the others.
    """
    rounds, seconds = length
    with _running(table, folder) as servers:
        contestants = _contestants(table, folder, tokens, servers)
        for contestant in contestants:
            contestant.measure(_WARM_UP_SECONDS)
            advance()
        readings: dict[tuple[str, str], list[Reading]] = {}
        for turn in range(rounds):
            # Whoever begins this time comes last the next time.
            for contestant in contestants[turn % len(contestants) :] + contestants[: turn % len(contestants)]:
                key = contestant.line.title, contestant.work
                readings.setdefault(key, []).append(contestant.measure(seconds))
                advance()
    return {key: _median(taken) for key, taken in readings.items()}


def turns(table: Table, rounds: int) -> int:
    """How often ``advance`` is called."""
    return sum(len(table.works_of(line)) for line in table.lines) * (rounds + 1)


def _median(readings: list[Reading]) -> Reading:
    return Reading(
        median(reading.rate for reading in readings),
        median(reading.cost for reading in readings),
        median(reading.share for reading in readings),
    )


@contextmanager
def _running(table: Table, folder: Path) -> Iterator[Mapping[Server, Running]]:
    """All servers of a table; those that wait for their turn take no time of the processor."""
    with ExitStack() as stack:
        running = {}
        for number, server in enumerate(dict.fromkeys(line.server for line in table.lines)):
            known = (*server.variables, *variables(folder, server).items())
            started = Server(server.environment, server.application, server.runner, known)
            running[server] = stack.enter_context(serving(started, folder / f"server-{number}.log"))
        yield running


def _contestants(
    table: Table, folder: Path, tokens: Mapping[str, str], servers: Mapping[Server, Running]
) -> list[Contestant]:
    found = []
    for work in table.works:
        expected = None
        for line in table.lines:
            if work not in table.works_of(line):
                continue
            running = servers[line.server]
            if line.way == SOCKET:
                found.append(Contestant(line, work, _over_websocket(line, work, running)))
                continue
            asked = call(_tools(line)[work], line.era, _headers(line, running, tokens))
            answer = ask(running.port, asked)
            expected = answer if expected is None else expected
            if answer != expected:
                raise RuntimeError(f"{line.title} answers the {work} with {answer!r:.500}, and not {expected!r:.500}")

            def over_http(seconds: int, running: Running = running, asked: Call = asked) -> Reading:
                return load.over_http(running, asked, seconds, folder)

            found.append(Contestant(line, work, over_http))
    return found


def _tools(line: Line) -> Mapping[str, tuple[str, JSON]]:
    if not line.is_ours:
        return THEIR_TOOLS
    return OUR_ASYNC_TOOLS if line.is_async else OUR_TOOLS


def _headers(line: Line, running: Running, tokens: Mapping[str, str]) -> dict[str, str]:
    headers = {}
    if dict(line.server.variables).get("BENCH_TOKENS"):
        # What the authentication of Django REST framework calls it.
        scheme = "Token" if line.server.environment == "toolset" else "Bearer"
        by_hand, *of_client = tokens[database_of(line.server)].split()
        headers["Authorization"] = f"{scheme} {of_client[0] if line.is_oauth else by_hand}"
        if line.is_oauth:
            # The token is for this host alone, whatever the port is.
            headers["Host"] = "localhost"
    return {**headers, **open_session(running.port, headers)} if line.way == SESSION else headers


def _over_websocket(line: Line, work: str, running: Running) -> Callable[[int], Reading]:
    body = call(_tools(line)[work], line.era, {}).body
    opening = message("initialize", INITIALIZE) if line.era == LEGACY else b""
    return lambda seconds: load.over_websocket(running, "/mcp", body, seconds, opening)
