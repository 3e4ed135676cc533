"""The project's ASGI application: HTTP and WebSocket at the endpoint, Django for the rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from django.core.asgi import get_asgi_application as get_django_asgi_application

from mcp_django.compat.handlers import is_django
from mcp_django.transports.wire import SEND

if TYPE_CHECKING:
    from mcp_django.sites import MCPSite
    from mcp_django.transports.http.asgi import HTTPDoor

logger = logging.getLogger("mcp_django")

Scope = MutableMapping[str, Any]
#: Any ASGI application; Django's types and Channels' differ in how they write the same three arguments.
Application = Callable[..., Awaitable[None]]


def get_asgi_application(django_application: Application | None = None, *, site: MCPSite | None = None) -> Endpoint:
    """The application for ``asgi.py``. Sets Django up.

    ``django_application`` answers everything else, Django's own by default. The endpoint over HTTP is answered ahead of
    Django where every entry of MIDDLEWARE is known to matter to browsers alone, or with ``MCP["ASGI_DOOR"] = True``.
    """
    # First, since nothing of ours can be imported before the apps are there.
    fallback: Application = django_application or get_django_asgi_application()
    from mcp_django.sites import site as default_site

    return Endpoint(fallback, site or default_site)


class Endpoint:
    """Answers one site's endpoint, and hands everything else on."""

    def __init__(self, django_application: Application, site: MCPSite) -> None:
        from mcp_django.middleware import skips_middleware
        from mcp_django.transports.websocket import MCPConsumer

        self._django = django_application
        self._site = site
        self._has_doors = skips_middleware()
        # Without the wrapper of ``as_asgi``, which would be kept for each socket.
        self._consumer: Application = lambda *call: MCPConsumer(site)(*call)  # noqa: PLW0108 - a new one each time
        #: By path: the name of the place, and its application.
        self._places: dict[str, tuple[str, HTTPDoor]] = {}
        #: A project's own router takes the sockets of other paths; Django alone has no use for them.
        self._sockets_elsewhere = not is_django(django_application)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        kind = scope["type"]
        if kind == "websocket":
            await self._socket(scope)(scope, receive, send)
        elif kind == "http" and (door := self._door(scope)) is not None:
            await door(scope, receive, send)
        elif kind == "http":
            name, _ = self._find(scope)
            await self._django({**scope, SEND: send} if name else scope, receive, send)
        elif kind == "lifespan":
            await _lifespan(receive, send)

    def _socket(self, scope: Scope) -> Application:
        """What takes the socket."""
        from mcp_django.middleware import socket_problem

        if not self._is_endpoint(scope):
            return self._django if self._sockets_elsewhere else _refuse_socket
        problem = socket_problem(self._site)
        if problem is None:
            return self._consumer
        logger.error("WebSocket refused: %s", problem)
        return _refuse_socket

    def _door(self, scope: Scope) -> HTTPDoor | None:
        """What answers the request ahead of Django."""
        if not self._has_doors:
            return None
        _, door = self._find(scope)
        return door if door is not None and door.place.is_open() else None

    def _is_endpoint(self, scope: Scope) -> bool:
        return self._find(scope)[0] == "endpoint"

    def _find(self, scope: Scope) -> tuple[str, HTTPDoor | None]:
        if not self._places:
            from django.urls import reverse

            from mcp_django.transports.http.asgi import HTTPDoor
            from mcp_django.transports.http.places import places

            for place in places(self._site):
                path = reverse(f"mcp_django:{place.name}", current_app=self._site.name)
                self._places[path] = self._places[f"{path}/"] = (place.name, HTTPDoor(place))
        # reverse() has the script prefix in it only while a request sets one.
        return self._places.get(scope["path"].removeprefix(scope.get("root_path", "")), ("", None))


async def _refuse_socket(scope: Scope, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})


async def _lifespan(receive: Any, send: Any) -> None:
    """Start, and end our workers with the server."""
    from mcp_django.push.hub import close_hubs
    from mcp_django.workers import close_workers

    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            close_hubs()
            # In a thread, since a worker may still wait for this loop.
            await asyncio.to_thread(close_workers)
            await send({"type": "lifespan.shutdown.complete"})
            return
