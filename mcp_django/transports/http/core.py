"""From an HTTP request to its answer: who asks, for what, and what stands around every answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from mcp_django.access.authentication import authenticate, authenticate_from_memory
from mcp_django.conf import get_conf
from mcp_django.deadlines import deadlines
from mcp_django.exchange.principals import Principal
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import NotInitialized
from mcp_django.protocol.revisions import LEGACY, MODERN_REVISIONS, POLLING_REVISIONS, Era
from mcp_django.push.attachment import Attachment
from mcp_django.push.listeners import LISTS, Listener
from mcp_django.server.dispatch import Asked
from mcp_django.sessions import streams
from mcp_django.sessions.store import StoredSession
from mcp_django.sites import MCPSite
from mcp_django.transports.http import headers as mcp_headers
from mcp_django.transports.http.answering import Answering
from mcp_django.transports.http.connection import HTTPConnection, find_session
from mcp_django.transports.http.incoming import SSE_HEADERS, SSE_TYPE, Answer, EventStream, Incoming, Refusal, event
from mcp_django.transports.http.post import Post
from mcp_django.transports.http.streams import ListenerStream, RestStream


class Conversation(Answering):
    """One HTTP request to the endpoint, and its answer.

    With an ``attachment`` to the hub of its loop the door can push; without one it cannot.
    """

    methods = ("GET", "POST", "DELETE")

    def __init__(self, site: MCPSite, incoming: Incoming, attachment: Attachment | None = None) -> None:
        super().__init__(site, incoming)
        self._connection = HTTPConnection(site, incoming, attachment)
        self.cancellation = incoming.cancellation
        self.outbox = self._connection.outbox
        self._post = Post(site, incoming, self._connection) if incoming.method == "POST" else None
        #: Known already on the loop, where no database is asked.
        self._principal: Principal | None = None

    def needs_worker(self) -> bool:
        """Whether answering may touch the database, or takes long enough to hold up an event loop."""
        if self._post is None or not self._post.is_quick:
            return True
        self._principal = authenticate_from_memory(self._incoming.request)
        return self._principal is None

    @property
    def cancelled_by_disconnect(self) -> bool:
        return self._post is not None and self._post.era.disconnect_cancels

    @property
    def session(self) -> StoredSession | None:
        """The legacy session that the request belongs to, once that is known."""
        return self._connection.session

    @property
    def is_primed(self) -> bool:
        """Whether the client may be let go before its answer is there, since it comes back for it."""
        return self.session is not None and self.session.revision in POLLING_REVISIONS

    @property
    def request_id(self) -> jsonrpc.RequestId | None:
        return None if self._post is None else self._post.request_id

    @property
    def era(self) -> Era:
        return LEGACY if self._post is None else self._post.era

    def cancel(self) -> None:
        """Stop the request, and the query that it is waiting for. On the loop."""
        self.cancellation.cancel()
        asyncio.get_running_loop().run_in_executor(None, self.cancellation.queries.interrupt)

    def answer(self) -> Answer:
        with contextlib.nullcontext() if self._connection.push else self._deadline():
            return super().answer()

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        """Stop the request when its time is over, where no event loop does: what it asks the database, at least."""
        seconds = get_conf().REQUEST_SECONDS
        if not seconds or self._post is None or self._post.is_quick:
            yield
            return
        with deadlines.within(seconds, self._expire):
            yield

    def _expire(self) -> None:
        self.cancellation.expire()
        self.cancellation.queries.interrupt()

    def answer_again(self, asked: Asked, given: Mapping[str, Any]) -> Answer:
        """Answer a request whose client was asked and has ``given`` its answers, as ``answer`` does."""

        def answer() -> Answer:
            principal = authenticate(self.request, fresh=True)
            self.request.for_principal(principal)
            return self._asked_post.answer_again(principal, asked, given)

        return self._answered(answer)

    @property
    def _asked_post(self) -> Post:
        if self._post is None:
            raise TypeError("Only the client of a POST is asked.")
        return self._post

    def stream(self, stream: EventStream) -> Answer:
        """The answer that a stream is, as it leaves."""
        return self._finished(Answer(HTTPStatus.OK, stream=stream))

    def _finished(self, answer: Answer) -> Answer:
        return super()._finished(answer if self._connection.push else self._with_messages(answer))

    def _with_messages(self, answer: Answer) -> Answer:
        """The answer behind what was to go before it: under WSGI they leave together."""
        bodies = self.outbox.take() if answer.status == HTTPStatus.OK else []
        if not bodies:
            return answer
        return Answer(answer.status, b"".join(map(event, [*bodies, answer.body])), {**answer.headers, **SSE_HEADERS})

    def _authenticate(self) -> Principal:
        # Without push this is a WSGI process, whose siblings' changes nobody tells it of: it always reads the database.
        return self._principal or authenticate(self.request, fresh=not self._connection.push)

    def _serve(self, principal: Principal) -> Answer:
        if self._post is not None:
            return self._post.answer(principal)
        # GET and DELETE are for legacy sessions.
        if self._headers.get(mcp_headers.VERSION) in MODERN_REVISIONS:
            raise self.not_allowed("Use POST.")
        return self._open_stream(principal) if self._incoming.method == "GET" else self._end_session(principal)

    def _open_stream(self, principal: Principal) -> Answer:
        """The stream on which a session is told what nobody asked for."""
        key = self._headers.get(mcp_headers.SESSION)
        if not self._connection.push:
            raise self.not_allowed("Notifications need an ASGI server.", "POST", "DELETE")
        if key is None:
            raise self.not_allowed("A stream belongs to a session: send initialize, then GET with its Mcp-Session-Id.")
        if not self._headers.accepts(SSE_TYPE):
            raise Refusal(HTTPStatus.NOT_ACCEPTABLE, f"Send Accept: {SSE_TYPE}.")
        session, revision = find_session(self._site, self._headers, principal)
        last_event_id = self._headers.get("last-event-id")
        if session is not None and last_event_id is not None:
            return self._resume(session, last_event_id)
        listener = Listener(
            site=self._site,
            principal=principal,
            request=self._incoming.request,
            revision=revision,
            lists=frozenset(LISTS),
            session_key=key,
        )
        self._connection.attach_session(listener)
        return Answer(HTTPStatus.OK, stream=ListenerStream(listener, opening=b":\n\n"))

    def _resume(self, session: StoredSession, last_event_id: str) -> Answer:
        """The rest of the stream that a request of the session was answered with."""
        found = streams.find(session, last_event_id)
        if found is None:
            raise self.not_allowed("Nothing is left on that stream.")
        return Answer(HTTPStatus.OK, stream=RestStream(self.request, session.key, *found))

    def _end_session(self, principal: Principal) -> Answer:
        session, _ = find_session(self._site, self._headers, principal)
        if session is None:
            raise NotInitialized
        session.end()
        return Answer(HTTPStatus.NO_CONTENT)
