"""Who is told: a listener is one stream of notifications, with the resources it watches."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mcp_django.conf import get_conf
from mcp_django.protocol.errors import FieldError
from mcp_django.protocol.jsonrpc import SUBSCRIPTION_ID_META_KEY, notification_message
from mcp_django.resources import catalog, files, questions, reading, rows, uris
from mcp_django.resources.policy import ModelRights, Rights

if TYPE_CHECKING:
    from mcp_django.access.principals import Principal
    from mcp_django.access.requests import MCPRequest
    from mcp_django.sites import MCPSite

JSON = dict[str, Any]


#: Lists whose changes are told, each by the name of its control: see ``changes.note_control``.
LISTS = ("tools", "prompts")

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
    keys: set[str] | None = None
    #: A collection of which every row is visible.
    unscoped: bool = False
    #: A collection with a query that cannot be watched: why.
    errors: list[FieldError] = field(default_factory=list)

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
        if self.target.kind == "collection":
            self.errors = _errors(rights, self.target) if self.target.query else []
            if self.errors:
                return False
            self.remember(rights)
        return True

    def remember(self, rights: ModelRights) -> None:
        """Note which rows of the collection are visible, to tell of those that go."""
        self.unscoped = not rights.scoped
        if self.unscoped:
            return
        limit = get_conf().MAX_WATCHED_KEYS
        keys = [str(key) for key in reading.fetch(rights.rows().values_list("pk", flat=True)[: limit + 1])]
        if rights.model_mcp.checks_objects and len(keys) <= limit:
            keys = list(rows.visible_keys(rights, keys))
        self.keys = {*(self.keys or ()), *keys} if len(keys) <= limit else None


def _errors(rights: ModelRights, target: uris.Target) -> list[FieldError]:
    """What is wrong with the query of a collection, by its parameters."""
    try:
        rows.check_watched(rights, catalog.question(target.query))
    except questions.InvalidQuestion as error:
        return catalog.in_query(error)
    return []


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
    return Subscription(uri, target, concrete._meta.label_lower if target.kind != "schema" else "", target.key)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Listener:
    """A stream of notifications. Its pending ones are a set: what is told twice before it is read, is told once.

    Made in a worker; told, read and closed on the hub's loop.
    """

    site: MCPSite
    principal: Principal
    request: MCPRequest
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
    #: What decides on what it may be told: listeners that are equal in it are asked about once.
    identity: tuple[Any, ...] = ()
    _pending: dict[tuple[str, str], JSON] = field(default_factory=dict)
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    _made_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        headers = {
            (name, value)
            for name, value in self.request.META.items()
            if name.startswith("HTTP_") and name not in _INDIFFERENT_HEADERS
        }
        # A project may read a tenant from any header.
        self.identity = (self.site.name, self.principal.rights, frozenset(headers))

    @property
    def is_counted(self) -> bool:
        return self.subscription_id is not None

    def untell(self, uri: str) -> None:
        """Take back what is pending of a resource that is watched no more."""
        self._pending.pop(("notifications/resources/updated", uri), None)

    def tell_updated(self, uri: str) -> None:
        self._tell("notifications/resources/updated", uri, {"uri": uri})

    def tell_task(self, key: str, task: JSON) -> None:
        """Tell how a task stands, in the place of what is pending of it."""
        self._tell("notifications/tasks", key, task)

    def tell_list_changed(self, name: str) -> None:
        if name in self.lists:
            self._tell(f"notifications/{name}/list_changed", "", {})

    def close(self, *, going_away: bool = False) -> None:
        """End the stream: its reader is given what is pending, then None."""
        self.closed = True
        self._wakeup.set()

    def is_overdue(self) -> bool:
        """Whether its stream should have begun long ago: its client went away before."""
        return not self.begun and time.monotonic() - self._made_at > _BEGIN_SECONDS

    def abandon(self) -> None:
        """End the stream at once: its client wants nothing more of it."""
        self.abandoned = True
        self._pending.clear()
        self.close()

    async def next(self) -> list[JSON] | None:
        """The pending notifications, at least one; None once the stream has ended."""
        self.begun = True
        while not self._pending:
            if self.closed:
                return None
            self._wakeup.clear()
            await self._wakeup.wait()
        pending, self._pending = list(self._pending.values()), {}
        return pending

    def _tell(self, method: str, key: str, params: JSON) -> None:
        if self.muted or self.abandoned:
            return
        if self.subscription_id is not None:
            params = {**params, "_meta": {SUBSCRIPTION_ID_META_KEY: self.subscription_id}}
        self._pending[method, key] = notification_message(method, params or None)
        self._wakeup.set()
