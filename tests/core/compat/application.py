"""An ASGI application that reports the transport below its ``send``. ``test_servers`` serves it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp_django.core.compat.servers import (
    bears_end_by_system,
    ends_of_hypercorn,
    is_twisted,
    transport_below,
    twisted_reactor,
    unsent_by_twisted,
)

_PIECE = b"x" * 1_000_000

#: The report of a request that its client never reads.
_stuck: dict[str, Any] = {}


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.send", "text": json.dumps(_look(send))})
        await send({"type": "websocket.close"})
    elif scope["path"] == "/fill":
        await _fill(send)
    elif scope["path"] == "/stuck":
        await _answer(send, _stuck)
    else:
        await _answer(send, _look(send))


async def _lifespan(receive: Any, send: Any) -> None:
    for _ in range(2):
        message = await receive()
        await send({"type": f"{message['type']}.complete"})


def _look(send: Any) -> dict[str, Any]:
    transport = transport_below(send)
    ends = list(ends_of_hypercorn(asyncio.get_running_loop()))
    return {
        "transport": transport is not None,
        "peer": _peer(transport),
        "is_twisted": is_twisted(transport),
        "bears": bears_end_by_system(send),
        "ends": [type(end.is_set()).__name__ + type(end.wait()).__name__ for end in ends],
        "reactor": twisted_reactor() is not None and twisted_reactor().running,
    }


def _peer(transport: Any) -> int | None:
    """The port of the client, if it is the transport of this connection."""
    if transport is None:
        return None
    if is_twisted(transport):
        return int(transport.getPeer().port)
    return int(transport.get_extra_info("peername")[1])


async def _fill(send: Any) -> None:
    """Write to a client that does not read, and end its connection when a part of it waits in this process."""
    transport = transport_below(send)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    writing = asyncio.ensure_future(_write(send))
    for _ in range(6_000):
        await asyncio.sleep(0.01)
        waiting = unsent_by_twisted(transport) if is_twisted(transport) else transport.get_write_buffer_size()
        if waiting > len(_PIECE):
            break
    _stuck["waiting"] = waiting
    (transport.abortConnection if is_twisted(transport) else transport.abort)()
    writing.cancel()
    await asyncio.wait({writing})


async def _write(send: Any) -> None:
    for _ in range(20):
        await send({"type": "http.response.body", "body": _PIECE, "more_body": True})


async def _answer(send: Any, said: dict[str, Any]) -> None:
    body = json.dumps(said).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
