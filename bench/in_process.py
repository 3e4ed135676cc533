"""Calls to an application in this process, as a server makes them."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Any

from bench.serving.calls import Call


async def ask(application: Any, asked: Call) -> tuple[dict[str, str], bytes]:
    """The headers and the body of the answer of an ASGI application."""
    headers = [
        (name.lower().encode(), value.encode()) for name, value in {**asked.headers, "Host": "localhost"}.items()
    ]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "path": "/mcp",
        "raw_path": b"/mcp", "query_string": b"", "root_path": "", "scheme": "http", "headers": headers,
        "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 8_000),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []
    unread = [asked.body]

    async def receive() -> dict[str, Any]:
        if not unread:
            # The client stays.
            await asyncio.Event().wait()
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    async def send(event: Any) -> None:
        sent.append(event)

    await application(scope, receive, send)
    received = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return received, b"".join(event["body"] for event in sent[1:])


def ask_wsgi(application: Any, asked: Call, path: str = "/mcp") -> bytes:
    """The body of the answer of a WSGI application."""
    headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in asked.headers.items()}
    environ = {
        "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": "",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": asked.headers.get("Content-Type", "application/json"), "CONTENT_LENGTH": str(len(asked.body)),
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": BytesIO(asked.body),
        "wsgi.errors": BytesIO(), "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False,
        **headers,
    }  # fmt: skip
    response = application(environ, lambda status, headers: None)
    body = b"".join(response)
    response.close()
    return body
