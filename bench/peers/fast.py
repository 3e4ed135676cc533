"""FastMCP: an ASGI application."""

from __future__ import annotations

import os
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.peers.settings")
django.setup()

from asgiref.sync import sync_to_async  # noqa: E402
from fastmcp import FastMCP  # noqa: E402
from fastmcp.server.auth import AccessToken, TokenVerifier  # noqa: E402
from fastmcp.server.dependencies import get_access_token  # noqa: E402

from bench.peers import TOKENS  # noqa: E402
from bench.peers.tokens import user_of  # noqa: E402
from bench.peers.work import check, first_flights, greeting  # noqa: E402


class Tokens(TokenVerifier):
    async def verify_token(self, token: str) -> AccessToken | None:
        user = await user_of(token)
        if user is None:
            return None
        return AccessToken(token=token, client_id=str(user.pk), scopes=["read"], claims={"user": user})


server = FastMCP("bench", auth=Tokens(required_scopes=["read"]) if TOKENS else None)


def _user() -> Any:
    token = get_access_token() if TOKENS else None
    return None if token is None else token.claims["user"]


@server.tool
async def greet(name: str) -> str:
    """Greet somebody."""
    if TOKENS:
        await sync_to_async(check)(_user())
    return greeting(name)


@server.tool
async def find_flights(limit: int = 20) -> dict[str, Any]:
    """The first flights by departure."""
    user = _user()

    def answer() -> dict[str, Any]:
        check(user)
        return first_flights(limit)

    return await sync_to_async(answer)()


application = server.http_app(path="/mcp", json_response=True, stateless_http=True)
