"""The audit trail of real processes: no line is lost when they end, whatever ends them gently."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcp_django.audit import recorder
from mcp_django.models import Call
from tests.audit.processes import call
from tests.push.processes import ServedPeer, environment, run_python, served
from tests.support.data import token_of

pytestmark = [
    pytest.mark.more("eight processes that write at once"),
    pytest.mark.slow,
    pytest.mark.usefixtures("users", "transactional_db"),
]


@pytest.fixture(autouse=True)
def _audited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_AUDIT", "on")


@pytest.mark.every_database
def test_eight_processes_leave_as_many_rows_as_calls(users: Any) -> None:
    call(8, 200, token_of(users.ops), environment(""))

    assert Call.objects.filter(kind="call", user_name="ops", outcome="done").count() == 200
    assert not Call.objects.filter(kind="lost").exists()


@pytest.mark.parametrize("server", ["daphne", "uvicorn", "gunicorn", "uvicorn with workers", "granian with workers"])
def test_a_server_that_is_told_to_end_writes_its_last_lines(server: str, users: Any, tmp_path: Path) -> None:
    token = token_of(users.ops)

    with served(server, "", tmp_path / "log") as origin:
        peer = ServedPeer(token, origin)
        for _ in range(5):
            peer.call("describe_models")
        with suppress(httpx.TransportError):
            peer.close()

    assert Call.objects.filter(kind="call", outcome="done").count() == 5


def test_a_process_that_is_killed_has_written_what_came_before() -> None:
    """What is lost is what came within the window: nothing but time makes the thread write."""
    run_python(
        """
import os, signal, time
from mcp_django.audit.lines import line
from mcp_django.audit.recorder import recorder
from mcp_django.models import Call

if child := os.fork():
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
else:
    for number in range(3):
        recorder.put((lambda: line(1e9, kind="call", outcome="done", name="before the kill"),))
    while not Call.objects.exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    )

    assert Call.objects.filter(name="before the kill").count() == 3
    assert recorder._WINDOW_SECONDS <= 1


def test_a_command_writes_what_it_did() -> None:
    run_python(
        "from django.contrib.auth.models import User\n"
        "from mcp_django.models import AccessToken\n"
        "AccessToken.objects.create_token(user=User.objects.get(username='ops'), name='made by a command')"
    )

    assert Call.objects.filter(kind="token", token_name="made by a command", transport="server").count() == 1


def test_children_of_a_fork_write_their_own_lines() -> None:
    run_python(
        """
import multiprocessing
from django.db import connections
from mcp_django.audit.lines import line
from mcp_django.audit.recorder import recorder

def work(number):
    recorder.put((line_of, f"child_{number}"))

def line_of(name):
    return line(1e9, kind="call", outcome="done", name=name)

recorder.put((line_of, "parent"))
connections.close_all()
children = [multiprocessing.get_context("fork").Process(target=work, args=(number,)) for number in range(3)]
for child in children:
    child.start()
for child in children:
    child.join()
"""
    )

    names = Call.objects.filter(kind="call").order_by("name").values_list("name", flat=True)
    assert list(names) == ["child_0", "child_1", "child_2", "parent"]


def test_under_gevent_a_greenlet_writes() -> None:
    run_python(
        """
import gevent
from mcp_django.audit.lines import line
from mcp_django.audit.recorder import recorder
from mcp_django.models import Call

recorder.put((lambda: line(1e9, kind="call", outcome="done", name="greenlet"),))
while not Call.objects.filter(name="greenlet").exists():
    gevent.sleep(0.05)
""",
        before="from gevent import monkey; monkey.patch_all()",
    )

    assert Call.objects.filter(name="greenlet").count() == 1
