"""Subscriptions: watched URIs, and what the principal could see of each when it was last checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from sys import intern
from threading import Lock
from typing import TYPE_CHECKING

from django.apps import apps

from mcp_django.bridge.resources import catalog, uris
from mcp_django.bridge.resources.policy import visible_rows, ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading import files
from mcp_django.exceptions import FieldError, field_error
from mcp_django.push.live_answers import LiveAnswer, Viewer, keys_of, once
from mcp_django.push.receivers import spelled_key

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

_NOT_WATCHED = (
    "can be read, but not watched: nothing reports its changes. Read it again when you need it. "
    "The project can add watch= to its @resource."
)


#: Whether a record is visible, whether every row of a collection is, and the keys of those that are.
Seen = tuple[bool, bool, frozenset[str] | None]


@dataclass(slots=True, eq=False)
class Subscription:
    """One watched URI, as its client wrote it, and what the principal could see of it when it was last asked."""

    uri: str
    target: uris.Target | None
    #: The label of the concrete model whose changes matter; empty for a resource that no model's change can touch. Of a
    #: declared resource: its URI or its template as declared, under which ``updated`` reports its changes.
    concrete: str = ""
    #: A record: its key as the database spells it, once it was looked up. A declared resource: its URI in one spelling.
    key: str = ""
    #: A declared resource: the collections of the models whose changes are its own.
    parts: tuple[Subscription, ...] = ()
    #: A record: whether it was visible.
    visible: bool = False
    #: A declared resource that changes with one row, and is seen by whoever its own code lets see it.
    is_of_row: bool = False
    #: A scoped collection: the keys that were visible. None: every row is visible, or too many to remember.
    keys: frozenset[str] | None = None
    #: A collection of which every row is visible.
    unscoped: bool = False
    #: A hub notifies its listener of changes.
    is_followed: bool = False
    #: It could not be checked in time, and waits for a retry: see ``retries``.
    is_waiting: bool = False
    #: A live query: the digest of the answer that its client knows. None: it is being computed. Empty: none is known.
    digest: str | None = None
    #: A live query: its first answer, with the models it was made of and the time it took.
    first: LiveAnswer | None = None
    #: A live query of a stored session: the row still has the digest, since no notification was sent so far.
    is_stored: bool = False
    #: A query that cannot be watched: the reasons.
    errors: list[FieldError] = field(default_factory=list)
    #: The label under which only changes of the row with its ``key`` concern it; empty for a collection.
    row_label: str = field(init=False)

    def __post_init__(self) -> None:
        self.row_label = "" if self.target is not None and self.target.kind == "collection" else self.concrete

    @property
    def labels(self) -> Collection[str]:
        """The labels under which the changes are reported that may concern it."""
        return {self.concrete, *(part.concrete for part in self.parts)}

    @property
    def is_part(self) -> bool:
        """Whether it is one of the ``parts`` of another subscription: nothing of its rows is read."""
        return self.target is not None and not self.uri.startswith(uris.SCHEME)

    @property
    def is_live(self) -> bool:
        """Whether the client is notified when the answer changes, and not when rows do."""
        return self.target is not None and self.target.is_query

    def look(self, site: Site, request: MCPRequest) -> bool:
        """Whether the request's principal may see the resource. The rows that are visible are remembered."""
        if self.target is None:
            return self._look_at_declared(site, request)
        rights = ways.reach(Rights.of(site, request), self.target)
        if rights is None:
            return False
        if self.target.is_of_record:
            if self.target.kind == "file" and not files.holds(rights, self.target.field):
                return False
            found = visible_rows.visible_keys(rights, [self.target.key])
            self.key = next(iter(found), self.key)
            self.visible = self.visible or bool(found)
            return self.visible
        if self.target.is_query:
            return self._look_at_answer(Viewer.of(site, request), self.target)
        if self.target.kind == "collection":
            self._look_at_rows(rights)
        return True

    def _look_at_declared(self, site: Site, request: MCPRequest) -> bool:
        resource = catalog.find_declared(site, request, self.uri)
        if resource is None:
            return False
        if not resource.watch:
            self.errors = [field_error("uri", _NOT_WATCHED, self.uri)]
            return False
        if self.is_of_row:
            return self.look_at_row(site, request)
        for part in self.parts:
            part.look_as_part(site, request)
        return True

    def look_at_row(self, site: Site, request: MCPRequest) -> bool:
        """Whether the principal may see the declared resource of one row now. What was seen before is remembered."""
        resource = catalog.find_declared(site, request, self.uri)
        found = None if resource is None else resource.find_row(request, self.uri)
        self.key, self.visible = found or self.key, found is not None
        return self.visible

    def look_as_part(self, site: Site, request: MCPRequest) -> None:
        """Remember the visible rows of a model whose changes are those of a declared resource."""
        rights = None if self.target is None else Rights.of(site, request).of_label(self.target.label)
        if rights is not None:
            self._look_at_rows(rights)

    def _look_at_answer(self, viewer: Viewer, target: uris.Target) -> bool:
        self.errors = viewer.errors(target)
        if self.errors:
            return False
        if self.digest is None:
            self.first = viewer.answer(target)
            # Set last: a digest means that the rest is known too.
            self.digest = "" if self.first is None else self.first.digest
        return True

    def _look_at_rows(self, rights: ModelRights) -> None:
        """Remember which rows of the collection are visible, with those that ``follow`` adds while they are read."""
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
            self.keys = None if keys is None or self.keys is None else once(keys | self.keys)

    def remember(self, rights: ModelRights, keys_of: Callable[[ModelRights], frozenset[str] | None]) -> None:
        """Remember which rows of the collection are visible, so that the client can be notified when one goes."""
        self.unscoped = not rights.scoped
        if not self.unscoped:
            keys = keys_of(rights)
            self.keys = None if keys is None else once(keys)

    def seen(self) -> Seen:
        """What the principal could see of it when it was last asked."""
        return self.visible, self.unscoped, self.keys

    def see(self, after: Seen, *, instead_of: Seen) -> bool:
        """Remember what another subscription saw that remembered the same before. Whether this one still did."""
        with _keys_lock:
            is_same = self.seen() == instead_of
            if is_same:
                self.visible, self.unscoped, self.keys = after
        return is_same

    def follow(self, touched: set[str], visible: set[str]) -> bool | None:
        """Remember which of the touched rows are visible. Whether others have gone; None where that is unknown."""
        with _keys_lock:
            if self.keys is None:
                return None
            gone = (self.keys & touched) - visible
            if gone or not visible <= self.keys:
                self.keys = once((self.keys - gone) | visible)
            return bool(gone)


#: Held while the keys of a subscription are read and written: one worker may look while another one checks an event.
_keys_lock = Lock()


def watched_keys(rights: ModelRights) -> frozenset[str] | None:
    """The keys of all visible rows; None if there are more than MAX_WATCHED_KEYS."""
    return keys_of(rights, rights.rows())


def watch(site: Site, uri: str) -> Subscription | None:
    """A subscription to the URI, or None if it names nothing. It does not check rights: see ``Subscription.look``."""
    if len(uri) > uris.MAX_URI:
        return None
    target = uris.parse(uri)
    if target is None:
        return _watch_declared(site, uri)
    model_mcp = site.models.get(target.label)
    if model_mcp is None:
        return None
    concrete = model_mcp.opts.concrete_model or model_mcp.model
    label = concrete._meta.label_lower if target.kind != "schema" else ""
    # Thousands of sockets may watch the same: its texts are kept once, which are compared at each change.
    return Subscription(intern(uri), target, intern(label), intern(spelled_key(concrete._meta.pk, target.key)))


def _watch_declared(site: Site, uri: str) -> Subscription | None:
    resource = site.find_resource(uri)
    if resource is None:
        return None
    if (row := resource.row_of(uri)) is not None:
        label, key = row
        spelled = spelled_key(apps.get_model(label)._meta.pk, key) if key else ""
        return Subscription(uri, None, intern(label), spelled, is_of_row=True)
    parts = tuple(_collections(site, uri, resource.watched_models))
    return Subscription(uri, None, resource.uri, resource.spelled(uri), parts=parts)


def _collections(site: Site, uri: str, watched: Iterable[type[Model]]) -> Iterator[Subscription]:
    for model in watched:
        label = Rights.label_of(model)
        if label in site.models:
            concrete = model._meta.concrete_model or model
            yield Subscription(uri, uris.Target("collection", label), concrete._meta.label_lower)
