"""The project's settings for us: one dictionary ``MCP``, whose keys and defaults are the fields of ``Conf``."""

from __future__ import annotations

import dataclasses
from functools import cached_property, lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

#: The longest message of a stream or a socket: official clients end a connection that sends them one of 1 MiB.
MAX_MESSAGE_BYTES = 900_000


@dataclasses.dataclass(frozen=True)
class Conf:
    """Every key that ``MCP = {...}`` may hold, with its default. Sizes are bytes, times are seconds."""

    # Who may enter.
    AUTHENTICATION_CLASSES: tuple[str, ...] = ("mcp_django.access.authentication.TokenAuthentication",)
    #: Scopes of a credential that says nothing of scopes, as a project's own DRF authentication class.
    DEFAULT_SCOPES: tuple[str, ...] = ("read",)
    #: Scopes of a caller without credentials. Empty: such a caller gets 401.
    ANONYMOUS_SCOPES: tuple[str, ...] = ()
    #: How long a process may trust what it read of a token, its user and the overrides of tools and prompts. 0: never.
    TOKEN_CACHE_SECONDS: float = 1.0
    #: A new password revokes the tokens of its user.
    PASSWORD_CHANGE_REVOKES: bool = True
    #: Origins beside the server's own that a browser may call from, as ``https://app.example.com``.
    ALLOWED_ORIGINS: tuple[str, ...] = ()

    # What is exposed.
    #: What the admin shows, agents may read. False: only what is registered with ``mcp_django.register``.
    EXPOSE_ADMIN: bool = True
    #: Names of fields that say whose a row is, as ``tenant``: a model that has one, and shows every row, is warned of.
    TENANT_FIELDS: tuple[str, ...] = ()
    SERVER_NAME: str = "django"
    SERVER_VERSION: str = ""
    INSTRUCTIONS: str = ""

    # How it runs.
    #: Worker threads of an ASGI process. 0: handlers run in Django's one thread-sensitive thread, for tests.
    THREADS: int = 8
    #: Requests that may wait for a worker, in all and of one principal.
    QUEUE: int = 256
    QUEUE_PER_PRINCIPAL: int = 64
    #: Age at which our worker threads close a database connection. None: as DATABASES says.
    CONN_MAX_AGE: float | None = None
    #: True: ASGI requests are answered ahead of Django although MIDDLEWARE holds entries that may matter. See
    #: ``routing``.
    BYPASS_MIDDLEWARE: bool = False
    #: True: the transport HTTP+SSE of 2024-11-05 is served at ``sse``, for clients that know nothing newer.
    SSE_TRANSPORT: bool = False
    #: What ``request.build_absolute_uri()`` gives where no request came in: on stdio, before a push.
    BASE_URL: str = "http://localhost"

    # Limits.
    MAX_BODY_BYTES: int = 1_000_000
    MAX_BATCH: int = 50
    #: The longest answer. Beyond 900 kB it is an error wherever official clients would refuse the message.
    MAX_RESULT_BYTES: int = 900_000
    MAX_ROWS: int = 100
    DEFAULT_ROWS: int = 20
    MAX_TEXT: int = 2_000
    #: The longest file, and the longest value of a BinaryField, that resources/read gives.
    MAX_FILE_BYTES: int = 600_000
    MAX_FILTER_CONDITIONS: int = 50
    MAX_FILTER_DEPTH: int = 5
    MAX_IN_VALUES: int = 200
    #: How many relations a path may follow, as ``origin__name`` follows one; and how many all paths of a filter may,
    #: and all columns of an answer.
    MAX_RELATION_DEPTH: int = 2
    MAX_RELATIONS: int = 10
    #: Related rows that are listed of one row.
    MAX_RELATED: int = 20
    #: Rows that ``total`` counts at most.
    MAX_TOTAL: int = 100_000
    #: Groups in a table of aggregate_records, and the fewest rows that it tells anything of. 1: any number.
    MAX_GROUPS: int = 200
    MIN_GROUP_ROWS: int = 1
    MAX_ACTION_IDS: int = 1_000
    MAX_IN_FLIGHT: int = 32
    MAX_SUBSCRIPTIONS: int = 200
    #: Open listens, questions and HTTP+SSE streams of one principal in one process, and as many sockets. A team may
    #: well share a token.
    MAX_LISTENS: int = 1_000
    #: Bytes of the URIs that one principal may watch in one process, on all streams and sockets together.
    MAX_WATCHED_BYTES: int = 16_000_000
    #: Legacy sessions over HTTP that one principal may have; those that were idle longest give way.
    MAX_SESSIONS: int = 1_000
    MAX_URI: int = 4_000
    LIST_PAGE: int = 100
    SESSION_SECONDS: int = 7 * 24 * 3600
    #: How long a request may take; waiting for an answer of its user does not count. 0: as long as it takes.
    REQUEST_SECONDS: float = 60.0
    #: How long the database may take for one question of ours. 0: as long as the database itself allows.
    STATEMENT_SECONDS: float = 5.0
    #: True: the database is told that our questions only read.
    READ_ONLY_TRANSACTIONS: bool = False
    #: How long a question to the user stays open, and how many rounds of questions one request may ask.
    QUESTION_SECONDS: int = 3600
    MAX_QUESTION_ROUNDS: int = 20
    #: How long the events of a legacy request's stream are kept for a client that lost its connection, and how much.
    STREAM_SECONDS: int = 300
    MAX_STREAM_BYTES: int = 2_000_000
    KEEPALIVE_SECONDS: float = 15.0
    #: How long a client may leave unread what is written to its stream or socket, before that ends. 0: for ever.
    WRITE_SECONDS: float = 30.0
    #: How long a socket may stay open that sends nothing, waits for nothing and watches nothing. 0: for ever.
    SOCKET_IDLE_SECONDS: float = 3600.0

    # Tasks.
    #: Alias in TASKS, and queue, of what runs the tools that are declared with ``task=``.
    TASK_BACKEND: str = "default"
    TASK_QUEUE: str = "default"
    #: How long a task may wait, run, or wait for an answer, and how long its result is kept.
    TASK_SECONDS: int = 3600
    #: How often clients are asked to look at a task.
    TASK_POLL_SECONDS: float = 1.0
    #: The worker of a task that is silent for so long is dead.
    TASK_LEASE_SECONDS: float = 30.0
    #: Tasks of one principal that are not finished, and all of them: of the finished, the oldest give way.
    MAX_OPEN_TASKS: int = 50
    MAX_TASKS: int = 1_000

    # Push.
    #: Alias in CHANNEL_LAYERS that carries our events. None: "mcp" where there is one, else "default".
    CHANNEL_LAYER: str | None = None
    #: Alias in DATABASES of a PostgreSQL database that carries them instead, by NOTIFY and LISTEN.
    PUSH_DATABASE: str | None = None
    #: Alias under which the same database is reached without pgbouncer, for LISTEN. None: PUSH_DATABASE.
    PUSH_LISTEN_DATABASE: str | None = None
    #: Channel of NOTIFY. Projects that share a database, and not their tables, each have one of their own.
    PUSH_CHANNEL: str = "mcp_django"
    #: How often open streams are compared with the database: tokens, users, subscriptions.
    SWEEP_SECONDS: float = 1.0
    #: Pause between two sends while changes keep coming.
    COALESCE_SECONDS: float = 0.02
    #: More changed rows of one model in one transaction than this are told as "the model changed".
    MAX_CHANGED_KEYS: int = 1_000
    #: How often the answer to a watched query is computed at most.
    LIVE_SECONDS: float = 1.0
    #: Visible keys that are remembered for a subscribed collection, to tell of deletes in it.
    MAX_WATCHED_KEYS: int = 1_000

    @cached_property
    def page_bytes(self) -> int:
        """The longest answer of which there is always more to ask for: it must fit into every message."""
        return min(self.MAX_RESULT_BYTES, MAX_MESSAGE_BYTES)


@lru_cache(maxsize=1)
def get_conf() -> Conf:
    """The settings in force. Raises ImproperlyConfigured that names an unknown key."""
    return load(getattr(settings, "MCP", {}))


def load(values: dict[str, Any]) -> Conf:
    """The settings that a dictionary MCP says. Raises ImproperlyConfigured."""
    unknown = unknown_keys(values)
    if unknown:
        raise ImproperlyConfigured(f"MCP has unknown keys: {', '.join(unknown)}.")
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return Conf(**given)


def unknown_keys(values: dict[str, Any]) -> list[str]:
    return sorted(set(values) - {field.name for field in dataclasses.fields(Conf)})


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "MCP":
        get_conf.cache_clear()


setting_changed.connect(_forget)
