"""The Django views of our URLs: one for WSGI, one for ASGI, behind one URL pattern."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from functools import cache, wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, URLPattern
from django.urls import path as url_path
from django.views.decorators.csrf import csrf_exempt

from mcp_django.access.authentication import caller_of
from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.core.middleware_policy import runs_below, skips_middleware
from mcp_django.core.running.workers import get_workers
from mcp_django.exchange.requests import from_view
from mcp_django.protocol.errors import Overloaded
from mcp_django.push.hub import Hub, get_hub
from mcp_django.transports.asgi_servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.asgi_servers.watchdog import reading_client
from mcp_django.transports.asgi_servers.wire import HELD, SEND, Wire
from mcp_django.transports.http.base import View
from mcp_django.transports.http.headers import Headers
from mcp_django.transports.http.health import QUESTIONS
from mcp_django.transports.http.incoming import BodyOfView
from mcp_django.transports.http.messages import ANSWER_HEADERS, EventStream, HTTPRequest, HTTPResponse
from mcp_django.transports.http.routes import ROUTES, VISITING, Route, is_visit
from mcp_django.transports.pacing import hold_refusal

logger = logging.getLogger("mcp_django")

DjangoView = Callable[..., Any]
#: Answers a person who opens the endpoint of a site in a browser.
Page = Callable[[HttpRequest, MCPSite], HttpResponse]


class EndpointPattern(URLPattern):
    """Leads to the WSGI view or to the ASGI view of a URL of ours, by whether an event loop runs."""

    def __init__(
        self,
        path: str,
        in_thread: DjangoView,
        on_loop: DjangoView,
        name: str | None = None,
        is_open: Callable[[], bool] | None = None,
    ) -> None:
        self._on_loop = url_path(path, on_loop, name=name)
        super().__init__(self._on_loop.pattern, in_thread, name=name)
        self._is_open = is_open

    def resolve(self, path: str) -> ResolverMatch | None:
        if self._is_open is not None and not self._is_open():
            return None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return super().resolve(path)
        return self._on_loop.resolve(path)


def url_patterns(site: MCPSite, page: Page) -> list[URLPattern]:
    """Each URL with a slash at its end and without one, and no redirect between them. Without one is canonical.

    ``page`` answers people who open the endpoint in a browser.
    """
    health = [
        pattern
        for question in QUESTIONS
        for pattern in _both(question.path, question.name, *map(unguarded, question.views()))
    ]
    served = [
        pattern
        for route in ROUTES
        for pattern in _both(route.pattern, route.name, *_views(site, route, page), route.is_open)
    ]
    return [*health, *served]


def _both(
    path: str,
    name: str,
    in_thread: DjangoView,
    on_loop: DjangoView,
    is_open: Callable[[], bool] | None = None,
) -> tuple[EndpointPattern, EndpointPattern]:
    return (
        EndpointPattern(path, in_thread, on_loop, name, is_open),
        EndpointPattern(f"{path}/", in_thread, on_loop, None, is_open),
    )


def _views(site: MCPSite, route: Route, page: Page) -> tuple[DjangoView, DjangoView]:
    """The views of a route: in the thread of the request, and on an event loop."""
    in_thread = wsgi_view(site, route)
    on_loop = _below_middleware(site, asgi_view(site, route), route, in_thread)
    if not route.has_page:
        return in_thread, on_loop

    def show(request: HttpRequest) -> HttpResponse:
        return page(request, site)

    return _or_page_in_thread(in_thread, show), _or_page_on_loop(on_loop, show)


def _or_page_in_thread(view: DjangoView, show: DjangoView) -> DjangoView:
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = (show if _is_visit(request) else view)(request)
        return response

    return answer


def _or_page_on_loop(view: DjangoView, show: DjangoView) -> DjangoView:
    @wraps(view)
    async def answer(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await (sync_to_async(show) if _is_visit(request) else view)(request)
        return response

    return answer


def _is_visit(request: HttpRequest) -> bool:
    return request.method in VISITING and is_visit(request.headers.get)


def wsgi_view(site: MCPSite, route: Route) -> DjangoView:
    """Answers in the thread of the request. Offers no push: it could only hold a worker for each client."""
    view_class = route.sync_view or route.view

    def view(request: HttpRequest, **_: str) -> HttpResponseBase:
        if getattr(getattr(request, "session", None), "accessed", False) and runs_below(site.has_call_context):
            _warn_of_login()
        ours = view_class(site, _request(request, view_class))
        return _response(ours.respond_in_thread().written(ours.format))

    return unguarded(view)


@cache
def _warn_of_login() -> None:
    """Once for each process."""
    logger.warning(
        "Middleware of the project looks at the login of a request, and an agent's call by a token has none. If it "
        "chooses a tenant by the login, do its work in MCPSite.call_context."
    )


def _below_middleware(site: MCPSite, on_loop: DjangoView, route: Route, in_thread: DjangoView) -> DjangoView:
    """The view on a loop; where the project's code must run below its middleware, that of the request's own thread.

    Such calls are bounded as those of the pool are, before anything is read from the database.
    """

    async def view(request: HttpRequest, **key: str) -> HttpResponseBase:
        response: HttpResponseBase
        if skips_middleware() or site.has_call_context:
            response = await on_loop(request, **key)
            return response
        answering = sync_to_async(in_thread, thread_sensitive=True)
        if getattr(request, "scope", {}).get(HELD):
            response = await answering(request, **key)
            return response
        place = AsyncExitStack()
        try:
            await place.enter_async_context(get_workers().place(caller_of(from_view(request))))
        except Overloaded as error:
            await hold_refusal()
            ours = route.view(site, _request(request, route.view), push=True)
            return _response(ours.refuse(error).written(ours.format))

        async def answer() -> HttpResponseBase:
            async with place:
                answered: HttpResponseBase = await answering(request, **key)
                return answered

        # A thread goes on after its client has left, and the place is held as long.
        answered = asyncio.ensure_future(answer())
        answered.add_done_callback(lambda one: one.cancelled() or one.exception())
        return await asyncio.shield(answered)

    return unguarded(view)


def asgi_view(site: MCPSite, route: Route) -> DjangoView:
    """Answers from our workers, so that no thread and no connection of the request's is held while a stream is open."""

    watched: Hub | None = None

    async def view(request: HttpRequest, **_: str) -> HttpResponseBase:
        nonlocal watched
        if _uses_pool():
            # The worker needs a pooled connection too. If each request kept one, they would all wait for each other.
            await _close_connections()
        # From the first request on, this process learns at once which tokens another one revokes.
        hub = get_hub()
        if hub is not watched:
            close_hub_at_shutdown(hub)
            watched = hub
        ours = route.view(site, _request(request, route.view), push=True)
        answer = (await ours.respond_on_loop()).written(ours.format)
        if ours.is_turned_away:
            await hold_refusal()
        if answer.stream is None:
            return _response(answer)
        wire = Wire(getattr(request, "scope", {}).get(SEND))
        response = StreamingHttpResponse(_read_chunks(answer.stream, wire), status=answer.status)
        for name, value in answer.stream_headers().items():
            response[name] = value
        # A response that middleware replaces, or that nobody waits for, may end without having been begun.
        weakref.finalize(response, _abandon, asyncio.get_running_loop(), answer.stream)
        return response

    return unguarded(view)


async def _read_chunks(stream: EventStream, wire: Wire) -> AsyncGenerator[bytes, None]:
    """The chunks of a stream, which ends if its client does not read them."""
    chunks = stream.chunks()
    try:
        # Middleware may have used the database in this request's own thread, which lives as long as the stream.
        await _close_connections()
        with reading_client(wire):
            async for chunk in chunks:
                wire.begin()
                yield chunk
                await wire.taken()
                wire.end()
    finally:
        await chunks.aclose()
        # Chunks that were never begun have taken nothing out of the hub.
        stream.abandon()


def _abandon(loop: asyncio.AbstractEventLoop, stream: EventStream) -> None:
    with contextlib.suppress(RuntimeError):  # The loop is over, and the hub with it.
        loop.call_soon_threadsafe(stream.abandon)


def unguarded(view: DjangoView) -> DjangoView:
    """Without CSRF (tokens, no cookies), without a login page, and outside ATOMIC_REQUESTS on every database."""
    view = csrf_exempt(login_not_required(view))
    for alias in settings.DATABASES:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def _uses_pool() -> bool:
    databases: dict[str, Any] = settings.DATABASES
    return any(database.get("OPTIONS", {}).get("pool") for database in databases.values())


async def _close_connections() -> None:
    """End the connections of this request's own thread, or give them back to their pool."""

    def close() -> None:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()

    await sync_to_async(close, thread_sensitive=True)()


def _request(request: HttpRequest, view: type[View]) -> HTTPRequest:
    comes = view.reads_as_it_comes
    incoming = BodyOfView(request) if comes or "HTTP_TRANSFER_ENCODING" in request.META else None
    body = None if comes else _body(request, incoming or request)
    made = from_view(request)
    headers = Headers(made.META, getattr(request, "scope", {}).get("headers", ()))
    return HTTPRequest(request.method or "GET", headers, body, made, incoming)


def _body(request: HttpRequest, incoming: BodyOfView | HttpRequest) -> bytes | None:
    """The body, or None where it is longer than allowed."""
    limit = get_conf().MAX_BODY_BYTES
    try:
        body = incoming.read(limit + 1) if request.method == "POST" else b""
    except (RequestDataTooBig, OSError):
        return None
    return body if len(body) <= limit else None


def _response(answer: HTTPResponse) -> HttpResponse:
    response = HttpResponse(answer.body, status=answer.status)
    if not answer.body:
        del response["Content-Type"]
    for name, value in {**ANSWER_HEADERS, **answer.headers}.items():
        response[name] = value
    return response
