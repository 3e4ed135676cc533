"""Clients over every transport with one interface, so that one test runs over all of them.

Each message that a peer receives is checked against the schema of its revision, without the test asking for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.asgi import ASGICall, decode_headers, encode_headers
from tests.support.base import LEGACY, MODERN, REVISIONS, Message, Peer, Watching, meta
from tests.support.duplex import Connection, DuplexPeer, DuplexWatching
from tests.support.grpc import GRPCPeer
from tests.support.http import Answered, ASGIPeer, HTTPPeer, HTTPWatching, WSGIPeer
from tests.support.loop import LoopThread
from tests.support.protobuf import ProtobufWire
from tests.support.sockets import Socket, SocketPeer
from tests.support.stdio import Pipes, StdioPeer

__all__ = [
    "LEGACY", "MODERN", "REVISIONS", "ASGICall", "ASGIPeer", "Answered", "Connection", "DuplexPeer", "DuplexWatching",
    "HTTPPeer", "HTTPWatching", "Message", "Peer", "Peers", "Pipes", "Socket", "SocketPeer", "StdioPeer", "WSGIPeer",
    "Watching", "decode_headers", "encode_headers", "meta",
]  # fmt: skip


@dataclass
class Peers:
    """Makes peers of one transport, and closes them."""

    transport: str
    loop: LoopThread
    made: list[Peer] = field(default_factory=list)
    #: Another site than the default one, for the transports that Django's URLconf does not decide.
    site: Any = None

    def __call__(self, token: str | None) -> Peer:
        peer = self._make(token)
        self.made.append(peer)
        return peer

    def _make(self, token: str | None) -> Peer:
        from django.core.handlers.asgi import ASGIHandler

        from mcp_django import site as default_site
        from mcp_django.routing import get_asgi_application

        match self.transport:
            case "http-view-wsgi":
                return WSGIPeer(token)
            case "http-view-asgi":
                return ASGIPeer(token, ASGIHandler(), self.loop)
            case "http-asgi":
                return ASGIPeer(token, get_asgi_application(_django, site=self.site), self.loop)
            case "http-protobuf":
                return ASGIPeer(token, ProtobufWire(get_asgi_application(_django, site=self.site)), self.loop)
            case "websocket":
                return SocketPeer(token, get_asgi_application(_django, site=self.site), self.loop)
            case "grpc":
                return GRPCPeer(token, self.site or default_site, self.loop)
            case "stdio":
                return StdioPeer(token, self.site or default_site, self.loop)
        raise ValueError(self.transport)

    def close(self) -> None:
        for peer in self.made:
            peer.close()


async def _django(*call: Any) -> None:
    """Django's own application. It is made by the few tests that reach it, since its middleware is loaded each time."""
    from django.core.handlers.asgi import ASGIHandler

    await ASGIHandler()(*call)
