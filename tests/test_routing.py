"""The project's ASGI application, as a server starts it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.asgi import get_asgi_application as get_django_application

from mcp_django.bridge.sites import site
from mcp_django.routing import MCPApplication


async def _start(application: MCPApplication) -> list[str]:
    """What the application answers to the first message of a server."""
    sent: list[str] = []
    answered = asyncio.Event()
    messages = iter([{"type": "lifespan.startup"}])

    async def receive() -> Any:
        return next(messages, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message["type"])
        answered.set()

    running = asyncio.ensure_future(application({"type": "lifespan"}, receive, send))
    await answered.wait()
    running.cancel()
    return sent


def test_a_server_starts_where_the_urls_have_no_endpoint(
    settings: LazySettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ROOT_URLCONF = "tests.urls_of_nothing_at_all"
    application = MCPApplication(get_django_application(), site)

    sent = asyncio.run(_start(application))

    assert sent == ["lifespan.startup.complete"]
    assert "The URLs cannot be imported; the first request tries again" in caplog.messages
