"""Which part of a message the interpreter is at: the time between two events of its profiler goes to that part."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

import mcp_django

TRANSPORT = "transport"
AUTHENTICATION = "authentication"
ENVELOPE = "headers, envelope"
VALIDATION = "params validation"
RIGHTS = "rights, permission"
OVERRIDES = "overrides"
SESSION = "session"
THROTTLES = "throttles"
DISPATCH = "dispatch"
TOOL = "tool"
ROWS = "rows, columns, cursors"
SHAPING = "result shaping"
JSON = "JSON"
TRAIL = "trail"
#: In the order of a message.
PARTS = (
    TRANSPORT, ENVELOPE, AUTHENTICATION, SESSION, THROTTLES, DISPATCH, VALIDATION, OVERRIDES, RIGHTS, TOOL, ROWS,
    SHAPING, JSON, TRAIL,
)  # fmt: skip

#: How the path of a file in the package begins, with a function's name where the file is not all of a part → the part.
#: The longest counts. What is not named, as ``db`` and ``compat``, is at work for whoever calls it: as Django is.
OWNERS = {
    "access/authentication": AUTHENTICATION,
    "access/origins": ENVELOPE,
    "access/overrides": OVERRIDES,
    "access/permissions": RIGHTS,
    "access/throttling/": THROTTLES,
    "access/throttling/failures": AUTHENTICATION,
    "access/trail": TRAIL,
    "access/user_permissions": RIGHTS,
    "audit/": TRAIL,
    "bridge/resources/": ROWS,
    "bridge/resources/policy": RIGHTS,
    "bridge/signatures": TOOL,
    "bridge/tools/": TOOL,
    "bridge/tools/results": SHAPING,
    "bridge/tools/returns": SHAPING,
    "core/running/": TRANSPORT,
    "exchange/": DISPATCH,
    "exchange/principals": AUTHENTICATION,
    "exchange/scopes": RIGHTS,
    "exchange/usage": TRAIL,
    "models/tokens": AUTHENTICATION,
    "protocol/envelope": ENVELOPE,
    "protocol/json_schema/": VALIDATION,
    "protocol/jsonrpc": JSON,
    "protocol/projection": SHAPING,
    "push/sessions/": SESSION,
    "server/": DISPATCH,
    "server/dispatch.py:_answer": SHAPING,
    "server/dispatch.py:_validate": VALIDATION,
    "server/dispatch.py:shape": SHAPING,
    "server/telemetry": TRAIL,
    "server/trail": TRAIL,
    "transports/": TRANSPORT,
    "transports/http/headers": ENVELOPE,
    "transports/http/sessions": SESSION,
}
#: Packages of others that do one thing for us.
_VALIDATORS = frozenset({"pydantic", "mcp_types"})
_PACKAGE = Path(mcp_django.__file__).parent


def part_of(code: CodeType) -> str | None:
    """The part that a function belongs to; None where it is at work for its caller."""
    path = Path(code.co_filename)
    if not path.is_relative_to(_PACKAGE):
        return VALIDATION if not _VALIDATORS.isdisjoint(path.parts) else None
    name = f"{path.relative_to(_PACKAGE).as_posix()}:{code.co_name}"
    found = max((begin for begin in OWNERS if name.startswith(begin)), key=len, default="")
    return OWNERS.get(found)


class Clock:
    """The nanoseconds of each part, of this thread, and how many events of the profiler came while it was at work."""

    def __init__(self) -> None:
        self.nanoseconds: Counter[str] = Counter()
        #: Those of functions in Python, and those of functions in C, which are heard faster.
        self.events: Counter[str] = Counter()
        self.events_in_c: Counter[str] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take the time of what the block does: it begins in the transport."""
        stack, here, since, seen, seen_in_c = [], TRANSPORT, perf_counter_ns(), 0, 0
        # By their identity: to hash code takes longer than to run it.
        parts = _parts

        def hear(frame: FrameType, event: str, _: Any) -> None:
            nonlocal here, since, seen, seen_in_c
            if event == "call":
                seen += 1
                stack.append(here)
                code = frame.f_code
                key = id(code)
                if key not in parts:
                    parts[key] = part_of(code), code
                following = parts[key][0] or here
            elif event == "return" and stack:
                seen += 1
                following = stack.pop()
            else:
                seen_in_c += 1
                return
            if following is not here:
                now = perf_counter_ns()
                self.nanoseconds[here] += now - since
                self.events[here] += seen
                self.events_in_c[here] += seen_in_c
                here, since, seen, seen_in_c = following, now, 0, 0

        sys.setprofile(hear)
        try:
            yield
        finally:
            sys.setprofile(None)
            self.nanoseconds[here] += perf_counter_ns() - since
            self.events[here] += seen
            self.events_in_c[here] += seen_in_c

    def shares(self, costs: tuple[float, float]) -> dict[str, float]:
        """How much of the whole each part is, without what the profiler took for its events (``event_costs``)."""
        in_python, in_c = costs
        own = {
            part: max(1.0, taken - self.events[part] * in_python - self.events_in_c[part] * in_c)
            for part, taken in self.nanoseconds.items()
        }
        return {part: taken / sum(own.values()) for part, taken in own.items()}


#: The part of a function by the identity of its code, and the code, so that it stays the only one of that identity.
_parts: dict[int, tuple[str | None, CodeType]] = {}


def event_costs() -> tuple[float, float]:
    """The nanoseconds that an event of the profiler takes: of a function in Python, and of one in C."""

    def nothing() -> None:
        pass

    return _event_cost(nothing), _event_cost(id, 0)


_RUNS, _TIMES = 20, 1_000


def _event_cost(function: Callable[..., object], *args: object) -> float:
    """The least of several runs, each of which calls a function often: its call is an event, and its end."""

    def call() -> None:
        for _ in range(_TIMES):
            function(*args)

    plain, heard = [], []
    for _ in range(_RUNS):
        started = perf_counter_ns()
        call()
        plain.append(perf_counter_ns() - started)
        clock = Clock()
        with clock.running():
            call()
        heard.append(clock.nanoseconds.total())
    return (min(heard) - min(plain)) / (2 * _TIMES)
