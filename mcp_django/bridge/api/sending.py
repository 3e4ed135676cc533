"""Sends a call of an operation: its path, its query and its body, as the project's view expects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.http import HttpRequest, HttpResponse
from django.http.request import HttpHeaders
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch

from mcp_django.bridge.api import formats
from mcp_django.bridge.api.identity import Identity, identity_of, who
from mcp_django.bridge.api.routes import NoPath
from mcp_django.bridge.api.versions import accepted, fixed_path, fixed_query
from mcp_django.bridge.api.views import nothing
from mcp_django.core.compat.inner_requests import InnerCall
from mcp_django.core.db.rolling_back import rolled_back
from mcp_django.core.middleware_policy import unknown_middleware
from mcp_django.core.running.own_thread import beside_this_thread

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent to an operation."""

    #: Variables of the path, as texts or numbers.
    path: Mapping[str, Any]
    #: Of the query, each a value or a list of values.
    query: Mapping[str, Any]
    #: JSON; values may be UploadedFiles. None: there is no body.
    body: Any = None
    #: Whether the body is sent as a form, where the view takes one.
    is_form: bool = False


def call(
    operation: Operation,
    request: MCPRequest,
    sent: Sent,
    read: Callable[[HttpRequest, HttpResponseBase], T],
) -> T:
    """Send it as the principal of the request, and read the response. Raises NoPath."""
    inner = _inner_call(operation, request, sent)
    return _apart(request, partial(inner.run, read))


def look(operation: Operation, request: MCPRequest, sent: Sent, view: Callable[[HttpRequest], T]) -> T | None:
    """Run ``view`` below the middleware, where the operation's view would run. The path need not lead anywhere.

    Returns what it returns; None where middleware has answered in its place. What is written is rolled back.
    """
    found: list[T] = []

    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not found:
            found.append(view(request))
        return nothing()

    inner = _inner_call(operation, request, sent, is_checked=False)
    with rolled_back():
        _apart(request, partial(inner.run, lambda request, response: None, answer))
    return found[0] if found else None


def ask(
    operation: Operation,
    request: MCPRequest,
    sent: Sent,
    view: Callable[..., HttpResponseBase],
    read: Callable[[HttpRequest, HttpResponseBase], T],
) -> T:
    """Send it as ``call`` does, with ``view`` in the place of the operation's. What is written is rolled back."""
    inner = _inner_call(operation, request, sent)
    with rolled_back():
        return _apart(request, partial(inner.run, read, view))


def _apart(request: MCPRequest, run: Callable[[], T]) -> T:
    """Run it where the middleware of the client's own request does not notice that it runs once more.

    What middleware keeps in a thread-local, it may delete at its end: in a thread below it, that would be done twice.
    """
    return beside_this_thread(run) if request.is_below_middleware and unknown_middleware() else run()


def _inner_call(operation: Operation, request: MCPRequest, sent: Sent, *, is_checked: bool = True) -> InnerCall:
    principal: Principal = request.mcp.principal
    values = path_of(operation, sent)
    about: Mapping[str, str] = {}
    content_type, body = "", b""
    if sent.body is not None:
        about, content_type, body = formats.written(operation, sent.body, is_form=sent.is_form)
    return InnerCall(
        method=operation.method,
        path=_path(operation, values, is_checked=is_checked),
        query=query_of(operation, sent).removeprefix("?"),
        scheme=request.scheme or "http",
        meta=_meta(request),
        passed=list(passed(operation, request)),
        headers={"HTTP_ACCEPT": accepted(operation), **about, **_credentials(operation, request)},
        content_type=content_type,
        body=body,
        who=partial(who, operation, principal),
        check=partial(_check, operation, values) if is_checked else None,
    )


def path_of(operation: Operation, sent: Sent) -> Mapping[str, Any]:
    """The variables of the path."""
    return {**sent.path, **fixed_path(operation)}


def _path(operation: Operation, values: Mapping[str, Any], *, is_checked: bool) -> str:
    try:
        return operation.route.path(values)
    except NoPath:
        if is_checked:
            raise
        return "/"


def query_of(operation: Operation, sent: Sent) -> str:
    """The query as it is sent, with its question mark; empty without one."""
    query = formats.query({**sent.query, **fixed_query(operation)})
    return f"?{query}" if query else ""


def _check(operation: Operation, values: Mapping[str, Any], match: ResolverMatch) -> None:
    operation.route.check(match, values)


def passed(operation: Operation, request: MCPRequest) -> Mapping[str, str]:
    """What ``headers=`` lets through of the client's request, by the names in META."""
    names = map(HttpHeaders.to_wsgi_name, operation.exposure.headers)
    return {name: str(request.META[name]) for name in names if name in request.META}


def _meta(request: MCPRequest) -> Mapping[str, Any]:
    """META, with the path below which the project is mounted, whatever middleware says of it."""
    return {**request.META, "SCRIPT_NAME": request.mount} if request.is_below_middleware else request.META


def _credentials(operation: Operation, request: MCPRequest) -> Mapping[str, str]:
    made = operation.exposure.credentials
    if made is None or identity_of(operation) is not Identity.CREDENTIALS:
        return {}
    return {HttpHeaders.to_wsgi_name(name): str(value) for name, value in made(request).items()}
