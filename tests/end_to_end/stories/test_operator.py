"""An operator, at a terminal: switches move as files, ends are told before they come, and agents can be stopped."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import is_listening, need
from tests.end_to_end.projects import serve_endpoint, start_project
from tests.end_to_end.servers import Person, Served, demo, postgresql_database, wait_for
from tests.end_to_end.stories.store import refused, set_up, write_store
from tests.support.loop import LoopThread

pytestmark = pytest.mark.more("the story of an operator")

FLIGHT = "flights.flight"
READ_ONLY = 'MCP = {**MCP, "READ_ONLY": True}\n'
MAILS = 'EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"\nEMAIL_FILE_PATH = DEMO_DIR / "mails"\n'
#: The user of an agent agrees to each change of one record.
ASKING = """
from mcp_django.models import Tool
Tool.objects.update_or_create(site="mcp", name="update_record", defaults={"enabled": True, "asks": "ask"})
"""
#: A token of ops that is used, and ends in three days.
ENDING = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from mcp_django.models import AccessToken
now = timezone.now()
ops = User.objects.get(username="ops")
User.objects.filter(pk=ops.pk).update(email="ops@example.com")
token, _ = AccessToken.objects.create_token(user=ops, name="nightly", expires_at=now + timedelta(days=3))
AccessToken.objects.filter(pk=token.pk).update(created_at=now - timedelta(days=60), last_used_at=now)
"""


@pytest.fixture
def folder(demo_data: Path, tmp_path: Path) -> Path:
    shutil.copytree(demo_data, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_what_people_decided_on_a_test_site_moves_to_the_real_one_as_a_file(folder: Path) -> None:
    project, file = demo(folder), folder / "tools.json"
    decided = ("update_record", "flights_flight_mark_cancelled")
    project.manage("mcp_tools", "--on", *decided)
    project.manage("mcp_tools", "--export", str(file))
    project.manage("mcp_tools", "--off", *decided)

    told = refused(project, "mcp_tools", "--import", str(file), "--check")
    printed = project.manage("mcp_tools", "--import", str(file))
    project.manage("mcp_tools", "--import", str(file), "--check")

    for name in decided:
        assert f"{name} enabled: true, was false" in told and name in printed
    lines = [json.loads(line) for line in project.manage("mcp_audit", "--kind", "switch", "--json").splitlines()]
    assert {line["name"] for line in lines} >= {*decided}


def test_the_user_of_a_token_is_written_to_once_before_it_ends(folder: Path) -> None:
    project = demo(folder, MAILS)
    project.run(ENDING)

    said = [project.manage("mcp_due") for _ in range(2)]

    [mail] = (folder / "mails").iterdir()
    message: Any = message_from_bytes(mail.read_bytes(), policy=policy.default)
    assert "nightly" in message["Subject"] + message.get_content() and message["To"] == "ops@example.com"
    assert said[0] != said[1]


def test_while_the_server_is_read_only_nothing_changes_by_an_agent_a_click_or_cron(folder: Path) -> None:
    project = demo(folder)
    project.run(ASKING)
    with project.served() as served:
        token = served.token("admin", "read", "write")
        change = {"model": FLIGHT, "id": "1", "values": {"notes": "fog"}}
        confirm = found_in(r'"?confirm"?:\s*"([^"]+)"', call(served, token, "update_record", **change))
        waits = found_in(r"mcp-change://(\w+)", call(served, token, "update_record", **change, confirm=confirm))

    read_only = demo(folder, READ_ONLY)
    with read_only.served() as served:
        names = served.tools(token)
        again = call(served, token, "update_record", **change, confirm=confirm)
        told = click(served, waits)
        due = read_only.manage("mcp_due")
    kept = project.run(_NOTES)
    with project.served() as served:
        click(served, waits)

    assert "find_records" in names and not {"update_record", "create_record", "delete_record"} & {*names}
    assert "update_record" in again and "fog" not in kept and "failed" not in due
    assert "Agents change nothing on this server" in told and "fog" in project.run(_NOTES)


_NOTES = "from demo_project.flights.models import Flight; print(Flight.objects.get(pk=1).notes)"


def click(served: Served, change: str) -> str:
    """Send *Make this change* as its page would, and return what the page says then."""
    person = Person(served, "admin", "admin")
    path = f"/admin/mcp_django/change/{change}/change/"
    page = person.client.get(path).text
    fields = {name: found_in(f'name="{name}" value="([^"]*)"', page) for name in ("csrfmiddlewaretoken", "digest")}
    answer = person.client.post(found_in('formaction="([^"]+)"', page), data={**fields, "_apply": "1"})
    person.close()
    return answer.text


def found_in(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]


def call(served: Served, token: str, name: str, **arguments: Any) -> str:
    """What an agent reads."""
    answer = served.ask(token, "tools/call", {"name": name, "arguments": arguments}).json()
    return str(answer["result"]["content"][0]["text"] if "result" in answer else answer["error"]["message"])


# The database goes away.


class Door:
    """A way to PostgreSQL that can be shut."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        self._carried: set[asyncio.StreamWriter] = set()
        self._server = loop.run(asyncio.start_server(self._carry, "127.0.0.1", 0))
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, to_behind = await asyncio.open_connection("127.0.0.1", 5432)
        self._carried |= {writer, to_behind}
        await asyncio.gather(self._pump(reader, to_behind), self._pump(behind, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while part := await reader.read(65_536):
                writer.write(part)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    def shut(self) -> None:
        """As if the server had lost its power: what is open breaks, and nobody gets in."""
        self._loop.run(self._shut())

    async def _shut(self) -> None:
        self._server.close()
        for writer in self._carried:
            writer.transport.abort()
        self._carried.clear()

    def open(self) -> None:
        self._server = self._loop.run(asyncio.start_server(self._carry, "127.0.0.1", self.port))


@pytest.fixture
def door() -> Iterator[Door]:
    need(is_listening(5432), "PostgreSQL on 127.0.0.1:5432")
    loop = LoopThread()
    door = Door(loop)
    yield door
    door.shut()
    loop.close()


@pytest.mark.parametrize("server", ["uvicorn", "gunicorn"])
def test_without_its_database_the_server_lets_nobody_in_and_a_pause_that_came_meanwhile_holds(
    door: Door, tmp_path: Path, server: str
) -> None:
    project = write_store(start_project(tmp_path))
    serve_endpoint(project)
    settings = tmp_path / "project/settings.py"
    with postgresql_database() as databases:
        [name] = re.findall(r"'NAME': '(\w+)'", databases)
        through = databases.replace("'HOST'", f"'PORT': {door.port}, 'HOST'")
        settings.write_text(f"{settings.read_text()}\n{through}\nMCP = {{'TOKEN_CACHE_SECONDS': 3600}}\n")
        set_up(project)
        with project.served(server, may_fail=True) as served:
            token = served.token("admin", "read")
            before = orders(served, token)
            door.shut()
            # What a process has read of pauses, it trusts for a second.
            wait_for(lambda: orders(served, token).startswith("Internal error"), "the refusal")
            pause(name)
            door.open()
            back = wait_for(lambda: paused(served, token), "the pause")

    assert "A1" in before
    assert "All agents are paused: An incident." in back


def paused(served: Served, token: str) -> str:
    """What an agent reads that is paused; empty while it is not."""
    text = orders(served, token)
    return text if "paused" in text else ""


def orders(served: Served, token: str) -> str:
    return call(served, token, "find_records", model="store.order")


def pause(database: str) -> None:
    """Pause all agents, past the door."""
    with psycopg.connect(host="127.0.0.1", user="postgres", dbname=database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO mcp_django_restriction (site, kind, name, reason, at, by) "
            "VALUES ('', 'all', '', 'An incident', now(), 'root')"
        )
