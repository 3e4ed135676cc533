"""The client of the official Python SDK, as its documentation says to make one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.end_to_end.servers import Served


@asynccontextmanager
async def connected(served: Served, token: str, mode: str = "2026-07-28", **options: Any) -> AsyncIterator[Client]:
    """A client with a Bearer token; ``mode`` is the SDK's word for how it picks the revision."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http_client:
        transport = streamable_http_client(served.url, http_client=http_client)
        async with Client(transport, mode=mode, **options) as client:
            yield client


def text_of(result: Any) -> str:
    """The text of a tool's result that is one block of it."""
    [content] = result.content
    return str(content.text)


def contents_of(result: Any) -> Any:
    """The JSON of a resource that was read."""
    [contents] = result.contents
    return json.loads(contents.text)
