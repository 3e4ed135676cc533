"""Who is told: a listener is one stream of notifications, with the resources it watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from django.utils.functional import LazyObject

from mcp_django.conf import get_conf
from mcp_django.db import reading
from mcp_django.exceptions import FieldError
from mcp_django.protocol.jsonrpc import SUBSCRIPTION_ID_META_KEY, encode, notification_message
from mcp_django.protocol.revisions import NEWEST
from mcp_django.push.live_answers import LiveAnswer, Viewer
from mcp_django.push.receivers import spelled_key
from mcp_django.resources import catalog, files, rows, uris
from mcp_django.resources.policy import ModelRights, Rights
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.sites import MCPSite


#: Lists whose changes are told, each by the name of its control: see ``changes.note_control``.
LISTS = ("tools", "prompts", "resources")

_UPDATED = "notifications/resources/updated"

#: A stream that has not begun by then never will.
_BEGIN_SECONDS = 60.0

#: Headers that differ between the connections of one client and say nothing of what it may see.
_INDIFFERENT_HEADERS = frozenset(
    {
        "HTTP_ACCEPT",
        "HTTP_LAST_EVENT_ID",
        "HTTP_MCP_METHOD",
        "HTTP_MCP_NAME",
        "HTTP_MCP_PROTOCOL_VERSION",
        "HTTP_MCP_SESSION_ID",
        "HTTP_SEC_WEBSOCKET_KEY",
        "HTTP_TRACEPARENT",
        "HTTP_USER_AGENT",
        "HTTP_X_REQUEST_ID",
    }
)
#: What else a request says of where it came from.
_TELLING = frozenset({"QUERY_STRING", "REMOTE_ADDR", "REMOTE_USER"})


@dataclass(slots=True, eq=False)
class Subscription:
    """One watched URI, as its client wrote it, and what the principal could see of it when it was last asked."""

    uri: str
    target: uris.Target | None
    #: Label of the concrete model whose changes matter; empty for what no model's change can touch.
    concrete: str = ""
    #: A record: its key as the database spells it, once that was asked.
    key: str = ""
    #: A record: whether it was visible.
    visible: bool = False
    #: A collection that holds not every row: the keys that were visible. None: all rows are, or too many to remember.
    keys: frozenset[str] | None = None
    #: A collection of which every row is visible.
    unscoped: bool = False
    #: What may be told of it could not be found out in time: see ``unanswered``.
    is_waiting: bool = False
    #: A live query: the digest of the answer that its client knows of. None: it is being asked for. Empty: of none.
    digest: str | None = None
    #: A live query: what it was first made of, and how long that took.
    first: LiveAnswer | None = None
    #: A live query of a stored session: its row still has the digest, so that nothing was told since it subscribed.
    is_stored: bool = False
    #: A query that cannot be watched: why.
    errors: list[FieldError] = field(default_factory=list)

    @property
    def is_live(self) -> bool:
        """Whether it is told of when its answer changes, and not when rows do."""
        return self.target is not None and self.target.is_query

    def look(self, site: MCPSite, request: MCPRequest) -> bool:
        """Whether the resource is there for the request's principal; what is visible of it is remembered."""
        if self.target is None:
            return catalog.find_plain(site, request, self.uri) is not None
        rights = Rights.of(site, request).of_label(self.target.label)
        if rights is None:
            return False
        if self.target.is_of_record:
            if self.target.kind == "file" and not files.holds(rights, self.target.field):
                return False
            found = rows.visible_keys(rights, [self.target.key])
            self.key = next(iter(found), self.key)
            self.visible = self.visible or bool(found)
            return self.visible
        if self.target.is_query:
            return self._look_at_answer(Viewer.of(site, request), self.target)
        if self.target.kind == "collection":
            self._look_at_rows(rights)
        return True

    def _look_at_answer(self, viewer: Viewer, target: uris.Target) -> bool:
        self.errors = viewer.errors(target)
        if self.errors:
            return False
        if self.digest is None:
            self.first = viewer.answer(target)
            # Last: whoever finds it takes the rest for known.
            self.digest = "" if self.first is None else self.first.digest
        return True

    def _look_at_rows(self, rights: ModelRights) -> None:
        """Note which rows of the collection are visible, with those that are told of while they are read."""
        self.unscoped = not rights.scoped
        if self.unscoped:
            return
        before = self.keys
        self.keys = before or frozenset()
        try:
            keys = watched_keys(rights)
        except BaseException:
            if before is None:
                self.keys = None
            raise
        with _keys_lock:
            self.keys = None if keys is None or self.keys is None else _once(keys | self.keys)

    def remember(self, rights: ModelRights, keys_of: Callable[[ModelRights], frozenset[str] | None]) -> None:
        """Note which rows of the collection are visible, to tell of those that go."""
        self.unscoped = not rights.scoped
        if not self.unscoped:
            keys = keys_of(rights)
            self.keys = None if keys is None else _once(keys)

    def follow(self, touched: set[str], visible: set[str]) -> bool | None:
        """Note which of the rows that were touched are visible. Whether others have gone; None where nobody knows."""
        with _keys_lock:
            if self.keys is None:
                return None
            gone = (self.keys & touched) - visible
            if gone or not visible <= self.keys:
                self.keys = _once((self.keys - gone) | visible)
            return bool(gone)


#: Held while the keys of a subscription are read and written: it is looked at in one worker, and told of in another.
_keys_lock = Lock()
#: Hash → the set of keys that has it, as long as anybody remembers it.
_remembered: WeakValueDictionary[int, frozenset[str]] = WeakValueDictionary()


def _once(keys: frozenset[str]) -> frozenset[str] | None:
    """The same set for all who remember the same keys; None if there are more than MAX_WATCHED_KEYS."""
    if len(keys) > get_conf().MAX_WATCHED_KEYS:
        return None
    found = _remembered.get(hash(keys))
    if found == keys:
        return found
    _remembered[hash(keys)] = keys
    return keys


def watched_keys(rights: ModelRights) -> frozenset[str] | None:
    """The keys of all visible rows; None if there are more than MAX_WATCHED_KEYS."""
    limit = get_conf().MAX_WATCHED_KEYS
    keys = [str(key) for key in reading.fetch(rights.rows().values_list("pk", flat=True)[: limit + 1])]
    if len(keys) > limit:
        return None
    return frozenset(rows.visible_keys(rights, keys) if rights.model_mcp.checks_objects else keys)


def watch(site: MCPSite, uri: str) -> Subscription | None:
    """A subscription to the URI, or None if it names nothing. Whether the principal may see it, ``look`` tells."""
    if len(uri) > get_conf().MAX_URI:
        return None
    target = uris.parse(uri)
    if target is None:
        return Subscription(uri, None) if site.find_resource(uri) is not None else None
    model_mcp = site.models.get(target.label)
    if model_mcp is None:
        return None
    concrete = model_mcp.opts.concrete_model or model_mcp.model
    label = concrete._meta.label_lower if target.kind != "schema" else ""
    return Subscription(uri, target, label, spelled_key(concrete._meta.pk, target.key))


class Sink(Protocol):
    """Writes what a listener is told."""

    def wake(self) -> None:
        """There is something to take, or the listener is closed."""


class Identity:
    """What decides on what a listener may be told: its site, its principal's rights, and its request."""

    __slots__ = ("__weakref__", "principal_key")

    def __init__(self, principal_key: str) -> None:
        self.principal_key = principal_key


_identities: WeakValueDictionary[tuple[Any, ...], Identity] = WeakValueDictionary()
_identities_lock = Lock()


def _identity(principal_key: str, *parts: Any) -> Identity:
    """The same one for equal parts, as long as anybody has it."""
    with _identities_lock:
        return _identities.setdefault((principal_key, *parts), Identity(principal_key))


def _compared(value: Any) -> Hashable:
    """What stands for an attribute of a request: itself, or something that equals nothing else."""
    if isinstance(value, LazyObject):
        return object()  # To look at it may ask the database.
    try:
        hash(value)
    except TypeError:
        return object()
    return value  # type: ignore[no-any-return]


@dataclass(slots=True, eq=False, weakref_slot=True)
class Listener:
    """A stream of notifications. Its pending ones are a set: what is told twice before it is read, is told once.

    Made in a worker; told, read and closed on the hub's loop.
    """

    site: MCPSite
    principal: Principal
    request: MCPRequest
    #: What its client speaks: lists are compared as it is given them.
    revision: str = NEWEST
    #: The id of the listen request, which tags its notifications; None for a legacy session's stream.
    subscription_id: int | str | None = None
    #: Those of the LISTS whose changes it is told of.
    lists: frozenset[str] = frozenset()
    #: Tasks that it is told of, each with when it had changed when that was last told.
    tasks: dict[str, datetime | None] = field(default_factory=dict)
    #: The key of the stored legacy session that the stream belongs to.
    session_key: str | None = None
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    closed: bool = False
    abandoned: bool = False
    #: Another stream of the same session is newer, and is told in this one's place.
    muted: bool = False
    #: Whether its client is being written to.
    begun: bool = False
    #: Shared by the listeners that are asked about once, since they may be told the same.
    identity: Identity = field(init=False)
    #: The notifications to write, encoded, by what they tell of.
    _pending: dict[tuple[str, str], bytes] = field(default_factory=dict)
    #: Those that were taken, and are being written.
    _taken: dict[tuple[str, str], bytes] = field(default_factory=dict)
    #: Who is woken when there is something to write: whoever waits in ``next``, or the sink.
    _waiter: asyncio.Future[None] | None = None
    _sink: Sink | None = None
    _made_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        request, principal = self.request, self.principal
        # A project may read a tenant from any of these, or have had it set by a middleware.
        headers = {
            (name, value)
            for name, value in request.META.items()
            if name in _TELLING or (name.startswith("HTTP_") and name not in _INDIFFERENT_HEADERS)
        }
        set_there = {
            (name, _compared(value)) for name, value in request.attributes().items() if name not in ("mcp", "auth")
        }
        self.identity = _identity(
            principal.key, self.site.name, principal.rights, request.path, frozenset(headers), frozenset(set_there)
        )

    @property
    def is_counted(self) -> bool:
        return self.subscription_id is not None

    def untell(self, uri: str) -> None:
        """Take back what is pending of a resource that is watched no more."""
        self._pending.pop((_UPDATED, uri), None)

    def tell_updated(self, uri: str) -> None:
        self._tell(_UPDATED, uri, _updated(uri, self.subscription_id))

    def tell_task(self, key: str, task: JSON) -> None:
        """Tell how a task stands, in the place of what is pending of it."""
        method = "notifications/tasks"
        self._tell(method, key, _notification(method, task, self.subscription_id))

    def tell_list_changed(self, name: str) -> None:
        if name in self.lists:
            method = f"notifications/{name}/list_changed"
            self._tell(method, "", _notification(method, {}, self.subscription_id))

    def close(self, *, going_away: bool = False) -> None:
        """End the stream: its reader is given what is pending, then None."""
        self.closed = True
        self._wake()

    def is_overdue(self) -> bool:
        """Whether its stream should have begun long ago: its client went away before."""
        return not self.begun and time.monotonic() - self._made_at > _BEGIN_SECONDS

    def abandon(self) -> None:
        """End the stream at once: its client wants nothing more of it."""
        self.abandoned = True
        self._pending.clear()
        self.close()

    async def next(self) -> list[bytes] | None:
        """The pending notifications, encoded, at least one; None once the stream has ended."""
        self.begun = True
        self._taken = {}
        while not self._pending:
            if self.closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.take()

    def speak_to(self, sink: Sink) -> None:
        """Wake the sink from now on when there is something to ``take``, and at the end; another way than ``next``."""
        self.begun = True
        self._sink = sink
        if self._pending or self.closed:
            sink.wake()

    def take(self) -> list[bytes]:
        """The pending notifications, encoded; they are pending no more. Those that were taken before are written."""
        self._taken, self._pending = self._pending, {}
        return list(self._taken.values())

    def take_over(self, gone: Listener) -> None:
        """Tell what another stream of the session, whose client is gone, was to tell, and may not have told."""
        for (method, key), body in {**gone._taken, **gone._pending}.items():
            if method != _UPDATED or key in self.subscriptions:
                self._tell(method, key, body)
        gone._taken, gone._pending = {}, {}

    def _tell(self, method: str, key: str, body: bytes) -> None:
        if self.muted or self.abandoned:
            return
        is_first = not self._pending
        self._pending[method, key] = body
        if is_first:
            self._wake()

    def _wake(self) -> None:
        if self._sink is not None:
            self._sink.wake()
            return
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _notification(method: str, params: JSON, subscription_id: int | str | None) -> bytes:
    if subscription_id is not None:
        params = {**params, "_meta": {SUBSCRIPTION_ID_META_KEY: subscription_id}}
    return encode(notification_message(method, params or None))


@lru_cache(maxsize=1_024, typed=True)
def _updated(uri: str, subscription_id: int | str | None) -> bytes:
    """Many listeners are told the same: most clients number their requests from 1."""
    return _notification(_UPDATED, {"uri": uri}, subscription_id)
