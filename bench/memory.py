"""What a server's memory is while sockets are idle, and after connections have come and gone."""

from __future__ import annotations

import itertools
import json
import re
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bench import asgi_server
from bench.asgi_server import Served
from bench.goals import Goal
from bench.sockets_client import Socket, Sockets

#: Connections that come and go together, fewer than the requests of one principal that may wait.
_AT_ONCE = 50
#: What a connection may leave behind: fragments of the allocator's, and nothing that grows for ever.
_LEFT_BYTES = 100.0
_UVICORN = (
    *("uvicorn", "--port", "{port}", "--no-access-log", "--lifespan", "off", "--ws-ping-interval", "3600"),
    *("bench.fanout_apps:application", "--ws"),
)
SERVERS: dict[str, tuple[str, ...]] = {
    "uvicorn with websockets": (*_UVICORN, "websockets-sansio"),
    "uvicorn with wsproto": (*_UVICORN, "wsproto"),
    "Daphne": (
        *("daphne", "-b", "127.0.0.1", "-p", "{port}", "--ping-interval", "3600", "--access-log", "/dev/null"),
        "bench.fanout_apps:application",
    ),
}
URI = "db://flights/airline/UA"
_LISTEN = {
    "notifications": {"resourceSubscriptions": [URI]},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    },
}
_CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def _request(number: int, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


#: What a session says that subscribes to one resource.
SESSION = (_request(1, "initialize", _CLIENT), _request(2, "resources/subscribe", {"uri": URI}))
#: What is said on each socket, and answered, before it is left alone.
SAID: dict[str, tuple[bytes, ...]] = {
    "accepted": (),
    "a listen of one resource": (_request(1, "subscriptions/listen", _LISTEN),),
    "a legacy session with one subscription": SESSION,
}


def measure(servers: Sequence[str], token: str, number: int) -> None:
    """Print what each socket of so many takes on each server."""
    print(f"\n## Memory of an idle socket\n\nOf {number:,} sockets of one principal.\n")
    print("| server | socket | memory | beyond the bare one |\n|---|---|---|---|")
    for server in servers:
        _measure(server, token, number)


def measure_churn(servers: Sequence[str], token: str, number: int) -> list[Goal]:
    """Print what is left of so many connections of each kind."""
    print(f"\n## {number:,} connections that come and go\n")
    print("| server | connection | memory before | after half | after all |\n|---|---|---|---|---|")
    return [goal for server in servers for goal in _measure_churn(server, token, number)]


def _measure(server: str, token: str, number: int) -> None:
    bare = _bytes_each(server, "loop", "", number, ())
    print(f"| {server} | bare ASGI app | {bare / 1024:.1f} KiB | |", flush=True)
    for label, said in SAID.items():
        each = _bytes_each(server, "ours", token, number, said)
        print(
            f"| {server} | mcp_django, {label} | {each / 1024:.1f} KiB | {(each - bare) / 1024:.1f} KiB |", flush=True
        )


def _bytes_each(server: str, application: str, token: str, number: int, said: Sequence[bytes]) -> float:
    with _serving(server, application) as served:
        # What the first connections load stays.
        _open(served, token, _AT_ONCE, said).close()
        before = resident_bytes(served.process.pid)
        with closing(_open(served, token, number, said)):
            return (resident_bytes(served.process.pid) - before) / number


def _measure_churn(server: str, token: str, number: int) -> Iterator[Goal]:
    for kind, connect in (("WebSocket with a listen", _socket_listens), ("event stream of a listen", _event_streams)):
        with _serving(server, "ours") as served:
            before, half, after = churn(served, token, number, connect)
        print(f"| {server} | {kind} | {before / 1e6:.1f} MB | {half / 1e6:.1f} MB | {after / 1e6:.1f} MB |", flush=True)
        yield Goal(f"{server}, {kind}: left behind by each", (after - half) / (number / 2), _LEFT_BYTES, "bytes")


def churn(served: Served, token: str, number: int, connect: Any) -> tuple[int, int, int]:
    """The resident bytes of a server before, after half of so many connections that come and go, and after all.

    ``connect(served, token, number)`` opens some and leaves them. The first tenth is not counted: it fills pools.
    """
    # A crowd whose token was not seen yet is refused.
    _open(served, token, 1, ()).close()
    connect(served, token, max(_AT_ONCE, number // 10))
    measured = [resident_bytes(served.process.pid)]
    for _ in range(2):
        for _ in range(number // 2 // _AT_ONCE):
            connect(served, token, _AT_ONCE)
        measured.append(resident_bytes(served.process.pid))
    before, half, after = measured
    return before, half, after


def _socket_listens(served: Served, token: str, number: int) -> None:
    for _ in range(0, number, _AT_ONCE):
        _open(served, token, _AT_ONCE, SAID["a listen of one resource"]).close()


def _event_streams(served: Served, token: str, number: int) -> None:
    body = _request(1, "subscriptions/listen", _LISTEN).decode()
    head = (
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nAuthorization: Bearer {token}\r\n"
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
    for _ in range(0, number, _AT_ONCE):
        streams = []
        for _ in range(_AT_ONCE):
            stream = socket.create_connection(("127.0.0.1", served.port), timeout=60)
            stream.sendall(head)
            streams.append(stream)
        for stream in streams:
            answer = b""
            while b"acknowledged" not in answer:
                read = stream.recv(4_096)
                if not read:
                    raise ConnectionError(f"a listen was answered with {answer.decode(errors='replace')}")
                answer += read
        for stream in streams:
            stream.close()


def _serving(server: str, application: str) -> Any:
    log = Path(tempfile.mkstemp(prefix="mcp_django-bench-", suffix=".log")[1])
    return asgi_server.serve(SERVERS[server], log, BENCH_FANOUT=application)


def _open(served: Served, token: str, number: int, said: Sequence[bytes]) -> Sockets:
    """So many sockets, on each of which everything was said and answered."""
    sockets = Sockets()
    for _ in sockets.open(served.websocket_url, [token] * number):
        pass
    for body in said:
        for batch in _batches(sockets):
            for one in batch:
                one.send(body)
            for _, frame in sockets.gather(len(batch)):
                if b'"error"' in frame:
                    raise RuntimeError(f"a socket was told {frame.decode()}")
    return sockets


def _batches(sockets: Sockets) -> Iterator[list[Socket]]:
    waiting = iter(sockets)
    while batch := list(itertools.islice(waiting, _AT_ONCE)):
        yield batch


def resident_bytes(pid: int) -> int:
    """The memory that a process has now (Linux)."""
    return _bytes(pid, "VmRSS")


def own_bytes(pid: int) -> int:
    """The same without what a file holds, such as a library: the system takes that back when it likes."""
    return _bytes(pid, "RssAnon")


def _bytes(pid: int, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise RuntimeError(f"process {pid} has no memory")
    return int(found[1]) * 1024
