"""The project's ASGI application: HTTP and WebSocket at the endpoint, Django for the rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING

from django.core.asgi import get_asgi_application as get_django_asgi_application

from mcp_django.core.compat.handlers import is_django
from mcp_django.core.types import Application, Receive, Scope, Send
from mcp_django.transports.asgi_servers.wire import SEND

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite
    from mcp_django.transports.http.asgi import HTTPApplication

logger = logging.getLogger("mcp_django")


def get_asgi_application(
    django_application: Application | None = None, *, site: MCPSite | None = None
) -> MCPApplication:
    """The application for ``asgi.py``. Sets Django up.

    ``django_application`` answers everything else, Django's own by default. The endpoint over HTTP is answered ahead of
    Django where every entry of MIDDLEWARE is known to matter to browsers alone, or with
    ``MCP["BYPASS_MIDDLEWARE"] = True``.
    """
    # First, since nothing of ours can be imported before the apps are there.
    fallback: Application = django_application or get_django_asgi_application()
    from mcp_django.bridge.sites import site as default_site

    return MCPApplication(fallback, site or default_site)


#: Stands for the key at the end of a path.
_KEY = "*"
#: What comes late elsewhere, and would hold up the loop here.
_WARM = (
    "mcp_types.methods",
    "mcp_django.protocol.json_schema.validation",
    "mcp_django.push.presence",
    "mcp_django.server.readiness",
)


class MCPApplication:
    """Answers one site's endpoint, and hands everything else on."""

    def __init__(self, django_application: Application, site: MCPSite) -> None:
        from mcp_django.core.middleware_policy import skips_middleware
        from mcp_django.transports.websocket import MCPConsumer

        for module in _WARM:
            import_module(module)
        self._django = django_application
        self._site = site
        self._bypasses_django = skips_middleware()
        # Without the wrapper of ``as_asgi``, which would be kept for each socket.
        self._consumer: Application = lambda *call: MCPConsumer(site)(*call)  # noqa: PLW0108 - a new one each time
        #: By path.
        self._applications: dict[str, HTTPApplication] = {}
        self._health: dict[str, Application] = {}
        #: A project's own router takes the sockets of other paths; Django alone has no use for them.
        self._sockets_elsewhere = not is_django(django_application)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = self._answer(scope, receive, send)
        # The headers hold credentials, and reports of errors tell what the frames of an exception hold.
        del scope
        await answering

    def _answer(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Whoever answers the connection."""
        from mcp_django.exchange.requests import without_credentials

        kind = scope["type"]
        if kind == "http":
            ours = self._find(scope)
            # Whatever the middleware is: it says nothing of the data, and a probe is nobody of this site.
            health = self._health.get(self._path(scope)) if ours is None else None
            if health is not None:
                return health(scope, receive, send)
            if ours is None:
                return self._django(scope, receive, send)
            if self._bypasses_django and ours.answers(scope):
                return ours(without_credentials(scope), receive, send)
            if self._passes_middleware(scope, ours):
                return ours.below_middleware(self._django, scope, receive, send)
            return self._django({**scope, SEND: send}, receive, send)
        if kind == "websocket":
            application = self._socket(scope)
            is_ours = application is self._consumer
            return application(without_credentials(scope) if is_ours else scope, receive, send)
        return _lifespan(self._find_routes, receive, send)

    def _passes_middleware(self, scope: Scope, ours: HTTPApplication) -> bool:
        """Whether the project's code runs in the thread that Django gives to the request."""
        from mcp_django.core.middleware_policy import runs_below

        return runs_below(self._site.has_call_context) and ours.answers(scope)

    def _socket(self, scope: Scope) -> Application:
        """The application that takes the socket."""
        from mcp_django.core.middleware_policy import socket_problem

        ours = self._find(scope)
        if ours is None or ours.route.name != "endpoint":
            return self._django if self._sockets_elsewhere else _refuse_socket
        problem = socket_problem(self._site.has_call_context)
        if problem is None or self._site.exposes_api:
            return self._consumer
        logger.error("WebSocket refused: %s", problem)
        return _refuse_socket

    def _find(self, scope: Scope) -> HTTPApplication | None:
        """The application of the path, if it is one of ours."""
        if not self._applications:
            self._find_routes()
        path = self._path(scope)
        found = self._applications.get(path)
        if found is None and path:
            before, _, key = path.removesuffix("/").rpartition("/")
            found = self._applications.get(f"{before}/{_KEY}") if key else None
        return found

    def _path(self, scope: Scope) -> str:
        # reverse() has the script prefix in it only while a request sets one.
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        return path

    def _find_routes(self) -> None:
        """Imports the project's URLs, and all that serves requests with them."""
        from django.urls import reverse

        from mcp_django.transports.http.asgi import HTTPApplication
        from mcp_django.transports.http.health import QUESTIONS
        from mcp_django.transports.http.routes import ROUTES

        for question in QUESTIONS:
            path = reverse(f"mcp_django:{question.name}", current_app=self._site.name)
            self._health[path] = self._health[f"{path}/"] = question.application
        for route in ROUTES:
            key = [_KEY] if route.has_key else []
            path = reverse(f"mcp_django:{route.name}", args=key, current_app=self._site.name)
            self._applications[path] = self._applications[f"{path}/"] = HTTPApplication(self._site, route)


async def _refuse_socket(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})


async def _lifespan(warm_up: Callable[[], None], receive: Receive, send: Send) -> None:
    """Start, and end our workers with the server. Not every server sends these messages."""
    from mcp_django.audit.recorder import recorder
    from mcp_django.core.running.workers import close_workers
    from mcp_django.push.hub import close_hubs

    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                warm_up()
            except Exception:
                logger.exception("The URLs cannot be imported; the first request tries again")
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            close_hubs()
            # In a thread, since a worker may still wait for this loop.
            await asyncio.to_thread(close_workers)
            # Uvicorn ends by a signal that leaves no time for functions of atexit.
            await asyncio.to_thread(recorder.flush)
            await send({"type": "lifespan.shutdown.complete"})
            return
