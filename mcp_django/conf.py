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
#: What a project adds to its URLconf.
URL_LINE = 'path("", include("mcp_django.urls"))'

#: The values of AUDIT.
AUDITS = ("off", "on", "strict")

#: The values of LANDING_PAGE.
LANDING_PAGES = ("public", "login", False)

#: The longest message of a stream or a socket: official clients end a connection that sends them one of 1 MiB.
MAX_MESSAGE_BYTES = 900_000


@dataclasses.dataclass(frozen=True)
class Conf:
    """Every key that ``MCP = {...}`` may hold, with its default. Sizes are bytes, times are seconds.

    The comments are written in Markdown, because docs/settings.md is generated from them.
    """

    # = The settings that you need first

    # Access.
    #: [Authentication classes](access.md#other-ways-to-authenticate) of Django REST framework, asked in turn.
    AUTHENTICATION_CLASSES: tuple[str, ...] = ("mcp_django.access.authentication.TokenAuthentication",)
    #: Scopes of a credential that has none of its own.
    DEFAULT_SCOPES: tuple[str, ...] = ("read",)
    #: Scopes of a caller without credentials. Empty: the server refuses such a caller.
    ANONYMOUS_SCOPES: tuple[str, ...] = ()
    #: Names that stand for several [scopes](access.md#groups-of-scopes), as `{"sales": ["model:shop.order:read",
    #: "tool:refund_order"]}`.
    SCOPE_GROUPS: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    #: Scopes that people may give [tokens of their own](access.md#my-agent) without a permission, if they may connect
    #: agents (`OAUTH_USERS`), staff or not. Empty: nobody makes such tokens.
    SELF_SERVICE: tuple[str, ...] = ()
    #: Scopes that people may [lend](access.md#rights-for-a-while) a token or a connected app, each with the most hours,
    #: as `{"write": 8}`. Empty: none.
    LENDABLE: Mapping[str, float] = dataclasses.field(default_factory=dict)
    #: Days until a [token](access.md#tokens) expires that somebody makes without a date.
    TOKEN_DAYS: int = 90
    #: Origins from which a browser may call, beside the server's own, as `https://app.example.com`.
    ALLOWED_ORIGINS: tuple[str, ...] = ()
    #: The number of proxies in front of the server, each of which adds the address of its client to
    #: `X-Forwarded-For`. With 0, the server does not read that header.
    TRUSTED_PROXIES: int = 0
    #: The same for [gRPC](deployment.md#grpc), whose proxy is another one. `None` counts as 0.
    GRPC_TRUSTED_PROXIES: int | None = None

    # Logging in.
    #: Scheme and host under which clients know this server, as `https://example.com`. Empty: scheme and host of the
    #: request; `ALLOWED_HOSTS` must have the host.
    OAUTH_ORIGIN: str = ""
    #: The scopes that the server tells a client to ask for, and the most that it gives. Empty: `read`, and `actions`
    #: and `write` if a tool that needs them is switched on.
    OAUTH_SCOPES: tuple[str, ...] = ()
    #: Who may connect agents, by logging in or with a token of their own: a permission, as `"app.codename"`, or a
    #: function of the user. Empty: everybody who can log in.
    OAUTH_USERS: str | Callable[[Any], bool] = ""
    #: Which clients may register themselves: `"off"`, none; `"known"`, programs on the user's own machine and clients
    #: of known hosts; `"open"`, any.
    OAUTH_REGISTRATION: str = "known"

    # Audit.
    #: Which calls [the server records](audit.md): with `"off"` none, with `"on"` all. With `"strict"` it records a call
    #: that may change data before it makes the call, and does not make the call if that fails.
    AUDIT: str = "on"
    #: The age in days at which [`manage.py mcp_audit --clear`](audit.md#old-lines) deletes a line of the audit trail.
    #: `0` or `None`: never.
    AUDIT_DAYS: int | None = 90

    # What is exposed.
    #: Agents may read what the admin shows. `False`: only what is registered with `mcp_django.register`.
    EXPOSE_ADMIN: bool = True
    #: The `AdminSite` whose models are exposed, as `"project.admin.site"`. Empty: [those that are
    #: served](sites.md#which-admin-site).
    ADMIN_SITE: str = ""
    #: Names of fields that say which tenant owns a row, as `tenant`. `manage.py check` warns of exposed models that
    #: have such a field and show every row.
    TENANT_FIELDS: tuple[str, ...] = ()
    #: The kinds of values of [field classes that are not known](models.md#fields-of-other-classes), as
    #: `{"project.fields.SizeField": "text"}`.
    FIELD_KINDS: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: `True`: agents have [no tool that may change data](pausing.md#read-only), and nobody can make changes that wait.
    #: `READ_ONLY_TRANSACTIONS` does less: the database refuses writes within the queries that read.
    READ_ONLY: bool = False

    # The server.
    #: The server's name, as it introduces itself.
    SERVER_NAME: str = "django"
    #: What a client may tell its model about this server, before [what every server says](sites.md#instructions).
    INSTRUCTIONS: str = ""
    #: The base of `request.build_absolute_uri()` without an HTTP request: on stdio, and in checks before a push. Empty:
    #: `localhost`, or the first of `ALLOWED_HOSTS` if `localhost` is not allowed; `https` with `SECURE_SSL_REDIRECT`.
    #: Set it if the host chooses a tenant, and for gRPC.
    BASE_URL: str = ""
    #: Worker threads of an ASGI process. While all are busy, one more does the server's own work. 0: Django's one
    #: thread-sensitive thread answers requests, for tests.
    THREADS: int = 8

    # Push.
    #: [The bus that carries changes](processes.md#the-buses) from process to process: `{"BACKEND":
    #: "mcp_django.buses.PostgreSQLBus", "OPTIONS": {"database": "default"}}`, or only the URL of a NATS server, as
    #: `"nats://127.0.0.1:4222"`. `None`: the layer `"mcp"` of `CHANNEL_LAYERS` if there is one, else `"default"`.
    BUS: Mapping[str, Any] | str | None = None

    # = Limits, and the other settings

    # What one caller may do.
    #: [How much callers may do](limits.md#throttles) in a time, as `{"user": {"calls": "600/min"}}`. What you do not
    #: name stays as it is; `None` switches a limit off.
    THROTTLES: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: {
            "user": {"refusals": "100/hour", "unique": "60/hour"},
            "address": {"failures": "30/min", "logins": "600/min"},
        }
    )
    #: Alias in `CACHES` of a cache in Redis or Memcached that counts what callers do. With another kind of cache, or
    #: `None`, [the database counts](limits.md#where-it-is-counted).
    THROTTLE_CACHE: str | None = "default"
    #: Unanswered requests on a socket, on stdio or on a stream of HTTP+SSE.
    MAX_IN_FLIGHT: int = 32
    #: Resources, and tasks, that one session or subscription may watch.
    MAX_SUBSCRIPTIONS: int = 200
    #: Open subscriptions, questions, streams of HTTP+SSE and sessions that [poll](transports.md#long-polling) of one
    #: principal in one process, and as many sockets.
    MAX_LISTENS: int = 1_000
    #: Sessions of the older revisions over HTTP that one caller may have. Beyond that, the longest idle sessions end.
    MAX_SESSIONS: int = 1_000
    #: How long a session of the older revisions lives without a request.
    SESSION_SECONDS: int = 7 * 24 * 3600
    #: Entries in a page of the lists of tools, resources and prompts.
    LIST_PAGE: int = 100

    # Time.
    #: How long a request may take; waiting for an answer of its user does not count. `0`: no limit.
    REQUEST_SECONDS: float = 60.0
    #: [How long the database may take](limits.md#the-database) for one query that answers an agent. `0`: only the
    #: database's own limit applies.
    STATEMENT_SECONDS: float = 5.0
    #: `True`: such a query runs in a transaction that [only reads](limits.md#the-database).
    READ_ONLY_TRANSACTIONS: bool = False
    #: How long a question to the user stays open.
    QUESTION_SECONDS: int = 3600

    # Queries.
    #: Rows in a page, within `MAX_RESULT_BYTES`. An agent that names no limit gets 20.
    MAX_ROWS: int = 1_000
    #: Characters of one value in a page; `get_record` gives the value whole.
    MAX_TEXT: int = 2_000
    #: The longest file, and the longest value of a `BinaryField`, that an agent may read. Base64 makes four bytes of
    #: three.
    MAX_FILE_BYTES: int = 600_000
    #: Relations that a path may follow, as `origin__name` follows one.
    MAX_RELATION_DEPTH: int = 2
    #: Groups in a table of `aggregate_records`.
    MAX_GROUPS: int = 200
    #: The smallest group of rows that `aggregate_records` shows; see [small groups](aggregates.md#small-groups).
    MIN_GROUP_ROWS: int = 1

    # Messages and results.
    #: The longest message of a client.
    MAX_BODY_BYTES: int = 1_000_000
    #: Memory that [larger bodies](limits.md#bodies-of-requests) may take in one process, until they are answered.
    MAX_BODY_MEMORY: int = 64_000_000
    #: The longest answer. An error that says so replaces a longer one. See [Limits](limits.md#long-results) before you
    #: raise it.
    MAX_RESULT_BYTES: int = 900_000

    # Writing.
    #: Rows that one call of `update_records`, `create_records` or `delete_record` with a filter may write: at most
    #: 1,000, which are one transaction.
    MAX_BULK_ROWS: int = 200
    #: For how many days a change by an agent [can be undone](changes.md#undo-a-change). The server keeps the old values
    #: for that time. `0`: nothing can be undone.
    UNDO_DAYS: int = 7

    # Uploads.
    #: The longest file that a client may [upload](uploads.md). `0`: none.
    MAX_UPLOAD_BYTES: int = 100_000_000
    #: Uploads of one user that have not expired.
    MAX_UPLOADS: int = 20
    #: The media types that clients may upload, as `["image/*", "text/csv"]`; the file's name must not say another type.
    #: Empty: any.
    UPLOAD_TYPES: tuple[str, ...] = ()

    # Threads and transports.
    #: Requests that may wait for a worker. Callers who are not known [get a quarter of these
    #: places](limits.md#who-waits-for-whom).
    QUEUE: int = 256
    #: Requests of one caller that may wait for a worker, or be with one.
    QUEUE_PER_PRINCIPAL: int = 64
    #: [Asynchronous functions](tools.md#asynchronous-functions) that may run on the event loop of a process. One
    #: caller gets a tenth of them.
    MAX_ASYNC: int = 1_000
    #: Age at which worker threads close a database connection. `None`: as `DATABASES` says.
    CONN_MAX_AGE: float | None = None
    #: `True`: the server offers WebSocket and fast HTTP although `MIDDLEWARE` [holds entries that they
    #: skip](install.md#middleware).
    BYPASS_MIDDLEWARE: bool = False
    #: `True`: the server offers [the transport of 2024-11-05](clients.md#the-old-httpsse) too.
    SSE_TRANSPORT: bool = False

    # Streams and sockets.
    #: Bytes of a request's messages that the server keeps for a client that lost its connection (older revisions). A
    #: client cannot resume a request that sends more. As many bytes may wait for a client that
    #: [polls](transports.md#long-polling).
    MAX_STREAM_BYTES: int = 2_000_000
    #: Pause after which an idle stream sends a comment.
    KEEPALIVE_SECONDS: float = 15.0
    #: How long a client may read nothing of its stream or socket before the server ends it. 0: no limit.
    WRITE_SECONDS: float = 30.0
    #: How long a socket may stay open that sends nothing, waits for nothing and watches nothing. A session of an
    #: older revision without subscriptions watches nothing, although it is notified of changed lists. 0: no limit.
    SOCKET_IDLE_SECONDS: float = 3600.0

    # Tokens and logging in.
    #: How long a process caches tokens, users, their [permissions](access.md), sessions, and the overrides of tools
    #: and prompts. 0: not at all.
    TOKEN_CACHE_SECONDS: float = 1.0
    #: The most days that a token may live. With a number, no token may live without an end. `None`: no limit. It
    #: applies to tokens that are made, or get another date, from now on.
    TOKEN_MAX_DAYS: int | None = None
    #: A new password revokes the tokens of its user, and ends what the user has let clients do.
    PASSWORD_CHANGE_REVOKES: bool = True
    #: How long a client may use a refresh token again after the first use of a token that replaced it.
    OAUTH_GRACE_SECONDS: int = 600

    # What agents and people are shown.
    #: Agents read that [actions exist which are switched off](actions.md#actions-that-are-switched-off), without their
    #: names.
    MENTION_SWITCHED_OFF: bool = True
    #: `True`: the schemas of tools say that an object with any members (`filter`, `values`) may also be the text of its
    #: JSON, for [clients that close every object](clients.md#clients-that-close-objects).
    TEXT_ARGUMENTS: bool = False
    #: The server logs what admin actions of agents change in [Django's own
    #: history](actions.md#the-history-of-the-rows) of each row.
    LOG_ACTIONS: bool = True
    #: The audit trail records requests for completion too.
    AUDIT_COMPLETION: bool = False
    #: `True`: superusers may act as another user in the admin: [try tools](admin.md#try-it) that only read, and see
    #: that user's rows in [*Sees*](admin.md#sees). It does nothing while `AUDIT` is `"off"`.
    TRY_AS: bool = False
    #: Who sees [a page at the endpoint](clients.md#in-a-browser): with `"public"` everybody, with `"login"` people who
    #: are logged in, with `False` nobody.
    LANDING_PAGE: str | bool = "public"
    #: The server's version, as it introduces itself. Empty: the version of this package.
    SERVER_VERSION: str = ""
    #: Where your team reads this documentation, as `https://docs.example.com/mcp`: serve the result of `make docs`
    #: there. [The pages in the admin](admin.md) then link to it. A path of this site, as `/docs`, works too.
    DOCS_URL: str = ""

    # Tasks.
    #: Alias in `TASKS` of the backend that runs [tasks](tasks.md).
    TASK_BACKEND: str = "default"
    #: Queue of that backend.
    TASK_QUEUE: str = "default"
    #: How long a task may wait, run, or wait for an answer, and how long its result is kept.
    TASK_SECONDS: int = 3600
    #: How long a task's worker may be silent before the task has failed.
    TASK_LEASE_SECONDS: float = 30.0
    #: Unfinished tasks that one caller may have.
    MAX_OPEN_TASKS: int = 50

    # Push, and what follows from a change.
    #: How often each process compares its open streams with the database: tokens, users, subscriptions.
    SWEEP_SECONDS: float = 1.0
    #: After a change, the server answers a watched query again, and notifies its watchers, at most once in this time.
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
