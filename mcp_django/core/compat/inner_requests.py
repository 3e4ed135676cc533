"""A request that runs through the project's middleware within this process, with a view and a user of our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware, RemoteUserMiddleware
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import MiddlewareNotUsed
from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, ResolverMatch, get_resolver, set_urlconf
from django.utils.functional import SimpleLazyObject
from django.utils.module_loading import import_string

from mcp_django.core.compat.requests import close_resources, without_csrf

#: The headers of the client that are sent again.
_SENT_AGAIN = (
    "HTTP_HOST", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED",
    "HTTP_ACCEPT_LANGUAGE", "HTTP_USER_AGENT", "HTTP_X_REQUEST_ID", "HTTP_TRACEPARENT",
)  # fmt: skip
_OF_SERVER = ("REMOTE_ADDR", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME")
#: What Django itself looks for in a session.
_OF_DJANGO = ("_auth", "_messages", "_csrftoken", "_language", "_password_reset_token", "django_timezone")


class _NoSession(SessionBase):
    """An empty session that is never stored, and that notes whether something was looked for in it."""

    def __init__(self) -> None:
        super().__init__()
        self._session_cache: dict[str, Any] = {}
        self.was_asked = False

    def _note(self, key: str) -> None:
        if not key.startswith(_OF_DJANGO) and key not in self._session_cache:
            self.was_asked = True

    def __contains__(self, key: Any) -> bool:
        self._note(key)
        return super().__contains__(key)

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def exists(self, session_key: str) -> bool:
        return False

    def create(self) -> None: ...

    def save(self, must_create: bool = False) -> None: ...

    def delete(self, session_key: str | None = None) -> None: ...

    def load(self) -> dict[str, Any]:
        return {}


def _no_session(get_response: Any) -> Any:
    def answer(request: Any) -> Any:
        request.session = _NoSession()
        return get_response(request)

    return answer


def _own_user(get_response: Any) -> Any:
    def answer(request: Any) -> Any:
        request.user = SimpleLazyObject(request._mcp_user)
        return get_response(request)

    return answer


#: Middleware that decides who it is → what takes its place.
_REPLACED = ((SessionMiddleware, _no_session), ((AuthenticationMiddleware, RemoteUserMiddleware), _own_user))


class _InnerHandler(BaseHandler):
    """Runs requests through the project's middleware, and then through the view that a request brings along."""

    def __init__(self) -> None:
        ours: Any = self
        ours._view_middleware, ours._template_response_middleware, ours._exception_middleware = [], [], []
        handler: Any = convert_exception_to_response(ours._get_response)
        for path in reversed(settings.MIDDLEWARE):
            middleware = _replaced(import_string(path))
            is_async = not getattr(middleware, "sync_capable", True)
            try:
                made: Any = middleware(ours.adapt_method_mode(is_async, handler, iscoroutinefunction(handler)))
            except MiddlewareNotUsed:
                continue
            if hasattr(made, "process_view"):
                ours._view_middleware.insert(0, ours.adapt_method_mode(False, made.process_view))
            if hasattr(made, "process_template_response"):
                ours._template_response_middleware.append(ours.adapt_method_mode(False, made.process_template_response))
            if hasattr(made, "process_exception"):
                ours._exception_middleware.append(ours.adapt_method_mode(False, made.process_exception))
            handler = convert_exception_to_response(ours.adapt_method_mode(False, made, is_async))
        ours._middleware_chain = handler

    def resolve_request(self, request: Any) -> Any:
        urlconf = getattr(request, "urlconf", None)
        set_urlconf(urlconf)
        try:
            request.resolver_match = get_resolver(urlconf).resolve(request.path_info)
        except Resolver404:
            request.resolver_match = ResolverMatch(request._mcp_view, (), {})
        return request._mcp_view, (), {}


def _replaced(middleware: Any) -> Any:
    for classes, other in _REPLACED:
        if isinstance(middleware, type) and issubclass(middleware, classes):
            return other
    return middleware


@lru_cache(maxsize=4)
def _handler_of(middleware: tuple[str, ...]) -> _InnerHandler:
    return _InnerHandler()


def run_below_middleware(
    path: str, scheme: str, meta: Mapping[str, Any], user: Callable[[], Any], view: Callable[[HttpRequest], None]
) -> HttpResponse | None:
    """Run ``view`` with a request to ``path`` through MIDDLEWARE, as the ``user``. ``meta`` is that of a client.

    Of the client's headers, only those count that say where a request comes from and goes to. Returns None if the view
    was reached, and else the response of the middleware that has answered in its place.

    Private: the chain of ``BaseHandler.load_middleware`` and its lists, ``resolve_request``, and what they are called
    with. Seen with: Django 5.2, 6.0, 6.1. Public way: ``django.test.Client``, which resolves a URL, and sends the
    signals that close the connections of this thread.
    """
    reached: list[bool] = []

    def answer(request: HttpRequest) -> HttpResponse:
        reached.append(True)
        view(request)
        return HttpResponse()

    for alias in settings.DATABASES:  # Our own transactions begin and end within it.
        answer._non_atomic_requests = {*getattr(answer, "_non_atomic_requests", ()), alias}  # type: ignore[attr-defined]
    script = str(meta.get("SCRIPT_NAME") or "")
    environ = {
        **{name: meta[name] for name in (*_SENT_AGAIN, *_OF_SERVER) if name in meta},
        "REQUEST_METHOD": "POST", "PATH_INFO": path.removeprefix(script), "CONTENT_LENGTH": "0",
        "wsgi.url_scheme": scheme, "wsgi.input": BytesIO(),
    }  # fmt: skip
    environ.setdefault("SERVER_NAME", "localhost")
    environ.setdefault("SERVER_PORT", "443" if scheme == "https" else "80")
    request: Any = WSGIRequest(environ)
    request._mcp_user, request._mcp_view = user, answer
    without_csrf(request)
    set_urlconf(settings.ROOT_URLCONF)
    handler: Any = _handler_of(tuple(settings.MIDDLEWARE))
    response: HttpResponse = handler._middleware_chain(request)
    close_resources(response)
    return None if reached else response
