"""Requests that no handler has made, responses and form data."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, User
from django.core.signals import request_finished
from django.http import FileResponse, HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.views.decorators.csrf import csrf_protect

from mcp_django.core.compat.requests import (
    BareRequest,
    _is_copied_by_django,
    asking_module,
    close_resources,
    copy_of,
    disposition_of,
    freeze,
    without_csrf,
)


def test_bare_request_has_the_attributes_of_djangos_own_and_an_empty_body_that_was_read() -> None:
    made, bare = HttpRequest(), BareRequest("https")

    missing = vars(made).keys() - vars(bare).keys()

    assert missing == {"GET", "POST", "COOKIES", "FILES"}
    assert all(getattr(bare, name) == value for name, value in vars(made).items() if name not in missing)
    assert bare.body == b""


def test_bare_request_has_its_own_scheme() -> None:
    for scheme, is_secure in (("https", True), ("http", False)):
        request = BareRequest(scheme)
        request.META = {"HTTP_HOST": "testserver"}
        assert (request.scheme, request.is_secure()) == (scheme, is_secure)
        assert request.build_absolute_uri("/a") == f"{scheme}://testserver/a"


def test_bare_request_keeps_messages() -> None:
    request = BareRequest("http")

    messages.info(request, "One")
    messages.debug(request, "Too little")
    messages.error(request, "Two")

    assert [message.message for message in messages.get_messages(request)] == ["One", "Two"]
    assert [message.message for message in messages.get_messages(BareRequest("http"))] == []


def test_freeze_refuses_changes() -> None:
    data = QueryDict(mutable=True)
    data["action"] = "book"

    freeze(data)

    with pytest.raises(AttributeError):
        data["action"] = "cancel"
    assert data.copy() == data


def test_close_resources_closes_those_of_a_response_and_ends_no_request() -> None:
    finished: list[object] = []

    def note(sender: object, **_: object) -> None:
        finished.append(sender)

    request_finished.connect(note)
    files = [io.BytesIO(b"a"), io.BytesIO(b"b")]
    responses = [FileResponse(files[0]), StreamingHttpResponse(files[1])]

    for response in responses:
        close_resources(response)

    request_finished.disconnect(note)
    assert all(file.closed for file in files)
    assert finished == []


def test_disposition_of_has_the_name_of_a_download() -> None:
    headers: dict[str, dict[str, str]] = {
        "attachment": {},
        'attachment; filename="a b.csv"': {"filename": "a b.csv"},
        "attachment; filename=\"x.csv\"; filename*=utf-8''%C3%A4.csv": {"filename": "ä.csv"},
        "attachment; filename*=none''%ff": {},
        "attachment; filename*=utf-8''%ff": {"filename": "\ufffd"},
    }
    found = {header: disposition_of(HttpResponse(headers={"Content-Disposition": header})) for header in headers}

    assert found == headers


def test_copy_of_a_user_is_that_of_copy(db: None) -> None:
    user = User.objects.get(pk=User.objects.create(username="ada").pk)
    user._state.fields_cache["profile"] = "cached"
    made, expected = copy_of(user), copy.copy(user)
    for one in (made, expected):
        one.__dict__.pop("_django_version", None)

    made.username = "other"
    made._state.adding = True
    made._state.fields_cache["profile"] = "another"
    made._mark = 1

    assert type(made) is User
    assert (user.username, user._state.adding, user._state.fields_cache) == ("ada", False, {"profile": "cached"})
    assert not hasattr(user, "_mark")
    again = copy_of(user)
    assert {**vars(again), "_state": vars(again._state)} == {**vars(expected), "_state": vars(expected._state)}


def test_copy_of_a_user_that_has_its_own_way_to_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: dict[str, Any] = {
        "__copy__": lambda user: user,
        "__reduce__": lambda user: (User, ()),
        "__getstate__": lambda user: dict(vars(user)),
    }
    asked: list[str] = []
    for method, way in ways.items():
        with monkeypatch.context() as patch:
            own = lambda user, method=method, way=way: (asked.append(method), way(user))[1]  # noqa: E731
            patch.setattr(User, method, own, raising=False)
            _is_copied_by_django.cache_clear()
            copy_of(User(username="ada"))
        _is_copied_by_django.cache_clear()

    assert asked == list(ways)


def test_copy_of_a_user_that_is_no_model() -> None:
    user = AnonymousUser()
    user.username = "x"  # type: ignore[assignment]

    made = copy_of(user)

    assert made is not user
    assert vars(made) == vars(user)


def test_without_csrf_lets_a_view_take_a_form_that_comes_from_no_page() -> None:
    refused, taken = HttpRequest(), HttpRequest()
    refused.method = taken.method = "POST"
    without_csrf(taken)

    view = csrf_protect(lambda request: HttpResponse("seen"))

    assert [view(request).status_code for request in (refused, taken)] == [403, 200]


def test_asking_module_is_the_module_of_the_caller_so_many_calls_above() -> None:
    def asked() -> list[str]:
        return [asking_module(0), asking_module(1)]

    made: dict[str, Any] = {"__name__": "shop.views", "asked": asked}
    exec("def ask(): return asked()", made)

    assert made["ask"]() == [__name__, "shop.views"]
