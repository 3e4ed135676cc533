"""A signal that ends the process is held back for its streams, and never for long."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.push.processes import ROOT, environment

pytestmark = pytest.mark.slow

#: A process whose loop is blocked, with a stream that therefore never ends.
STUCK = """
import asyncio, signal, sys, time
from types import SimpleNamespace
import django
django.setup()
from mcp_django.transports.asgi_servers import shutdown
from mcp_django.push.hub import get_hub

shutdown._END_SECONDS = 0.3
{handler}

class Stuck:
    is_counted, session_key, principal = False, None, SimpleNamespace(key="user:1")
    def close(self, *, going_away=False):
        pass

async def serve():
    hub = get_hub()
    hub.join(Stuck())
    shutdown.close_hub_at_shutdown(hub)
    print("ready", flush=True)
    time.sleep(600)

asyncio.run(serve())
"""
OWN_HANDLER = """
def end(number, frame):
    print("asked", flush=True)
    sys.exit(3)

signal.signal(signal.SIGTERM, end)
"""


@pytest.mark.parametrize(
    ("handler", "written", "code"), [("", "", -signal.SIGTERM), (OWN_HANDLER, "asked\n", 3)], ids=["none", "own"]
)
def test_a_stream_that_does_not_end_keeps_no_process_alive(
    transactional_db: None, handler: str, written: str, code: int
) -> None:
    command = [sys.executable, "-c", STUCK.format(handler=handler)]
    with subprocess.Popen(command, cwd=ROOT, env=environment(""), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

        process.terminate()
        rest = process.stdout.read()
        ended = process.wait(60)

    assert rest == written
    assert ended == code
