"""Tools of a served test project that tell and ask: registered where a process is started with this module."""

from __future__ import annotations

import time
from typing import Any

from mcp_django import tool

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool(read_only=True)
def greet(request: Any) -> str:
    """Asks for a name, twice."""
    first = request.mcp.elicit("Your first name?", NAME).content["name"]
    last = request.mcp.elicit(f"Your last name, {first}?", NAME).content["name"]
    return f"Hello, {first} {last}."


@tool(read_only=True)
def work(request: Any, seconds: float) -> str:
    """Works for a while, lets its client go, and stops when it is told to."""
    request.mcp.close_stream(retry_ms=100)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if request.mcp.cancelled:
            return "stopped"
        time.sleep(0.02)
    return "worked"
