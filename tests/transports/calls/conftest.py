"""A peer whose tools wait at a gate, ask and tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_django.push import hub as hubs
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.http import ASGIPeer
from tests.support.peers import Message, Peers
from tests.transports.calling import NAME, Gate

HTTP_ASGI = ("http-view-asgi", "http-asgi")


LEVEL = "io.modelcontextprotocol/logLevel"

over_http = pytest.mark.parametrize("transport", HTTP_ASGI)

bypassing_middleware = pytest.mark.parametrize("transport", ["http-asgi"])


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def peer(declared: Declared, users: Any, peers: Peers, gate: Gate) -> Any:
    """A client that can be asked, of an administrator."""

    def slow(request: Any) -> str:
        """Says something, waits, says something else."""
        request.mcp.log("info", "begun")
        gate.wait(request)
        request.mcp.log("info", "waited")
        return "done"

    def polled(request: Any) -> str:
        """Lets its client go while it works."""
        request.mcp.close_stream(retry_ms=250)
        gate.wait(request)
        return "done"

    def count(request: Any, steps: int = 5) -> str:
        """Counts."""
        for number in range(steps):
            request.mcp.progress(number)
        return "counted"

    def greet(request: Any) -> str:
        """Asks for a name."""
        return f"Hello, {request.mcp.elicit('Your name?', NAME).content['name']}."

    def until_cancelled(request: Any) -> str:
        """Chats until nobody wants to hear more."""
        gate.reached.set()
        while not request.mcp.cancelled and not gate.opened.is_set():
            request.mcp.log("info", "." * 500)
        gate.cancelled = request.mcp.cancelled
        gate.left.set()
        return "stopped"

    for function in (slow, polled, count, greet, until_cancelled):
        declared.tool(function, read_only=True)
        switch_on(function.__name__)
    made = peers(token_of(users.admin))
    made.capabilities = {"elicitation": {}}
    return made


def hub_of(peer: ASGIPeer) -> Any:
    return hubs._hubs[peer.loop.loop]


def text_of(answer: Message) -> str:
    [block] = answer["result"]["content"]
    return str(block["text"])
