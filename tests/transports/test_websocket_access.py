"""Who may open a socket, and for how long it stays theirs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from mcp_django.models import AccessToken
from tests.support.challenges import NEEDED, own_part
from tests.support.data import token_of
from tests.support.duplex import DuplexWatching
from tests.support.peers import MODERN, Peers, Socket, SocketPeer, meta
from tests.support.raw import error

pytestmark = pytest.mark.parametrize("transport", ["websocket"])


LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": meta()}}
OURS = "http://localhost"


def assert_serves(socket: Socket) -> None:
    assert socket.accepted, socket.refused
    assert "find_records" in [tool["name"] for tool in socket.ask(LIST)["result"]["tools"]]


def refusal(socket: Socket) -> tuple[int, str | None, Any]:
    """Status, challenge and message of an upgrade that was refused."""
    assert not socket.accepted
    start, body = socket.refused
    challenge = dict(start["headers"]).get(b"www-authenticate")
    return start["status"], None if challenge is None else own_part(challenge.decode()), json.loads(body["body"])


def connect(peers: Peers, **headers: str) -> Socket:
    """A socket with these headers, of nobody in particular."""
    peer = peers(None)
    assert isinstance(peer, SocketPeer)
    return peer.connect(headers)


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def cookie_of(user: Any) -> str:
    browser = Client()
    browser.force_login(user)
    return f"theme=dark; sessionid={browser.cookies['sessionid'].value}"


# Tokens.


def test_a_token_opens_a_socket_as_it_is_and_as_the_password_of_a_url(users: Any, peers: Peers) -> None:
    token = token_of(users.admin)

    for header in (f"Bearer {token}", basic("anything", token), basic("", token), basic("admin", token)):
        assert_serves(connect(peers, Authorization=header))


def test_credentials_that_do_not_hold_open_no_socket(users: Any, peers: Peers) -> None:
    for header in (basic("admin", "admin"), basic("x", "mcp_unknown"), "Basic !", "Bearer mcp_unknown"):
        status, challenge, message = refusal(connect(peers, Authorization=header))

        assert (status, message["error"]["data"]["reason"]) == (401, "UNAUTHENTICATED")
        assert challenge is not None and challenge.startswith('Bearer realm="mcp"')


def test_nobody_opens_no_socket(users: Any, peers: Peers) -> None:
    message = NEEDED

    socket = connect(peers)

    assert refusal(socket) == (401, 'Bearer realm="mcp"', error(-32600, "UNAUTHENTICATED", message))
    headers = dict(socket.refused[0]["headers"])
    assert (headers[b"cache-control"], headers[b"x-content-type-options"]) == (b"no-store", b"nosniff")


def test_a_token_in_a_subprotocol_opens_no_socket(users: Any, peers: Peers) -> None:
    peer = peers(None)
    assert isinstance(peer, SocketPeer)

    socket = peer.connect(subprotocols=["mcp", f"mcp.auth.{token_of(users.admin)}"])

    assert refusal(socket)[0] == 401


def test_a_server_without_http_answers_to_sockets_still_refuses(users: Any, peers: Peers) -> None:
    peer = peers(None)
    assert isinstance(peer, SocketPeer)

    async def without_extension(scope: Any, receive: Any, send: Any) -> None:
        await application({**scope, "extensions": {}}, receive, send)

    application, peer.application = peer.application, without_extension

    assert peer.connect().refused == [{"type": "websocket.close"}]


# Login cookies.


@pytest.mark.parametrize("origin", [OURS, "http://localhost:80"])
def test_a_page_of_ours_opens_a_socket_with_the_login_cookie(users: Any, peers: Peers, origin: str) -> None:
    assert_serves(connect(peers, Cookie=cookie_of(users.admin), Origin=origin))


def test_cross_site_websocket_hijacking_is_refused(users: Any, peers: Peers) -> None:
    cookie = cookie_of(users.admin)
    message = "A login cookie needs an Origin header of this site."

    for origin in ("https://evil.example", "null", "http://localhost:8000", "https://localhost", ""):
        status, _, told = refusal(connect(peers, Cookie=cookie, Origin=origin))
        assert (status, told["error"]["data"]["reason"]) == (403, "FORBIDDEN")
    assert refusal(connect(peers, Cookie=cookie)) == (403, None, error(-32600, "FORBIDDEN", message))


def test_an_origin_that_is_allowed_for_tokens_is_not_for_cookies(users: Any, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "ALLOWED_ORIGINS": ["https://app.example.com"]}
    app = {"Origin": "https://app.example.com"}

    with_cookie = connect(peers, Cookie=cookie_of(users.admin), **app)
    with_token = connect(peers, Authorization=f"Bearer {token_of(users.admin)}", **app)

    assert refusal(with_cookie)[0] == 403
    assert with_token.accepted


def test_a_login_cookie_that_is_guessed_or_of_an_inactive_user_opens_no_socket(users: Any, peers: Peers) -> None:
    inactive = cookie_of(users.viewer)
    users.viewer.is_active = False
    users.viewer.save()

    for cookie in ("sessionid=guessed", "sessionid=", "other=1", inactive):
        assert refusal(connect(peers, Cookie=cookie, Origin=OURS))[0] == 401


def test_a_login_may_read_and_no_more(users: Any, peers: Peers) -> None:
    socket = connect(peers, Cookie=cookie_of(users.admin), Origin=OURS)

    by_login = {tool["name"] for tool in socket.ask(LIST)["result"]["tools"]}
    by_token = set(peers(token_of(users.admin)).tools())

    assert by_login < by_token
    assert "flights_flight_mark_cancelled" not in by_login


# What ends a socket.


#: What happens to a user with a token, or with a login.
ENDS: dict[str, Callable[[Any], object]] = {
    "revoked token": lambda user: AccessToken.objects.get().revoke(),
    "expired token": lambda user: AccessToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1)),
    "inactive user": lambda user: (setattr(user, "is_active", False), user.save()),
    "deleted user": lambda user: user.delete(),
    "logout": lambda user: Session.objects.all().delete(),
    "new password": lambda user: (user.set_password("new"), user.save()),
}


@pytest.mark.parametrize("end", ["revoked token", "inactive user", "deleted user"])
def test_an_idle_socket_ends_with_its_token_or_user(users: Any, peers: Peers, end: str) -> None:
    socket = connect(peers, Authorization=f"Bearer {token_of(users.viewer)}")
    assert_serves(socket)

    ENDS[end](users.viewer)

    assert socket.wait_closed() == 1008


@pytest.mark.parametrize("end", ["revoked token", "expired token", "logout", "new password"])
def test_what_opened_a_socket_and_holds_no_more_gets_no_further_answer(
    users: Any, peers: Peers, settings: Any, end: str
) -> None:
    cached = {"revoked token": 60, "expired token": 0}.get(end, 1)
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 60, "TOKEN_CACHE_SECONDS": cached}
    by_login = end in ("logout", "new password")
    socket = (
        connect(peers, Cookie=cookie_of(users.admin), Origin=OURS)
        if by_login
        else connect(peers, Authorization=f"Bearer {token_of(users.admin)}")
    )
    assert_serves(socket)

    ENDS[end](users.admin)
    socket.send(LIST)

    assert socket.wait_closed() == 1008
    assert socket.answers.empty()


def test_a_listen_of_a_revoked_token_hears_nothing_more(users: Any, peers: Peers, flights: Any) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, SocketPeer)
    watching = peer.watch(MODERN, ["db://flights/flight/1"])

    AccessToken.objects.get().revoke()
    flights[0].save()

    assert peer.socket(MODERN).wait_closed() == 1008
    assert isinstance(watching, DuplexWatching)
    assert watching.connection.notifications.empty()


def test_ping_of_a_revoked_token_is_not_answered_from_memory(users: Any, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 60, "TOKEN_CACHE_SECONDS": 60}
    peer = peers(token_of(users.admin))
    assert isinstance(peer, SocketPeer)
    peer.result("2025-11-25", "ping")

    AccessToken.objects.get().revoke()
    peer.socket("2025-11-25").send({"jsonrpc": "2.0", "id": 9, "method": "ping"})

    assert peer.socket("2025-11-25").wait_closed() == 1008
