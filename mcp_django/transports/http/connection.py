"""What an HTTP request offers its handler, and the stored session that it belongs to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mcp_django.conf import MAX_MESSAGE_BYTES, get_conf
from mcp_django.exchange.principals import Principal
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import UnsupportedVersionHeader
from mcp_django.protocol.outbox import Outbox
from mcp_django.protocol.revisions import ASSUMED_REVISION, LEGACY_REVISIONS
from mcp_django.push.attachment import Attachment
from mcp_django.push.listeners import Listener
from mcp_django.push.session_streams import session_uris, subscriptions, unseen
from mcp_django.sessions.store import StoredSession
from mcp_django.sites import MCPSite
from mcp_django.transports.http import headers as mcp_headers
from mcp_django.transports.http.incoming import SSE_TYPE, Headers, Incoming

JSON = dict[str, Any]


class HTTPConnection:
    """What one HTTP request offers its handler."""

    def __init__(self, site: MCPSite, incoming: Incoming, attachment: Attachment | None) -> None:
        #: The legacy session that the request opened, and the one that it belongs to.
        self.opened: StoredSession | None = None
        self.session: StoredSession | None = None
        self.outbox = Outbox()
        #: Whether the client was asked something before this run of the handler.
        self.asked = False
        self.push = attachment is not None
        #: Whether the client takes a stream as the answer to this request: the answer to one message.
        self.can_stream = incoming.method == "POST" and incoming.headers.accepts(SSE_TYPE)
        self._site = site
        self._incoming = incoming
        self._attachment = attachment

    @property
    def can_ask(self) -> bool:
        return self.can_stream and self.push and self.session is not None

    @property
    def message_limit(self) -> int:
        # What was sent ahead of the answer, a question too, makes it an event of a stream.
        return MAX_MESSAGE_BYTES if self.outbox.used or self.asked else get_conf().MAX_RESULT_BYTES

    def send(self, message: JSON) -> None:
        if self.can_stream:
            self.outbox.put(message)

    def close_stream(self, retry_ms: int) -> None:
        if self.can_stream:
            self.outbox.close_stream(retry_ms)

    def open_session(self, revision: str, client: Client) -> None:
        self.opened = StoredSession.open(self._site, self._incoming.request.mcp.principal, revision, client)

    def attach(self, listener: Listener) -> None:
        if self._attachment is not None:
            self._attachment.attach(listener)
            self._attachment.remember_lists(listener)

    def attach_session(self, listener: Listener) -> None:
        """Give the stream of a session to the hub, with what the session watches."""
        if self._attachment is not None:
            self._attachment.attach(listener)
            # Read only now, when no change of it can be missed any more.
            watched = subscriptions(listener, session_uris(listener.session_key) or {})
            self._attachment.watch(listener, watched)
            # What went while no stream was open is told when it is there again.
            _, unknown = unseen(listener, watched)
            self._attachment.look_later(listener, unknown)
            self._attachment.arrange(listener.session_key or "")
            with self._site.call_context(listener.request):
                self._attachment.remember_lists(listener)

    def drop(self, listener: Listener, uris: Collection[str]) -> None:
        if self._attachment is not None:
            self._attachment.drop(listener, uris)


def find_session(site: MCPSite, headers: Headers, principal: Principal) -> tuple[StoredSession | None, str]:
    """The session and the revision of a legacy request. Raises UnsupportedVersionHeader and SessionNotFound."""
    version = headers.get(mcp_headers.VERSION)
    if version is not None and version not in LEGACY_REVISIONS:
        raise UnsupportedVersionHeader(version, LEGACY_REVISIONS)
    key = headers.get(mcp_headers.SESSION)
    if key is None:
        return None, version or ASSUMED_REVISION
    session = StoredSession.find(site, principal, key)
    return session, session.revision
