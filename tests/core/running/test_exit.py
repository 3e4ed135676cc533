"""The end of a process whose loop ends before the calls on it do."""

from __future__ import annotations

import subprocess
import sys

_LEAVING = """
import asyncio
import django
from django.conf import settings

settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "mcp_django"])
django.setup()

from mcp_django.exchange.cancellation import Cancellation
from mcp_django.core.running.suspension import Suspended
from mcp_django.protocol.errors import RequestCancelled
from mcp_django.core.running.workers import get_workers

begun = asyncio.Event()

async def wait():
    begun.set()
    await asyncio.sleep(600)

def respond():
    suspended = Suspended(wait, "tool wait", Cancellation())
    suspended.then(finish)
    raise suspended

def finish(run):
    try:
        run()
    except RequestCancelled:
        print("finished", flush=True)

async def place():
    async with get_workers().place("a"):
        try:
            await wait()
        finally:
            print("left", flush=True)

async def serve():
    global placed
    WAY
    await begun.wait()
    print("begun", flush=True)

# As the reactor of Daphne, which cancels nothing.
loop = asyncio.new_event_loop()
loop.run_until_complete(serve())
"""
_FORKING = """
import os
child = os.fork()
if child:
    os.waitpid(child, 0)
"""


def _run(way: str, then: str = "") -> list[str]:
    script = _LEAVING.replace("WAY", way) + then
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True
    ).stdout.split()


def test_a_call_whose_loop_is_over_is_finished_at_the_exit_wherever_it_began() -> None:
    assert _run('get_workers().submit(respond, principal_key="a")') == ["begun", "finished"]
    assert _run('get_workers().run_here(respond, principal_key="a")') == ["begun", "finished"]


def test_a_place_whose_loop_is_over_holds_no_process() -> None:
    assert _run("placed = asyncio.ensure_future(place())") == ["begun", "left"]


def test_a_forked_child_ends_no_call_of_its_parent() -> None:
    assert _run("placed = asyncio.ensure_future(place())", _FORKING) == ["begun", "left"]
