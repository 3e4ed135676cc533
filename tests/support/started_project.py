"""The smallest project with an admin. It runs a command, or answers a first call, and prints what that took as JSON.

Run by ``tests.support.started``, in any of the environments of ``bench``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

BEGUN = time.process_time()

from django.conf import settings  # noqa: E402

#: What answers calls (empty for Django alone), the apps, the file of the database, and what is run.
SERVER, APPS, DATABASE = json.loads(sys.argv[1])
COMMAND = sys.argv[2:]
IS_OURS = SERVER.startswith("mcp_django")

BODY: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "greet", "arguments": {"name": "Ada"}},
}
if SERVER == "mcp_django":
    BODY |= {"method": "tools/list", "params": {}}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}

settings.configure(
    SECRET_KEY="x" * 50,
    ROOT_URLCONF=__name__,
    ASGI_APPLICATION=f"{__name__}.application",
    ALLOWED_HOSTS=["*"],
    USE_TZ=True,
    INSTALLED_APPS=APPS,
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    AUTHENTICATION_BACKENDS=[f"{__name__}.EverybodyMayView"],
    MCP={"ANONYMOUS_SCOPES": ["read"]},
)


class EverybodyMayView:
    """Lets callers without a token see what there is."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return ".view_" in perm


urlpatterns: list[Any] = []


def add_urls() -> None:
    from django.contrib import admin
    from django.urls import include, path

    urlpatterns.append(path("admin/", admin.site.urls))
    if IS_OURS:
        urlpatterns.append(path("", include("mcp_django.urls")))
    elif SERVER == "django-mcpz":
        urlpatterns.append(path("mcp", mcpz()))


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


def declare() -> None:
    """Declare the tool of ours, as an ``mcp.py`` does."""
    from mcp_django import tool

    @tool(name="greet", read_only=True)
    def greet_somebody(request: Any, name: str) -> str:
        """Greet somebody."""
        return greet(name)


def mcpz() -> Any:
    import msgspec
    from django_mcpz.server import MCPServer, public

    class Greet(msgspec.Struct):
        name: str

    server = MCPServer(name="bench", version="1", auth=public)

    @server.tool(name="greet", description="Greet somebody.", input_schema=Greet)
    def answer(request: Any, params: Greet) -> str:
        return greet(params.name)

    return server


def asgi_application(django: Any) -> Any:
    """What answers calls, with Django behind it if it is ours."""
    if IS_OURS:
        from mcp_django.routing import get_asgi_application

        return get_asgi_application(django)
    if SERVER == "official SDK":
        from mcp.server.mcpserver import MCPServer

        server = MCPServer("bench")
        server.tool()(greet)
        return server.streamable_http_app(json_response=True, stateless_http=True)

    from fastmcp import FastMCP

    fast = FastMCP("bench")
    fast.tool(greet)
    return fast.http_app(path="/mcp", json_response=True, stateless_http=True)


def check(status: int, body: bytes) -> None:
    assert status == 200, body
    assert b'"error"' not in body, body


def call_in_thread() -> None:
    """Open a page of Django's, and call: the first requests of a WSGI process."""
    from django.core.handlers.wsgi import WSGIHandler
    from django.test import RequestFactory

    handler, factory = WSGIHandler(), RequestFactory()
    requests = [factory.get("/admin/login/")]
    if SERVER:
        requests.append(factory.post("/mcp", BODY, content_type="application/json", headers=HEADERS))
    for request in requests:
        response = handler(request.environ, lambda *args: None)
        check(response.status_code, response.content)
        response.close()


async def call_on_loop() -> None:
    """The same of an ASGI process, after the lifespan of the server has begun."""
    from django.core.handlers.asgi import ASGIHandler

    django = ASGIHandler()
    if not SERVER:
        await ask(django, "GET", "/admin/login/")
        return
    application, has_begun = asgi_application(django), asyncio.Event()
    messages = iter([{"type": "lifespan.startup"}])

    async def receive() -> Any:
        return next(messages, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        assert message["type"] == "lifespan.startup.complete", message
        has_begun.set()

    lifespan = asyncio.create_task(application({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send))
    await has_begun.wait()
    WARM.update(sys.modules)
    await ask(django, "GET", "/admin/login/")
    await ask(application, "POST", "/mcp", json.dumps(BODY).encode())
    lifespan.cancel()


async def ask(application: Any, method: str, path: str, body: bytes = b"") -> None:
    sent: list[Any] = []
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(messages, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = {
        **HEADERS,
        "Host": "127.0.0.1:8000",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": method,
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 8000),
    }  # fmt: skip
    await application(scope, receive, send)
    check(sent[0]["status"], b"".join(message.get("body", b"") for message in sent))


def run() -> None:
    import django

    if COMMAND[0] in ("asgi", "check", "warm", "wsgi"):
        django.setup()
        if SERVER == "mcp_django, a tool":
            declare()
        add_urls()
    if COMMAND == ["wsgi"]:
        call_in_thread()
    elif COMMAND == ["asgi"]:
        asyncio.run(call_on_loop())
    elif COMMAND != ["warm"]:
        from django.core.management import execute_from_command_line

        execute_from_command_line(["manage.py", *COMMAND])


WARM: set[str] = set()

if __name__ == "__main__":
    run()
    seconds = time.process_time() - BEGUN
    kilobytes = int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
    print(json.dumps([seconds, kilobytes * 1024, sorted(sys.modules), sorted(WARM)]))
