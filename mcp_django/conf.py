"""The settings of a project: one dictionary ``MCP``, whose keys and defaults are the fields of ``Conf``.

What a deployment has no reason to change is a constant beside the code that uses it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.functional import cached_property

P = ParamSpec("P")
T = TypeVar("T")

#: The app by which clients log in.
OAUTH_APP = "mcp_django.oauth"

#: The values of AUDIT.
AUDITS = ("off", "on", "strict")

#: The values of LANDING_PAGE.
LANDING_PAGES = ("public", "login", False)

#: The longest message of a stream or a socket: official clients end a connection that sends them one of 1 MiB.
MAX_MESSAGE_BYTES = 900_000


@dataclasses.dataclass(frozen=True)
class Conf:
    """Every key that ``MCP = {...}`` may hold, with its default. Sizes are bytes, times are seconds."""

    # Access.
    AUTHENTICATION_CLASSES: tuple[str, ...] = ("mcp_django.access.authentication.TokenAuthentication",)
    #: Scopes of a credential that has none of its own, for example of a project's own DRF authentication class.
    DEFAULT_SCOPES: tuple[str, ...] = ("read",)
    #: Scopes of a caller without credentials. Empty: such a caller gets 401.
    ANONYMOUS_SCOPES: tuple[str, ...] = ()
    #: Names that stand for several scopes, as {"sales": ["model:shop.order:read", "tool:refund_order"]}.
    SCOPE_GROUPS: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    #: How long a process may use what it read of a token, its user and the overrides of tools and prompts. 0: never.
    TOKEN_CACHE_SECONDS: float = 1.0
    #: The days after which a token ends that is made without a date, and the most that one may have. None: any number.
    TOKEN_DAYS: int = 90
    TOKEN_MAX_DAYS: int | None = None
    #: Scopes within which staff may make tokens of their own, on the page *Your apps and tokens*. Empty: none may.
    SELF_SERVICE: tuple[str, ...] = ()
    #: A new password revokes the tokens of its user.
    PASSWORD_CHANGE_REVOKES: bool = True
    #: Origins beside the server's own that a browser may call from, as ``https://app.example.com``.
    ALLOWED_ORIGINS: tuple[str, ...] = ()
    #: How many proxies stand before the server, each of which adds to X-Forwarded-For the address that it was asked by.
    TRUSTED_PROXIES: int = 0
    #: How much callers may do in a time, as {"user": {"calls": "600/min"}}. What is not named is as here, and a rate of
    #: None is no limit.
    THROTTLES: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: {
            "user": {"refusals": "100/hour"},
            "address": {"failures": "30/min", "logins": "600/min"},
        }
    )
    #: Alias in CACHES of a Redis or Memcached that counts it. The database counts where it is another kind, or None.
    THROTTLE_CACHE: str | None = "default"

    # Logging in: the app mcp_django.oauth.
    #: Scheme and host under which clients know this server, as "https://example.com". Empty: those of the request.
    OAUTH_ORIGIN: str = ""
    #: The scopes that a client is told to ask for. Empty: read, and actions where an administrator switched one on.
    OAUTH_SCOPES: tuple[str, ...] = ()
    #: Who may connect clients: a permission, as "app.codename", or a function of the user. Empty: who can log in.
    OAUTH_USERS: str | Callable[[Any], bool] = ""
    #: Which clients may register themselves: "off" (none), "known" (those on the user's own machine, and those of known
    #: hosts), "open" (any). Clients that publish a document of their own need not register.
    OAUTH_REGISTRATION: str = "known"
    #: How long a refresh token may be used again once a token that replaced it was used.
    OAUTH_GRACE_SECONDS: int = 600

    # Audit.
    #: Which calls are written down: "off", "on", or "strict", where a call that may change data is written down before
    #: it is made, and is not made if that fails.
    AUDIT: str = "on"
    #: Requests for completion are written down too.
    AUDIT_COMPLETION: bool = False
    #: After so many days ``manage.py mcp_audit --clear`` deletes a line of the audit trail. 0 or None: never.
    AUDIT_DAYS: int | None = 90

    # Exposure.
    #: Agents may read what the admin shows. False: only what is registered with ``mcp_django.register``.
    EXPOSE_ADMIN: bool = True
    #: The AdminSite whose models are exposed, as "project.admin.site". Empty: those that the URLconf serves.
    ADMIN_SITE: str = ""
    #: Names of fields that say whose a row is, as ``tenant``. A check warns of models that have one and show every row.
    TENANT_FIELDS: tuple[str, ...] = ()
    #: What the values of a field class are that is not Django's: {"path.to.Field": "text"}.
    FIELD_KINDS: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Agents are told that actions exist which are switched off, or beyond their token's scope, without their names.
    MENTION_SWITCHED_OFF: bool = True
    #: What admin actions of agents change is logged in Django's own history of each row.
    LOG_ACTIONS: bool = True
    #: Superusers may try tools that only read as another user, in the admin.
    TRY_AS: bool = False
    SERVER_NAME: str = "django"
    SERVER_VERSION: str = ""
    INSTRUCTIONS: str = ""

    # Threads and transports.
    #: Worker threads of an ASGI process. 0: handlers run in Django's one thread-sensitive thread, for tests.
    THREADS: int = 8
    #: Requests that may wait for a worker: of all principals, and of one.
    QUEUE: int = 256
    QUEUE_PER_PRINCIPAL: int = 64
    #: Asynchronous functions that may run on the event loop: of all principals. One gets a tenth of them.
    MAX_ASYNC: int = 1_000
    #: Age at which our worker threads close a database connection. None: as DATABASES says.
    CONN_MAX_AGE: float | None = None
    #: True: ASGI requests are answered ahead of Django although MIDDLEWARE holds entries that may matter. See
    #: ``routing``.
    BYPASS_MIDDLEWARE: bool = False
    #: True: the transport HTTP+SSE of 2024-11-05 is served at ``sse``, for clients that know nothing newer.
    SSE_TRANSPORT: bool = False
    #: Who sees a page at the endpoint that says how to connect a client: "public", "login" (people who are logged in),
    #: or False (nobody: a browser is answered as any client).
    LANDING_PAGE: str | bool = "public"
    #: The base of ``request.build_absolute_uri()`` where no request came in: on stdio, and before a push.
    BASE_URL: str = "http://localhost"

    # Messages and results.
    MAX_BODY_BYTES: int = 1_000_000
    #: What the bodies over 16 kB take together that were not answered yet. One caller gets half of it, all callers who
    #: are not known a quarter.
    MAX_BODY_MEMORY: int = 64_000_000
    #: The longest answer. Beyond 900 kB it is an error wherever official clients would refuse the message.
    MAX_RESULT_BYTES: int = 900_000

    # Queries.
    #: Rows of a page, within MAX_RESULT_BYTES.
    MAX_ROWS: int = 1_000
    MAX_TEXT: int = 2_000
    #: The longest file, and the longest value of a BinaryField, that resources/read gives.
    MAX_FILE_BYTES: int = 600_000
    #: The number of relations that a path may follow, as ``origin__name`` follows one.
    MAX_RELATION_DEPTH: int = 2
    #: Groups in a table of aggregate_records, and the fewest rows that one may have. 1: any number.
    MAX_GROUPS: int = 200
    MIN_GROUP_ROWS: int = 1

    # Limits of one caller.
    MAX_IN_FLIGHT: int = 32
    MAX_SUBSCRIPTIONS: int = 200
    #: Open listens, questions and HTTP+SSE streams of one principal in one process, and as many sockets. A whole team
    #: may share a token.
    MAX_LISTENS: int = 1_000
    #: Legacy sessions of one principal over HTTP. Beyond that, those that were idle longest end.
    MAX_SESSIONS: int = 1_000
    LIST_PAGE: int = 100
    SESSION_SECONDS: int = 7 * 24 * 3600

    # Time.
    #: How long a request may take; waiting for an answer of its user does not count. 0: as long as it takes.
    REQUEST_SECONDS: float = 60.0
    #: How long the database may take for one query that answers an agent. 0: as long as the database itself allows.
    STATEMENT_SECONDS: float = 5.0
    #: True: such a query runs in a transaction that only reads.
    READ_ONLY_TRANSACTIONS: bool = False

    # Questions to the user.
    #: How long a question stays open.
    QUESTION_SECONDS: int = 3600

    # Streams and sockets.
    #: The number of bytes of a legacy request's stream that are kept for a client that lost its connection.
    MAX_STREAM_BYTES: int = 2_000_000
    KEEPALIVE_SECONDS: float = 15.0
    #: How long a client may leave unread what is written to its stream or socket, before that ends. 0: for ever.
    WRITE_SECONDS: float = 30.0
    #: How long a socket may stay open that sends nothing, waits for nothing and watches nothing. 0: for ever.
    SOCKET_IDLE_SECONDS: float = 3600.0

    # Tasks.
    #: Alias in TASKS, and queue, of the backend that runs the tools that are declared with ``task=``.
    TASK_BACKEND: str = "default"
    TASK_QUEUE: str = "default"
    #: How long a task may wait, run, or wait for an answer, and how long its result is kept.
    TASK_SECONDS: int = 3600
    #: A task whose worker is silent for so long has failed.
    TASK_LEASE_SECONDS: float = 30.0
    #: Tasks of one principal that are not finished.
    MAX_OPEN_TASKS: int = 50

    # Push.
    #: Alias in CHANNEL_LAYERS that carries our events. None: "mcp" where there is one, else "default".
    CHANNEL_LAYER: str | None = None
    #: Alias in DATABASES of a PostgreSQL database that carries them instead, by NOTIFY and LISTEN.
    PUSH_DATABASE: str | None = None
    #: Alias under which the same database is reached without pgbouncer, for LISTEN. None: PUSH_DATABASE.
    PUSH_LISTEN_DATABASE: str | None = None
    #: Channel of NOTIFY. Projects that share a database, and not their tables, each need one of their own.
    PUSH_CHANNEL: str = "mcp_django"
    #: How often open streams are compared with the database: tokens, users, subscriptions.
    SWEEP_SECONDS: float = 1.0
    #: After a change, the answer to a watched query is computed again at most once in this time.
    LIVE_SECONDS: float = 1.0

    @cached_property
    def page_bytes(self) -> int:
        """The longest page, which must fit into every message, since the rest can always be asked for."""
        return min(self.MAX_RESULT_BYTES, MAX_MESSAGE_BYTES)


@lru_cache(maxsize=1)
def get_conf() -> Conf:
    """The settings in force. Raises ImproperlyConfigured for a key that is unknown."""
    return load(getattr(settings, "MCP", {}))


def load(values: dict[str, Any]) -> Conf:
    """The settings of a dictionary ``MCP``. Raises ImproperlyConfigured for a key that is unknown."""
    unknown = unknown_keys(values)
    if unknown:
        raise ImproperlyConfigured(f"MCP has unknown keys: {', '.join(unknown)}.")
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return Conf(**given)


def unknown_keys(values: dict[str, Any]) -> list[str]:
    return sorted(set(values) - {field.name for field in dataclasses.fields(Conf)})


def kept_with_settings(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: keep the results of a function until the settings change, as they do in tests."""
    cached = lru_cache(maxsize=10_000)(function)
    _kept.append(cached)
    return cached  # type: ignore[return-value]


_kept: list[Any] = [get_conf]


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "MCP":
        for cached in _kept:
            cached.cache_clear()


setting_changed.connect(_forget)
