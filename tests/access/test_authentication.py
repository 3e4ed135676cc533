"""Who calls: the project's own DRF authentication classes, anonymous callers, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, override_settings
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from mcp_django.access.authentication import authenticate
from mcp_django.access.refused_tokens import UNKNOWN
from mcp_django.exchange.requests import from_settings
from tests.support.challenges import NEEDED, own_part
from tests.support.data import token_of
from tests.support.peers import MODERN, HTTPPeer, Peers, SocketPeer

TOKENS = "mcp_django.access.authentication.TokenAuthentication"
OURS = f"{__name__}.ProjectAuthentication"

http_only = pytest.mark.parametrize("transport", ["http-view-wsgi", "http-view-asgi", "http-asgi"])


class ProjectAuthentication(BaseAuthentication):
    """``Authorization: Project <user> [scope …]``, as a project may have it."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        scheme, *parts = request.META.get("HTTP_AUTHORIZATION", "none").split()
        if scheme.lower() != "project":
            return None
        match parts:
            case ["banned", *_]:
                raise PermissionDenied("You are banned.")
            case [username, *names]:
                user = User.objects.filter(username=username).first()
                if user is None:
                    raise AuthenticationFailed("Nobody of that name.")
                return user, SimpleNamespace(scope=" ".join(names)) if names else None
        raise AuthenticationFailed("Say who you are.")

    def authenticate_header(self, request: Request) -> str:
        return 'Project realm="demo"'


class SilentAuthentication(ProjectAuthentication):
    """Has no challenge."""

    def authenticate_header(self, request: Request) -> str | None:  # type: ignore[override]
        return None


class CookieAuthentication(SessionAuthentication):
    """A login cookie under another name."""


def own(*paths: str) -> Any:
    return override_settings(MCP={"AUTHENTICATION_CLASSES": list(paths), "SWEEP_SECONDS": 0.2})


def ask(peers: Peers, header: str | None, method: str = "tools/list") -> Any:
    """An HTTP answer to a request with this Authorization."""
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)
    if header is not None:
        peer.headers = lambda given, before=peer.headers: {  # type: ignore[method-assign,misc]
            **before(given), "Authorization": header,
        }  # fmt: skip
    return peer.send(MODERN, method)


def tools(answer: Any) -> list[str]:
    return [tool["name"] for tool in answer.json["result"]["tools"]]


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_class_of_the_project_lets_its_users_in_by_socket(peers: Peers, users: Any, flights: Any) -> None:
    with own(OURS):
        peer = peers(None)
        assert isinstance(peer, SocketPeer)
        socket = peer.connect({"Authorization": "Project viewer"})
        refused = peer.connect({"Authorization": "Project nobody"})

        assert socket.accepted
        assert not refused.accepted


def test_scopes_of_a_class_of_the_project(peers: Peers, users: Any, flights: Any) -> None:
    expected = {  # Whether it reads, and whether it acts.
        "Project admin read actions": (True, True),
        "Project admin read": (True, False),
        "Project admin": (True, False),
        "Project admin other": (False, False),
    }
    with own(OURS):
        found = {header: tools(ask(peers, header)) for header in expected}

    assert {
        header: ("find_records" in names, "flights_flight_mark_cancelled" in names) for header, names in found.items()
    } == expected


@http_only
def test_a_refusal_of_a_class_of_the_project(peers: Peers, users: Any) -> None:
    wrong = 'Project realm="demo", error="invalid_token"'
    expected = {
        "Project nobody": (401, wrong, "Nobody of that name."),
        "Project banned": (403, "", "You are banned."),
        "Project": (401, wrong, "Say who you are."),
        "Project viewer": (401, 'Bearer realm="mcp", error="invalid_token"', UNKNOWN),
        "Other x": (401, 'Project realm="demo"', NEEDED),
        None: (401, 'Project realm="demo"', NEEDED),
    }
    User.objects.filter(username="viewer").update(is_active=False)
    with own(OURS):
        answers = {header: ask(peers, header) for header in expected}

    assert {answer.headers["content-type"] for answer in answers.values()} == {"application/json"}
    assert {
        header: (answer.status, own_part(answer.headers.get("www-authenticate", "")), answer.json["error"]["message"])
        for header, answer in answers.items()
    } == expected


def test_a_class_without_a_challenge_gets_ours(peers: Peers, users: Any) -> None:
    with own(f"{__name__}.SilentAuthentication"):
        answers = [ask(peers, "Project nobody"), ask(peers, None)]

    assert [answer.status for answer in answers] == [401, 401]
    assert [own_part(answer.headers["www-authenticate"]) for answer in answers] == [
        'Bearer realm="mcp", error="invalid_token"', 'Bearer realm="mcp"',
    ]  # fmt: skip


def test_classes_are_asked_one_after_the_other(peers: Peers, users: Any, flights: Any) -> None:
    with own(OURS, TOKENS):
        by_project = ask(peers, "Project viewer")
        by_token = ask(peers, f"Bearer {token_of(users.viewer)}")
        by_nothing = ask(peers, "Bearer nonsense")

    assert (by_project.status, by_token.status, by_nothing.status) == (200, 200, 401)


# Login cookies.


@pytest.mark.parametrize("path", [
    "rest_framework.authentication.SessionAuthentication", f"{__name__}.CookieAuthentication",
])  # fmt: skip
def test_calling_with_the_login_cookie_of_a_browser(users: Any, path: str) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(users.admin)
    with own(path):
        with pytest.raises(ImproperlyConfigured, match="any page in the browser could send it"):
            authenticate(from_settings(), fresh=True)
        answer = client.post("/mcp", b"{}", content_type="application/json")

    assert answer.status_code >= 400
    assert answer.json()["error"]["data"] == {"reason": "INTERNAL_ERROR"}


def test_a_login_cookie_alone_is_no_credential(users: Any) -> None:
    client = Client()
    client.force_login(users.admin)

    assert client.post("/mcp", b"{}", content_type="application/json").status_code == 401


# Anonymous callers.


def test_anonymous_callers_where_the_project_lets_them_in(peers: Peers, users: Any, flights: Any) -> None:
    with override_settings(MCP={"ANONYMOUS_SCOPES": ["read", "actions"]}):
        answer = ask(peers, None)
        resources = ask(peers, None, "resources/list")

    assert tools(answer) == []
    assert [resource["uri"] for resource in resources.json["result"]["resources"]] == ["flights://about"]


def test_wrong_credentials_are_not_taken_for_none(peers: Peers, users: Any) -> None:
    with override_settings(MCP={"ANONYMOUS_SCOPES": ["read"]}):
        found = {header: ask(peers, header).status for header in ("Bearer nonsense", "Basic eDp5", "x")}

    assert set(found.values()) == {401}, found
