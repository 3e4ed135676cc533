"""The suite's ``authorization`` mode, which asks a person to log in: a script does, as a person would in a browser."""

from __future__ import annotations

import asyncio
import re

import httpx

from tests.conformance.serving import PERSON
from tests.end_to_end.logging_in import SECONDS, Browser
from tests.end_to_end.servers import Served, free_port


def arguments(server: Served) -> tuple[str, ...]:
    """What the suite is told: it is a client that has registered itself just now."""
    port = free_port()
    asked = {"client_name": "The conformance suite", "redirect_uris": [f"http://127.0.0.1:{port}/callback"]}
    answer = httpx.post(f"{server.url}/register", json=asked, timeout=SECONDS)
    assert answer.status_code == httpx.codes.CREATED, answer.text
    client_id = answer.json()["client_id"]
    return "--url", server.origin, "--resource", server.url, "--port", str(port), "--client-id", client_id


async def hear(server: Served, line: str) -> None:
    """Log in where a line that the suite writes asks for that. Raises AssertionError if nobody can."""
    asked = re.fullmatch(re.escape(server.url) + r"/authorize\?\S+", line.strip())
    if asked is not None:
        with Browser(*PERSON) as browser:
            await asyncio.to_thread(browser.connect, asked[0], "read")
