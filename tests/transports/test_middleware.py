"""The project's middleware and the endpoint: what it must not spoil, and which entry point may bypass it."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests.axes import HTTP
from tests.support import forkserver
from tests.support.data import token_of
from tests.support.peers import MODERN, ASGIPeer, HTTPPeer, Peers, SocketPeer

UNKNOWN = "tests.transports.tenants.UnknownMiddleware"


@pytest.mark.parametrize("transport", HTTP)
def test_login_required_middleware_sends_no_agent_to_a_login_page(users: Any, peers: Peers, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    peer = peers(token_of(users.admin))

    assert "find_records" in peer.tools()
    assert peers(None).http("POST", b"{}").status == 401


@pytest.mark.parametrize("transport", HTTP)
def test_the_endpoint_answers_under_atomic_requests(users: Any, peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    for alias in connections:
        monkeypatch.setitem(connections.settings[alias], "ATOMIC_REQUESTS", True)
    peer = peers(token_of(users.admin))

    assert "find_records" in peer.tools()


def test_csrf_middleware_asks_no_agent_for_a_cookie(users: Any, transactional_db: None, settings: Any) -> None:
    from django.test import Client

    assert "django.middleware.csrf.CsrfViewMiddleware" in settings.MIDDLEWARE
    token = token_of(users.admin)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})

    response = Client(enforce_csrf_checks=True).post(
        "/mcp", body, "application/json", headers={"Authorization": f"Bearer {token}"}
    )

    assert response.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("transport", ["http-view-asgi"])
def test_gzip_middleware_compresses_answers_and_no_streams(
    users: Any, peers: Peers, settings: Any, flights: Any
) -> None:
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    plain = peer.headers(None)
    peer.headers = lambda given: {**plain, "Accept-Encoding": "gzip", **(given or {})}  # type: ignore[method-assign]

    answer = peer.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    stream = peer.watch(MODERN, ["db://flights/flight/1"])
    flights[0].save()

    assert answer.headers["content-encoding"] == "gzip"
    assert "find_records" in gzip.decompress(answer.body).decode()
    assert stream.headers["content-encoding"] == "identity"
    assert stream.uris(1) == ["db://flights/flight/1"]


@pytest.mark.more("starts servers")
@pytest.mark.slow
def test_fallback_middleware_leaves_our_404_as_it_is(tmp_path: Path) -> None:
    """In a process of its own, since the apps of these middleware bring models."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.transports.fallback_settings"}

    env = {**environment, "DEMO_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = forkserver.run(["-m", "tests.transports.fallbacks"], cwd=Path.cwd(), env=env)

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["page"] == [200, "A flat page"]
    assert seen["redirect"] == [301, "/elsewhere/"]
    for entry_point in ("wsgi", "asgi"):
        status, content_type, message = seen[entry_point]["method"]
        assert (status, content_type, message["error"]["code"]) == (404, "application/json", -32601)
        status, content_type, message = seen[entry_point]["session"]
        reason = message["error"]["data"]["reason"]
        assert (status, content_type, reason) == (404, "application/json", "SESSION_NOT_FOUND")


# Which entry point may bypass the middleware.


@pytest.mark.parametrize("transport", ["http-asgi"])
@pytest.mark.parametrize(
    ("middleware", "conf", "passed"),
    [([], {}, None), ([UNKNOWN], {}, "yes"), ([UNKNOWN], {"BYPASS_MIDDLEWARE": True}, None)],
    ids=["harmless", "unknown", "unknown but declared harmless"],
)
def test_http_passes_middleware_that_may_matter(
    users: Any, peers: Peers, settings: Any, middleware: list[str], conf: dict[str, Any], passed: str | None
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, *middleware]
    settings.MCP = {**settings.MCP, **conf}
    peer = peers(token_of(users.admin))
    assert isinstance(peer, HTTPPeer)

    answer = peer.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})

    assert answer.json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert answer.headers.get("x-passed") == passed


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_cannot_slip_past_middleware_that_may_matter(
    users: Any, peers: Peers, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, UNKNOWN]
    peer = peers(token_of(users.admin))
    assert isinstance(peer, SocketPeer)

    socket = peer.connect()

    assert not socket.accepted
    assert socket.refused == [{"type": "websocket.close", "code": 1008}]
    assert UNKNOWN in caplog.text


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_opens_where_the_project_does_without_its_middleware(users: Any, peers: Peers, settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, UNKNOWN]
    settings.MCP = {**settings.MCP, "BYPASS_MIDDLEWARE": True}
    peer = peers(token_of(users.admin))

    assert "find_records" in peer.tools()


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_opens_where_call_context_does_the_work_of_middleware(
    users: Any, tenant_peers: Peers, settings: Any
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, UNKNOWN]
    peer = tenant_peers(token_of(users.admin))

    assert "find_records" in peer.tools()
