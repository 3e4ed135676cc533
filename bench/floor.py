"""What an ASGI server takes by itself: an application that does nothing but answer."""

from __future__ import annotations

from mcp_django.core.types import Receive, Scope, Send

_BODY = b'{"jsonrpc":"2.0","id":1,"result":{}}'
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())]


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": _BODY})
