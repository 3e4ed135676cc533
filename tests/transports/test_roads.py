"""What every road to a call must repeat, as one table: a row for each duty, over each road.

Where a duty does not apply, the table says why. A road that is added, a transport or code that begins a call or finds
a principal on its own, fails the last test until it has its place here.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from django.http import HttpRequest

import mcp_django
from tests.axes import TRANSPORTS
from tests.end_to_end.servers import wait_for
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, DuplexPeer, GRPCPeer, HTTPPeer, Peer, Peers, Socket, SocketPeer, meta

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}
LISTED = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}

#: Duty → road → why it does not apply there.
EXEMPT: dict[str, dict[str, str]] = {
    "host": {"grpc": "it has no Host; the host is that of BASE_URL", "stdio": "a pipe has no Host"},
    "scheme": {"grpc": "--cert and --plaintext say whether it has TLS", "stdio": "a pipe has no TLS"},
    "origin": {"stdio": "no page reaches a pipe"},
    "address": {"stdio": "a pipe has no address, and its command names the user"},
    "size": {},
    "time": {},
    "throttle": {},
    "audience": {"stdio": "its command names the user, and there is no token"},
    "context": {},
}


def over_each_road(duty: str) -> Any:
    roads = [road for road in TRANSPORTS if road not in EXEMPT[duty]]
    return pytest.mark.parametrize("transport", roads)


def knock(peer: Peer, headers: dict[str, str] | None = None) -> str:
    """What a request for the list of tools comes to: ``let in``, or how it is refused."""
    given = headers or {}
    if isinstance(peer, HTTPPeer):
        answer = peer.http("POST", json.dumps(PING).encode(), {**LISTED, **given})
        return "let in" if answer.status == 200 else f"{answer.status} {answer.headers.get('location', '')}".strip()
    if isinstance(peer, SocketPeer):
        socket = peer.connect(given)
        return "let in" if socket.accepted else _refusal(socket)
    assert isinstance(peer, GRPCPeer)
    try:
        peer.ask_alone(PING, metadata=(*peer.metadata, *((name.lower(), value) for name, value in given.items())))
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "let in"


def _refusal(socket: Socket) -> str:
    start = socket.refused[0]
    location = dict(start.get("headers", ())).get(b"location", b"").decode()
    return f"{start.get('status')} {location}".strip()


def is_refused(said: str) -> bool:
    return said in ("400", "401", "403", "UNAUTHENTICATED", "PERMISSION_DENIED")


@over_each_road("host")
def test_a_host_that_is_not_served_is_refused(peers: Peers, users: Users, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "testserver"]
    peer = peers(token_of(users.admin))

    assert knock(peer) == "let in"
    assert is_refused(knock(peer, {"Host": "evil.example"}))


SECURE = {
    "SECURE_SSL_REDIRECT": True, "SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https"),
    "SECURE_HSTS_SECONDS": 3600, "SECURE_SSL_HOST": "secure.example.com",
}  # fmt: skip


@over_each_road("scheme")
def test_plain_http_is_redirected_before_its_token_is_looked_at(peers: Peers, users: Users, settings: Any) -> None:
    for name, value in SECURE.items():
        setattr(settings, name, value)
    known, unknown = peers(token_of(users.admin)), peers("mcp_unknown")

    for peer in (known, unknown):
        assert knock(peer) == "301 https://secure.example.com/mcp"
        assert knock(peer, {"X-Forwarded-Proto": "http"}) == "301 https://secure.example.com/mcp"
    assert knock(known, {"X-Forwarded-Proto": "https"}) == "let in"
    assert knock(unknown, {"X-Forwarded-Proto": "https"}) == "401"
    if isinstance(known, HTTPPeer):
        for method in ("GET", "DELETE", "OPTIONS", "PUT"):
            assert known.http(method).status == 301
        answer = known.http("POST", json.dumps(PING).encode(), {**LISTED, "X-Forwarded-Proto": "https"})
        assert answer.headers["strict-transport-security"] == "max-age=3600"
    settings.SECURE_REDIRECT_EXEMPT = ["^mcp$"]
    assert knock(peers(token_of(users.admin))) == "let in"


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_without_djangos_own_middleware_nothing_is_redirected(peers: Peers, users: Users, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "SecurityMiddleware" not in name]

    assert knock(peers(token_of(users.admin))) == "let in"


@over_each_road("origin")
def test_a_page_of_another_origin_is_refused(peers: Peers, users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "BASE_URL": "http://localhost/mcp"}
    peer = peers(token_of(users.admin))

    assert knock(peer, {"Origin": "http://localhost"}) == "let in"
    for origin in (
        "https://evil.example",
        "http://localhost/",
        "http://localhost/x",
        "http://me@localhost",
        "http://localhost?",
    ):
        assert is_refused(knock(peer, {"Origin": origin})), origin


@over_each_road("address")
def test_an_address_is_not_believed_from_a_header(peers: Peers, users: Users, settings: Any, transport: str) -> None:
    home = {"X-Forwarded-For": "192.0.2.1"}
    peer = peers(token_of(users.admin, addresses=["192.0.2.1"]))
    by_own = "GRPC_TRUSTED_PROXIES" if transport == "grpc" else "TRUSTED_PROXIES"
    by_other = {"GRPC_TRUSTED_PROXIES": 1, "TRUSTED_PROXIES": 1}.keys() - {by_own}

    settings.MCP = {**settings.MCP, **dict.fromkeys(by_other, 1)}
    assert is_refused(knock(peer, home))
    settings.MCP = {**settings.MCP, by_own: 1}
    assert knock(peer, home) == "let in"
    assert is_refused(knock(peer, {"X-Forwarded-For": "192.0.2.1, 198.51.100.7"}))


@over_each_road("audience")
def test_a_token_of_another_endpoint_is_refused(peers: Peers, users: Users, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    settings.USE_X_FORWARDED_HOST = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.MCP = {**settings.MCP, "BASE_URL": "http://localhost/mcp", "OAUTH_ORIGIN": ""}
    peer = peers(token_of(users.admin))
    token = users.admin.mcp_tokens.latest("pk")
    for resource, said in [("http://localhost/mcp", True), ("http://other.example/mcp", False)]:
        token.resource = resource
        token.save()
        assert (knock(peer) == "let in") is said
    # What a client says of the host is believed from a proxy alone, and gRPC has none that would say it.
    forged = {"X-Forwarded-Host": "other.example", "X-Forwarded-Proto": "http", "Forwarded": "host=other.example"}
    if isinstance(peer, GRPCPeer):
        assert is_refused(knock(peer, forged))


@over_each_road("size")
def test_a_message_that_is_too_long_is_not_run(
    peers: Peers, users: Users, settings: Any, declared: Declared, transport: str
) -> None:
    ran: list[str] = []

    def note(request: HttpRequest, text: str) -> str:
        """Notes."""
        ran.append(text)
        return "noted"

    declared.tool(note)
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 30_000}
    peer = peers(token_of(users.admin))
    peer.request(MODERN, "tools/call", {"name": "note", "arguments": {"text": "x" * 20_000}})

    params = {"name": "note", "arguments": {"text": "x" * 40_000}, "_meta": meta()}
    too_long = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    if isinstance(peer, HTTPPeer):
        assert peer.post(too_long, peer.modern_headers("tools/call", params)).status == 413
    else:
        assert isinstance(peer, DuplexPeer)
        connection: Any = peer.connection(MODERN)
        connection.send(too_long)
        if transport == "websocket":
            assert connection.wait_closed() == 1009
        elif transport == "grpc":
            assert connection.status()[0] is not grpc.StatusCode.OK
        else:
            assert "MAX_BODY_BYTES" in connection.answer(60)["error"]["message"]
    assert [len(text) for text in ran] == [20_000]


@over_each_road("time")
def test_a_call_has_the_time_of_a_request(peers: Peers, users: Users, settings: Any, declared: Declared) -> None:
    begins: list[float] = []
    ended: list[bool] = []

    def wait(request: HttpRequest) -> str:
        """Waits until it is told that its time is over."""
        begins.append(begun := time.monotonic())
        while not request.mcp.cancelled and time.monotonic() < begun + 60:  # type: ignore[attr-defined]
            time.sleep(0.01)
        ended.append(request.mcp.cancelled)  # type: ignore[attr-defined]
        return "late"

    declared.tool(wait)
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.3}

    peer = peers(token_of(users.admin))

    def call() -> list[float]:
        peer.request(MODERN, "tools/call", {"name": "wait", "arguments": {}})
        return begins

    # Under load the time of a request may be over before its function begins.
    wait_for(call, "a call that begins in its time")
    wait_for(lambda: ended, "the end of the call")
    assert ended == [True]


@over_each_road("throttle")
def test_a_caller_has_as_many_calls_as_its_limits_say(peers: Peers, users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"calls": "2/day"}}}
    peer = peers(token_of(users.admin))
    call = {"name": "describe_models", "arguments": {}}

    answers = [json.dumps(peer.request(MODERN, "tools/call", call)) for _ in range(3)]

    assert ["THROTTLED" in answer for answer in answers] == [False, False, True]


@over_each_road("context")
def test_a_call_runs_in_the_context_of_its_site(
    peers: Peers, users: Users, declared: Declared, monkeypatch: Any
) -> None:
    entered: list[Any] = []

    @contextlib.contextmanager
    def call_context(request: HttpRequest) -> Any:
        entered.append(str(request.user))
        yield

    monkeypatch.setattr(mcp_django.site, "call_context", call_context)
    peers(token_of(users.admin)).request(MODERN, "tools/call", {"name": "describe_models", "arguments": {}})

    assert users.admin.get_username() in entered


#: Where a principal is found or a call begins: file → which road it is.
BEGINNINGS = {
    "access/authentication.py": "asks the authentication classes",
    "console/calls.py": "the console: in the request of a person or by a command, within the site's context",
    "console/credentials/scope_choices.py": "the form of a token: it looks, and calls nothing",
    "console/credentials/scopes.py": "the console and the consent page: they look, and call nothing",
    "console/review/inventory.py": "the inventory: it looks, and calls nothing",
    "console/review/reasons.py": "Why not?: it looks, and calls nothing",
    "exchange/exchange.py": "makes the exchanges that look",
    "push/list_changes.py": "push: compares lists, within the site's context",
    "server/step_up.py": "a call that is refused: it looks for the scopes that are missing",
    "server/waiting_changes.py": "a waiting change that a person has confirmed",
    "transports/grpc/calls.py": "grpc",
    "transports/http/base.py": "http",
    "transports/http/bodies.py": "http, before a long body is read",
    "transports/http/uploads.py": "http, uploads",
    "transports/in_flight.py": "begins the calls of all transports",
    "transports/lasting/admission.py": "websocket and grpc",
    "transports/lasting/lasting.py": "websocket and grpc",
}
_BEGINS = re.compile(
    r"(?<!def )(?<!class )\b(Exchange|inspection_exchange|admission\.admit|authenticate|authenticate_login)\("
)


def test_each_road_has_its_place_in_the_table() -> None:
    package = Path(mcp_django.__file__).parent
    found = {str(file.relative_to(package)) for file in package.rglob("*.py") if _BEGINS.search(file.read_text())}
    tested: Callable[[str], bool] = lambda duty: any(  # noqa: E731
        any(mark.name == "parametrize" and mark.args[1] == _roads(duty) for mark in getattr(test, "pytestmark", ()))
        for test in globals().values()
    )

    assert found == set(BEGINNINGS)
    assert all(map(tested, EXEMPT))
    assert all(set(reasons) < set(TRANSPORTS) and all(reasons.values()) for reasons in EXEMPT.values())


def _roads(duty: str) -> list[str]:
    return [road for road in TRANSPORTS if road not in EXEMPT[duty]]
