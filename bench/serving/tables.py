"""What is compared with what, and the goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bench.serving.calls import CHANGE, FIND, GREET, LEGACY, MODERN
from bench.serving.data import OURS
from bench.serving.processes import Server

#: Over a WebSocket, or over HTTP in a session, or in none.
SESSION, SOCKET = "session", "socket"


@dataclass(frozen=True, slots=True)
class Line:
    """A server that is asked in one way."""

    title: str
    server: Server
    era: str = MODERN
    #: SESSION or SOCKET, where it is one of them.
    way: str = ""

    @property
    def is_ours(self) -> bool:
        return self.server.environment == OURS

    @property
    def is_echo(self) -> bool:
        """Whether it does nothing but to send back what it is sent."""
        return self.server.application.endswith(":echo")


@dataclass(frozen=True, slots=True)
class Table:
    """Lines that are measured in turns, and compared with each other."""

    name: str
    title: str
    lines: tuple[Line, ...]
    #: The title of the line that the others are held against, for each era.
    bases: Mapping[str, str]
    works: tuple[str, ...] = (GREET, FIND)
    #: The title of one of our lines, and the work → how many times the rate of its base it has to have.
    goals: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def ours(self) -> Table:
        """The table with our own lines alone, held against the first of them."""
        lines = tuple(line for line in self.lines if line.is_ours and not line.is_echo)
        return replace(self, lines=lines, bases=dict.fromkeys(self.bases, lines[0].title), goals={})


def _ours(runner: str = "uvicorn", application: str = "asgi:application", **variables: str) -> Server:
    return Server(OURS, f"bench.served.{application}", runner, tuple(variables.items()))


def _peer(name: str, runner: str = "uvicorn", application: str = "", **variables: str) -> Server:
    return Server(name, f"bench.peers.{application or name}:application", runner, tuple(variables.items()))


_TOKENS = {"BENCH_TOKENS": "1"}
_WSGI = "wsgi:application"

ASGI = Table(
    "asgi",
    "HTTP over ASGI, uvicorn, without authentication",
    (
        Line("mcp_django, 2026-07-28", _ours()),
        Line("official SDK 2.3, 2026-07-28", _peer("official")),
        Line("FastMCP 4.1, 2026-07-28", _peer("fast")),
        Line("mcp_django through Django's handler, 2026-07-28", _ours(application="asgi:django_application")),
        Line("mcp_django, 2025-11-25", _ours(), LEGACY),
        Line("mcp_django in a session, 2025-11-25", _ours(), LEGACY, SESSION),
        Line("official SDK 2.3, stateless, 2025-11-25", _peer("official"), LEGACY),
        Line("FastMCP 4.1, stateless, 2025-11-25", _peer("fast"), LEGACY),
    ),
    {MODERN: "official SDK 2.3, 2026-07-28", LEGACY: "official SDK 2.3, stateless, 2025-11-25"},
    goals={
        ("mcp_django, 2026-07-28", GREET): 2.5,
        ("mcp_django, 2026-07-28", FIND): 2.2,
        ("mcp_django, 2025-11-25", GREET): 2.5,
        ("mcp_django, 2025-11-25", FIND): 2.2,
    },
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
    goals={("mcp_django, 2026-07-28", GREET): 1.1, ("mcp_django, 2026-07-28", FIND): 1.2},
)

ASGI_TOKENS = Table(
    "asgi-tokens",
    "HTTP over ASGI, uvicorn, with a token and a permission",
    (
        Line("mcp_django, TOKEN_CACHE_SECONDS 1, 2026-07-28", _ours(BENCH_CACHE_SECONDS="1", **_TOKENS)),
        Line("mcp_django, TOKEN_CACHE_SECONDS 0, 2026-07-28", _ours(BENCH_CACHE_SECONDS="0", **_TOKENS)),
        Line("official SDK 2.3, 2026-07-28", _peer("official", **_TOKENS)),
        Line("FastMCP 4.1, 2026-07-28", _peer("fast", **_TOKENS)),
        Line("mcp_django, TOKEN_CACHE_SECONDS 1, 2025-11-25", _ours(BENCH_CACHE_SECONDS="1", **_TOKENS), LEGACY),
        Line("mcp_django, TOKEN_CACHE_SECONDS 0, 2025-11-25", _ours(BENCH_CACHE_SECONDS="0", **_TOKENS), LEGACY),
        Line("official SDK 2.3, stateless, 2025-11-25", _peer("official", **_TOKENS), LEGACY),
        Line("FastMCP 4.1, stateless, 2025-11-25", _peer("fast", **_TOKENS), LEGACY),
    ),
    {MODERN: "official SDK 2.3, 2026-07-28", LEGACY: "official SDK 2.3, stateless, 2025-11-25"},
)

WSGI_TOKENS = Table(
    "wsgi-tokens",
    "HTTP over WSGI, gunicorn with threads, with a token and a permission",
    (
        Line("mcp_django, 2026-07-28", _ours("gunicorn", _WSGI, **_TOKENS)),
        Line("django-mcpz 1.2, 2026-07-28", _peer("mcpz", "gunicorn", "wsgi", **_TOKENS)),
        Line("mcp_django, 2025-11-25", _ours("gunicorn", _WSGI, **_TOKENS), LEGACY),
        Line("django-mcpz 1.2, 2025-11-25", _peer("mcpz", "gunicorn", "wsgi", **_TOKENS), LEGACY),
        Line("django-mcp-server 0.5.7, 2025-11-25", _peer("toolset", "gunicorn", "wsgi", **_TOKENS), LEGACY),
    ),
    {MODERN: "django-mcpz 1.2, 2026-07-28", LEGACY: "django-mcpz 1.2, 2025-11-25"},
)

WEBSOCKET = Table(
    "websocket",
    "WebSocket, uvicorn, without authentication",
    (
        Line("mcp_django, 2026-07-28", _ours(), MODERN, SOCKET),
        Line("mcp_django, 2025-11-25", _ours(), LEGACY, SOCKET),
        Line("a consumer of Channels that echoes", _ours(application="asgi:echo"), MODERN, SOCKET),
    ),
    {MODERN: "a consumer of Channels that echoes", LEGACY: "a consumer of Channels that echoes"},
    works=(GREET,),
    goals={("mcp_django, 2026-07-28", GREET): 0.75},
)

AUDIT = Table(
    "audit",
    "HTTP over ASGI, uvicorn, with a token and a permission, with and without the audit trail",
    (
        Line('mcp_django, AUDIT "off"', _ours(BENCH_AUDIT="off", **_TOKENS)),
        Line('mcp_django, AUDIT "on"', _ours(BENCH_AUDIT="on", **_TOKENS)),
        Line('mcp_django, AUDIT "strict"', _ours(BENCH_AUDIT="strict", **_TOKENS)),
    ),
    {MODERN: 'mcp_django, AUDIT "off"'},
    works=(GREET, FIND, CHANGE),
    goals={('mcp_django, AUDIT "on"', GREET): 0.87, ('mcp_django, AUDIT "on"', FIND): 0.97},
)

TABLES = (ASGI, SERVERS, WSGI, ASGI_TOKENS, WSGI_TOKENS, WEBSOCKET, AUDIT)
