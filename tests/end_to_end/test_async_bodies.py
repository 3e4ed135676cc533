"""Asynchronous tools on real servers: what they do wrong, clients that leave, and servers that end."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.end_to_end.servers import Served, assert_no_traceback, demo, wait_for
from tests.support.peers import MODERN, meta

pytestmark = pytest.mark.more("each server; `make test` has one")

#: The tools of an app that stands in the folder of the project.
TOOLS = '''
import asyncio
from pathlib import Path
from asgiref.sync import sync_to_async
from demo_project.flights.models import Airport
from mcp_django import tool

BEGUN = Path(__file__).with_name("begun")

@tool(read_only=True)
async def hold(request) -> str:
    """Reach the database, and wait for long."""
    await Airport.objects.acount()
    BEGUN.write_text("begun")
    await asyncio.sleep(600)
    return "never"

@tool(read_only=True)
async def leave(request) -> str:
    """Start a task that ends the process."""
    async def end():
        raise SystemExit(3)
    await asyncio.create_task(end())
    return "never"

@tool(read_only=True)
async def count(request) -> str:
    """Count, in a task and beside it."""
    async def airports():
        return await Airport.objects.acount()
    found = {await airports(), await asyncio.create_task(airports()), await sync_to_async(Airport.objects.count)()}
    return str(len(found) == 1)
'''
SETTINGS = """
INSTALLED_APPS = [*INSTALLED_APPS, "attacks"]
MCP = {"REQUEST_SECONDS": 300}
"""
SYNCHRONOUS = """
MIDDLEWARE = [*MIDDLEWARE, "attacks.middleware"]
MCP["BYPASS_MIDDLEWARE"] = True
"""
ASGI = """
from django.core.asgi import get_asgi_application

application = get_asgi_application()
"""
MIDDLEWARE = """
from django.utils.decorators import sync_only_middleware

@sync_only_middleware
def middleware(get_response):
    return lambda request: get_response(request)
"""
CASES = [("uvicorn", "application"), ("daphne", "application"), ("uvicorn", "django"), ("daphne", "django")]


class Attacked:
    """A served project, its folder, and the token of a caller."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self.begun = folder / "attacks/begun"
        self.token = (folder / "token").read_text().strip()

    def message(self, name: str) -> dict[str, Any]:
        params = {"name": name, "arguments": {}, "_meta": meta()}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    def headers(self, name: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": name,
        }

    def call(self, name: str) -> dict[str, Any]:
        answer = httpx.post(self.served.url, json=self.message(name), headers=self.headers(name), timeout=60)
        result: dict[str, Any] = answer.json()["result"]
        return result

    @contextmanager
    def holding(self, transport: str) -> Iterator[None]:
        """While a client waits for a tool that has a thread; the client leaves at the end."""
        if transport == "websocket":
            headers = {"Authorization": f"Bearer {self.token}"}
            with connect(self.served.socket_url, additional_headers=headers) as opened:
                opened.send(json.dumps(self.message("hold")))
                wait_for(self.begun.exists, "the tool to begin")
                yield
            return
        body = json.dumps(self.message("hold"))
        address = "127.0.0.1", self.served.port
        headers = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**headers, **self.headers("hold")}.items())
        with socket.create_connection(address) as connection:
            connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n{body}".encode())
            wait_for(self.begun.exists, "the tool to begin")
            yield


@contextmanager
def attacked(case: tuple[str, str], data: Path, folder: Path) -> Iterator[Attacked]:
    shutil.copytree(data, folder, dirs_exist_ok=True)
    (folder / "attacks").mkdir()
    (folder / "attacks/__init__.py").write_text(MIDDLEWARE)
    (folder / "attacks/mcp.py").write_text(TOOLS)
    (folder / "attacks/asgi.py").write_text(ASGI)
    server, answers = case
    project = demo(folder, SETTINGS + (SYNCHRONOUS if answers == "django" else ""))
    if answers == "django":
        project.module = "attacks"
    with project.served(server) as served:
        yield Attacked(served, folder)


def outcomes(found: Attacked) -> list[list[str]]:
    printed = found.served.project.run(
        "import json\nfrom mcp_django.models import Call\n"
        "print(json.dumps(list(Call.objects.filter(name='hold').values_list('name', 'outcome'))))"
    )
    lines: list[list[str]] = json.loads(printed)
    return lines


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_tool_that_ends_the_process_and_a_client_that_leaves(
    case: tuple[str, str], demo_data: Path, tmp_path: Path
) -> None:
    with attacked(case, demo_data, tmp_path) as found:
        assert found.call("count")["content"][0]["text"] == "True"
        with found.holding("http"):
            assert found.call("count")["content"][0]["text"] == "True"
        wait_for(lambda: outcomes(found) == [["hold", "cancelled"]], "the line of the call that was given up")
        logged = found.served.logged
        assert found.call("leave")["isError"] is True
        assert found.call("count")["content"][0]["text"] == "True"
        # The failure of the tool is logged, and its traceback is none of the server's.
        wait_for(lambda: "tried to end the process" in found.served.logged, "the tool's error in the log")
        assert_no_traceback(logged)
        found.served.log.write_text("")


@pytest.mark.parametrize(
    ("case", "transport"),
    [
        (("uvicorn", "application"), "http"),
        (("uvicorn", "application"), "websocket"),
        (("uvicorn", "django"), "http"),
        (("daphne", "application"), "http"),
        (("daphne", "application"), "websocket"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_server_that_ends_while_a_tool_waits_writes_its_line(
    case: tuple[str, str], demo_data: Path, tmp_path: Path, transport: str
) -> None:
    with attacked(case, demo_data, tmp_path) as found:
        with found.holding(transport):
            found.served.process.terminate()
            # Uvicorn waits for answers over HTTP, as long as their clients do.
            wait_for(lambda: found.served.process.poll() is not None or "to close" in found.served.logged, "the signal")
        found.served.process.wait(60)

        assert outcomes(found) == [["hold", "cancelled"]]
