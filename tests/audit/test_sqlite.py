"""The thread of the trail beside a project on SQLite, as Django sets it up by default: it makes no transaction fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.push.processes import run_python

pytestmark = [pytest.mark.slow]

#: A database of its own, with the options that ``startproject`` leaves out, and the table of the trail.
_BEFORE = """
import os
os.environ |= {{"TEST_DATABASE": "sqlite", "TEST_DATABASE_NAME": {name!r}, "TEST_AUDIT": "on"}}
from django.conf import settings
settings.DATABASES["default"].pop("OPTIONS")
"""
_TABLE = """
import threading
from django.db import OperationalError, connection, transaction
from mcp_django.audit import table
from mcp_django.audit.lines import line
from mcp_django.audit.recorder import Recorder
from mcp_django.models import Call

with connection.schema_editor() as editor:
    editor.create_model(Call)

recorder = Recorder()
recorder._start = lambda: None

def call(name):
    recorder.put((lambda: line(1e9, kind="call", outcome="done", name=name),))

def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]

def names():
    return list(Call.objects.order_by("pk").values_list("name", flat=True))
"""


def run(tmp_path: Path, code: str) -> str:
    return run_python(_TABLE + code, before=_BEFORE.format(name=str(tmp_path / "plain.sqlite3")))


def test_a_transaction_that_has_read_and_then_writes_goes_on(tmp_path: Path) -> None:
    written = run(
        tmp_path,
        """
call("of an agent")
thread = threading.Thread(target=lambda: recorder._flush(gives_way=True))
with transaction.atomic():
    before = names()
    thread.start()
    thread.join(2)  # It is over at once, or it waits for the end of this transaction with a lock of its own.
    Call.objects.create(at="2026-11-23T00:00Z", kind="call", outcome="done", name="of the project")
thread.join()
recorder.flush()
print(before, sorted(names()))
""",
    )

    assert written == "[] ['of an agent', 'of the project']"


def test_giving_way_is_no_outage_and_has_an_end(tmp_path: Path) -> None:
    written = run(
        tmp_path,
        """
call("of an agent")
with transaction.atomic():
    names()
    for _ in range(3):
        in_thread(lambda: recorder._flush(gives_way=True))
    state = recorder._given_way, recorder._retry_at, len(recorder._kept)
print(*state, recorder.flush(), recorder._given_way, names())
""",
    )

    assert written == "3 0.0 1 True 0 ['of an agent']"
