"""The Django request that the project's hooks are given, made the same way for every transport."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.contrib.auth.models import AnonymousUser
from django.contrib.messages.storage.base import BaseStorage, Message
from django.http import HttpRequest, QueryDict
from django.utils.datastructures import MultiValueDict

from mcp_django.conf import get_conf

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal

#: What Django's own constructor sets, but for what is made when a hook asks for it.
_MADE_LATE = ("GET", "POST", "COOKIES", "FILES")
_BLANK = {name: value for name, value in vars(HttpRequest()).items() if name not in _MADE_LATE}
_LONGEST_KNOWN_NAME = 64

#: Attributes of a request that belong to one HTTP exchange and are not carried over from it.
_OWN = frozenset(
    {
        *vars(HttpRequest()),
        "session",
        "user",
        "auser",
        "environ",
        "scope",
        "resolver_match",
        "body_receive_timeout",
        "exchange",
        "headers",
        "mcp_fresh",
    }
)


class MessageList(BaseStorage):
    """Keeps what an action says by ``message_user``, so that it can be told to the agent; stores nothing."""

    def _get(self, *args: Any, **kwargs: Any) -> tuple[list[Message], bool]:
        return [], True

    def _store(self, messages: Iterable[Message], response: Any, *args: Any, **kwargs: Any) -> list[Message]:
        return []

    def texts(self) -> list[str]:
        return [str(message.message) for message in self._queued_messages]  # type: ignore[attr-defined]


class MCPRequest(HttpRequest):
    """A POST request as a ModelAdmin knows it: a user, messages, empty GET and POST, and no session, on purpose."""

    mcp: Principal
    #: What is being answered, while a handler runs: the means to tell and to ask the client.
    exchange: Exchange

    def __init__(self, *, path: str, scheme: str, meta: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
        # Not Django's own: there is one for each message, and what it would parse is empty.
        self.__dict__.update(_BLANK)
        self.__dict__.update(attributes)
        self.method = "POST"
        self.path = self.path_info = path
        self.META = {"REQUEST_METHOD": "POST", "SERVER_NAME": "localhost", "SERVER_PORT": "80", **meta}
        self._mcp_scheme = scheme
        self.user = AnonymousUser()
        # The body was read by the transport.
        self._read_started = True
        self._body = b""

    @cached_property
    def GET(self) -> QueryDict:  # type: ignore[override]
        return QueryDict(mutable=True)

    @cached_property
    def POST(self) -> QueryDict:  # type: ignore[override]
        return QueryDict(mutable=True)

    @cached_property
    def COOKIES(self) -> dict[str, str]:  # type: ignore[override]
        return {}

    @cached_property
    def FILES(self) -> MultiValueDict[str, Any]:  # type: ignore[override]
        return MultiValueDict()

    @cached_property
    def _messages(self) -> MessageList:
        return MessageList(self)

    def _get_scheme(self) -> str:
        return self._mcp_scheme

    def for_principal(self, principal: Principal) -> MCPRequest:
        """The request as this principal's; what was found out for another one is forgotten."""
        for name in ("_mcp_rights", "_mcp_viewers"):
            self.__dict__.pop(name, None)
        self.user = principal.user  # type: ignore[assignment]
        self.auth = principal.auth
        self.mcp = principal
        return self

    def copy(self) -> MCPRequest:
        """A fresh request of the same origin, for the next message of a connection or for a check before a push."""
        return MCPRequest(path=self.path, scheme=self._mcp_scheme, meta=self.META, attributes=self.attributes())

    def attributes(self) -> dict[str, Any]:
        """What the project's middleware and its hooks have set on the request."""
        return {key: value for key, value in vars(self).items() if key not in _OWN and not key.startswith("_")}


def from_view(request: HttpRequest) -> MCPRequest:
    """From the request of a Django view: what the project's middleware set on it is kept (a tenant, say)."""
    attributes = {key: value for key, value in vars(request).items() if key not in _OWN and not key.startswith("_")}
    return MCPRequest(path=request.path, scheme=request.scheme or "http", meta=request.META, attributes=attributes)


def from_scope(scope: Mapping[str, Any]) -> MCPRequest:
    """From an ASGI scope of type http or websocket; ``ws`` counts as ``http`` and ``wss`` as ``https``."""
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme") or "http", scope.get("scheme") or "http")
    meta: dict[str, Any] = {"QUERY_STRING": scope.get("query_string", b"").decode("latin-1")}
    if scope.get("client"):
        meta["REMOTE_ADDR"] = meta["REMOTE_HOST"] = scope["client"][0]
    if scope.get("server"):
        meta["SERVER_NAME"] = scope["server"][0]
        meta["SERVER_PORT"] = str(scope["server"][1] or 0)
    for name, raw_value in scope.get("headers", ()):
        key = _meta_key(name) if len(name) <= _LONGEST_KNOWN_NAME else _meta_key.__wrapped__(name)
        if key is None:
            continue
        value = raw_value.decode("latin-1")
        if key in meta:
            value = f"{meta[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}"
        meta[key] = value
    return MCPRequest(path=scope["path"], scheme=scheme, meta=meta, attributes={})


@lru_cache(maxsize=1_000)
def _meta_key(raw_name: bytes) -> str | None:
    """Where META has a header; None for one that Django's own handler drops too: it could pose as another."""
    if b"_" in raw_name:
        return None
    name = raw_name.decode("latin-1").upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


def from_settings() -> MCPRequest:
    """Where no request came in: from ``MCP["BASE_URL"]``."""
    url = urlsplit(get_conf().BASE_URL)
    meta = {
        "HTTP_HOST": url.netloc,
        "SERVER_NAME": url.hostname or "localhost",
        "SERVER_PORT": str(url.port or (443 if url.scheme == "https" else 80)),
    }
    return MCPRequest(path=url.path or "/", scheme=url.scheme or "http", meta=meta, attributes={})
