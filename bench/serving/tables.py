"""What is compared with what, and the goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bench.serving.calls import CHANGE, FIND, GREET, LEGACY, MODERN
from bench.serving.data import DATABASE, OURS
from bench.serving.processes import Server

#: Over a WebSocket, or over HTTP in a session, or in none.
SESSION, SOCKET = "session", "socket"
#: What a goal compares: how many requests are answered, or the time of the processor that one takes.
RATE, PROCESSOR = "rate", "processor"


@dataclass(frozen=True, slots=True)
class Line:
    """A server that is asked in one way."""

    title: str
    server: Server
    era: str = MODERN
    #: SESSION or SOCKET, where it is one of them.
    way: str = ""
    #: What it is asked for, where that is not all that its table asks for.
    works: tuple[str, ...] = ()
    #: Whether our trivial tool is an ``async def``.
    is_async: bool = False
    #: Whether it does nothing but answer: what Django or Channels takes by itself.
    is_bare: bool = False
    #: Whether the token is one that an OAuth client has got.
    is_oauth: bool = False

    @property
    def is_ours(self) -> bool:
        return self.server.environment == OURS and not self.is_bare


@dataclass(frozen=True, slots=True)
class Target:
    """How many times another line one of ours should be, at least."""

    #: The title of our line.
    line: str
    work: str
    least: float
    #: The title of the other line; as it is, the base of its era.
    base: str = ""
    #: RATE or PROCESSOR.
    by: str = RATE


@dataclass(frozen=True, slots=True)
class Table:
    """Lines that are measured in turns, and compared with each other."""

    name: str
    title: str
    lines: tuple[Line, ...]
    #: The title of the line that the others are held against, for each era.
    bases: Mapping[str, str]
    works: tuple[str, ...] = (GREET, FIND)
    goals: tuple[Target, ...] = ()

    def works_of(self, line: Line) -> tuple[str, ...]:
        return line.works or self.works

    def ours(self) -> Table:
        """The table with our own lines alone, held against the first of them."""
        lines = tuple(line for line in self.lines if line.is_ours)
        return replace(self, lines=lines, bases=dict.fromkeys(self.bases, lines[0].title), goals=())


def _ours(runner: str = "uvicorn", application: str = "asgi:application", **variables: str) -> Server:
    return Server(OURS, f"bench.served.{application}", runner, tuple(variables.items()))


def _peer(name: str, runner: str = "uvicorn", application: str = "", **variables: str) -> Server:
    return Server(name, f"bench.peers.{application or name}:application", runner, tuple(variables.items()))


def _at_least(least: float, work: str, *lines: str) -> tuple[Target, ...]:
    """A goal of several lines."""
    return tuple(Target(line, work, least) for line in lines)


_WSGI = "wsgi:application"
_TOKENS = {"BENCH_TOKENS": "1"}
_POSTGRESQL = {**_TOKENS, DATABASE: "postgresql"}
#: Whether a process keeps what it has read of a caller for a second.
_ASKED, _REMEMBERED = {"BENCH_CACHE_SECONDS": "0"}, {"BENCH_CACHE_SECONDS": "1"}

_TOKEN_LINES = tuple(
    f"mcp_django, TOKEN_CACHE_SECONDS {seconds}, {era}" for era in (MODERN, LEGACY) for seconds in (1, 0)
)
_ASKED_LINE = f"mcp_django, TOKEN_CACHE_SECONDS 0, {MODERN}"

ASGI = Table(
    "asgi",
    "HTTP over ASGI, uvicorn, without authentication",
    (
        Line("mcp_django, 2026-07-28", _ours()),
        Line("mcp_django, async tool, 2026-07-28", _ours(), works=(GREET,), is_async=True),
        Line("official SDK 2.3, 2026-07-28", _peer("official")),
        Line("FastMCP 4.1, 2026-07-28", _peer("fast")),
        Line("mcp_django through Django's handler, 2026-07-28", _ours(application="asgi:django_application")),
        Line(
            "a bare async Django view",
            _ours(application="asgi:django_application", BENCH_URLCONF="bench.served.bare"),
            works=(GREET,),
            is_bare=True,
        ),
        Line("mcp_django, 2025-11-25", _ours(), LEGACY),
        Line("mcp_django in a session, 2025-11-25", _ours(), LEGACY, SESSION),
        Line("official SDK 2.3, stateless, 2025-11-25", _peer("official"), LEGACY),
        Line("FastMCP 4.1, stateless, 2025-11-25", _peer("fast"), LEGACY),
    ),
    {MODERN: "official SDK 2.3, 2026-07-28", LEGACY: "official SDK 2.3, stateless, 2025-11-25"},
    goals=(
        Target("mcp_django, 2026-07-28", GREET, 1.3),
        Target("mcp_django, async tool, 2026-07-28", GREET, 1.2),
        Target("mcp_django, 2026-07-28", FIND, 1.4),
        Target("mcp_django, 2025-11-25", FIND, 1.6),
        Target("mcp_django through Django's handler, 2026-07-28", GREET, 0.86, "a bare async Django view", PROCESSOR),
        Target("mcp_django in a session, 2025-11-25", GREET, 0.8, "mcp_django, 2025-11-25"),
    ),
)

SERVERS = Table(
    "servers",
    "HTTP over other ASGI servers, without authentication",
    (
        Line("mcp_django, granian, 2026-07-28", _ours("granian")),
        Line("official SDK 2.3, granian, 2026-07-28", _peer("official", "granian")),
        Line("mcp_django, Daphne, 2026-07-28", _ours("daphne")),
        Line("mcp_django, uvicorn without httptools and uvloop, 2026-07-28", _ours("uvicorn, h11")),
        Line("official SDK 2.3, uvicorn without httptools and uvloop, 2026-07-28", _peer("official", "uvicorn, h11")),
        Line("mcp_django, granian, 2025-11-25", _ours("granian"), LEGACY),
        Line("official SDK 2.3, granian, 2025-11-25", _peer("official", "granian"), LEGACY),
        Line("mcp_django, Daphne, 2025-11-25", _ours("daphne"), LEGACY),
    ),
    {MODERN: "official SDK 2.3, granian, 2026-07-28", LEGACY: "official SDK 2.3, granian, 2025-11-25"},
)

WSGI = Table(
    "wsgi",
    "HTTP over WSGI, gunicorn with threads, without authentication",
    (
        Line("mcp_django, 2026-07-28", _ours("gunicorn", _WSGI)),
        Line("django-mcpz 1.2, 2026-07-28", _peer("mcpz", "gunicorn", "wsgi")),
        Line("mcp_django, 2025-11-25", _ours("gunicorn", _WSGI), LEGACY),
        Line("django-mcpz 1.2, 2025-11-25", _peer("mcpz", "gunicorn", "wsgi"), LEGACY),
        Line("django-mcp-server 0.5.7, 2025-11-25", _peer("toolset", "gunicorn", "wsgi"), LEGACY),
    ),
    {MODERN: "django-mcpz 1.2, 2026-07-28", LEGACY: "django-mcpz 1.2, 2025-11-25"},
    goals=(
        *_at_least(0.8, GREET, "mcp_django, 2026-07-28", "mcp_django, 2025-11-25"),
        *_at_least(0.9, FIND, "mcp_django, 2026-07-28", "mcp_django, 2025-11-25"),
    ),
)

ASGI_TOKENS = Table(
    "asgi-tokens",
    "HTTP over ASGI, uvicorn, with a token and a permission",
    (
        Line("mcp_django, TOKEN_CACHE_SECONDS 1, 2026-07-28", _ours(**_TOKENS, **_REMEMBERED)),
        Line("mcp_django, TOKEN_CACHE_SECONDS 0, 2026-07-28", _ours(**_TOKENS, **_ASKED)),
        *(
            Line(
                f"mcp_django, OAuth, TOKEN_CACHE_SECONDS {seconds}, 2026-07-28",
                _ours(**_TOKENS, **cache), is_oauth=True,
            )
            for seconds, cache in ((1, _REMEMBERED), (0, _ASKED))
        ),
        Line("mcp_django, call_context overridden, 2026-07-28", _ours(**_TOKENS, BENCH_CALL_CONTEXT="1")),
        Line("official SDK 2.3, 2026-07-28", _peer("official", **_TOKENS)),
        Line("FastMCP 4.1, 2026-07-28", _peer("fast", **_TOKENS)),
        Line("mcp_django, TOKEN_CACHE_SECONDS 1, 2025-11-25", _ours(**_TOKENS, **_REMEMBERED), LEGACY),
        Line("mcp_django, TOKEN_CACHE_SECONDS 0, 2025-11-25", _ours(**_TOKENS, **_ASKED), LEGACY),
        Line(
            "mcp_django in a session, TOKEN_CACHE_SECONDS 1, 2025-11-25",
            _ours(**_TOKENS, **_REMEMBERED), LEGACY, SESSION,
        ),
        Line(
            "mcp_django in a session, TOKEN_CACHE_SECONDS 0, 2025-11-25", _ours(**_TOKENS, **_ASKED), LEGACY, SESSION
        ),
        Line("official SDK 2.3, stateless, 2025-11-25", _peer("official", **_TOKENS), LEGACY),
        Line("FastMCP 4.1, stateless, 2025-11-25", _peer("fast", **_TOKENS), LEGACY),
    ),
    {MODERN: "official SDK 2.3, 2026-07-28", LEGACY: "official SDK 2.3, stateless, 2025-11-25"},
    goals=(
        *_at_least(5, GREET, *(line for line in _TOKEN_LINES if line != _ASKED_LINE)),
        Target(_ASKED_LINE, GREET, 4.2),
        *_at_least(1.7, FIND, *_TOKEN_LINES),
        *(
            Target(
                f"mcp_django in a session, TOKEN_CACHE_SECONDS {seconds}, 2025-11-25", GREET, 0.8,
                f"mcp_django, TOKEN_CACHE_SECONDS {seconds}, 2025-11-25",
            )
            for seconds in (1, 0)
        ),
        *(
            Target(
                f"mcp_django, OAuth, TOKEN_CACHE_SECONDS {seconds}, 2026-07-28", work, 0.95,
                f"mcp_django, TOKEN_CACHE_SECONDS {seconds}, 2026-07-28", PROCESSOR,
            )
            for seconds in (1, 0)
            for work in (GREET, FIND)
        ),
    ),
)  # fmt: skip

POSTGRESQL = Table(
    "postgresql",
    "HTTP over ASGI, uvicorn, with a token and a permission, on PostgreSQL",
    (
        Line("mcp_django, TOKEN_CACHE_SECONDS 1, 2026-07-28", _ours(**_POSTGRESQL, **_REMEMBERED)),
        Line("mcp_django, TOKEN_CACHE_SECONDS 0, 2026-07-28", _ours(**_POSTGRESQL, **_ASKED)),
        Line("official SDK 2.3, 2026-07-28", _peer("official", **_POSTGRESQL)),
        Line("mcp_django, TOKEN_CACHE_SECONDS 1, 2025-11-25", _ours(**_POSTGRESQL, **_REMEMBERED), LEGACY),
        Line("mcp_django, TOKEN_CACHE_SECONDS 0, 2025-11-25", _ours(**_POSTGRESQL, **_ASKED), LEGACY),
        Line("official SDK 2.3, stateless, 2025-11-25", _peer("official", **_POSTGRESQL), LEGACY),
    ),
    {MODERN: "official SDK 2.3, 2026-07-28", LEGACY: "official SDK 2.3, stateless, 2025-11-25"},
)

WSGI_TOKENS = Table(
    "wsgi-tokens",
    "HTTP over WSGI, gunicorn with threads, with a token and a permission",
    (
        Line("mcp_django, TOKEN_CACHE_SECONDS 1, 2026-07-28", _ours("gunicorn", _WSGI, **_TOKENS, **_REMEMBERED)),
        Line("mcp_django, TOKEN_CACHE_SECONDS 0, 2026-07-28", _ours("gunicorn", _WSGI, **_TOKENS, **_ASKED)),
        Line("django-mcpz 1.2, 2026-07-28", _peer("mcpz", "gunicorn", "wsgi", **_TOKENS)),
        Line(
            "mcp_django, TOKEN_CACHE_SECONDS 1, 2025-11-25", _ours("gunicorn", _WSGI, **_TOKENS, **_REMEMBERED), LEGACY
        ),
        Line("mcp_django, TOKEN_CACHE_SECONDS 0, 2025-11-25", _ours("gunicorn", _WSGI, **_TOKENS, **_ASKED), LEGACY),
        Line("django-mcpz 1.2, 2025-11-25", _peer("mcpz", "gunicorn", "wsgi", **_TOKENS), LEGACY),
        Line("django-mcp-server 0.5.7, 2025-11-25", _peer("toolset", "gunicorn", "wsgi", **_TOKENS), LEGACY),
    ),
    {MODERN: "django-mcpz 1.2, 2026-07-28", LEGACY: "django-mcpz 1.2, 2025-11-25"},
    goals=tuple(
        Target(f"mcp_django, TOKEN_CACHE_SECONDS {seconds}, {era}", work, least)
        for seconds, work, least in ((1, GREET, 2.5), (1, FIND, 1.8), (0, GREET, 2), (0, FIND, 1.1))
        for era in (MODERN, LEGACY)
    ),
)

WEBSOCKET = Table(
    "websocket",
    "WebSocket, uvicorn, without authentication",
    (
        Line("mcp_django, 2026-07-28", _ours(), MODERN, SOCKET),
        Line("mcp_django, async tool, 2026-07-28", _ours(), MODERN, SOCKET, is_async=True),
        Line("mcp_django, 2025-11-25", _ours(), LEGACY, SOCKET),
        Line("a consumer of Channels that echoes", _ours(application="asgi:echo"), MODERN, SOCKET, is_bare=True),
    ),
    {MODERN: "a consumer of Channels that echoes", LEGACY: "a consumer of Channels that echoes"},
    works=(GREET,),
    goals=(
        Target("mcp_django, 2026-07-28", GREET, 0.43, by=PROCESSOR),
        Target("mcp_django, async tool, 2026-07-28", GREET, 0.40, by=PROCESSOR),
    ),
)

AUDIT = Table(
    "audit",
    "HTTP over ASGI, uvicorn, with a token and a permission, with and without the audit trail",
    tuple(
        Line(
            f'mcp_django, AUDIT "{audit}", TOKEN_CACHE_SECONDS {variables["BENCH_CACHE_SECONDS"]}',
            _ours(BENCH_AUDIT=audit, **_TOKENS, **variables),
        )
        for variables, audits in ((_REMEMBERED, ("off", "on", "strict")), (_ASKED, ("off", "on")))
        for audit in audits
    ),
    {MODERN: 'mcp_django, AUDIT "off", TOKEN_CACHE_SECONDS 1'},
    works=(GREET, FIND, CHANGE),
    goals=tuple(
        Target(
            f'mcp_django, AUDIT "on", TOKEN_CACHE_SECONDS {seconds}', work, least,
            f'mcp_django, AUDIT "off", TOKEN_CACHE_SECONDS {seconds}',
        )
        for seconds in (1, 0)
        for work, least in ((GREET, 0.87), (FIND, 0.97))
    ),
)  # fmt: skip

TABLES = (ASGI, SERVERS, WSGI, ASGI_TOKENS, POSTGRESQL, WSGI_TOKENS, WEBSOCKET, AUDIT)
