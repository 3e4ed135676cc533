"""How long asynchronous tools of one second take, 1,000 and 5,000 at a time, in one process with its limits raised.

.venv/bin/python -m bench.async_tools [--calls N ...] [--rounds N] [--freeze] [--check]

The calls go to the ASGI application itself, all at once, without a server and without sockets: this is what we add to
the second that each tool waits. The load is in the same process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

#: Seconds that the last answer may take, by the number of calls.
_GOALS = {1_000: 1.5, 5_000: 2.5}
_PARAMS = {
    "name": "wait_a_second",
    "arguments": {},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    },
}
_BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _PARAMS}).encode()
_LIMIT = 1_000_000
_MCP = {
    "AUDIT": "on",
    "MAX_ASYNC": _LIMIT,
    "QUEUE": _LIMIT,
    "QUEUE_PER_PRINCIPAL": _LIMIT,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.async_tools", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, nargs="+", default=list(_GOALS), help="how many calls (1000 5000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often; the least is printed (3)")
    parser.add_argument("--freeze", action="store_true", help="gc.freeze() what is there before the calls")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "bench.settings", "DEMO_DIR": folder}
        missed = [
            calls
            for calls in options.calls
            if _measure(calls, options.rounds, freeze=options.freeze) > _GOALS.get(calls, 60.0)
        ]
    return 1 if options.check and missed else 0


def _measure(calls: int, rounds: int, *, freeze: bool) -> float:
    """Print the figures of so many calls at a time, and return the seconds until the last answer, of the best round."""
    import django

    django.setup()

    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import override_settings

    from mcp_django.core.running.workers import close_workers
    from mcp_django.models import AccessToken

    settings.ALLOWED_HOSTS = ["*"]
    with override_settings(MCP=_MCP):
        call_command("migrate", verbosity=0)
        _declare()
        user, _ = User.objects.get_or_create(username="caller")
        _, token = AccessToken.objects.create_token(user=user)
        found = [asyncio.run(_calls(calls, token, freeze=freeze)) for _ in range(rounds)]
        close_workers()
    seconds, processor, threads = min(found)
    print(
        f"{calls:,} tools of one second: the last answer after {seconds:.2f} s (goal {_GOALS.get(calls, 60.0):.1f}), "
        f"{processor / calls * 1e6:.0f} µs of the processor for each, {threads} threads."
    )
    return seconds


def _declare() -> None:
    from mcp_django import site, tool

    if "wait_a_second" in site.tools:
        return

    @tool(read_only=True)
    async def wait_a_second(request: Any) -> str:
        """Wait for a second."""
        await asyncio.sleep(1)
        return "done"


async def _calls(number: int, token: str, *, freeze: bool) -> tuple[float, float, int]:
    """Seconds until the last answer, seconds of the processor, and the most threads of the process."""
    from mcp_django.routing import get_asgi_application

    application = get_asgi_application(None)
    # The first call loads what the others find.
    await _call(application, token)
    if freeze:
        gc.collect()
        gc.freeze()
    begun, processor, threads = time.perf_counter(), time.process_time(), [0]

    async def look() -> None:
        while True:
            threads[0] = max(threads[0], threading.active_count())
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look())
    answers = await asyncio.gather(*(_call(application, token) for _ in range(number)))
    seconds, processor = time.perf_counter() - begun, time.process_time() - processor
    looking.cancel()
    failed = [answer for answer in answers if b'"done"' not in answer]
    if failed:
        raise RuntimeError(f"{len(failed)} calls failed: {failed[0].decode()}")
    return seconds, processor, threads[0]


async def _call(application: Any, token: str) -> bytes:
    headers = {
        "host": "localhost",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {token}",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "wait_a_second",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "scheme": "http",
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": _BODY, "more_body": False})
    answer = b""

    async def send(message: dict[str, Any]) -> None:
        nonlocal answer
        answer += message.get("body", b"")

    await application(scope, inbox.get, send)
    return answer


if __name__ == "__main__":
    sys.exit(main())
