"""The demo in other surroundings: other servers, PostgreSQL, Redis between processes, and short pages of lists."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import is_listening, need
from tests.end_to_end.conftest import ROWS
from tests.end_to_end.servers import Project, Served, demo, postgresql_database
from tests.support.peers import MODERN, meta

pytestmark = pytest.mark.more("each server; `make test` has one")

WATCHED = "db://flights/airline/UA"
SAVE = "from demo_project.flights.models import Airline; Airline.objects.get(pk='UA').save()"


@pytest.fixture
def copy_of_demo(demo_data: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.copytree(demo_data, folder)
    return folder


@pytest.fixture
def listening() -> Iterator[Callable[[Served, str], Iterator[Any]]]:
    """``listening(served, token)``: the notifications of a listen on ``WATCHED``, the acknowledgement first."""
    client = httpx.Client(timeout=60)

    def listen(served: Served, token: str) -> Iterator[Any]:
        params = {"notifications": {"resourceSubscriptions": [WATCHED]}, "_meta": meta()}
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "subscriptions/listen",
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        with client.stream("POST", served.url, json=body, headers=headers) as response:
            assert response.status_code == 200, response.read()
            for line in response.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    yield listen
    client.close()


def token_in(folder: Path) -> str:
    return (folder / "token").read_text().strip()


def test_the_demo_answers_under_gunicorn_too(copy_of_demo: Path) -> None:
    with demo(copy_of_demo).served("gunicorn") as served:
        tools = served.tools(token_in(copy_of_demo))

    assert "find_records" in tools


def test_a_save_in_another_process_is_pushed_through_redis(copy_of_demo: Path, listening: Callable[..., Any]) -> None:
    need(is_listening(6379), "Redis on port 6379")
    project = demo(copy_of_demo, REDIS_URL="redis://127.0.0.1:6379")

    with project.served() as served:
        messages = listening(served, token_in(copy_of_demo))
        next(messages)
        project.run(SAVE)
        told = next(messages)
        messages.close()

    assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", WATCHED)


def test_a_list_longer_than_a_page_is_read_to_its_end_by_its_cursors(copy_of_demo: Path) -> None:
    token = token_in(copy_of_demo)

    with demo(copy_of_demo, 'MCP = {"LIST_PAGE": 10}').served() as served:
        first = served.ask(token, "tools/list").json()["result"]
        second = served.ask(token, "tools/list", {"cursor": first["nextCursor"]}).json()["result"]

    names = [tool["name"] for page in (first, second) for tool in page["tools"]]
    assert (len(first["tools"]), len(second["tools"])) == (10, 6)
    assert names == sorted(set(names))
    assert names[:2] + names[-2:] == ["aggregate_records", "create_record", "update_record", "update_records"]
    assert "nextCursor" not in second


@pytest.fixture
def on_postgresql(tmp_path: Path) -> Iterator[Project]:
    need(is_listening(5432), "PostgreSQL on port 5432")
    with postgresql_database() as settings:
        yield demo(tmp_path, settings)


def test_the_demo_runs_on_postgresql(on_postgresql: Project, tmp_path: Path) -> None:
    on_postgresql.manage("demo", "--no-serve", "--rows", ROWS)
    arguments = {"model": "flights.flight", "filter": {"origin": "JFK"}, "order_by": ["-departs_at"], "limit": 100}

    with on_postgresql.served() as served:
        params = {"name": "find_records", "arguments": arguments}
        result = served.ask(token_in(tmp_path), "tools/call", params).json()["result"]

    page = json.loads(result["content"][0]["text"])
    departures = [row[page["columns"].index("departs_at")] for row in page["rows"]]
    assert len(departures) == 95
    assert departures == sorted(departures, reverse=True)
    assert not (tmp_path / "db.sqlite3").exists()


def test_the_environment_of_the_tests_does_not_reach_a_served_project(copy_of_demo: Path) -> None:
    assert os.environ["DJANGO_SETTINGS_MODULE"] == "tests.settings"

    inherited = demo(copy_of_demo).environment

    assert "DJANGO_SETTINGS_MODULE" not in inherited
    assert inherited["DEMO_DIR"] == str(copy_of_demo)
