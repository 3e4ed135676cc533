"""Sessions of legacy clients over HTTP, kept in the database so that every process can serve them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any, cast

from django.db import IntegrityError, router, transaction
from django.utils import timezone
from pydantic_core import from_json

from mcp_django.conf import get_conf
from mcp_django.core.compat.queries import PreparedQuery
from mcp_django.core.db.clearing import clear_away
from mcp_django.core.events.controls import Control, ControlKind, named
from mcp_django.core.events.publisher import flush
from mcp_django.core.events.transaction import note_control
from mcp_django.core.memory import Memory
from mcp_django.exchange.cancellation import RUNNING, running_key
from mcp_django.models import Session, WatchedResource
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import LimitExceeded, SessionNotFound
from mcp_django.protocol.jsonrpc import encode, is_request_id
from mcp_django.push.sessions import mailbox

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.site import Site
    from mcp_django.push.subscriptions import Subscription


_MAX_CLIENT_BYTES = 4_000
#: Digest of the key → session, as this process has read it. Code that changes a session forgets it here, or changes it
#: here too.
remembered: Memory[Session] = Memory()
_SESSION = PreparedQuery(lambda key: Session.objects.filter(pk=key), Session._meta.pk)


class StoredSession:
    """A session of the protocol, on top of its row."""

    def __init__(self, row: Session) -> None:
        self.key = row.key
        self.revision = row.revision
        self.client = Client(row.client_info, row.client_capabilities)
        self.log_level = row.log_level
        self._row = row

    @classmethod
    def open(cls, site: Site, principal: Principal, revision: str, client: Client) -> StoredSession:
        """Open a new session, and clear away those that have expired."""
        clear_away(Session.objects.filter(expires_at__lte=timezone.now()))
        row = Session.objects.open(site=site.name, principal=principal, revision=revision, client=_bounded(client))
        mine = Session.objects.filter(site=site.name, principal_key=principal.key).order_by("-expires_at", "-pk")
        surplus = list(mine.values_list("pk", flat=True)[get_conf().MAX_SESSIONS :])
        if surplus:
            _end(surplus)
        return cls(row)

    @classmethod
    def find(cls, site: Site, principal: Principal, key: str, *, fresh: bool) -> StoredSession:
        """The session of that key, if the same credential line began it. Raises SessionNotFound.

        ``fresh`` reads the database even if the session was read a moment ago: in a process that gets no events.
        """
        row = (None if fresh else remembered.get(named(key))) or _read(key)
        if row is None or (row.site, row.line) != (site.name, principal.lineage):
            raise SessionNotFound
        row.renew()
        return cls(row)

    def end(self) -> None:
        _end([self.key])
        self._report()

    def set_log_level(self, level: str) -> None:
        self.log_level = self._row.log_level = level
        Session.objects.filter(pk=self.key).update(log_level=level)

    def subscribe(self, subscription: Subscription) -> None:
        limit = get_conf().MAX_SUBSCRIPTIONS
        watched = WatchedResource.objects.filter(session=self.key)
        if watched.filter(uri_hash=_digest(subscription.uri)).exists():
            return
        if watched.count() >= limit:
            raise LimitExceeded(f"A session may watch at most {limit} resources (MAX_SUBSCRIPTIONS).")
        try:
            with transaction.atomic(using=self._alias):
                WatchedResource.objects.create(
                    session_id=self.key,
                    uri=subscription.uri,
                    uri_hash=_digest(subscription.uri),
                    digest=subscription.digest or "",
                )
        except IntegrityError:
            return  # It is watched already, or the session has ended meanwhile.
        self._report()

    def unsubscribe(self, uri: str) -> None:
        WatchedResource.objects.filter(session=self.key, uri_hash=_digest(uri)).delete()
        self._report()

    def cancel(self, request_id: object) -> None:
        """Stop a request of the session, whichever process answers it. An unknown request is no error."""
        if not is_request_id(request_id):
            return
        key = running_key(self.key, cast("int | str", request_id))
        running = RUNNING.get(key)
        if running is None:
            mailbox.put(Control(ControlKind.CANCEL, key))
        elif not running.cancelled:
            running.cancel()
            running.queries.interrupt()

    def _report(self) -> None:
        """Report the change to the process that holds the session's stream, before the client gets its answer."""
        note_control(self._alias, ControlKind.SESSION, named(self.key))
        flush()

    @property
    def _alias(self) -> str:
        return router.db_for_write(Session)


def _read(key: str) -> Session | None:
    """The row of a session that has not expired."""
    if not key.isprintable():
        return None  # PostgreSQL accepts no null character, not even in a condition.
    generation, name = remembered.generation, named(key)
    rows: list[Session] = _SESSION.fetch(Session.objects.db, key[:64])
    # MariaDB finds a key that differs in upper case.
    found = next((row for row in rows if row.key == key and row.expires_at > timezone.now()), None)
    if found is not None:
        # Most sessions say the same, which is kept once.
        client = _shared(encode([found.client_info, found.client_capabilities]))
        found.client_info, found.client_capabilities = client
        found.site, found.revision, found.log_level = map(intern, (found.site, found.revision, found.log_level))
        remembered.keep(name, found, generation, found.expires_at)
    elif name in remembered.entries:
        remembered.forget(name)
    return found


@lru_cache(maxsize=1_000)
def _shared(client: bytes) -> list[Any]:
    """A client's description of itself, from JSON."""
    described: list[Any] = from_json(client)
    return described


def forget_answers(watched: Iterable[tuple[str, str]]) -> None:
    """Clear the stored digests of live queries whose clients are about to be notified: (session, URI).

    A stream that breaks may lose the notification. Without a digest, the client is notified once on its next stream.
    """
    sessions: dict[str, set[str]] = defaultdict(set)
    for session, uri in watched:
        sessions[uri].add(session)
    for uri, keys in sessions.items():
        WatchedResource.objects.filter(session__in=keys, uri_hash=_digest(uri)).exclude(digest="").update(digest="")


def _end(keys: Collection[str]) -> None:
    """End sessions and delete their rows. If a request of theirs prevents that, the next new session deletes them."""
    sessions = Session.objects.filter(pk__in=keys)
    if not clear_away(sessions):
        sessions.update(expires_at=timezone.now())
    remembered.forget(*map(named, keys))


def _bounded(client: Client) -> Client:
    """A client's description of itself, cut to names if it is too large for a row."""
    # PostgreSQL's JSON holds no null character.
    stored = encode([client.info, client.capabilities]).replace(rb"\u0000", rb"\ufffd")
    info, capabilities = from_json(stored)
    if len(stored) <= _MAX_CLIENT_BYTES:
        return Client(info, capabilities)
    names = list(capabilities)[:20]
    return Client(
        {key: str(info.get(key, ""))[:100] for key in ("name", "version")}, {name[:100]: {} for name in names}
    )


def _digest(uri: str) -> str:
    return hashlib.sha256(uri.encode("utf-8", "surrogatepass")).hexdigest()
