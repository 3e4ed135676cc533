"""Legacy sessions over HTTP: how they begin and end, their messages, batches and streams."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from mcp_django.access.throttling import throttles
from mcp_django.core.middleware_policy import why_no_push
from mcp_django.exchange.cancellation import RUNNING, running_key
from mcp_django.exchange.principals import Principal
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.batches import Batch
from mcp_django.protocol.errors import (
    HeaderMismatch,
    InvalidRequest,
    NotInitialized,
    SessionNotFound,
    UnsupportedVersionHeader,
)
from mcp_django.protocol.revisions import ASSUMED_REVISION, LEGACY_REVISIONS, MODERN_REVISIONS, NEWEST_LEGACY
from mcp_django.push.listeners import LISTS, Listener
from mcp_django.push.sessions import streams
from mcp_django.push.sessions.session_rows import StoredSession
from mcp_django.push.sessions.stored_questions import answer_question
from mcp_django.server.dispatch import respond
from mcp_django.transports.http import headers as mcp_headers
from mcp_django.transports.http import polling
from mcp_django.transports.http.messages import HTTPError, HTTPResponse
from mcp_django.transports.http.streams import ListenerStream, RestStream
from mcp_django.transports.in_flight import Opening

if TYPE_CHECKING:
    from mcp_django.transports.http.endpoint import EndpointView


def find(view: EndpointView, principal: Principal) -> tuple[StoredSession | None, Opening]:
    """The session of a legacy request, and its opening. Raises UnsupportedVersionHeader and SessionNotFound."""
    headers = view.http.headers
    version = headers.get(mcp_headers.VERSION)
    if version is not None and version not in LEGACY_REVISIONS:
        raise UnsupportedVersionHeader(version, LEGACY_REVISIONS)
    key = headers.get(mcp_headers.SESSION)
    if key is None:
        return None, Opening(version or ASSUMED_REVISION)
    # A stream lasts longer than a session is remembered, and without push no event reports the session's end.
    is_fresh = view.http.method != "POST" or not view.push
    session = StoredSession.find(view.site, principal, key, fresh=is_fresh)
    return session, Opening(session.revision, session.client, session)


def initialize(
    view: EndpointView, principal: Principal, message: jsonrpc.Request | jsonrpc.Notification
) -> HTTPResponse:
    """Open a session. Raises MCPError."""
    version = view.http.headers.get(mcp_headers.VERSION)
    if isinstance(message, jsonrpc.Notification):
        raise InvalidRequest("initialize must be a request.")
    if version in MODERN_REVISIONS:
        raise HeaderMismatch(
            f"{version} knows no initialize: send it without MCP-Protocol-Version, or put "
            "io.modelcontextprotocol/protocolVersion into params._meta of each request.",
            header="MCP-Protocol-Version",
        )
    # A client whose session is gone begins anew, and may still send the old id.
    if (key := view.http.headers.get(mcp_headers.SESSION)) and _exists(view, principal, key):
        raise InvalidRequest("initialize starts a session: send it without Mcp-Session-Id.")
    response = view.answer(principal, message, Opening(NEWEST_LEGACY))
    if view.opened is not None:
        response.headers["Mcp-Session-Id"] = view.opened.key
    return response


def _exists(view: EndpointView, principal: Principal, key: str) -> bool:
    try:
        StoredSession.find(view.site, principal, key, fresh=True)
    except SessionNotFound:
        return False
    return True


def answer(view: EndpointView, principal: Principal, message: jsonrpc.Request | jsonrpc.Notification) -> HTTPResponse:
    """The answer to a message, in a session or without one. Raises MCPError."""
    session, opening = find(view, principal)
    if isinstance(message, jsonrpc.Notification):
        _receive(session, message)
        return HTTPResponse(HTTPStatus.ACCEPTED)
    view.session = session
    if session is not None:
        view.is_polled = polling.may_ask(view, session)
        RUNNING[running_key(session.key, message.id)] = view.cancellation
    return view.answer(principal, message, opening)


def answer_batch(view: EndpointView, principal: Principal, members: list[Any]) -> HTTPResponse:
    """Several messages in one body, as old revisions have them. One answer a request, none a notification."""
    session, opening = None, Opening(view.http.headers.get(mcp_headers.VERSION) or "")
    if opening.revision not in MODERN_REVISIONS:
        session, opening = find(view, principal)
    batch = Batch(members, opening.revision, view.message_limit)
    for message in batch.requests(partial(_receive, session)):
        request = view.request.copy().for_principal(principal)
        exchange = view.exchange(view.site, request, principal, message, opening)
        batch.add(respond(exchange).body, message.id)
    return HTTPResponse.json(batch.body) if batch.body else HTTPResponse(HTTPStatus.ACCEPTED)


def take_response(view: EndpointView, principal: Principal, response: jsonrpc.Response) -> HTTPResponse:
    """A client's answer to a request of ours, for whichever process waits for it. Raises MCPError."""
    if view.http.headers.get(mcp_headers.VERSION) in MODERN_REVISIONS:
        raise InvalidRequest("A client sends requests and notifications, and no responses.")
    session, _ = find(view, principal)
    _receive(session, response)
    return HTTPResponse(HTTPStatus.ACCEPTED)


def open_stream(view: EndpointView, principal: Principal) -> HTTPResponse:
    """``GET``: the stream on which a session is sent the messages that answer no request, or a poll of them."""
    headers = view.http.headers
    key = headers.get(mcp_headers.SESSION)
    if not view.push:
        raise view.not_allowed(why_no_push(view.site.has_call_context), "POST", "DELETE")
    if key is None:
        raise view.not_allowed("A stream belongs to a session: send initialize, then GET with its Mcp-Session-Id.")
    message_type, stream_type = view.format.message_type, view.format.stream_type
    is_poll = not headers.accepts(stream_type)
    if is_poll and not headers.accepts(message_type):
        raise HTTPError(HTTPStatus.NOT_ACCEPTABLE, f"Send Accept: {stream_type}, or to poll {message_type}.")
    session, opening = find(view, principal)
    if session is not None and is_poll:
        return polling.open_poll(view, principal, session, opening)
    last_event_id = headers.get("last-event-id")
    if session is not None and last_event_id is not None:
        return _resume(view, session, last_event_id)
    throttles.admit(principal, view.request)
    listener = Listener(
        site=view.site,
        principal=principal,
        request=view.request,
        revision=opening.revision,
        lists=frozenset(LISTS),
        session_key=key,
        transport=view.transport,
        client_name=opening.client.name,
    )
    view.attachment().attach_stream(listener)
    return HTTPResponse(HTTPStatus.OK, stream=ListenerStream(view.format, listener, opening=view.format.keepalive))


def end(view: EndpointView, principal: Principal) -> HTTPResponse:
    """``DELETE``: end the session."""
    session, _ = find(view, principal)
    if session is None:
        raise NotInitialized
    session.end()
    return HTTPResponse(HTTPStatus.NO_CONTENT)


def _receive(session: StoredSession | None, message: jsonrpc.Notification | jsonrpc.Response) -> None:
    """Take in a message of a session that wants no answer."""
    if session is None:
        return
    if isinstance(message, jsonrpc.Response):
        answer_question(session.key, message.id, message.body)
    elif message.method == "notifications/cancelled":
        session.cancel(message.params.get("requestId"))


def _resume(view: EndpointView, session: StoredSession, last_event_id: str) -> HTTPResponse:
    """The rest of the stream that a request of the session was answered with."""
    found = streams.find(session, last_event_id)
    if found is None:
        raise view.not_allowed("Nothing is left on that stream.")
    return HTTPResponse(HTTPStatus.OK, stream=RestStream(view, session.key, *found))
