"""One POST and its answer, for both eras, in the order that the specification's checks have."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from mcp_django.exceptions import MCPError
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.running import RUNNING, running_key
from mcp_django.protocol import envelope, jsonrpc
from mcp_django.protocol.batches import Batch, check_batch
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import HeaderMismatch, InvalidRequest
from mcp_django.protocol.revisions import (
    LEGACY,
    MODERN,
    MODERN_REVISIONS,
    NEWEST_LEGACY,
    Era,
)
from mcp_django.server.dispatch import Asked, Reply, respond, respond_again
from mcp_django.server.methods import METHODS
from mcp_django.sessions.questions import answer_question
from mcp_django.sessions.store import StoredSession
from mcp_django.sites import MCPSite
from mcp_django.tools import catalog
from mcp_django.transports.http import headers as mcp_headers
from mcp_django.transports.http.connection import HTTPConnection, find_session
from mcp_django.transports.http.incoming import JSON_TYPE, SSE_TYPE, Answer, Incoming, Refusal, event, json_body
from mcp_django.transports.http.streams import ListenerStream

JSON = dict[str, Any]

#: Bodies up to this are parsed on the event loop, larger ones in a worker.
_SMALL_BODY_BYTES = 16_384


class Post:
    """The body of a POST. The constructor only reads what is small; ``answer`` does the work."""

    def __init__(self, site: MCPSite, incoming: Incoming, connection: HTTPConnection) -> None:
        self._site = site
        self._incoming = incoming
        self._headers = incoming.headers
        self._connection = connection
        self._message: jsonrpc.Message | None = None
        self._batch: list[Any] | None = None
        self._fault: tuple[MCPError, jsonrpc.RequestId | None] | None = None
        # A large body is work, which nobody gets done who is not let in.
        if incoming.body is not None and len(incoming.body) <= _SMALL_BODY_BYTES:
            self._read(incoming.body)

    @property
    def request_id(self) -> jsonrpc.RequestId | None:
        """The id that an error must carry, where it is known."""
        if self._fault is not None:
            return self._fault[1]
        return self._message.id if isinstance(self._message, jsonrpc.Request) else None

    @property
    def era(self) -> Era:
        """The era of the message, as far as it was read."""
        named = self._headers.get(mcp_headers.VERSION) in MODERN_REVISIONS
        message = self._message
        if isinstance(message, jsonrpc.Request | jsonrpc.Notification):
            return MODERN if named or envelope.claims_modern(message.params) else LEGACY
        return MODERN if named and message is None and self._fault is None and self._batch is None else LEGACY

    @property
    def is_quick(self) -> bool:
        """Whether its answer needs neither the database nor long."""
        if not isinstance(self._message, jsonrpc.Request) or self._headers.get(mcp_headers.SESSION) is not None:
            return False
        method = METHODS.get(self._message.method)
        return method is not None and not method.blocking

    def answer(self, principal: Principal) -> Answer:
        """Raises MCPError, whose answer carries ``request_id``."""
        body = json_body(self._incoming)
        if len(body) > _SMALL_BODY_BYTES:
            self._read(body)
        is_listen = isinstance(self._message, jsonrpc.Request) and self._message.method == "subscriptions/listen"
        if not self._headers.accepts(SSE_TYPE if is_listen else JSON_TYPE):
            raise Refusal(HTTPStatus.NOT_ACCEPTABLE, f"Send Accept: {JSON_TYPE}, {SSE_TYPE}.")
        if self._fault is not None:
            raise self._fault[0]
        if self._batch is not None:
            return self._answer_batch(principal, self._batch)
        match self._message:
            case None:
                raise InvalidRequest("The body holds no message.")
            case jsonrpc.Response() as response:
                return self._take_response(principal, response)
            case message:
                return self._answer_message(principal, message)

    def answer_again(self, principal: Principal, asked: Asked, given: Mapping[str, Any]) -> Answer:
        """Answer the request whose client was asked and has ``given`` its answers."""
        asked.exchange.principal = principal
        self._connection.asked = True
        return _answer_of(asked.exchange, respond_again(asked, given))

    def _answer_message(self, principal: Principal, message: jsonrpc.Request | jsonrpc.Notification) -> Answer:
        version = self._headers.get(mcp_headers.VERSION)
        if envelope.claims_modern(message.params):
            return self._answer_modern(principal, message)
        if message.method == "initialize":
            return self._answer_initialize(principal, message, version)
        if version in MODERN_REVISIONS:
            if isinstance(message, jsonrpc.Notification):
                return Answer(HTTPStatus.ACCEPTED)
            envelope.read_envelope(message.params)
        return self._answer_legacy(principal, message)

    def _read(self, body: bytes) -> None:
        """Parse the body; what is wrong with it is told after the caller is known."""
        try:
            value = jsonrpc.decode(body)
            if isinstance(value, list):
                self._batch = value
            else:
                self._message = jsonrpc.parse(value)
        except jsonrpc.Malformed as malformed:
            self._fault = (malformed.error, malformed.request_id)
        except MCPError as error:
            self._fault = (error, None)

    def _answer_modern(self, principal: Principal, message: jsonrpc.Request | jsonrpc.Notification) -> Answer:
        """A stateless request: its version, its capabilities and its headers are all in it."""
        if isinstance(message, jsonrpc.Notification):
            return Answer(HTTPStatus.ACCEPTED)
        revision, capabilities = envelope.read_envelope(message.params)
        mcp_headers.check_headers(self._headers, message.method, message.params, revision)
        envelope.check_version(revision)
        exchange = self._exchange(principal, message, revision, envelope.client_of(message.params, capabilities), None)
        if message.method == "tools/call":
            self._check_arguments(exchange)
        return _reply(exchange)

    def _check_arguments(self, exchange: Exchange) -> None:
        """Raises HeaderMismatch where a header does not repeat an argument as the tool's schema says."""
        name = exchange.params.get("name")
        mismatch = mcp_headers.find_mismatch(
            self._headers, catalog.mirrored(exchange, name), exchange.params.get("arguments")
        )
        # Of a tool that is not there for the principal nothing is told, as of one that does not exist.
        if mismatch is not None and catalog.exists(exchange, str(name)):
            raise mismatch

    def _answer_initialize(
        self, principal: Principal, message: jsonrpc.Request | jsonrpc.Notification, version: str | None
    ) -> Answer:
        if isinstance(message, jsonrpc.Notification):
            raise InvalidRequest("initialize must be a request.")
        if version in MODERN_REVISIONS:
            raise HeaderMismatch(
                f"{version} knows no initialize: send it without MCP-Protocol-Version, or put "
                "io.modelcontextprotocol/protocolVersion into params._meta of each request.",
                header="MCP-Protocol-Version",
            )
        if self._headers.get(mcp_headers.SESSION) is not None:
            raise InvalidRequest("initialize starts a session: send it without Mcp-Session-Id.")
        exchange = self._exchange(principal, message, NEWEST_LEGACY, Client(), None)
        answer = _reply(exchange)
        if self._connection.opened is not None:
            answer.headers["Mcp-Session-Id"] = self._connection.opened.key
        return answer

    def _answer_legacy(self, principal: Principal, message: jsonrpc.Request | jsonrpc.Notification) -> Answer:
        session, revision = find_session(self._site, self._headers, principal)
        if isinstance(message, jsonrpc.Notification):
            _notice(session, message)
            return Answer(HTTPStatus.ACCEPTED)
        client = session.client if session is not None else Client()
        exchange = self._exchange(principal, message, revision, client, session)
        if session is not None:
            self._connection.session = session
            RUNNING[running_key(session.key, message.id)] = exchange.cancellation
        return _reply(exchange)

    def _answer_batch(self, principal: Principal, members: list[Any]) -> Answer:
        """Several messages in one body, as old revisions have them. One answer a request, none a notification."""
        session, revision = None, self._headers.get(mcp_headers.VERSION)
        if revision not in MODERN_REVISIONS:
            session, revision = find_session(self._site, self._headers, principal)
        check_batch(members, revision)
        self._connection.can_stream = False
        batch = Batch(self._connection.message_limit)
        for member in members:
            self._add_member(batch, principal, member, session, revision)
        return Answer.of(batch.body) if batch.body else Answer(HTTPStatus.ACCEPTED)

    def _add_member(
        self, batch: Batch, principal: Principal, value: Any, session: StoredSession | None, revision: str
    ) -> None:
        """Answer one message of a batch, if it wants an answer."""
        try:
            message = jsonrpc.parse(value)
        except jsonrpc.Malformed as malformed:
            batch.add(jsonrpc.encode(jsonrpc.error_message(malformed.request_id, malformed.error, LEGACY)))
            return
        if isinstance(message, jsonrpc.Response) and session is not None:
            answer_question(session.key, message.id, message.body)
        if isinstance(message, jsonrpc.Notification):
            _notice(session, message)
        if isinstance(message, jsonrpc.Request):
            client = session.client if session is not None else Client()
            batch.add(respond(self._exchange(principal, message, revision, client, session)).body, message.id)

    def _take_response(self, principal: Principal, response: jsonrpc.Response) -> Answer:
        """A client's answer to a request of ours, for whichever process waits for it."""
        if self._headers.get(mcp_headers.VERSION) in MODERN_REVISIONS:
            raise InvalidRequest("A client sends requests and notifications, and no responses.")
        session, _ = find_session(self._site, self._headers, principal)
        if session is not None:
            answer_question(session.key, response.id, response.body)
        return Answer(HTTPStatus.ACCEPTED)

    def _exchange(
        self,
        principal: Principal,
        message: jsonrpc.Request,
        revision: str,
        client: Client,
        session: StoredSession | None,
    ) -> Exchange:
        return Exchange(
            site=self._site,
            principal=principal,
            revision=revision,
            method=message.method,
            params=message.params,
            request_id=message.id,
            client=client,
            connection=self._connection,
            request=self._incoming.request.copy().for_principal(principal),
            session=session,
            cancellation=self._incoming.cancellation,
        )


def _notice(session: StoredSession | None, message: jsonrpc.Notification) -> None:
    if session is not None and message.method == "notifications/cancelled":
        session.cancel(message.params.get("requestId"))


def _reply(exchange: Exchange) -> Answer:
    return _answer_of(exchange, respond(exchange))


def _answer_of(exchange: Exchange, reply: Reply) -> Answer:
    """The answer that a reply is: a message, a stream, or questions first."""
    if reply.asked is not None:
        return Answer(HTTPStatus.OK, asked=reply.asked)
    if reply.listen is None:
        headers = {"WWW-Authenticate": reply.challenge} if reply.challenge else {}
        return Answer.of(reply.body, reply.status, headers)
    listen = reply.listen
    opening, closing = listen.acknowledgement(exchange.request_id), listen.completion(exchange.request_id)
    stream = ListenerStream(listen.listener, event(jsonrpc.encode(opening)), event(jsonrpc.encode(closing)))
    return Answer(HTTPStatus.OK, stream=stream)
