"""The endpoint: one HTTP request to it, in both eras, with the checks in the order that the specification has."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from mcp_django.access.authentication import authenticate_again, authenticate_from_memory
from mcp_django.conf import MAX_MESSAGE_BYTES, get_conf
from mcp_django.core.running.deadlines import deadlines
from mcp_django.core.running.suspension import Suspended, finishing
from mcp_django.exceptions import MCPError
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal
from mcp_django.protocol import envelope, jsonrpc
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import InternalError, InvalidRequest
from mcp_django.protocol.revisions import LEGACY, MODERN, MODERN_REVISIONS, POLLING_REVISIONS, Era
from mcp_django.protocol.types import JSON
from mcp_django.push.sessions.session_rows import StoredSession
from mcp_django.server.dispatch import PendingQuestions, Reply, respond, respond_again
from mcp_django.server.methods import QUICK_METHODS
from mcp_django.transports.http import headers as mcp_headers
from mcp_django.transports.http import sessions
from mcp_django.transports.http.base import View
from mcp_django.transports.http.bodies import SMALL_BODY_BYTES
from mcp_django.transports.http.formats import JSON_TYPE
from mcp_django.transports.http.messages import STREAM_HEADERS, HTTPError, HTTPResponse
from mcp_django.transports.http.streaming import StreamingCall
from mcp_django.transports.http.streams import ListenerStream
from mcp_django.transports.in_flight import InFlight, Opening

logger = logging.getLogger("mcp_django")


@dataclass(eq=False)
class EndpointView(View, InFlight):
    """A request to the endpoint, and the connection that its handler sees.

    POST carries a message; GET and DELETE are for legacy sessions.
    """

    methods = ("GET", "POST", "DELETE")
    reads_token_again = False
    transport = "http"

    def __post_init__(self) -> None:
        self.headers = self._headers = self.http.headers
        #: The legacy session that the request belongs to, and the one that it opened.
        self.session: StoredSession | None = None
        self.opened: StoredSession | None = None
        self._message: jsonrpc.Message | None = None
        self._batch: list[Any] | None = None
        self._fault: tuple[MCPError, jsonrpc.RequestId | None] | None = None
        #: Whether the client was asked something before this run of the handler.
        self._was_asked = False
        #: Whether the client takes no stream, and its polls may bring it our questions.
        self.is_polled = False
        super().__post_init__()
        body = self.http.body
        # A larger body is parsed in a worker, and only for a caller who is let in.
        if self.http.method == "POST" and body is not None and len(body) <= SMALL_BODY_BYTES:
            self._read(body)

    # The way of a request.

    async def respond_on_loop(self) -> HTTPResponse:
        """The response to a request. If this task is cancelled, so is the request where its era says so."""
        self.loop = asyncio.get_running_loop()
        response: HTTPResponse | None = None
        try:
            here = self._principal_here()
            self.principal = here or self.principal
            if self.principal_key is None or (here is not None and self._is_quick):
                response = self.respond()
            else:
                # The request of a legacy client is done even if the client no longer waits for the answer.
                response = await StreamingCall(self, needs_worker=here is None).respond()
            if response.poll is not None:
                response = self.finalize(await response.poll.respond())
        except MCPError as error:
            response = self.refuse(error)
        except Exception:
            logger.exception("A request could not be answered")
            response = self.refuse(InternalError())
        except asyncio.CancelledError:
            if self.cancelled_by_disconnect:
                self.cancel()
            raise
        finally:
            stream = None if response is None else response.stream
            self.leave_hub(but=stream.listener if isinstance(stream, ListenerStream) else None)
        return response

    def respond_in_thread(self) -> HTTPResponse:
        with self._deadline():
            return self.respond()

    def respond_again(self, pending: PendingQuestions, given: Mapping[str, Any]) -> HTTPResponse:
        """Respond to a request whose client was asked and has ``given`` its answers, as ``respond`` does."""

        def answer() -> HTTPResponse:
            pending.exchange.principal = authenticate_again(pending.exchange.principal, self.request, fresh=True)
            self.request.for_principal(pending.exchange.principal)
            self._was_asked = True
            again = partial(respond_again, pending, given)
            return finishing(lambda run: self._response_of(pending.exchange, run()), again)

        return self.respond_by(answer)

    @property
    def refuses_paused(self) -> bool:  # type: ignore[override]
        # Each message of a POST is looked at by itself, and a session may end.
        return self.http.method == "GET"

    def handle(self, principal: Principal) -> HTTPResponse:
        if self.http.method == "POST":
            return self._post(principal)
        if self._headers.get(mcp_headers.VERSION) in MODERN_REVISIONS:
            raise self.not_allowed("Use POST.")
        return sessions.open_stream(self, principal) if self.http.method == "GET" else sessions.end(self, principal)

    def finalize(self, response: HTTPResponse) -> HTTPResponse:
        return super().finalize(response if self.push else self._with_messages(response))

    def _with_messages(self, response: HTTPResponse) -> HTTPResponse:
        """The response with the messages that go ahead of it: under WSGI they leave together."""
        bodies = self.buffer.take() if response.status == HTTPStatus.OK else []
        if not bodies:
            return response
        events = b"".join(map(self.format.event, [*bodies, response.body]))
        stream_type = {"Content-Type": self.format.stream_type}
        return HTTPResponse(response.status, events, {**response.headers, **STREAM_HEADERS, **stream_type})

    def _principal_here(self) -> Principal | None:
        """The principal, if the response needs no worker, or at least none before the body of a function."""
        message = self._message
        if not isinstance(message, jsonrpc.Request) or self.principal_key is None:
            return None
        if message.method == "tools/call" and message.params.get("name") not in self.site.tools_on_loop:
            return None
        # A browser's Origin is checked before the caller is looked up.
        if self._headers.get(mcp_headers.SESSION) is not None or self._headers.get("origin") is not None:
            return None
        recall = partial(authenticate_from_memory, self.request)
        return self.principal_here(self.site, self.request, message, recall)

    def _deadline(self) -> AbstractContextManager[None]:
        """Stop the request when its time is over, where no event loop does: its queries, at least."""
        seconds = get_conf().REQUEST_SECONDS
        if not seconds or self.http.method != "POST" or self._is_quick:
            return nullcontext()
        return deadlines.within(seconds, self._expire_in_thread)

    def _expire_in_thread(self) -> None:
        self.cancellation.expire()
        self.cancellation.queries.interrupt()

    # The message, as far as it was read.

    @property
    def request_id(self) -> jsonrpc.RequestId | None:
        if self._fault is not None:
            return self._fault[1]
        return self._message.id if isinstance(self._message, jsonrpc.Request) else None

    @property
    def era(self) -> Era:
        """The era of the message, as far as it was read."""
        if self.http.method != "POST":
            return LEGACY
        named = self._headers.get(mcp_headers.VERSION) in MODERN_REVISIONS
        message = self._message
        if isinstance(message, jsonrpc.Request | jsonrpc.Notification):
            return MODERN if named or envelope.claims_modern(message.params) else LEGACY
        return MODERN if named and message is None and self._fault is None and self._batch is None else LEGACY

    @property
    def cancelled_by_disconnect(self) -> bool:
        return self.era.disconnect_cancels

    @property
    def is_resumable(self) -> bool:
        """Whether the connection may close before the answer: the client resumes the stream (2025-11-25)."""
        return self.session is not None and self.session.revision in POLLING_REVISIONS

    @property
    def _is_quick(self) -> bool:
        """Whether the answer needs neither the database nor long."""
        message = self._message
        is_quick = isinstance(message, jsonrpc.Request) and message.method in QUICK_METHODS
        return is_quick and self._headers.get(mcp_headers.SESSION) is None

    # The connection that the handler sees.

    @property
    def can_stream(self) -> bool:
        """Whether the client takes a stream as the answer to this request: the answer to one message."""
        return self._batch is None and self._headers.accepts(self.format.stream_type)

    @property
    def is_live(self) -> bool:
        return self.can_stream and super().is_live

    @property
    def can_challenge(self) -> bool:  # type: ignore[override]
        # A batch has one status for all of its members.
        return self._batch is None and not self.buffer.used

    @property
    def can_suspend(self) -> bool:  # type: ignore[override]
        # The members of a batch are answered one after the other, by one run.
        return self.loop is not None and self._batch is None

    @property
    def can_ask(self) -> bool:
        return self.push and self.session is not None and (self.can_stream or self.is_polled)

    @property
    def message_limit(self) -> int:
        # A message ahead of the answer, a question too, makes the answer an event of a stream.
        return MAX_MESSAGE_BYTES if self.buffer.used or self._was_asked else get_conf().MAX_RESULT_BYTES

    def send(self, message: JSON) -> None:
        if self.can_stream:
            self.buffer.put(message)

    def close_stream(self, retry_ms: int) -> None:
        if self.can_stream:
            self.buffer.close_stream(retry_ms)

    def open_session(self, revision: str, client: Client) -> None:
        self.opened = StoredSession.open(self.site, self.request.mcp.principal, revision, client)

    # The message.

    def _read(self, body: bytes) -> None:
        """Parse the body. Its faults are reported only after the caller is known."""
        try:
            value = jsonrpc.decode(body) if self.content_format is None else self.content_format.decode(body)
            if isinstance(value, list):
                self._batch = value
            else:
                self._message = jsonrpc.parse(value)
        except jsonrpc.Malformed as malformed:
            self._fault = (malformed.error, malformed.request_id)
        except MCPError as error:
            self._fault = (error, None)

    def _post(self, principal: Principal) -> HTTPResponse:
        """The answer to a body. Raises MCPError, whose answer carries ``request_id``."""
        body = self.checked_body(takes_protobuf=True)
        if len(body) > SMALL_BODY_BYTES:
            self._read(body)
        is_listen = isinstance(self._message, jsonrpc.Request) and self._message.method == "subscriptions/listen"
        message_type, stream_type = self.format.message_type, self.format.stream_type
        if not self._headers.accepts(stream_type if is_listen else message_type):
            raise HTTPError(HTTPStatus.NOT_ACCEPTABLE, f"Send Accept: {message_type}, {stream_type}.")
        if self._fault is not None:
            raise self._fault[0]
        if self._batch is not None:
            return sessions.answer_batch(self, principal, self._batch)
        match self._message:
            case None:
                raise InvalidRequest("The body holds no message.")
            case jsonrpc.Response() as response:
                return sessions.take_response(self, principal, response)
            case message:
                return self._answer_message(principal, message)

    def _answer_message(self, principal: Principal, message: jsonrpc.Request | jsonrpc.Notification) -> HTTPResponse:
        if envelope.claims_modern(message.params):
            if isinstance(message, jsonrpc.Notification):
                return HTTPResponse(HTTPStatus.ACCEPTED)
            check = partial(mcp_headers.check_headers, self._headers, message.method, message.params)
            revision, client = envelope.open_modern(message.params, check)
            return self.answer(principal, message, Opening(revision, client))
        version = self._headers.get(mcp_headers.VERSION)
        if message.method == "initialize":
            return sessions.initialize(self, principal, message)
        if version in MODERN_REVISIONS:
            if isinstance(message, jsonrpc.Notification):
                return HTTPResponse(HTTPStatus.ACCEPTED)
            envelope.read_envelope(message.params)
        return sessions.answer(self, principal, message)

    def answer(self, principal: Principal, message: jsonrpc.Request, opening: Opening) -> HTTPResponse:
        exchange = self.exchange(self.site, self.request, principal, message, opening)
        try:
            reply = respond(exchange)
        except Suspended as suspended:
            suspended.then(lambda run: self._response_of(exchange, run()))
            raise
        return self._response_of(exchange, reply)

    def _response_of(self, exchange: Exchange, reply: Reply) -> HTTPResponse:
        """The response that carries a reply: a message, a stream, or questions first."""
        if reply.pending is not None:
            return HTTPResponse(HTTPStatus.OK, pending=reply.pending)
        if exchange.cancellation.cancelled and exchange.cancellation.why is None:
            # The client has given the request up, and gets no answer to it.
            return HTTPResponse(HTTPStatus.ACCEPTED)
        if reply.listen is None:
            headers = {"WWW-Authenticate": reply.challenge} if reply.challenge else {}
            if reply.retry_after:
                headers["Retry-After"] = str(reply.retry_after)
            return HTTPResponse(reply.status, reply.body, {"Content-Type": JSON_TYPE, **headers})
        listen, event = reply.listen, self.format.event
        opening = listen.acknowledgement(exchange.request_id)
        stream = ListenerStream(
            self.format,
            listen.listener,
            event(jsonrpc.encode(opening)),
            lambda: event(jsonrpc.encode(listen.completion(exchange.request_id))),
        )
        return HTTPResponse(HTTPStatus.OK, stream=stream)
