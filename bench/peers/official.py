"""The official SDK: an ASGI application."""

from __future__ import annotations

import os
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.peers.settings")
django.setup()

from asgiref.sync import sync_to_async  # noqa: E402
from mcp.server.auth.middleware.auth_context import get_access_token  # noqa: E402
from mcp.server.auth.provider import AccessToken  # noqa: E402
from mcp.server.auth.settings import AuthSettings  # noqa: E402
from mcp.server.mcpserver import MCPServer  # noqa: E402
from pydantic import AnyHttpUrl  # noqa: E402

from bench.peers import TOKENS  # noqa: E402
from bench.peers.tokens import user_of  # noqa: E402
from bench.peers.work import check, first_flights, greeting  # noqa: E402


class Tokens:
    """A token verifier."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user = await user_of(token)
        if user is None:
            return None
        return AccessToken(token=token, client_id=str(user.pk), scopes=["read"], claims={"user": user})


_URL = AnyHttpUrl("http://127.0.0.1/mcp")

server = (
    MCPServer(
        "bench",
        token_verifier=Tokens(),
        auth=AuthSettings(issuer_url=_URL, resource_server_url=_URL, required_scopes=["read"]),
    )
    if TOKENS
    else MCPServer("bench")
)


def _user() -> Any:
    token = get_access_token()
    return None if token is None else (token.claims or {})["user"]


@server.tool()
async def greet(name: str) -> str:
    """Greet somebody."""
    if TOKENS:
        await sync_to_async(check)(_user())
    return greeting(name)


@server.tool()
async def find_flights(limit: int = 20) -> dict[str, Any]:
    """The first flights by departure."""
    user = _user()

    def answer() -> dict[str, Any]:
        check(user)
        return first_flights(limit)

    return await sync_to_async(answer)()


application = server.streamable_http_app(json_response=True, stateless_http=True)
