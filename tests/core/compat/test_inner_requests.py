"""Requests that run through the project's middleware within the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import MiddlewareNotUsed, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.test import override_settings

from mcp_django.core.compat.inner_requests import run_below_middleware

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


def ran(*middleware: str, user: Callable[[], Any] = AnonymousUser, view: Any = None) -> tuple[Any, HttpResponse | None]:
    seen: list[HttpRequest] = []
    with override_settings(ALLOWED_HOSTS=["*"], MIDDLEWARE=[*settings.MIDDLEWARE, *middleware]):
        answered = run_below_middleware("/mcp", "https", META, user, view or seen.append)
    return (seen or [None])[0], answered


@pytest.mark.django_db
def test_the_view_is_reached_below_each_kind_of_middleware_and_as_the_user() -> None:
    user = User.objects.create(username="agent")

    request, answered = ran(f"{_PATH}.unused", f"{_PATH}.Marking", f"{_PATH}.Asynchronous", user=lambda: user)

    assert answered is None
    assert (request.user, request.marks, request.was_awaited) == (user, ["before", "view"], True)
    assert (request.host_then, request.scheme, request.method) == ("a.example.com", "https", "POST")
    assert request.META["REMOTE_ADDR"] == "198.51.100.7" and request.META["HTTP_ACCEPT_LANGUAGE"] == "de"
    assert not {"HTTP_X_TENANT", "REMOTE_USER"} & request.META.keys()
    assert request.resolver_match.view_name == "mcp_django:endpoint"
    assert not request.session.was_asked and list(request.session.keys()) == []


@pytest.mark.parametrize("middleware", ["refusing", "denying"])
def test_middleware_may_answer_in_the_place_of_the_view(middleware: str) -> None:
    request, answered = ran(f"{_PATH}.{middleware}")

    assert request is None and answered is not None and answered.status_code == 403


def test_a_look_into_the_session_is_noted_unless_it_is_djangos_own() -> None:
    noted: list[bool] = []

    def look(request: Any) -> None:
        for key in ("_auth_user_id", "_messages", "tenant"):
            request.session.get(key)
            noted.append(request.session.was_asked)
        request.session["mine"] = 1
        assert request.session["mine"] == 1
        request.session.save()
        assert not request.session.exists("x")

    ran(view=look)

    assert noted == [False, False, True]
