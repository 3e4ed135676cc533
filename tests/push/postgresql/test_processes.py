"""Processes that die, and processes that are short."""

from __future__ import annotations

import signal
from importlib.util import find_spec

import pytest
from django.db import connection

from tests.conftest import need
from tests.end_to_end.servers import wait_for
from tests.push.channels import (
    Channel,
    wrote,
)
from tests.push.postgresql.conftest import _in_transactions
from tests.push.processes import POSTGRESQL, ROOT, environment, run_python
from tests.shop.models import Tag
from tests.support import forkserver

pytestmark = [
    pytest.mark.every_database,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="the bus of PostgreSQL: TEST_DATABASE=postgresql"),
    pytest.mark.django_db(transaction=True),
]


DIES = """
import os
from django.db import connection, transaction
with transaction.atomic():
    Tag.objects.create(name={name!r})
    {before}
{after}
"""


KILLED = "os.kill(os.getpid(), 9)"


def run_to_death(code: str) -> None:
    setup = "import django; django.setup(); from tests.shop.models import *\n"
    done = forkserver.run(["-c", setup + code], cwd=ROOT, env=environment("", POSTGRESQL))
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("before", "after"), [("", KILLED), (f"transaction.on_commit(lambda: {KILLED})", "")], ids=["after", "on_commit"]
)
def test_a_process_that_is_killed_right_after_its_commit_was_heard(channel: Channel, before: str, after: str) -> None:
    run_to_death(DIES.format(name="a", before=before, after=after))

    assert channel.events() == [wrote("shop.tag", "a")]


def test_a_process_that_is_killed_right_before_its_commit_is_not_heard(channel: Channel) -> None:
    run_to_death(DIES.format(name="a", before=KILLED, after=""))
    wait_for(lambda: not _in_transactions(), "the end of the dead process's transaction", 60)

    assert channel.events() == []
    assert Tag.objects.count() == 0


def test_a_short_command_is_heard_and_its_transactions_start_no_thread(channel: Channel) -> None:
    code = """
from django.db import transaction
with transaction.atomic():
    Tag.objects.create(name='a')
import threading; print([t.name for t in threading.enumerate()])
Tag.objects.create(name='b')
"""
    assert run_python(code, layer=POSTGRESQL) == "['MainThread']"
    assert channel.events() == [wrote("shop.tag", "a"), wrote("shop.tag", "b")]


def test_a_pool_of_one_connection_is_left_to_the_project(channel: Channel) -> None:
    before = """
from tests import settings
settings.DATABASES['default']['OPTIONS'] = {'pool': {'min_size': 1, 'max_size': 1, 'timeout': 60}}
"""
    code = """
import asyncio, threading
from django.db import connection, transaction
from mcp_django.core.events.bus import get_bus
joined, heard = threading.Event(), threading.Event()
async def listen():
    async for event in get_bus().subscribe(joined.set):
        heard.set()
threading.Thread(target=asyncio.run, args=(listen(),), daemon=True).start()
assert joined.wait(60)
with transaction.atomic():
    Tag.objects.create(name='a')
    assert connection.pool.get_stats()['pool_available'] == 0
    Tag.objects.create(name='b')
assert heard.wait(60)
Tag.objects.create(name='c')
assert mcp_django.flush(60)
connection.close()
connection.close_pool()
"""
    run_python(code, layer=POSTGRESQL, before=before)

    assert channel.events() == [wrote("shop.tag", "a", "b"), wrote("shop.tag", "c")]


def test_the_child_of_a_fork_is_heard(channel: Channel) -> None:
    code = """
import os
from django.db import connections, transaction
def save(name):
    Tag.objects.create(name=name)
    with transaction.atomic():
        Tag.objects.create(name=name + ' in a transaction')
save('parent')
mcp_django.flush()
connections.close_all()
child = os.fork()
save('child' if child == 0 else 'parent again')
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    run_python(code, layer=POSTGRESQL)

    names = ["parent", "child", "parent again"]
    told = sorted(key for event in channel.events() for key in event["changes"][0]["written"])
    assert told == sorted([*names, *(f"{name} in a transaction" for name in names)])


def test_a_gevent_worker_is_heard(channel: Channel) -> None:
    need(find_spec("gevent") is not None, "gevent")
    code = """
import gevent
from django.db import connection, transaction
def save(name):
    Tag.objects.create(name=name)
    with transaction.atomic():
        Tag.objects.create(name=name * 2)
    connection.close()
gevent.joinall([gevent.spawn(save, name) for name in 'ab'], raise_error=True)
assert mcp_django.flush()
"""
    run_python(code, layer=POSTGRESQL, before="from gevent import monkey; monkey.patch_all()")

    told = sorted(key for event in channel.events() for key in event["changes"][0]["written"])
    assert told == ["a", "aa", "b", "bb"]
