"""django-mcpz: a Django view."""

from __future__ import annotations

from typing import Any

import msgspec
from django.http import HttpRequest
from django.urls import path
from django_mcpz.bearer_tokens.auth import token_auth
from django_mcpz.server import MCPServer, public

from bench.peers import TOKENS
from bench.peers.work import PERMISSION, first_flights, greeting

server = MCPServer(name="bench", version="1", auth=token_auth if TOKENS else public)
_permission = PERMISSION if TOKENS else None


class Greet(msgspec.Struct):
    name: str


class FindFlights(msgspec.Struct):
    limit: int = 20


@server.tool(description="Greet somebody.", permission=_permission)
def greet(request: HttpRequest, params: Greet) -> str:
    return greeting(params.name)


@server.tool(description="The first flights by departure.", permission=_permission)
def find_flights(request: HttpRequest, params: FindFlights) -> dict[str, Any]:
    return first_flights(params.limit)


urlpatterns = [path("mcp", server)]
