"""Which web pages may call: Origin and Host on every transport, and CORS for the origins that are allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.axes import HTTP, NETWORK
from tests.support.data import token_of
from tests.support.peers import Answered, HTTPPeer, Peer, Peers, Socket, SocketPeer
from tests.support.raw import error

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
APP = "https://app.example.com"
#: The headers of a response that a page may read.
EXPOSED = "Mcp-Session-Id, WWW-Authenticate, Retry-After, Last-Event-ID, Preference-Applied"

FOREIGN_ORIGIN = "Requests from this origin are not allowed (MCP['ALLOWED_ORIGINS'])."
FOREIGN_HOST = "The Host header names a host that this server does not serve (ALLOWED_HOSTS)."


def knock(peer: Peer, headers: dict[str, str], method: str = "POST") -> tuple[int, Any]:
    """The status and the JSON that a request with these headers gets; 200 and None where a socket opens."""
    if isinstance(peer, HTTPPeer):
        answer = peer.http(method, json.dumps(PING).encode(), headers)
        assert answer.headers["content-type"] == "application/json", answer
        return answer.status, answer.json
    assert isinstance(peer, SocketPeer)
    return knocked(peer.connect(headers))


def knocked(socket: Socket) -> tuple[int, Any]:
    if socket.accepted:
        return 200, None
    start, body = socket.refused
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    return start["status"], json.loads(body["body"])


@pytest.mark.parametrize("transport", NETWORK)
@pytest.mark.parametrize("debug", [True, False])
def test_a_page_of_another_origin_cannot_call(admin: Peer, debug: bool, settings: Any) -> None:
    settings.DEBUG = debug
    origins = [
        "https://evil.example", "null", "", "http://localhost.evil.example", "http://localhost:8000", "https://localhost",
        "localhost", "http://localhost:x", "file://", "http://localhost, http://evil.example",
    ]  # fmt: skip

    answers = [knock(admin, {"Origin": origin}) for origin in origins]

    for origin, (status, message) in zip(origins, answers, strict=True):
        assert status == 403, origin
        assert message["error"] == error(-32600, "FORBIDDEN", FOREIGN_ORIGIN)["error"]
    if isinstance(admin, HTTPPeer):
        assert [knock(admin, {"Origin": origins[0]}, method)[0] for method in ("GET", "DELETE", "PUT")] == [403] * 3


@pytest.mark.parametrize("transport", NETWORK)
def test_a_page_of_our_own_origin_may_call(admin: Peer) -> None:
    for origin in ("http://localhost", "http://localhost:80", "HTTP://LOCALHOST"):
        assert knock(admin, {"Origin": origin})[0] == 200


@pytest.mark.parametrize("transport", NETWORK)
@pytest.mark.parametrize("debug", [True, False])
def test_dns_rebinding_to_a_host_that_is_not_ours_is_refused(
    users: Any, peers: Peers, debug: bool, settings: Any
) -> None:
    settings.DEBUG = debug
    settings.MIDDLEWARE = []  # Django's CommonMiddleware refuses such a host itself, with a page of its own.
    settings.ALLOWED_HOSTS = ["localhost"]
    peer = peers(token_of(users.admin))

    status, message = knock_at(peer, "evil.example", {"Origin": "http://evil.example"})

    assert status == 403
    assert message["error"] == error(-32600, "FORBIDDEN", FOREIGN_HOST)["error"]


@pytest.mark.own_form
@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_a_host_that_is_not_ours_gets_no_page_although_debug_is_on(users: Any, peers: Peers, settings: Any) -> None:
    settings.DEBUG = True
    settings.ALLOWED_HOSTS = ["localhost"]
    token = token_of(users.admin)

    for host in ("evil.example", "localhost:x", "local host", ""):
        status, message = knock_at(peers(token), host, {})

        assert (status, message["error"]["message"]) == (403, FOREIGN_HOST)


def knock_at(peer: Peer, host: str, headers: dict[str, str]) -> tuple[int, Any]:
    """``knock`` with this Host in place of the peer's own."""
    given = {**headers, "Authorization": f"Bearer {peer.token}"}
    if isinstance(peer, SocketPeer):
        return knocked(Socket(peer.loop, _at_host(peer.application, host), given))
    if hasattr(peer, "application"):
        peer.application = _at_host(peer.application, host)
        return knock(peer, headers)
    return knock(peer, {**headers, "Host": host})


def _at_host(application: Any, host: str) -> Any:
    async def at_host(scope: Any, receive: Any, send: Any) -> None:
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        await application({**scope, "headers": [(b"host", host.encode()), *others]}, receive, send)

    return at_host


# CORS.


@pytest.fixture
def app(settings: Any) -> str:
    settings.MCP = {**settings.MCP, "ALLOWED_ORIGINS": [APP]}
    return APP


@pytest.mark.parametrize("transport", NETWORK)
def test_an_allowed_origin_may_call(admin: Peer, app: str) -> None:
    assert knock(admin, {"Origin": app})[0] == 200


@pytest.mark.parametrize("transport", HTTP)
def test_a_browser_is_told_that_its_page_may_read_the_answer_or_why_it_was_refused(
    admin: HTTPPeer, peers: Peers, app: str
) -> None:
    answer, refused = admin.post(PING, {"Origin": app}), peers(None).post(PING, {"Origin": app})

    assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, app)
    assert answer.json == PONG
    assert cors(answer) == {
        "access-control-allow-origin": app,
        "access-control-expose-headers": EXPOSED,
    }
    assert "Origin" in answer.headers["vary"]


@pytest.mark.parametrize("transport", HTTP)
def test_a_preflight_is_answered_without_a_token(peers: Peers, app: str) -> None:
    headers = {
        "Origin": app,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, mcp-method",
    }

    answer = peers(None).http("OPTIONS", headers=headers)

    assert (answer.status, answer.body) == (204, b"")
    assert cors(answer) == {
        "access-control-allow-origin": app,
        "access-control-allow-methods": "GET, POST, DELETE",
        "access-control-allow-headers": "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, "
        "Mcp-Name, Mcp-Session-Id, Last-Event-ID, Prefer",
        "access-control-max-age": "600",
        "access-control-expose-headers": EXPOSED,
    }


@pytest.mark.parametrize("transport", HTTP)
def test_a_page_of_another_origin_gets_as_far_as_a_refusal_that_it_can_read(peers: Peers, app: str) -> None:
    evil = {"Origin": "https://evil.example"}

    asked = peers(None).http("OPTIONS", headers=evil)
    answer = peers(None).post(PING, evil)

    assert (asked.status, cors(asked)["access-control-allow-origin"]) == (204, "*")
    assert (answer.status, cors(answer)["access-control-allow-origin"]) == (403, "*")
    assert "ALLOWED_ORIGINS" in str(answer.json)


def cors(answer: Answered) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}
