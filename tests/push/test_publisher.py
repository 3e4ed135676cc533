"""The publisher, in processes as a project has them: each saves, and the bus brings what it told."""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.conftest import is_listening, need
from tests.push.processes import CORE, NATS, PUBSUB, ROOT, Tape, environment, need_broker, new_prefix, run_python
from tests.shop.models import Tag
from tests.support.loop import LoopThread

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("transactional_db")]

THREADS = "import threading; print(sorted(t.name for t in threading.enumerate()))"


@pytest.fixture
def layer() -> str:
    return PUBSUB


@pytest.fixture
def tape(layer: str, serving_loop: LoopThread) -> Iterator[Tape]:
    """What is told under a new prefix."""
    need_broker(layer)
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


@pytest.mark.parametrize("layer", [PUBSUB, NATS])
def test_one_thread_sends_whatever_is_saved_and_none_is_started_before_the_first_event(tape: Tape, layer: str) -> None:
    first = f"Unwatched.objects.create(name='a')\n{THREADS}"
    then = f"[Tag.objects.create(name=str(n)) for n in range(5)]\n{THREADS}"

    assert run_python(f"{first}\n{then}", tape.prefix, layer=layer).splitlines() == [
        "['MainThread']",
        "['MainThread', 'mcp_django publisher']",
    ]


# Processes that end.


@pytest.mark.parametrize("layer", [PUBSUB, CORE, NATS])
def test_a_command_that_saves_and_exits_at_once_is_heard_and_what_it_rolls_back_is_not(tape: Tape, layer: str) -> None:
    code = """
from django.db import transaction
with transaction.atomic():
    Tag.objects.create(name='lost')
    transaction.set_rollback(True)
Tag.objects.create(name='a')
"""
    run_python(code, tape.prefix, layer=layer)

    event = tape.next()
    assert event == {**event, "number": 1, "changes": tags("a")}
    assert set(event) == {"publisher", "started", "number", "changes"}


@pytest.mark.parametrize("layer", [PUBSUB, NATS])
def test_the_child_of_a_fork_tells_as_a_publisher_of_its_own(tape: Tape, layer: str) -> None:
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
    run_python(code, tape.prefix, layer=layer)

    events = tape.tags("parent", "child", "parent again")
    by_publisher: dict[str, list[int]] = {}
    for event in events:
        by_publisher.setdefault(event["publisher"], []).append(event["number"])
    assert sorted(by_publisher.values()) == [[1], [1, 2]]


def test_the_child_of_a_fork_tells_its_own_hubs_where_there_is_no_broker() -> None:
    code = """
import os
from django.db import connections
from mcp_django.core.events.bus import get_bus
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


def test_the_child_of_a_worker_that_ends_by_exiting_at_once_is_heard_where_it_flushes(tape: Tape) -> None:
    # As the children of Celery's prefork pool: Python's hooks at the exit of a process do not run.
    code = """
import os
from django.db import connections
connections.close_all()
child = os.fork()
if child == 0:
    for name in 'abc':
        Tag.objects.create(name=name)
    os._exit(0 if mcp_django.flush(60) else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    run_python(code, tape.prefix)

    events = tape.tags("a", "b", "c")
    assert numbers(events) == list(range(1, len(events) + 1))


# Bulk changes.


def test_what_a_command_does_first_of_all_in_bulk_is_heard(tape: Tape) -> None:
    # Before its first statement nobody knows which models are watched.
    code = """
import asyncio
mcp_django.site.register(Ware, fields='__all__')
Ware.objects.bulk_create([Ware(name='a'), Ware(name='b')])
asyncio.run(Ware.objects.filter(name='a').aupdate(price=1))
asyncio.run(Ware.objects.abulk_create([Ware(name='c')]))
mcp_django.changed(Tag, ['tag'])
"""
    run_python(code, tape.prefix)

    changes = [change for event in tape.tags("tag") for change in event["changes"] if change["label"] == "shop.ware"]
    assert {key for change in changes for key in change["written"]} == {"a", "b", "c"}


def test_what_a_command_first_of_all_calls_changed_is_heard(tape: Tape) -> None:
    run_python("mcp_django.changed('shop.tag', ['a'])", tape.prefix)

    assert tape.next()["changes"] == tags("a")


def test_models_of_an_app_that_is_loaded_before_ours_may_have_a_manager_that_tells() -> None:
    before = """
from django.conf import settings
settings.INSTALLED_APPS = ['tests.shop', *(app for app in settings.INSTALLED_APPS if app != 'tests.shop')]
"""
    assert run_python("print(type(Gadget.objects).__name__, Gadget.objects.count())", before=before) == (
        "WatchedManager 0"
    )


# Ways to run.


def test_saves_in_quick_succession_are_told_together(tape: Tape) -> None:
    code = """
import threading
from mcp_django.core.events import native_threads, publisher as module
module._PAUSE_SECONDS, saved = 60.0, threading.Event()
native_threads.sleep = lambda seconds: saved.wait()
Tag.objects.create(name='first')
assert mcp_django.flush(60)
[Tag.objects.create(name=str(n)) for n in range(200)]
saved.set()
"""
    run_python(code, tape.prefix)

    first, rest = tape.tags("first", *(str(number) for number in range(200)))
    assert (first["number"], first["changes"]) == (1, tags("first"))
    assert (rest["number"], len(rest["changes"][0]["written"])) == (2, 200)


def test_what_threads_and_async_code_save_is_heard_without_a_gap(tape: Tape) -> None:
    code = """
import asyncio
from asgiref.sync import sync_to_async
from concurrent.futures import ThreadPoolExecutor
from django.db import connection
def save(number):
    Tag.objects.create(name=str(number))
    connection.close()
with ThreadPoolExecutor(5) as pool:
    list(pool.map(save, range(50)))
async def main():
    await sync_to_async(Tag.objects.create)(name='a')
    await Tag.objects.acreate(name='b')
    assert await Tag.objects.acount() == 52
asyncio.run(main())
"""
    run_python(code, tape.prefix)

    events = tape.tags("a", "b", *(str(number) for number in range(50)))
    assert numbers(events) == list(range(1, len(events) + 1))


@pytest.mark.parametrize("layer", [PUBSUB, CORE, NATS])
def test_a_gevent_worker_is_heard_and_its_orm_goes_on(tape: Tape, layer: str) -> None:
    need(find_spec("gevent") is not None, "gevent")
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


# Numbers.


@pytest.mark.parametrize("layer", [PUBSUB, NATS])
def test_the_last_number_is_repeated_while_the_process_lives(tape: Tape, layer: str) -> None:
    code = "from tests.push.child import save_tag; save_tag('a'); import sys; sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(tape.prefix, layer), stdin=subprocess.PIPE
    )
    try:
        told, repeated, again = tape.next(), tape.next(), tape.next()
    finally:
        process.communicate(timeout=60)

    assert told["changes"] == tags("a")
    assert repeated == again == {name: told[name] for name in ("publisher", "started", "number")}


@pytest.mark.parametrize("layer", [PUBSUB, NATS])
def test_a_roll_call_takes_no_number_and_is_not_repeated(tape: Tape, layer: str) -> None:
    code = """
from mcp_django.core.events import publisher as module
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import ControlKind, ControlSet, sign
module._FIRST_REPEAT = 0.001
def answer():
    module.publisher.put(Changes(), ControlSet([sign(ControlKind.HERE, 'x')]))
    assert mcp_django.flush()
answer()
Tag.objects.create(name='a')
assert mcp_django.flush()
answer()
"""
    run_python(code, tape.prefix, layer=layer)

    answered, saved = tape.next(), tape.next()
    then = tape.next()
    while "controls" not in then:
        then = tape.next()
    assert ("controls" in answered, saved["changes"]) == (True, tags("a"))
    assert numbers([answered, saved, then]) == [0, 1, 1]


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
from mcp_django.core.events.publisher import publisher
print(publisher.number, Tag.objects.count())
"""
    assert _run_with_broker(unused_port, code) == "2 2"


def test_flush_gives_up_on_a_broker_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code = "Tag.objects.create(name='a'); print(mcp_django.flush(0.2), flush=True); import os; os._exit(0)"

        assert _run_with_broker(silent.getsockname()[1], code) == "False"
    assert Tag.objects.filter(name="a").exists()


def test_the_end_of_a_process_waits_for_a_broker_that_does_not_answer_only_once() -> None:
    before = "import atexit; waits = []; atexit.register(lambda: print(len(waits), round(sum(waits), 1)))"
    code = """
from mcp_django.core.events import publisher as module
module._FLUSH_SECONDS = 0.3
flush = module.publisher.flush
def counted(seconds):
    waits.append(seconds)
    return flush(seconds)
module.publisher.flush = counted
Tag.objects.create(name='a')
"""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert _run_with_broker(silent.getsockname()[1], code, before) == "1 0.3"


def test_what_is_saved_while_a_broker_does_not_answer_is_merged() -> None:
    code = """
import threading
from mcp_django.core.events.bus import get_bus
from mcp_django.core.events.publisher import publisher
taken, go_on = threading.Event(), threading.Event()
events = []
def publish(event):
    events.append(event)
    taken.set()
    go_on.wait()
get_bus().publish = publish
mcp_django.changed(Tag, ['first'])
taken.wait()
from mcp_django.core.events.controls import ControlKind
from mcp_django.core.events.transaction import note_control
for number in range(20_000):
    mcp_django.changed(Tag, [number % 900])
    if number < 12_000:
        note_control('default', ControlKind.SESSION, f'{number}')
        note_control('default', ControlKind.ACCESS, f'{number}')
note_control('default', ControlKind.TOOLS)
most = publisher._queue._items.qsize()
go_on.set()
assert mcp_django.flush()
told = [event for event in events if 'changes' in event]
print(most <= 1_001, [event['number'] for event in told], [len(event['changes'][0]['written']) for event in told])
controls = told[1]['controls']
print(len(controls) <= 10_000, {'kind': 'access'} in controls, {'kind': 'tools'} in controls)
"""
    assert run_python(code, new_prefix()).splitlines() == ["True [1, 2] [1, 900]", "True True True"]


def test_a_save_by_a_signal_handler_in_the_middle_of_another_is_told(tape: Tape) -> None:
    code = """
import os, signal, threading
from mcp_django.core.events import queue
queue._MANY_ITEMS = 1
merge, interrupted = queue.EventQueue._merge, []
def merge_interrupted(self, first=None):
    if threading.current_thread() is threading.main_thread() and not interrupted:
        interrupted.append(True)
        os.kill(os.getpid(), signal.SIGUSR1)
    return merge(self, first)
signal.signal(signal.SIGUSR1, lambda *_: [mcp_django.changed(Tag, [f'handler{n}']) for n in range(5)])
queue.EventQueue._merge = merge_interrupted
for name in range(500):
    mcp_django.changed(Tag, [name])
print(interrupted, mcp_django.flush())
"""
    assert run_python(code, tape.prefix) == "[True] True"

    tape.tags("0", "499", *(f"handler{number}" for number in range(5)))


def test_what_is_saved_when_python_starts_no_threads_any_more_is_told(tape: Tape) -> None:
    code = """
from mcp_django.core.events import native_threads
def refuse(target):
    raise RuntimeError("can't create new thread at interpreter shutdown")
native_threads.start_thread = refuse
Tag.objects.create(name='a')
Tag.objects.create(name='b')
"""
    run_python(code, tape.prefix)

    assert numbers(tape.tags("a", "b")) == [1, 2]


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return int(closed.getsockname()[1])


def _run_with_broker(port: int, code: str, before: str = "") -> str:
    """Run Python against a broker at the port; it may log what it likes."""
    config = {"hosts": [f"redis://127.0.0.1:{port}"]}
    layers = {"default": {"BACKEND": PUBSUB, "CONFIG": config}}
    before += f"""
import logging; logging.disable(logging.CRITICAL)
from django.conf import settings; settings.CHANNEL_LAYERS = {layers!r}
"""
    return run_python(code, before=before)
