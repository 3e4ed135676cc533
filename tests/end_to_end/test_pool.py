"""R2, R7: with psycopg's pool, streams hold no connection, and calls wait for one of the few that there are."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.conftest import is_listening, need
from tests.end_to_end.servers import Project, demo, postgresql_database, wait_for
from tests.support.peers import MODERN, Message, meta

pytestmark = pytest.mark.more("servers with a pool of connections")

CONNECTIONS = 4
LISTENS = 200
CALLS = 60
POOLED = f"""
DATABASES["default"]["OPTIONS"] = {{"pool": {{"min_size": 1, "max_size": {CONNECTIONS}, "timeout": 60}}}}
MCP = {{"QUEUE": 1000, "QUEUE_PER_PRINCIPAL": 1000, "REQUEST_SECONDS": 120, "KEEPALIVE_SECONDS": 3600}}
"""
#: Makes our application leave the endpoint to Django, and asks the database in the thread of each request, before its
#: answer and after.
MIDDLEWARE = """
from django.contrib.auth.models import User

def asking(get_response):
    def handle(request):
        User.objects.exists()
        response = get_response(request)
        User.objects.exists()
        return response
    return handle
"""
#: The flight that is watched, and changed, in each case.
FLIGHTS = {"application": 1, "django": 6}
FOUND = 2


@dataclass
class Pooled:
    """A demo whose connections come from a pool, on a database with a few flights."""

    project: Project
    token: str
    flight: int

    @property
    def watched(self) -> str:
        return f"db://flights/flight/{self.flight}"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """DATABASES of a demo with a few flights, and a token of its administrator."""
    need(is_listening(5432), "PostgreSQL on port 5432")
    with postgresql_database() as settings:
        project = demo(tmp_path_factory.mktemp("pool"), settings)
        project.manage("migrate")
        made = project.run(
            "from tests.support.data import *\n"
            "make_flights()\n"
            "Flight.objects.update(status='on_time')\n"
            "print(token_of(make_users().admin))"
        )
        yield settings, made.split()[-1]


@pytest.fixture(params=["application", "django"])
def pooled(request: pytest.FixtureRequest, database: tuple[str, str], tmp_path: Path) -> Pooled:
    (tmp_path / "asking.py").write_text(MIDDLEWARE)
    names = '"asking.asking", "tests.support.through_django.middleware"'
    more = f"MIDDLEWARE = [*MIDDLEWARE, {names}]" if request.param == "django" else ""
    settings, token = database
    return Pooled(demo(tmp_path, f"{settings}\n{POOLED}\n{more}"), token, FLIGHTS[request.param])


class Counted:
    """The most connections that the database has had at once while this ran."""

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count)

    def __enter__(self) -> Counted:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _count(self) -> None:
        with looking() as states:
            while not self._ended.wait(0.02):
                self.most = max(self.most, len(states()))


@contextmanager
def looking() -> Iterator[Callable[[], list[str]]]:
    """Tells what each connection of the server is doing."""
    user, name = os.environ.get("PGUSER", "postgres"), f"mcp_django_end_to_end_{os.getpid()}"
    asked = "SELECT state FROM pg_stat_activity WHERE datname = %s"
    with psycopg.connect(host="127.0.0.1", user=user, dbname="postgres", autocommit=True) as connection:
        yield lambda: [state for (state,) in connection.execute(asked, [name])]


def message(method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta()}}


def headers(token: str, method: str, **more: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **more,
    }


async def use(url: str, pooled: Pooled) -> tuple[list[Any], list[str]]:
    """Open listens, call tools while they are open, and change what they watch. No listen may hold a transaction.

    Returns what the calls were answered, and what was told.
    """
    async with httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=None)) as client:
        # From its first answer on, the server knows the token: its calls do not share the queue of all addresses.
        await find(client, url, pooled)
        listens = await asyncio.gather(*(listen(client, url, pooled) for _ in range(LISTENS)))
        with looking() as states:
            # The sweep and the trail have transactions of their own, which end. One that a listen holds does not.
            wait_for(lambda: "idle in transaction" not in states(), "connections without a transaction")
        found = await asyncio.gather(*(find(client, url, pooled) for _ in range(CALLS)))
        await call(client, url, pooled, "flights_flight_mark_cancelled", {"ids": [str(pooled.flight)]})
        told = [await anext(messages) for _, messages in listens]
        for response, messages in listens:
            await messages.aclose()
            await response.aclose()
    return found, [said["params"]["uri"] for said in told]


async def listen(client: httpx.AsyncClient, url: str, pooled: Pooled) -> tuple[httpx.Response, Any]:
    body = message("subscriptions/listen", {"notifications": {"resourceSubscriptions": [pooled.watched]}})
    sent = client.build_request("POST", url, json=body, headers=headers(pooled.token, "subscriptions/listen"))
    response = await client.send(sent, stream=True)
    assert response.status_code == 200, await response.aread()
    messages = messages_of(response)
    assert (await anext(messages))["method"] == "notifications/subscriptions/acknowledged"
    return response, messages


async def messages_of(response: httpx.Response) -> AsyncIterator[Message]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def call(client: httpx.AsyncClient, url: str, pooled: Pooled, name: str, arguments: Message) -> Message:
    body = message("tools/call", {"name": name, "arguments": arguments})
    sent = headers(pooled.token, "tools/call", **{"Mcp-Name": name})
    answer = await client.post(url, json=body, headers=sent)
    result: Message = answer.json()["result"]
    assert not result["isError"], result
    return result


async def find(client: httpx.AsyncClient, url: str, pooled: Pooled) -> Any:
    arguments = {"model": "flights.flight", "filter": {"id": FOUND}, "fields": ["number"]}
    result = await call(client, url, pooled, "find_records", arguments)
    return json.loads(result["content"][0]["text"])["rows"]


def test_connections_are_as_many_as_the_pool_has_however_many_listen_and_call(pooled: Pooled) -> None:
    with pooled.project.served("uvicorn") as served, Counted() as counted:
        found, told = asyncio.run(use(served.url, pooled))

    assert found == [[[FOUND, 1001]]] * CALLS
    assert told == [pooled.watched] * LISTENS
    assert 0 < counted.most <= CONNECTIONS
