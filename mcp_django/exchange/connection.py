"""What a transport lends to the handler of a request: its connection, and the session of a legacy client."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from mcp_django.conf import MAX_MESSAGE_BYTES
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.types import JSON

#: A ``push.listeners.Listener`` and a ``push.subscriptions.Subscription``: packages above this one, which it only
#: hands from the server to the transport.
Listener = Any
Subscription = Any

#: The log level of a legacy session whose client has not set one.
DEFAULT_LOG_LEVEL = "info"


class LegacySession(Protocol):
    """A legacy session, wherever it is kept: in the database (HTTP) or in its connection (WebSocket)."""

    #: What its client names it by; empty where the connection itself is the session.
    key: str
    revision: str
    client: Client
    #: Log messages below this level are not sent to the client.
    log_level: str

    def set_log_level(self, level: str) -> None:
        """Remember from which level on the client wants log messages."""

    def subscribe(self, subscription: Subscription) -> None:
        """Remember the subscription. Raises LimitExceeded."""

    def unsubscribe(self, uri: str) -> None:
        """Forget the subscription. An unknown URI is no error."""


class RequestHeaders(Protocol):
    """The HTTP headers of a request, by lower-case name."""

    def get(self, name: str) -> str | None: ...

    def is_repeated(self, name: str) -> bool:
        """Whether the header was sent more than once."""

    def decoded(self, name: str) -> str | None:
        """The value that a header stands for, which may be encoded; None where it is absent or malformed."""


class Connection(Protocol):
    """What a transport offers to a handler beside the answer."""

    #: Whether notifications can be delivered on it.
    push: bool
    #: Whether overrides are read again even if they were read in the last TOKEN_CACHE_SECONDS.
    reads_anew: bool = False
    #: ``http``, ``sse``, ``websocket``, ``grpc`` or ``stdio``; ``task``, ``admin`` or ``test`` without a real client.
    transport: str = ""
    #: The headers that must repeat what the body of a modern request says; None where a request has none.
    headers: RequestHeaders | None = None

    #: Whether the answer is an HTTP response of its own, which has not begun: its status can say what is missing.
    can_challenge: bool = False

    #: Whether the body of an asynchronous function may run on the loop, while no thread waits for it.
    can_suspend: bool = False

    #: Whether an agent is at the other end, which people may pause. False for a person in the admin.
    is_of_agent: bool = True

    @property
    def is_live(self) -> bool:
        """Whether messages reach the client while the handler runs, so that the handler can wait until it reads."""
        return False

    @property
    def can_ask(self) -> bool:
        """Whether the server can send the client a request while it answers one, and receive the response."""

    @property
    def message_limit(self) -> int:
        """How many bytes the answer may have on this connection. This may be more than MAX_RESULT_BYTES."""
        return MAX_MESSAGE_BYTES

    def send(self, message: JSON) -> None:
        """Send a message that belongs to the request, ahead of its answer. Called in a worker; never waits."""

    def send_chunk(self, body: bytes, taken: Callable[[], None]) -> None:
        """Send an encoded message that holds a part of the result. Called from any thread; never waits.

        ``taken`` is called on the loop, once the client has read most of what was sent before. The next one is sent
        only then.
        """

    def close_stream(self, retry_ms: int) -> None:
        """Close the client's connection, if the client can come back for the rest of the request's messages."""

    def open_session(self, revision: str, client: Client) -> None:
        """Start the legacy session that ``initialize`` asks for."""

    def attach(self, listener: Listener) -> None:
        """Give the listener to the hub before its subscriptions are looked up, so that no change is missed meanwhile.

        Raises RequestCancelled if the client is gone, and LimitExceeded.
        """

    def drop(self, listener: Listener, uris: Collection[str]) -> None:
        """Remove the URIs that the principal may not see, and their pending notifications."""


class NoConnection(Connection):
    """For a run without a client: a task, which stores what it tells and asks, or an inspection."""

    push = False
    reads_anew = True
    transport = "task"
    can_ask = False

    def send(self, message: JSON) -> None: ...

    def send_chunk(self, body: bytes, taken: Callable[[], None]) -> None: ...

    def close_stream(self, retry_ms: int) -> None: ...

    def open_session(self, revision: str, client: Client) -> None: ...

    def attach(self, listener: Listener) -> None: ...

    def drop(self, listener: Listener, uris: Collection[str]) -> None: ...
