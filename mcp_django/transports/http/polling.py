"""Long polling: a legacy session is sent its messages as the answers to requests, where no stream gets through.

It is ours, and in no revision of MCP. ``docs/transports.md`` says how a client polls.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from mcp_django.access.authentication import key_of
from mcp_django.access.throttling import throttles
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import get_workers, run_patiently
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.protocol.errors import LimitExceeded, Overloaded
from mcp_django.push import collectors
from mcp_django.push.collectors import Collector
from mcp_django.push.hub import Hub, get_hub
from mcp_django.push.listeners import LISTS, Listener
from mcp_django.push.sessions import polls, streams
from mcp_django.push.sessions.session_rows import StoredSession
from mcp_django.transports.attachment import Attachment
from mcp_django.transports.http.event_log import EventLog
from mcp_django.transports.http.headers import Headers
from mcp_django.transports.http.messages import HTTPResponse
from mcp_django.transports.in_flight import Opening

if TYPE_CHECKING:
    from mcp_django.transports.http.endpoint import EndpointView

logger = logging.getLogger("mcp_django")

#: How long a poll waits without the header Prefer, and how long it may wait. Proxies give up after 60 seconds.
_DEFAULT_SECONDS, _MAX_SECONDS = 30, 55
_WAIT = re.compile(r"""\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:;.*)?""", re.IGNORECASE)
#: The capabilities of clients that can be asked something.
_ASKABLE = frozenset({"elicitation", "sampling", "roots"})


def open_poll(view: EndpointView, principal: Principal, session: StoredSession, opening: Opening) -> HTTPResponse:
    """A poll, which acknowledges what the last one brought. In a worker; it waits on the loop. Raises MCPError."""
    throttles.admit(principal, view.request)
    place = polls.begin(session.key, view.http.headers.get("last-event-id"))
    return HTTPResponse(HTTPStatus.OK, poll=WaitingPoll(view, principal, session, opening, place))


def may_ask(view: EndpointView, session: StoredSession) -> bool:
    """Whether a call of a client that takes no stream may ask it something, by its polls. In a worker."""
    if not view.push or view.can_stream or _ASKABLE.isdisjoint(session.client.capabilities):
        return False
    return polls.is_open(session.key)


def preferred_wait(headers: Headers) -> int | None:
    """The seconds that Prefer asks to wait (RFC 7240 §4.3), as far as they are allowed; None where it names none."""
    found = map(_WAIT.fullmatch, (headers.get("prefer") or "").split(","))
    # The first one counts, as of any preference that is named twice.
    return next((min(int(match[1]), _MAX_SECONDS) for match in found if match), None)


class WaitingPoll:
    """One poll. A newer one of its session ends it, and so does whatever ends the collector."""

    def __init__(
        self, view: EndpointView, principal: Principal, session: StoredSession, opening: Opening, place: polls.Place
    ) -> None:
        self.number = place.number
        self._view = view
        self._principal = principal
        self._session = session
        self._opening = opening
        self._place = place
        self._is_closed = False
        self._woken = asyncio.Event()

    async def respond(self) -> HTTPResponse:
        """The messages that wait, as soon as there are any, or 204. On the loop. Raises MCPError."""
        preferred = preferred_wait(self._view.http.headers)
        applied = {} if preferred is None else {"Preference-Applied": f"wait={preferred}"}
        events = await self._events(_DEFAULT_SECONDS if preferred is None else preferred)
        # A 204 has it too: a client that stays away and names it is notified of what it may have missed.
        last = streams.event_id(self._place.key, events[-1][0] if events else self.number)
        headers = {**applied, "Last-Event-ID": last}
        if not events:
            return HTTPResponse(HTTPStatus.NO_CONTENT, headers=headers)
        return HTTPResponse.json(f"[{','.join(body for _, body in events)}]".encode(), headers=headers)

    def close(self) -> None:
        """Answer at once: the client is to poll again."""
        self._is_closed = True
        self._woken.set()

    async def _events(self, seconds: float) -> Sequence[tuple[int, str]]:
        hub = get_hub()
        collector = self._collector_here(hub) or await self._collect(hub)
        key, loop = self._place.key, asyncio.get_running_loop()
        woken = self._woken = hub.waiters.begin_reading(key, self)
        collector.begin(self)
        end = loop.time() + seconds
        try:
            while True:
                woken.clear()
                events = [] if self._is_closed else await self._read()
                # What was read for a poll that was ended meanwhile is for the next one.
                if events is None or self._is_closed:
                    return []
                if events:
                    return events
                try:
                    # Not wait_for: on Python 3.11 it swallows a cancellation that comes together with an event.
                    async with asyncio.timeout_at(end):
                        await woken.wait()
                except TimeoutError:
                    return []
        finally:
            hub.waiters.end_reading(key, self, woken)
            collector.end(self)

    async def _read(self) -> Sequence[tuple[int, str]] | None:
        """The first messages that wait, as many as one answer holds. None where the stream is gone."""
        try:
            rest = await get_workers().run(streams.rest, self._place.key, self.number)
        except Overloaded:
            return []  # The sweep asks again.
        except Exception:
            logger.exception("The messages for a poll could not be read; trying again")
            return []
        if rest is None:
            return None
        size, limit = 0, get_conf().page_bytes
        for count, (_, body) in enumerate(rest.events):
            size += len(body.encode()) + 1
            if count and size > limit:
                return rest.events[:count]
        return rest.events

    # The collector.

    def _collector_here(self, hub: Hub) -> Collector | None:
        """The collector of the session, if this process has it and it collects what this caller may see."""
        found = hub.waiters.stored_streams.get(self._place.key)
        # Another process may have taken over, and this one not heard of it yet.
        if not isinstance(found, Collector) or found.is_leaving or found.name != self._place.collector:
            return None
        return found if found.listener.principal.rights == self._principal.rights else None

    async def _collect(self, hub: Hub) -> Collector:
        """Attach a collector, before an older one leaves. Raises MCPError."""
        run = partial(run_patiently, principal_key=key_of(self._principal, self._view.request))
        listener = await run(self._attach, asyncio.get_running_loop())
        collector = Collector(hub, listener, self._session.key, self._place.key)
        try:
            previous = await run(polls.take_over, self._session.key, self._place.key, collector.name)
        except BaseException:
            collector.abandon()
            raise
        collector.start(previous, has_missed=self._place.has_missed or (not previous and not self._place.is_new))
        return collector

    def _attach(self, loop: asyncio.AbstractEventLoop) -> Listener:
        """A listener of the session in the hub. It outlives the request."""
        view, opening = self._view, self._opening
        listener = Listener(
            site=view.site,
            principal=self._principal,
            request=view.request,
            revision=opening.revision,
            lists=frozenset(LISTS),
            session_key=self._session.key,
            transport=view.transport,
            client_name=opening.client.name,
            is_polled=True,
        )
        attachment = Attachment(loop)
        try:
            attachment.attach_stream(listener)
        except BaseException:
            loop.call_soon_threadsafe(attachment.leave)
            raise
        return listener


class PolledEvents(EventLog):
    """The messages of a call whose client takes no stream: its questions go to the polls, its answer to the POST."""

    def __init__(self, view: EndpointView, session_key: str, end: Callable[[MCPError], None]) -> None:
        """``end`` ends the call."""
        super().__init__(view)
        self.is_attached = False
        self._session_key = session_key
        self._end = end
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Do nothing: only questions are stored."""

    async def write(self, bodies: Sequence[bytes]) -> None:
        """Let messages wait for the next poll. Raises LimitExceeded where too many do, or the client polls no more."""
        if not bodies:
            return
        waits = await run_patiently(polls.put, self._session_key, [body.decode() for body in bodies])
        # From the first question on, we look whether the client still polls.
        if self._watching is None:
            if not waits:
                raise _polls_no_more()
            self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def finish(self, bodies: Sequence[bytes]) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        """End the call when its client has stopped polling, and will not get the question."""
        while True:
            await asyncio.sleep(collectors.GRACE_SECONDS)
            try:
                if not await run_patiently(polls.is_open, self._session_key):
                    self._end(_polls_no_more())
                    return
            except Exception:
                logger.exception("A check whether a client still polls has failed; trying again")


def _polls_no_more() -> MCPError:
    return LimitExceeded("This request asks you something, but you do not poll any more. Poll, and send it again.")
