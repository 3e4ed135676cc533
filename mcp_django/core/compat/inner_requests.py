"""A request that runs through the project's middleware within this process, as a user of ours: see ``InnerCall``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import lru_cache, partial
from io import BytesIO
from typing import Any, TypeVar

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.middleware import RemoteUserMiddleware
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import MiddlewareNotUsed
from django.core.handlers.base import BaseHandler
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.request import HttpHeaders
from django.http.response import HttpResponseBase
from django.middleware.cache import FetchFromCacheMiddleware, UpdateCacheMiddleware
from django.urls import Resolver404, ResolverMatch, get_resolver, set_script_prefix, set_urlconf
from django.utils.functional import SimpleLazyObject
from django.utils.module_loading import import_string

from mcp_django.core.compat.requests import close_resources, without_csrf
from mcp_django.core.middleware_policy import HARMLESS, OF_SERVER, SENT_AGAIN

_T = TypeVar("_T")

#: What middleware is noted to look for when it reads the session of a login.
SESSION = "session"


@dataclass(slots=True)
class _Asking:
    """What the middleware of one request looks for, and what of it the first request had and this one has not."""

    withheld: Collection[str]
    #: Is called before the view, when all middleware has let the request pass.
    before_view: Callable[[], None] | None = None
    #: Whether middleware is running of which it is not known what it does.
    is_unknown: bool = False
    found: set[str] = field(default_factory=set)

    def note(self, name: str) -> None:
        if self.is_unknown:
            self.found.add(name)


#: The attribute of a response that has the pieces which its renderer yields.
PIECES = "_mcp_pieces"
_asking: ContextVar[_Asking] = ContextVar("mcp_django_asking", default=_Asking(()))  # noqa: B039 - never changed


class _Meta(dict[str, Any]):
    """META, which notes what is looked for that only the first request had."""

    def _note(self, name: Any) -> None:
        asking = _asking.get()
        if name in asking.withheld and not super().__contains__(name):
            asking.note(name)

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._note(name)
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)


class _Headers(HttpHeaders):
    """The headers, which look into META, so that this notes what is looked for."""

    def __init__(self, meta: _Meta) -> None:
        super().__init__(meta)
        self._meta = meta

    def __getitem__(self, key: str) -> Any:
        self._meta.get(f"HTTP_{key.upper().replace('-', '_')}")
        return super().__getitem__(key)


class _NoSession(SessionBase):
    """An empty session that is never stored, and that notes whether something was looked for in it."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__()
        self._session_cache: dict[str, Any] = {}

    @property
    def _session(self) -> dict[str, Any]:
        _asking.get().note(SESSION)
        return self._session_cache

    def __setitem__(self, key: str, value: Any) -> None:
        # Writing looks for nothing.
        self._session_cache[key] = value

    def exists(self, session_key: str) -> bool:
        return False

    def create(self) -> None: ...

    def save(self, must_create: bool = False) -> None: ...

    def delete(self, session_key: str | None = None) -> None: ...

    def load(self) -> dict[str, Any]:
        return {}

    async def _aget_session(self, no_load: bool = False) -> dict[str, Any]:
        return self._session


class _InnerRequest(WSGIRequest):
    """A request of which it is known who makes it, whatever middleware sets."""

    _cached_user: Any
    #: The view that it brings along, if it does, and what checks the one of its path: see ``InnerCall``.
    _mcp_view: Any = None
    _mcp_check: Any = None

    @property
    def auser(self) -> Any:
        return sync_to_async(self._read_user)

    @auser.setter
    def auser(self, value: Any) -> None: ...

    def _read_user(self) -> Any:
        self._cached_user.pk  # noqa: B018 - reads it
        return self._cached_user


def _made(middleware: Any, get_response: Any) -> Any:
    """The middleware, which finds no session and no user but ours. Raises MiddlewareNotUsed."""
    made: Any = middleware(get_response)
    if isinstance(made, SessionMiddleware):
        made.SessionStore = _NoSession
    if isinstance(made, RemoteUserMiddleware):
        # Who it is says the server in META, and nobody said so here.
        vars(made).update(header="", force_logout_if_no_header=False)
    return made


def _told(middleware: Any, *, is_unknown: bool) -> Any:
    """The middleware, of which it is noted what it looks for if it is not known."""

    def answer(request: Any, *args: Any) -> Any:
        asking = _asking.get()
        asking.is_unknown = is_unknown
        if is_unknown and "HTTP_COOKIE" in asking.withheld:
            # Others may have read it, and then it is not looked up any more.
            vars(request).pop("COOKIES", None)
        try:
            return middleware(request, *args)
        finally:
            asking.is_unknown = False

    return answer


def _of_path(hook: Any) -> Any:
    """A hook that is told of the view of the path, whatever runs in the place of that."""
    return lambda request, view, args, kwargs: hook(request, request.resolver_match.func, args, kwargs)


class _InnerHandler(BaseHandler):
    """Runs requests through the project's middleware, and then through their view.

    That is the view which a request brings along, or the one of its path, once the request has checked what was found.
    """

    def __init__(self) -> None:
        ours: Any = self
        ours._view_middleware, ours._template_response_middleware, ours._exception_middleware = [], [], []
        handler: Any = convert_exception_to_response(ours._get_response)
        for path in reversed(settings.MIDDLEWARE):
            middleware, is_unknown = import_string(path), path not in HARMLESS
            is_async = not getattr(middleware, "sync_capable", True)
            try:
                made = _made(middleware, ours.adapt_method_mode(is_async, handler, iscoroutinefunction(handler)))
            except MiddlewareNotUsed:
                continue
            if isinstance(made, UpdateCacheMiddleware | FetchFromCacheMiddleware):
                continue  # Nobody else is shown what this user gets, nor this user what others got.
            if hasattr(made, "process_view"):
                hook = _told(_of_path(ours.adapt_method_mode(False, made.process_view)), is_unknown=is_unknown)
                ours._view_middleware.insert(0, hook)
            if hasattr(made, "process_template_response"):
                ours._template_response_middleware.append(ours.adapt_method_mode(False, made.process_template_response))
            if hasattr(made, "process_exception"):
                ours._exception_middleware.append(ours.adapt_method_mode(False, made.process_exception))
            answer = _told(ours.adapt_method_mode(False, made, is_async), is_unknown=is_unknown)
            handler = convert_exception_to_response(answer)
        ours._template_response_middleware.append(self._keep_pieces)
        ours._middleware_chain = handler

    def _keep_pieces(self, request: HttpRequest, response: Any) -> Any:
        """Leave what a renderer yields piece by piece, maybe for ever, to whoever reads the response.

        Django would join all of it.
        """
        renderer = getattr(response, "accepted_renderer", None)
        if renderer is None:
            return response

        def render(*args: Any, **kwargs: Any) -> Any:
            found = rendered(*args, **kwargs)
            if not isinstance(found, Iterator):
                return found
            setattr(response, PIECES, found)
            return b""

        rendered, renderer.render = renderer.render, render
        return response

    def make_view_atomic(self, view: Any) -> Any:
        made, before_view = super().make_view_atomic(view), _asking.get().before_view
        if before_view is not None:
            before_view()
        return made

    def resolve_request(self, request: Any) -> Any:
        if request._mcp_check is not None:
            found = super().resolve_request(request)
            request._mcp_check(found)
            return found if request._mcp_view is None else (request._mcp_view, found.args, found.kwargs)
        urlconf = getattr(request, "urlconf", None)
        set_urlconf(urlconf)
        try:
            request.resolver_match = get_resolver(urlconf).resolve(request.path_info)
        except Resolver404:
            request.resolver_match = ResolverMatch(request._mcp_view, (), {})
        return request._mcp_view, (), {}


@lru_cache(maxsize=4)
def _handler_of(middleware: tuple[str, ...]) -> _InnerHandler:
    return _InnerHandler()


def run_below_middleware(
    origin: Mapping[str, Any],
    user: Callable[[], Any],
    view: Callable[[HttpRequest, Mapping[str, Any], Collection[str]], None],
) -> tuple[int, bool]:
    """Run ``view`` once with a request like that of a client through MIDDLEWARE, as the ``user``.

    ``origin`` is ``{"path", "scheme", "meta", "withheld"}``: ``meta`` of the client's request, of which only those
    headers count that say where it comes from and goes to, and the names of what else its META had, if any. The view
    gets the request, what middleware has set in META, and a set of what middleware that is not known has looked for in
    vain until then: of these names, and SESSION. Returns the status of the response, and whether the view was reached:
    middleware may have answered in its place.

    Private: the chain of ``BaseHandler.load_middleware`` and its lists, ``resolve_request``, what they are called
    with, ``_cached_user`` of a request, and ``_session`` of a session. Seen with: Django 5.2, 6.0, 6.1. Public way:
    ``django.test.Client``, which resolves a URL, and sends the signals that close the connections of this thread.
    """
    reached: list[bool] = []
    asking, meta, scheme = _Asking(frozenset(origin.get("withheld", ()))), origin["meta"], origin["scheme"]

    def answer(request: HttpRequest) -> HttpResponse:
        # Middleware may ask for the response once more.
        if not reached:
            reached.append(True)
            # What middleware has set may be lazy, and look for something now.
            asking.is_unknown = True
            added = {name: value for name, value in request.META.items() if before.get(name) is not value}
            view(request, added, asking.found)
            asking.is_unknown = False
        return HttpResponse()

    _without_transaction(answer)
    script = str(meta.get("SCRIPT_NAME") or "")
    sent = _Meta(_environ(meta, scheme, "POST", origin["path"].removeprefix(script), b""))
    token = _asking.set(asking)
    try:
        request = _request(sent, SimpleLazyObject(user))
        before = dict(sent)
        request.headers = _Headers(sent)
        request._mcp_view = answer
        response = _answer(request)
        close_resources(response)
    finally:
        _asking.reset(token)
    return response.status_code, bool(reached)


@dataclass(frozen=True, slots=True)
class Who:
    """Who makes a request.

    Private: ``HttpRequest._cached_user``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``request.user``, which the
    middleware of logins sets anew.
    """

    #: Whom middleware sees as logged in.
    user: Any
    #: Names in META which the view gets, and middleware does not: they tell users apart where it varies a cache.
    names: Mapping[str, str]
    #: What is set on the request when all middleware has let it pass.
    attributes: Mapping[str, Any]
    #: That of the session which a login would have. It is in no store.
    session_key: str | None = None


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A request to a URL of the project, as a client of HTTP would send it.

    It runs through MIDDLEWARE and the view of its path in a copy of the context, so that the language, the time zone,
    the URLconf and the variables of the project end with it. It sends neither ``request_started`` nor
    ``request_finished``, which would close the connections of this thread.

    Private: as of ``run_below_middleware``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``django.test.Client``, which
    logs in by a session, copies what templates render, and sends these signals.
    """

    method: str
    #: Below the prefix of the script, and not quoted.
    path: str
    query: str
    scheme: str
    #: META of the client's request, of which SENT_AGAIN, OF_SERVER and ``headers`` are taken.
    meta: Mapping[str, Any]
    #: More names in META that are taken, and what is set beside them.
    passed: Sequence[str]
    headers: Mapping[str, str]
    content_type: str = ""
    body: bytes = b""
    #: Says who makes the request, before any middleware.
    who: Callable[[HttpRequest], Who] = lambda request: Who(None, {}, {})
    #: Is called with what the path has resolved to. Raises Http404 if that is not the right one. None, to ``look``
    #: alone: the path need not lead anywhere.
    check: Callable[[ResolverMatch], None] | None = None

    def run(
        self,
        read: Callable[[HttpRequest, HttpResponseBase], _T],
        view: Callable[..., HttpResponseBase] | None = None,
    ) -> _T:
        """Send it to the view of its path. Returns what ``read`` makes of the response, which is then closed.

        ``view`` is run in the place of that view: below the same middleware, and in no transaction of it.
        """
        if view is not None:
            _without_transaction(view)
        return copy_context().run(self._run, view, read)

    def _run(self, view: Any, read: Callable[[HttpRequest, HttpResponseBase], _T]) -> _T:
        environ = _environ(self.meta, self.scheme, self.method, self.path, self.body)
        environ |= {name: self.meta[name] for name in self.passed if name in self.meta}
        environ |= {"QUERY_STRING": self.query, **self.headers}
        if self.content_type:
            environ["CONTENT_TYPE"] = self.content_type
        request = _request(environ, None)
        request._mcp_view, request._mcp_check = view, self.check
        who = self.who(request)
        request._cached_user = who.user
        _asking.set(_Asking((), before_view=partial(_let_pass, request, who)))
        set_script_prefix(f"{environ.get('SCRIPT_NAME', '')}/")
        response = _answer(request)
        try:
            return read(request, response)
        finally:
            close_resources(response)


def _let_pass(request: Any, who: Who) -> None:
    """Let the view see who it is. What middleware has read of the headers before is read anew."""
    for name, value in who.names.items():
        request.META.setdefault(name, value)
    for name in ("headers", "COOKIES"):
        vars(request).pop(name, None)
    vars(request).update(who.attributes)
    if isinstance(session := getattr(request, "session", None), _NoSession):
        session._session_key = who.session_key


def _environ(meta: Mapping[str, Any], scheme: str, method: str, path: str, body: bytes) -> dict[str, Any]:
    environ = {
        **{name: meta[name] for name in (*SENT_AGAIN, *OF_SERVER) if name in meta},
        "REQUEST_METHOD": method, "PATH_INFO": path.encode().decode("latin-1"), "CONTENT_LENGTH": str(len(body)),
        "wsgi.url_scheme": scheme, "wsgi.input": BytesIO(body),
    }  # fmt: skip
    environ.setdefault("SERVER_NAME", "localhost")
    environ.setdefault("SERVER_PORT", "443" if scheme == "https" else "80")
    return environ


def _request(environ: dict[str, Any], user: Any) -> Any:
    request = _InnerRequest(environ)
    request._cached_user = user
    without_csrf(request)
    return request


def _answer(request: Any) -> HttpResponseBase:
    set_urlconf(settings.ROOT_URLCONF)
    handler: Any = _handler_of(tuple(settings.MIDDLEWARE))
    response: HttpResponseBase = handler._middleware_chain(request)
    return response


def _without_transaction(view: Any) -> None:
    """Let our own transactions begin and end within the view."""
    for alias in settings.DATABASES:
        view._non_atomic_requests = {*getattr(view, "_non_atomic_requests", ()), alias}
