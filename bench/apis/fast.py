"""FastMCP: a server from the document that drf-spectacular makes, which calls the project over HTTP in this process."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Awaitable, Callable
from statistics import median
from time import process_time
from types import SimpleNamespace
from typing import Any

import httpx2
from asgiref.sync import async_to_sync
from django.core.asgi import get_asgi_application
from drf_spectacular.generators import SchemaGenerator
from fastmcp import Client, FastMCP  # type: ignore[import-not-found]

from bench.apis.cases import Asked, works
from bench.apis.project import cookie, size
from bench.apis.sweep import CALLS, ROUNDS, WARM_UP
from bench.in_process import ask
from bench.serving.calls import LEGACY, call

_CSRF = "a" * 32
#: Its answer has no end, for which a tool would wait.
_ENDLESS = "/api/answers/endless/"
LISTED = "/api/orders/"
_application: Any = get_asgi_application
_VARIABLE = re.compile(r"{(\w+)}")


def measured(rows: SimpleNamespace) -> dict[str, Any]:
    generator: Any = SchemaGenerator
    document = generator().get_schema(request=None, public=True)
    operations = {
        (method.upper(), _VARIABLE.sub("{}", path)): (operation["operationId"], _VARIABLE.findall(path))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    servers = {name: _server(document, getattr(rows, name)) for name in ("anna", "stella")}
    tools = async_to_sync(_tools)(servers["stella"])
    named_in = {one.name: one.input_schema["properties"] for one in tools}

    def call_tool(name: str, one: Asked) -> tuple[bool, Any]:
        if (found := operations.get((one.case.method, _shape(one)))) is None or one.path == _ENDLESS:
            return False, "no tool"
        named, variables = found
        body = one.body()
        if isinstance(body, list):
            return False, "the arguments of a tool are an object"
        # A variable of the path has another name where the body has a field of its name.
        keys = [f"{key}__path" if f"{key}__path" in named_in[named] else key for key in variables]
        given = {**dict(zip(keys, one.kwargs.values(), strict=True)), **one.query, **(body or {})}
        try:
            return async_to_sync(_called)(servers[name], named, given)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is refused
            return False, f"{type(error).__name__}: {error}"

    found = works(rows, call_tool, lambda: None)
    shown = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in tools]
    return {
        **found, "tools": len(tools), "bytes": size(shown), "notes": [],
        "list": async_to_sync(_timed)(servers["anna"], operations["GET", LISTED][0], cookie(rows.anna)),
    }  # fmt: skip


def _server(document: Any, user: Any) -> Any:
    client = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=_application()),
        base_url="http://localhost",
        headers={"Cookie": f"{cookie(user)}; csrftoken={_CSRF}", "X-CSRFToken": _CSRF, "Accept": "application/json"},
    )
    return FastMCP.from_openapi(document, client, validate_output=False)


def _shape(one: Asked) -> str:
    """The path with its variables left open: the document gives them other names."""
    path = one.path
    for value in one.kwargs.values():
        path = path.replace(f"/{value}/", "/{}/", 1)
    return path


async def _tools(server: Any) -> Any:
    async with Client(server) as client:
        return await client.list_tools()


async def _called(server: Any, name: str, given: dict[str, Any]) -> tuple[bool, Any]:
    async with Client(server) as client:
        result = await client.call_tool(name, given, raise_on_error=False)
    value = result.structured_content
    if value is None:
        value = result.content[0].text if result.content else None
    return not result.is_error, value


async def _timed(server: Any, name: str, cookie: str) -> dict[str, float]:
    """The processor's time of a call over its own HTTP endpoint, and of the same request of the project under ASGI."""
    mcp, project = server.http_app(path="/mcp", json_response=True, stateless_http=True), _application()
    sent = call((name, {}), LEGACY, {})
    took: dict[str, list[float]] = {"http": [], "call": []}

    async def over_http() -> None:
        transport = httpx2.ASGITransport(app=project)
        scope_of = httpx2.Request("GET", f"http://localhost{LISTED}", headers={"Cookie": cookie})
        response = await transport.handle_async_request(scope_of)
        await response.aread()

    ways: dict[str, Callable[[], Awaitable[object]]] = {"http": over_http, "call": lambda: ask(mcp, sent)}
    async with mcp.lifespan(mcp):
        for number in range(WARM_UP // CALLS + 12 * ROUNDS):
            for way, make in ways.items():
                gc.collect()
                begun = process_time()
                for _ in range(CALLS):
                    await make()
                if number >= WARM_UP // CALLS:
                    took[way].append((process_time() - begun) / CALLS * 1e3)
                await asyncio.sleep(0)
    ratios = [call / http for http, call in zip(took["http"], took["call"], strict=True)]
    return {
        "http": median(took["http"]), "call": median(took["call"]),
        "median": median(ratios), "best": min(ratios), "worst": max(ratios),
    }  # fmt: skip
