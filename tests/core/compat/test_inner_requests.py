"""Requests that run through the project's middleware within the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.middleware import AuthenticationMiddleware, RemoteUserMiddleware
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import MiddlewareNotUsed, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.test import override_settings

from mcp_django.core.compat import inner_requests
from mcp_django.core.compat.inner_requests import SESSION, InnerCall, Who, run_below_middleware

META = {
    "HTTP_HOST": "a.example.com", "HTTP_X_FORWARDED_FOR": "192.0.2.1", "HTTP_X_TENANT": "b", "REMOTE_USER": "root",
    "REMOTE_ADDR": "198.51.100.7", "HTTP_ACCEPT_LANGUAGE": "de",
}  # fmt: skip
_PATH = "tests.core.compat.test_inner_requests"


class Marking:
    """As most middleware is written: with hooks of each kind."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        request.marks, request.host_then = ["before"], request.get_host()
        return self.get_response(request)

    def process_view(self, request: Any, view: Any, args: Any, kwargs: Any) -> None:
        request.marks.append("view")

    def process_exception(self, request: Any, error: Exception) -> HttpResponse:
        return HttpResponse(status=418)


class Asynchronous:
    sync_capable, async_capable = False, True

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response
        assert iscoroutinefunction(get_response)
        markcoroutinefunction(self)

    async def __call__(self, request: Any) -> Any:
        request.was_awaited = True
        return await self.get_response(request)


def unused(get_response: Any) -> Any:
    raise MiddlewareNotUsed


def refusing(get_response: Any) -> Any:
    return lambda request: HttpResponse(status=403)


def denying(get_response: Any) -> Any:
    def deny(request: Any) -> Any:
        raise PermissionDenied

    return deny


def ran(
    *middleware: str, user: Callable[[], Any] = AnonymousUser, view: Any = None, withheld: Sequence[str] = ()
) -> tuple[Any, set[str], int]:
    """The request that the view saw, what was looked for in vain, and the status of the response."""
    seen: list[Any] = []
    asked: set[str] = set()

    def note(request: Any, added: Any, lacking: Any) -> None:
        seen.append(request)
        asked.update(lacking)

    origin = {"path": "/mcp", "scheme": "https", "meta": META, "withheld": withheld}
    with override_settings(ALLOWED_HOSTS=["*"], MIDDLEWARE=[*settings.MIDDLEWARE, *middleware]):
        status, was_reached = run_below_middleware(origin, user, view or note)
    assert view or was_reached == bool(seen)
    return (seen or [None])[0], asked, status


@pytest.mark.django_db
def test_the_view_is_reached_below_each_kind_of_middleware_and_as_the_user() -> None:
    user = User.objects.create(username="agent")

    request, asked, status = ran(f"{_PATH}.unused", f"{_PATH}.Marking", f"{_PATH}.Asynchronous", user=lambda: user)

    assert (asked, status) == (set(), 200)
    assert (request.user, request.marks, request.was_awaited) == (user, ["before", "view"], True)
    assert (request.host_then, request.scheme, request.method) == ("a.example.com", "https", "POST")
    assert request.META["REMOTE_ADDR"] == "198.51.100.7" and request.META["HTTP_ACCEPT_LANGUAGE"] == "de"
    assert not {"HTTP_X_TENANT", "REMOTE_USER"} & request.META.keys()
    assert request.resolver_match.view_name == "mcp_django:endpoint"
    assert list(request.session.keys()) == []


@pytest.mark.parametrize("middleware", ["refusing", "denying"])
def test_middleware_may_answer_in_the_place_of_the_view(middleware: str) -> None:
    request, _, status = ran(f"{_PATH}.{middleware}")

    assert request is None and status == 403


#: What middleware looks for → how.
LOOKS: dict[str, Callable[[Any], Any]] = {
    "session": lambda request: request.session.get("tenant"),
    "session of django": lambda request: request.session.get("_authorized_tenant"),
    "session items": lambda request: dict(request.session.items()),
    "session pop": lambda request: request.session.pop("tenant", ""),
    "session setdefault": lambda request: request.session.setdefault("tenant", ""),
    "session asynchronously": lambda request: async_to_sync(request.session.aget)("tenant"),
    "session login": get_user,
    "HTTP_X_TENANT": lambda request: request.headers.get("X-Tenant"),
    "HTTP_X_TENANT in META": lambda request: request.META.get("HTTP_X_TENANT"),
    "HTTP_COOKIE": lambda request: request.COOKIES.get("tenant"),
    "QUERY_STRING": lambda request: request.GET.get("tenant"),
}
_looks: list[str] = []


def looking(get_response: Any) -> Any:
    def look(request: Any) -> Any:
        for name in _looks:
            LOOKS[name](request)
        return get_response(request)

    return look


@pytest.mark.parametrize("name", list(LOOKS))
def test_what_middleware_looks_for_in_vain_is_noted_unless_it_is_harmless(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{_PATH}._looks", [name])
    withheld = ["HTTP_COOKIE", "HTTP_X_TENANT", "QUERY_STRING"]

    _, asked, _ = ran(f"{_PATH}.looking", withheld=withheld)
    _, of_another, _ = ran(f"{_PATH}.looking", withheld=["HTTP_X_OTHER"])
    monkeypatch.setitem(inner_requests.HARMLESS, f"{_PATH}.looking", "a test")  # type: ignore[arg-type]
    inner_requests._handler_of.cache_clear()
    _, harmless, _ = ran(f"{_PATH}.looking", withheld=withheld)
    inner_requests._handler_of.cache_clear()

    assert asked == {name.partition(" ")[0]}
    assert of_another == {name.partition(" ")[0]} & {SESSION}
    assert harmless == set()


def test_what_middleware_writes_into_the_session_is_stored_nowhere() -> None:
    def write(request: Any, added: Any, lacking: Any) -> None:
        request.session["mine"] = 1
        assert request.session["mine"] == 1
        request.session.save()
        assert not request.session.exists("x")

    assert ran(view=write)[2] == 200


class Subclassed(AuthenticationMiddleware):
    """As a project writes that chooses a tenant together with the user."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.META["TENANT"] = request.get_host()


class OfSession(SessionMiddleware):
    def process_request(self, request: Any) -> None:
        super().process_request(request)
        request.tenant = request.get_host()


class OfProxy(RemoteUserMiddleware):
    header = "HTTP_X_USER"


@pytest.mark.django_db
def test_heirs_of_the_middleware_that_decides_who_it_is_run_and_decide_nothing() -> None:
    user = User.objects.create(username="agent")
    seen: list[Any] = []
    chain = [f"{_PATH}.{name}" for name in ("OfSession", "Subclassed", "OfProxy")]

    def view(request: Any, added: Any, lacking: Any) -> None:
        seen.extend([request.tenant, dict(added), request.user, async_to_sync(request.auser)()])

    with override_settings(ALLOWED_HOSTS=["*"], MIDDLEWARE=chain):
        run_below_middleware({"path": "/mcp", "scheme": "https", "meta": META}, lambda: user, view)

    assert seen == ["a.example.com", {"TENANT": "a.example.com"}, user, user]


def twice(get_response: Any) -> Any:
    def ask(request: Any) -> Any:
        get_response(request)
        return get_response(request)

    return ask


def test_the_view_runs_once() -> None:
    seen: list[Any] = []

    ran(f"{_PATH}.twice", view=lambda *found: seen.append(found))

    assert len(seen) == 1


@pytest.mark.django_db
def test_a_call_resolves_its_path_and_the_view_sees_the_one_who_makes_it() -> None:
    user, seen = User.objects.create(username="agent"), []

    def who(request: HttpRequest) -> Who:
        return Who(user, {"HTTP_COOKIE": "mcp_principal=1"}, {"marked": True})

    def note(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        seen.append((request.user, request.COOKIES, vars(request)["marked"]))
        return HttpResponse(status=204)

    with override_settings(ALLOWED_HOSTS=["*"], ROOT_URLCONF="demo_project.urls"):
        checked: list[Any] = []
        call = InnerCall("GET", "/admin/", "", "http", META, (), {}, who=who, check=checked.append)
        status, looked = (call.run(lambda request, response: response.status_code, view) for view in (None, note))

    # Not staff, but somebody.
    assert (status, looked) == (302, 204) and [one.view_name for one in checked] == ["admin:index", "admin:index"]
    assert seen == [(user, {"mcp_principal": "1"}, True)]
