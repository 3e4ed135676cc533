"""The parts of one call to our ASGI application, without a server and without threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, TypeVar

from django.http import HttpRequest
from django.test import override_settings

from bench import floors
from bench.goals import Goal
from bench.in_process import ask
from bench.parts import PARTS, Clock, event_costs
from bench.peers.work import PERMISSION, greeting
from bench.served.asgi import application
from bench.serving.calls import (
    FIND,
    GREET,
    INITIALIZE,
    INITIALIZED,
    JSON,
    LEGACY,
    MODERN,
    OUR_TOOLS,
    Call,
    call,
    message,
)
from mcp_django import tool
from mcp_django.core.running.workers import Workers, _call, working_with

T = TypeVar("T")

_GOAL = 1.75


@tool(permission=PERMISSION, read_only=True)
def greet_permitted(request: HttpRequest, name: str) -> str:
    """Greet somebody."""
    return greeting(name)


@dataclass(frozen=True, slots=True)
class Case:
    """A call, and the settings under which it is made."""

    title: str
    tool: tuple[str, JSON]
    era: str = MODERN
    in_session: bool = False
    #: TOKEN_CACHE_SECONDS, where there is a token.
    cache_seconds: float | None = None


_PERMITTED = ("greet_permitted", OUR_TOOLS[GREET][1])
CASES = (
    Case("trivial", OUR_TOOLS[GREET]),
    Case("token, read anew", _PERMITTED, cache_seconds=0),
    Case("token, remembered", _PERMITTED, cache_seconds=1),
    Case("in a session", OUR_TOOLS[GREET], LEGACY, in_session=True),
    Case("20 rows", OUR_TOOLS[FIND]),
    Case("20 rows, token, read anew", OUR_TOOLS[FIND], cache_seconds=0),
)


@dataclass(slots=True)
class Profile:
    """The fastest of many calls, and how much of it each part was."""

    microseconds: float = float("inf")
    shares: Mapping[str, float] = field(default_factory=dict)


class InLoop(Workers):
    """Workers whose calls run in the thread of the loop."""

    async def run(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> T:
        return _call(function, args)

    def submit(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> asyncio.Future[T]:
        future = asyncio.get_running_loop().create_future()
        try:
            future.set_result(_call(function, args))
        except Exception as error:  # noqa: BLE001 - raised again where it is awaited
            future.set_exception(error)
        return future


def measure(token: str, calls: int) -> tuple[str, Goal]:
    """The table in Markdown, and the goal. Raises RuntimeError where a call fails."""
    profiles = {}
    for case in CASES:
        with _settings(case), working_with(InLoop(0)):
            profiles[case.title] = asyncio.run(_profile(case, token, calls))
    whole, orm = profiles["20 rows"].microseconds, floors.orm(calls)
    return _table(profiles), Goal("20 rows, the whole request, to the ORM alone", whole / orm, _GOAL)


@contextmanager
def _settings(case: Case) -> Iterator[None]:
    """Those of ``bench.served``, with and without a token."""
    if case.cache_seconds is None:
        yield
        return
    backends = ["django.contrib.auth.backends.ModelBackend"]
    changed = {"ANONYMOUS_SCOPES": [], "TOKEN_CACHE_SECONDS": case.cache_seconds}
    with override_settings(AUTHENTICATION_BACKENDS=backends, MCP=changed):
        yield


async def _profile(case: Case, token: str, calls: int) -> Profile:
    headers = {} if case.cache_seconds is None else {"Authorization": f"Bearer {token}"}
    if case.in_session:
        headers |= await _open_session(call(case.tool, LEGACY, headers))
    asked = call(case.tool, case.era, headers)
    costs, profile, profiled = event_costs(), Profile(), float("inf")
    for _ in range(calls):
        started = perf_counter_ns()
        _, body = await ask(application, asked)
        profile.microseconds = min(profile.microseconds, (perf_counter_ns() - started) / 1e3)
        if json.loads(body)["result"].get("isError", True):
            raise RuntimeError(f"A call was answered with {body[:500]!r}")
        clock = Clock()
        with clock.running():
            await ask(application, asked)
        if (taken := clock.nanoseconds.total()) < profiled:
            profiled, profile.shares = taken, clock.shares(costs)
    return profile


async def _open_session(asked: Call) -> dict[str, str]:
    sent = {name: value for name, value in asked.headers.items() if name != "MCP-Protocol-Version"}
    received, _ = await ask(application, Call(message("initialize", INITIALIZE), sent))
    session = {"Mcp-Session-Id": received["mcp-session-id"]}
    await ask(application, Call(INITIALIZED, {**asked.headers, **session}))
    return session


def _table(profiles: Mapping[str, Profile]) -> str:
    rows = [["µs of one call", *profiles], ["---", *["---:"] * len(profiles)]]
    for part in PARTS:
        taken = [profile.microseconds * profile.shares.get(part, 0) for profile in profiles.values()]
        rows.append([part, *(f"{one:,.0f}" for one in taken)])
    rows.append(["in all", *(f"{profile.microseconds:,.0f}" for profile in profiles.values())])
    return "\n".join(["", *(f"| {' | '.join(row)} |" for row in rows)])
