"""Proxies that end TLS, and prefixes that only the web server knows: what clients are told is what they asked for."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.asgi import get_asgi_application as get_django_application
from django.test import Client, override_settings

from mcp_django.routing import get_asgi_application
from tests.support.asgi import ASGICall, decode_headers
from tests.support.data import Users
from tests.support.loop import LoopThread

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
METADATA = "/.well-known/oauth-protected-resource/mcp"


@override_settings(SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"), USE_X_FORWARDED_HOST=True,
                   ALLOWED_HOSTS=["shop.example"])  # fmt: skip
def test_a_proxy_that_ends_tls(users: Users) -> None:
    proxied = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "shop.example", "Host": "10.0.0.1:8000"}
    client = Client(headers=proxied)

    document = client.get(METADATA).json()
    server = client.get("/.well-known/oauth-authorization-server").json()
    refused = client.post("/mcp", PING, content_type="application/json")

    assert document["resource"] == "https://shop.example/mcp"
    assert server["issuer"] == document["authorization_servers"][0] == "https://shop.example"
    assert server["token_endpoint"] == "https://shop.example/mcp/token"
    assert f'resource_metadata="https://shop.example{METADATA}"' in refused["WWW-Authenticate"]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_root_path_and_a_proxy_under_asgi(
    transactional_db: None, serving_loop: LoopThread, is_ours: bool, settings: Any
) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    django = get_django_application()
    application = get_asgi_application(django) if is_ours else django
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/app/mcp", "raw_path": b"/app/mcp", "root_path": "/app", "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"x-forwarded-proto", b"https"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 50000), "server": ("localhost", 80), "state": {},
    }  # fmt: skip

    async def ask() -> dict[str, str]:
        call = ASGICall(application, scope)
        await call.inbox.put({"type": "http.request", "body": b"{}", "more_body": False})
        start = await call.receive()
        assert start["status"] == 401
        return decode_headers(start["headers"])

    headers = serving_loop.run(ask())

    assert f'resource_metadata="https://localhost/app{METADATA}"' in headers["www-authenticate"]
