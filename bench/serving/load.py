"""The load: wrk over HTTP, and a client of our own over WebSocket, on the core that no server has."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.serving.calls import Call
from bench.serving.environments import ROOT, python_of
from bench.serving.processes import Running, environment

#: Connections that are kept alive, each with one request at a time.
CONNECTIONS = 16

_DONE = re.compile(r"(\d+) requests in ([\d.]+)(ms|s|m)")
_WRONG = re.compile(r"Non-2xx or 3xx responses: \d+|Socket errors: .*")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a server did in one turn."""

    #: Requests a second.
    rate: float
    #: Seconds of the processor that a request took.
    cost: float
    #: The part of the time in which the server had its processor: near 1, it could not have done more.
    share: float


def check_wrk() -> None:
    """Raises RuntimeError where there is no wrk."""
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk makes the load and is not here. On Debian and Ubuntu: apt-get install wrk")


def over_http(running: Running, call: Call, seconds: int, scratch: Path) -> Reading:
    """Ask over and over. Raises RuntimeError where an answer is not what it should be."""
    script = scratch / "call.lua"
    lines = [f"wrk.headers[ {_lua(name)} ] = {_lua(value)}" for name, value in call.headers.items()]
    script.write_text("\n".join(['wrk.method = "POST"', f"wrk.body = {_lua(call.body.decode())}", *lines]))
    command = ["wrk", "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{seconds}s", "--timeout"]
    before = running.processor_seconds()
    done = subprocess.run(
        [*command, "30s", "--script", str(script), f"http://127.0.0.1:{running.port}/mcp"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    spent = running.processor_seconds() - before
    found, wrong = _DONE.search(done.stdout), _WRONG.search(done.stdout)
    if found is None or wrong is not None or not int(found[1]):
        raise RuntimeError(f"wrk says:\n{done.stdout}{done.stderr}")
    taken = float(found[2]) * {"ms": 0.001, "s": 1, "m": 60}[found[3]]
    return Reading(int(found[1]) / taken, spent / int(found[1]), spent / taken)


def over_websocket(running: Running, path: str, body: bytes, seconds: int, opening: bytes = b"") -> Reading:
    """The same on sockets, each of which is sent ``opening`` first."""
    client = [str(python_of("load")), "-m", "bench.serving.socket_client", f"ws://127.0.0.1:{running.port}{path}"]
    before = running.processor_seconds()
    done = subprocess.run(
        [*client, str(CONNECTIONS), str(seconds), body.decode(), opening.decode()],
        cwd=ROOT, env=environment({}), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    spent = running.processor_seconds() - before
    requests, taken = done.stdout.split()
    return Reading(int(requests) / float(taken), spent / int(requests), spent / float(taken))


def _lua(text: str) -> str:
    return f"[==[{text}]==]"
