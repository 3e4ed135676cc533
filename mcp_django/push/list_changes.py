"""Notifies clients whose lists have changed: tools, prompts, and resources with their templates.

A digest of each list is kept, and compared after anything that may have changed the list. A client whose list is the
same as before is not notified. The lists of listeners with equal rights are compared once, in the workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import heapq
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.utils import translation

from mcp_django.bridge.prompts import catalog as prompts
from mcp_django.bridge.resources import catalog as resources
from mcp_django.bridge.tools import catalog as tools
from mcp_django.core.db.interrupts import was_interrupted
from mcp_django.core.db.outages import is_outage
from mcp_django.core.events.controls import EVERYBODY, Control, ControlKind, ControlSet
from mcp_django.core.running.workers import get_workers
from mcp_django.exceptions import MCPError
from mcp_django.exchange.connection import NoConnection
from mcp_django.exchange.exchange import Exchange, inspection_exchange
from mcp_django.protocol.errors import Overloaded, RequestCancelled
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.projection import project
from mcp_django.protocol.types import JSON
from mcp_django.push.listeners import LISTS
from mcp_django.push.prefetch import Prefetch, current_request

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site
    from mcp_django.push.listeners import Listener


logger = logging.getLogger("mcp_django")

#: The lists of an audience are compared at most once in this time.
_PAUSE_SECONDS = 0.5
#: Audiences that are compared in one call of a worker.
_AUDIENCES_PER_CALL = 10
#: The sweep finds changes for which there is no signal: it compares this many audiences, each at most this often.
_AUDIENCES_PER_SWEEP = 2
_SWEPT_SECONDS = 10.0
#: Pause after an error of the database.
_AFTER_ERROR_SECONDS = 1.0

#: In the place of a digest: the list could not be read, so its client is notified when it can be.
_UNKNOWN = b""
#: In the place of a digest: the list cannot be given, since a hook of the project fails.
_FAILED = b"failed"


#: Kinds of controls → the lists that they may have changed. A query tool that is off closes resources of models too.
_LISTS_BY_KIND = {ControlKind(name): {name} for name in LISTS} | {ControlKind.TOOLS: {"tools", "resources"}}

#: The kinds of controls after which lists, and what this process remembers of principals, may be out of date.
_KINDS = frozenset({ControlKind.ACCESS, *map(ControlKind, LISTS)})


def concerns_lists(control: Control) -> bool:
    """Whether lists, and what this process remembers of principals, may be out of date."""
    return control.kind in _KINDS


class _Page(NamedTuple):
    """One of the methods that give a list: the form of its result, ``{key: [{name: …}]}``, and the items."""

    method: str
    key: str
    name: str
    items: Callable[[Exchange], list[JSON]]


_PAGES: Mapping[str, tuple[_Page, ...]] = {
    "tools": (_Page("tools/list", "tools", "name", tools.listed),),
    "prompts": (_Page("prompts/list", "prompts", "name", prompts.listed),),
    "resources": (
        # Undated: the time at which contents were changed is no change of the list.
        _Page("resources/list", "resources", "uri", partial(resources.resources, dated=False)),
        _Page("resources/templates/list", "resourceTemplates", "uriTemplate", resources.templates),
    ),
}


class Audience:
    """Listeners that are given the same lists."""

    __slots__ = ("asked", "digests", "listeners", "looked_at", "names", "principal_key", "rests_until")

    def __init__(self, principal_key: str) -> None:
        self.principal_key = principal_key
        self.listeners: dict[Listener, None] = {}
        #: Those of the LISTS that any of them watches, or did.
        self.names: set[str] = set()
        #: List → its last digest. Absent: it was not read yet, and no client has its answer to the listen.
        self.digests: dict[str, bytes] = {}
        #: Lists that are to be compared.
        self.asked: set[str] = set()
        self.looked_at = time.monotonic()
        self.rests_until = 0.0

    def compare(self, found: Mapping[str, bytes]) -> None:
        """Remember the digests, and notify the listeners of those that differ from before."""
        for name, digest in found.items():
            known = self.digests.get(name)
            self.digests[name] = digest
            if known is not None and known != digest:
                for listener in self.listeners:
                    listener.notify_list_changed(name)


class ListWatch:
    """The lists that the listeners of a hub watch. On the hub's loop."""

    def __init__(self) -> None:
        self._audiences: dict[tuple[Any, ...], Audience] = {}
        self._of_principal: dict[str, dict[Audience, None]] = defaultdict(dict)
        #: Audiences whose lists are to be compared, in the order in which that was asked for.
        self._asked: dict[Audience, None] = {}
        self._woken = asyncio.Event()

    # Audiences.

    def add(self, listener: Listener) -> None:
        if not listener.lists:
            return
        audience = self._audiences.get(_key(listener))
        if audience is None:
            audience = self._audiences[_key(listener)] = Audience(listener.principal.key)
            self._of_principal[audience.principal_key][audience] = None
        audience.listeners[listener] = None
        audience.names |= listener.lists

    def remove(self, listener: Listener) -> None:
        audience = self._audiences.get(_key(listener))
        if audience is None:
            return
        audience.listeners.pop(listener, None)
        if audience.listeners:
            return
        del self._audiences[_key(listener)]
        self._asked.pop(audience, None)
        others = self._of_principal[audience.principal_key]
        del others[audience]
        if not others:
            del self._of_principal[audience.principal_key]

    def unknown(self, listener: Listener) -> frozenset[str]:
        """The listener's lists that must be read before its client gets its answer."""
        audience = self._audiences.get(_key(listener))
        return frozenset() if audience is None else listener.lists - audience.digests.keys()

    def remember(self, listener: Listener, digests: Mapping[str, bytes]) -> None:
        """Keep first digests, except where a comparison has found newer ones meanwhile."""
        audience = self._audiences.get(_key(listener))
        if audience is not None:
            for name, digest in digests.items():
                audience.digests.setdefault(name, digest)

    # Events.

    def receive(self, controls: ControlSet) -> None:
        """Compare the lists that the controls concern. The caller has cleared the caches of principals already."""
        if EVERYBODY in controls:
            self._ask(self._audiences.values(), LISTS)
            return
        named = {name for kind, lists in _LISTS_BY_KIND.items() if Control(kind) in controls for name in lists}
        if named:
            self._ask(self._audiences.values(), named)
        for key in controls.keys_of(ControlKind.ACCESS):
            self._ask(self._of_principal.get(f"user:{key}", ()), LISTS)

    def sweep(self) -> None:
        """Compare the audiences that were not compared for the longest time: some changes send no signal."""
        limit = time.monotonic() - _SWEPT_SECONDS
        oldest = heapq.nsmallest(
            _AUDIENCES_PER_SWEEP, self._audiences.values(), key=lambda audience: audience.looked_at
        )
        self._ask([audience for audience in oldest if audience.looked_at <= limit], LISTS)

    def _ask(self, audiences: Iterable[Audience], names: Iterable[str]) -> None:
        for audience in audiences:
            audience.asked.update(names)
            if audience not in self._asked:
                self._asked[audience] = None
                self._woken.set()

    # Comparing.

    async def work(self) -> None:
        """Compare lists as asked, for ever: at once, and with a pause while more changes come."""
        while True:
            now = time.monotonic()
            due = [audience for audience in self._asked if audience.rests_until <= now]
            if due:
                await self._compare(in_turns(due)[:_AUDIENCES_PER_CALL])
                continue
            self._woken.clear()
            next_at = min((audience.rests_until for audience in self._asked), default=None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if next_at is None else next_at - now):
                    await self._woken.wait()

    async def _compare(self, audiences: list[Audience]) -> None:
        jobs = []
        for audience in audiences:
            del self._asked[audience]
            names, audience.asked = audience.asked & audience.names, set()
            jobs.append((next(iter(audience.listeners)), names))
        pause = _AFTER_ERROR_SECONDS
        try:
            found = await get_workers().run(_look, jobs)
        except Exception as error:
            if not isinstance(error, Overloaded):
                logger.exception("Lists could not be compared with what they were; trying again")
            await asyncio.sleep(0.05 if isinstance(error, Overloaded) else _AFTER_ERROR_SECONDS)
            found, pause = [None] * len(jobs), 0.0
        now = time.monotonic()
        for audience, (_, names), digests in zip(audiences, jobs, found, strict=True):
            if digests is not None:
                audience.looked_at, audience.rests_until = now, now + _PAUSE_SECONDS
                audience.compare(digests)
            elif audience.listeners:
                # Only this audience waits: the database that is away may be used by this principal alone.
                audience.looked_at, audience.rests_until = now, now + pause
                self._ask([audience], names)


def _key(listener: Listener) -> tuple[Any, ...]:
    return listener.identity, listener.revision


def in_turns(audiences: Iterable[Audience]) -> list[Audience]:
    """The first audience of each principal, then the second ones: many connections of one delay no other principal."""
    seen: Counter[str] = Counter()

    def turn(audience: Audience) -> int:
        seen[audience.principal_key] += 1
        return seen[audience.principal_key]

    return sorted(audiences, key=turn)


# In a worker.


class _Memory(NoConnection):
    """A connection for which overrides are not read again: the notification of their change has cleared them."""

    push = True
    reads_anew = False


def first_look(listener: Listener, names: Collection[str]) -> dict[str, bytes]:
    """Digests of the present lists. Called within the site's call context."""
    found: dict[str, bytes] = {}
    try:
        # Without cached overrides: by now all other clients may get a newer list.
        found = _digests(listener.site, current_request(listener), names, listener.revision, NoConnection())
    except MCPError:
        pass  # The credentials no longer hold; the sweep ends the stream.
    except Exception:
        if was_interrupted():
            raise RequestCancelled from None
        # The stream opens all the same: its client is notified once the lists can be read.
        logger.warning("Lists could not be read; their clients may be notified without need", exc_info=True)
    return {name: found.get(name, _UNKNOWN) for name in names}


def _look(jobs: list[tuple[Listener, set[str]]]) -> list[dict[str, bytes] | None]:
    """For each listener the digests of the lists that can be read; None where its database is away."""
    prefetch = Prefetch([listener for listener, _ in jobs])
    return [_look_again(listener, names, prefetch) for listener, names in jobs]


def _look_again(listener: Listener, names: Collection[str], prefetch: Prefetch) -> dict[str, bytes] | None:
    try:
        request = prefetch.request_of(listener)
        with listener.site.in_context(request):
            return _digests(listener.site, request, names, listener.revision, _Memory())
    except MCPError:
        return {}
    except BaseException as error:
        if is_outage(error):
            logger.warning("Lists cannot be compared with what they were; trying again: %s", error)
            return None
        logger.exception("Lists could not be compared with what they were; no client is notified")
        return {}


def _digests(
    site: Site, request: MCPRequest, names: Collection[str], revision: str, connection: NoConnection
) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    # Lazily translated texts are compared in one language.
    with translation.override(settings.LANGUAGE_CODE):
        for name in [name for name in LISTS if name in names]:
            digest = hashlib.sha256()
            try:
                for page in _PAGES[name]:
                    exchange = inspection_exchange(site, request, page.method, connection)
                    digest.update(_written(page, exchange, revision))
            except MCPError:
                continue  # It took too long; the sweep looks again.
            except BaseException as error:
                if is_outage(error):
                    raise
                logger.exception("A list of %s cannot be given", name)
                found[name] = _FAILED
            else:
                found[name] = digest.digest()
    return found


def _written(page: _Page, exchange: Exchange, revision: str) -> bytes:
    """The items that the method gives, sorted, in the form of the revision."""
    items = sorted(page.items(exchange), key=lambda item: str(item[page.name]))
    return encode(project(page.method, {page.key: items}, revision))
