"""The real clients: which there are, how each is run, and what it said that it saw."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from tests.conformance import node
from tests.end_to_end.clients.environments import python_with
from tests.end_to_end.clients.serving import Desk
from tests.end_to_end.servers import ROOT

HERE = Path(__file__).parent
PROTO = ROOT / "mcp_django/protocol/mcp.proto"
SECONDS = 300
#: Conversations that go on at a time.
AT_ONCE = 4

Report = dict[str, Any]


@dataclass(frozen=True)
class RealClient:
    """An official client on one of its transports, and the revision that it then speaks."""

    sdk: str
    version: str
    transport: str
    revision: str
    #: Where a version speaks both eras: the SDK's word for how it picks one.
    mode: str = ""

    def __str__(self) -> str:
        return "-".join(part for part in (self.sdk, self.version, self.transport, self.mode) if part)

    @property
    def asks_its_user(self) -> bool:
        """Whether it can be asked to fill a form in, which came with 2025-06-18."""
        return self.revision >= "2025-06-18"

    def command(self) -> list[str]:
        """How its script is run. Raises NPMMissing, and RuntimeError where it could not be installed."""
        if self.sdk == "python" and self.version == "2":
            return [sys.executable, "-m", f"{__package__}.python_v2"]
        if self.sdk == "python":
            return [str(prepared(python_with, self.version)), str(HERE / "python_v1.py")]
        suite = prepared(install_scripts)
        return [str(suite.node), str(suite.folder / f"typescript_v{self.version}.mjs")]


CLIENTS = (
    RealClient("python", "1.6.0", "stdio", "2024-11-05"),
    RealClient("python", "1.6.0", "sse", "2024-11-05"),
    RealClient("python", "1.9.4", "http", "2025-03-26"),
    RealClient("python", "1.22.0", "http", "2025-06-18"),
    RealClient("python", "1.30.0", "http", "2025-11-25"),
    RealClient("python", "1.30.0", "stdio", "2025-11-25"),
    RealClient("python", "1.30.0", "websocket", "2025-11-25"),
    RealClient("python", "2", "http", "2026-07-28", "auto"),
    RealClient("python", "2", "http", "2025-11-25", "legacy"),
    RealClient("python", "2", "stdio", "2026-07-28", "auto"),
    RealClient("python", "2", "stdio", "2025-11-25", "legacy"),
    RealClient("python", "2", "grpc", "2026-07-28", "auto"),
    RealClient("python", "2", "grpc", "2025-11-25", "legacy"),
    RealClient("typescript", "1", "http", "2025-11-25"),
    RealClient("typescript", "1", "sse", "2025-11-25"),
    RealClient("typescript", "1", "stdio", "2025-11-25"),
    RealClient("typescript", "1", "websocket", "2025-11-25"),
    RealClient("typescript", "1", "grpc", "2025-11-25"),
    RealClient("typescript", "2", "http", "2026-07-28", "auto"),
    RealClient("typescript", "2", "http", "2025-11-25", "legacy"),
    RealClient("typescript", "2", "stdio", "2026-07-28", "auto"),
    RealClient("typescript", "2", "stdio", "2025-11-25", "legacy"),
    RealClient("typescript", "2", "grpc", "2026-07-28", "auto"),
)


def job(desk: Desk, client: RealClient, task: str = "all", **other: Any) -> Report:
    """What the client's script is told; ``other`` takes the place of what it is told by default."""
    near = desk.near
    urls = {"sse": f"{near.origin}/sse", "websocket": near.socket_url, "grpc": desk.grpc.address}
    return {
        "task": task,
        "transport": client.transport,
        "mode": client.mode,
        "url": urls.get(client.transport, near.url),
        "proto": str(PROTO),
        "ticketUrl": f"{near.url}/ticket",
        "token": desk.token,
        "command": desk.command,
        "env": desk.project.environment,
        "elsewhere": None if desk.far is None else desk.far.url,
        "own": own_ticket(client),
        "watched": watched_ticket(client),
        **other,
    }


def own_ticket(client: RealClient) -> int:
    """The ticket that the client closes itself."""
    return 2 * CLIENTS.index(client) + 1


def watched_ticket(client: RealClient) -> int:
    """The ticket that the client watches somebody else close."""
    return own_ticket(client) + 1


class Conversations:
    """Conversations of several clients, a few of them at a time; each is waited for when its report is wanted.

    Takes what each client's script is told.
    """

    def __init__(self, jobs: Mapping[RealClient, Report]) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._futures: Mapping[RealClient, Future[Report]] = {
            client: self._pool.submit(converse, client, told) for client, told in jobs.items()
        }

    def report(self, client: RealClient) -> Report:
        """What the client saw. Raises what ``converse`` raises."""
        return self._futures[client].result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def converse(client: RealClient, told: Report) -> Report:
    """Run the client's script and return its report. Raises NPMMissing, and AssertionError with what it logged."""
    done = subprocess.run(
        [*client.command(), json.dumps(told)], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{client} failed:\n{done.stderr}"
    assert "Traceback" not in done.stderr, f"{client}:\n{done.stderr}"
    report: Report = json.loads(done.stdout)
    return report


_results: dict[Any, Any] = {}
_locks: defaultdict[Any, Any] = defaultdict(Lock)


def prepared(prepare: Any, *arguments: Any) -> Any:
    """What ``prepare(*arguments)`` returns, which is called once in this process, and by one thread at a time."""
    key = (prepare, *arguments)
    with _locks[key]:
        if key not in _results:
            _results[key] = prepare(*arguments)
        return _results[key]


def install_scripts() -> node.Suite:
    """Node.js and the TypeScript SDKs, with our scripts beside them, where they find the packages."""
    suite: node.Suite = prepared(node.install)
    with node.alone_in(node.FOLDER):
        for script in HERE.glob("*.mjs"):
            copy = suite.folder / script.name
            if not copy.exists() or copy.read_bytes() != script.read_bytes():
                shutil.copyfile(script, copy)
    return suite
