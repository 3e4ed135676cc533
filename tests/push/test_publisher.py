"""The publisher, in processes as a project has them: each saves, and the bus brings what it told."""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import is_listening, need
from tests.push.processes import CORE, PUBSUB, ROOT, Tape, environment, new_prefix, run_python
from tests.shop.models import Tag
from tests.support.loop import LoopThread

pytestmark = pytest.mark.usefixtures("transactional_db")

THREADS = "import threading; print(sorted(t.name for t in threading.enumerate()))"


@pytest.fixture
def layer() -> str:
    return PUBSUB


@pytest.fixture
def tape(layer: str, serving_loop: LoopThread) -> Iterator[Tape]:
    """What is told under a new prefix."""
    need(is_listening(6379), "Redis on 127.0.0.1:6379")
    tape = Tape(new_prefix(), layer, serving_loop)
    yield tape
    tape.close()


def tags(*names: str) -> list[dict[str, Any]]:
    return [{"alias": "default", "label": "shop.tag", "written": list(names), "deleted": []}]


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["number"] for event in events]


# Threads.


def test_saving_with_the_bus_of_one_process_starts_no_thread() -> None:
    code = f"Tag.objects.create(name='a').delete(); assert mcp_django.flush()\n{THREADS}"

    assert run_python(code) == "['MainThread']"


def test_one_thread_sends_whatever_is_saved_and_none_is_started_before_the_first_event(tape: Tape) -> None:
    first = f"Unwatched.objects.create(name='a')\n{THREADS}"
    then = f"[Tag.objects.create(name=str(n)) for n in range(5)]\n{THREADS}"

    assert run_python(f"{first}\n{then}", tape.prefix).splitlines() == [
        "['MainThread']",
        "['MainThread', 'mcp_django publisher']",
    ]


# Processes that end.


@pytest.mark.parametrize("layer", [PUBSUB, CORE])
def test_a_command_that_saves_and_exits_at_once_is_heard(tape: Tape, layer: str) -> None:
    run_python("Tag.objects.create(name='a')", tape.prefix, layer=layer)

    event = tape.next()
    assert event == {**event, "number": 1, "changes": tags("a")}
    assert set(event) == {"publisher", "started", "number", "changes"}


def test_a_rolled_back_command_is_not_heard(tape: Tape) -> None:
    code = """
from django.db import transaction
with transaction.atomic():
    Tag.objects.create(name='lost')
    transaction.set_rollback(True)
Tag.objects.create(name='kept')
"""
    run_python(code, tape.prefix)

    event = tape.next()
    assert (event["number"], event["changes"]) == (1, tags("kept"))


def test_the_child_of_a_fork_tells_as_a_publisher_of_its_own(tape: Tape) -> None:
    code = """
import os
from django.db import connections
Tag.objects.create(name='parent')
mcp_django.flush()
connections.close_all()
child = os.fork()
Tag.objects.create(name='child' if child == 0 else 'parent again')
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    run_python(code, tape.prefix)

    events = tape.tags("parent", "child", "parent again")
    by_publisher: dict[str, list[int]] = {}
    for event in events:
        by_publisher.setdefault(event["publisher"], []).append(event["number"])
    assert sorted(by_publisher.values()) == [[1], [1, 2]]


def test_the_child_of_a_fork_tells_its_own_hubs_where_there_is_no_broker() -> None:
    code = """
import os
from django.db import connections
from mcp_django.push.bus import get_bus
class Hub:
    def __init__(self, name): self.name = name
    def receive(self, changes, controls): print(self.name, flush=True)
of_parent = Hub("of the parent")
get_bus().join(of_parent)
connections.close_all()
child = os.fork()
if child == 0:
    of_child = Hub("of the child")
    get_bus().join(of_child)
    Tag.objects.create(name="child")
else:
    assert os.waitpid(child, 0)[1] == 0
"""
    assert run_python(code) == "of the child"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_of_multiprocessing_is_heard(tape: Tape, method: str) -> None:
    code = f"""
import multiprocessing
from django.db import connections
from tests.push.child import save_tag
Tag.objects.create(name='parent')
connections.close_all()
child = multiprocessing.get_context({method!r}).Process(target=save_tag, args=('child',))
child.start()
child.join()
assert child.exitcode == 0
"""
    run_python(code, tape.prefix)

    events = tape.tags("parent", "child")
    assert numbers(events) == [1, 1]
    assert len({event["publisher"] for event in events}) == 2


# Ways to run.


def test_what_threads_save_is_heard_without_a_gap(tape: Tape) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
from django.db import connection
def save(number):
    Tag.objects.create(name=str(number))
    connection.close()
with ThreadPoolExecutor(5) as pool:
    list(pool.map(save, range(50)))
"""
    run_python(code, tape.prefix)

    events = tape.tags(*(str(number) for number in range(50)))
    assert numbers(events) == list(range(1, len(events) + 1))


def test_saves_in_quick_succession_are_told_together(tape: Tape) -> None:
    run_python("[Tag.objects.create(name=str(n)) for n in range(200)]", tape.prefix)

    events = tape.tags(*(str(number) for number in range(200)))
    assert numbers(events) == list(range(1, len(events) + 1))
    assert len(events) < 100


def test_async_code_is_heard(tape: Tape) -> None:
    code = """
import asyncio
from asgiref.sync import sync_to_async
async def main():
    await sync_to_async(Tag.objects.create)(name='a')
    await Tag.objects.acreate(name='b')
    assert await Tag.objects.acount() == 2
asyncio.run(main())
"""
    run_python(code, tape.prefix)

    tape.tags("a", "b")


@pytest.mark.parametrize("layer", [PUBSUB, CORE])
def test_a_gevent_worker_is_heard_and_its_orm_goes_on(tape: Tape, layer: str) -> None:
    need(_has_gevent(), "gevent")
    code = """
import gevent
from django.db import connection
def save(name):
    Tag.objects.create(name=name)
    connection.close()
first = gevent.spawn(save, 'a')
first.get()
assert mcp_django.flush()
gevent.sleep(0.05)
gevent.joinall([gevent.spawn(save, name) for name in 'bc'], raise_error=True)
assert mcp_django.flush()
print(Tag.objects.count())
"""
    counted = run_python(code, tape.prefix, layer=layer, before="from gevent import monkey; monkey.patch_all()")

    assert counted == "3"
    events = tape.tags("a", "b", "c")
    assert numbers(events) == list(range(1, len(events) + 1))


def _has_gevent() -> bool:
    from importlib.util import find_spec

    return find_spec("gevent") is not None


# Numbers.


def test_the_last_number_is_repeated_while_the_process_lives(tape: Tape) -> None:
    code = "from tests.push.child import save_tag; save_tag('a'); import sys; sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(tape.prefix), stdin=subprocess.PIPE
    )
    try:
        told, repeated, again = tape.next(), tape.next(), tape.next()
    finally:
        process.communicate(timeout=30)

    assert told["changes"] == tags("a")
    assert repeated == again == {name: told[name] for name in ("publisher", "started", "number")}


# Brokers that are quiet, and brokers that fail.


def test_a_quiet_broker_is_not_taken_for_one_that_is_gone(serving_loop: LoopThread) -> None:
    need(is_listening(6379), "Redis on 127.0.0.1:6379")
    tape = Tape(new_prefix(), CORE, serving_loop, socket_timeout=3)

    # Longer than its connection waits for an answer.
    with pytest.raises(queue.Empty):
        tape.next(4)

    tape.bus.publish({"publisher": "x", "started": 0.0, "number": 3})
    assert tape.next()["number"] == 3
    tape.close()


def test_a_save_does_not_wait_for_a_broker_that_is_gone_and_takes_its_number(unused_port: int) -> None:
    code = """
Tag.objects.create(name='a')
mcp_django.flush()
Tag.objects.create(name='b')
mcp_django.flush()
from mcp_django.push.publisher import publisher
print(publisher.number, Tag.objects.count())
"""
    assert _run_with_broker(unused_port, code) == "2 2"


def test_flush_gives_up_on_a_broker_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code = "Tag.objects.create(name='a'); print(mcp_django.flush(0.2), flush=True); import os; os._exit(0)"

        assert _run_with_broker(silent.getsockname()[1], code) == "False"
    assert Tag.objects.filter(name="a").exists()


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return int(closed.getsockname()[1])


def _run_with_broker(port: int, code: str) -> str:
    """Run Python against a broker at the port; it may log what it likes."""
    config = {"hosts": [f"redis://127.0.0.1:{port}"]}
    layers = {"default": {"BACKEND": PUBSUB, "CONFIG": config}}
    before = f"""
import logging; logging.disable(logging.CRITICAL)
from django.conf import settings; settings.CHANNEL_LAYERS = {layers!r}
"""
    return run_python(code, before=before)
