"""Processes beside the test's own: commands and servers on its database, with a broker between them."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.db import connection
from django.test import override_settings
from redis.exceptions import RedisError
from websockets import Subprotocol
from websockets.sync.client import connect

from mcp_django.core.events.bus import BaseBus, ChannelLayerBus
from mcp_django.core.events.nats import NATSBus
from tests.conftest import is_listening, need
from tests.end_to_end.servers import START_SECONDS, STOP_SECONDS, assert_no_traceback, free_port, wait_for
from tests.support import forkserver, schemas
from tests.support.base import wanted_of
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, Answered, HTTPPeer, Message, Watching, meta

ROOT = Path(__file__).parents[2]
PUBSUB = "channels_redis.pubsub.RedisPubSubChannelLayer"
CORE = "channels_redis.core.RedisChannelLayer"
#: No channel layer: the database itself, which then is PostgreSQL.
POSTGRESQL = "postgresql"
#: No channel layer either: NATS, with the prefix as its subject.
NATS, NATS_URL = "nats", "nats://127.0.0.1:4222"
_BUSES = ("TEST_REDIS", "TEST_LAYER", "TEST_PUSH_DATABASE", "TEST_NATS")

_SETUP = "import django; django.setup(); from tests.shop.models import *; import mcp_django\n"
_SERVERS = {
    "daphne": ("daphne", "-b", "127.0.0.1", "-p", "{port}", "tests.asgi:application"),
    "uvicorn": ("uvicorn", "--host", "127.0.0.1", "--port", "{port}", "tests.asgi:application"),
    "gunicorn": ("gunicorn", "--bind", "127.0.0.1:{port}", "tests.wsgi:application"),
    "uvicorn with workers": ("uvicorn", "--workers", "2", "--port", "{port}", "tests.asgi:application"),
    # A worker of granian's that is only starting when it is told to end would stay for ever.
    "granian with workers": (
        *("granian", "--interface", "asgi", "--workers", "2", "--workers-kill-timeout", "10", "--port", "{port}"),
        "tests.asgi:application",
    ),
}


def new_prefix() -> str:
    """A name under which no other test speaks on the broker."""
    return f"tests-{uuid.uuid4().hex}"


def need_broker(layer: str) -> None:
    """Skip the test where nothing listens that the layer goes through."""
    if layer == NATS:
        need(is_listening(4222), "NATS on 127.0.0.1:4222")
    else:
        need(is_listening(6379), "Redis on 127.0.0.1:6379")


def bus(name: str) -> tuple[str, str]:
    """The prefix and the layer of a bus: "redis", "nats", "postgresql" or "no broker"."""
    if name == "redis":
        need_broker(PUBSUB)
        return new_prefix(), PUBSUB
    if name == NATS:
        need_broker(NATS)
        return new_prefix(), NATS
    return "", POSTGRESQL if name == "postgresql" else PUBSUB


def environment(prefix: str, layer: str = PUBSUB) -> dict[str, str]:
    """The test's settings, database and ``prefix`` for another process. Without a prefix there is no broker."""
    inherited = {name: value for name, value in os.environ.items() if name not in _BUSES}
    broker = {"TEST_REDIS": prefix, "TEST_LAYER": layer} if prefix else {}
    if layer == POSTGRESQL:
        broker = {"TEST_PUSH_DATABASE": "default"}
    elif layer == NATS:
        broker = {"TEST_NATS": prefix}
    database = {"TEST_DATABASE_NAME": str(connection.settings_dict["NAME"])}
    return {
        **inherited, **broker, **database,
        "DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def run_python(code: str, prefix: str = "", *, layer: str = PUBSUB, before: str = "") -> str:
    """Run Python with the shop's models imported, to its end; returns what it wrote. ``before`` precedes the set-up."""
    arguments = ["-c", f"{before}\n{_SETUP}{code}"]
    # What comes before everything else must find nothing imported.
    run = _run_fresh if before else forkserver.run
    done = run(arguments, cwd=ROOT, env=environment(prefix, layer))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip()


def _run_fresh(arguments: list[str], *, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=forkserver.RUN_SECONDS, check=False
    )


def layer_bus(backend: str, config: dict[str, Any]) -> ChannelLayerBus:
    """The bus of a layer that the settings of the test do not name."""
    with override_settings(CHANNEL_LAYERS={"default": {"BACKEND": backend, "CONFIG": config}}):
        return ChannelLayerBus()


class Tape:
    """Every event on the bus of a prefix, as it came."""

    def __init__(self, prefix: str, layer: str, loop: LoopThread, hosts: list[Any] | None = None, **host: Any) -> None:
        self.prefix = prefix
        self.layer = layer
        config = {"hosts": hosts or [{"address": "redis://127.0.0.1:6379", **host}], "prefix": prefix}
        self.bus: BaseBus
        if layer == NATS:
            self.bus = NATSBus(NATS_URL, prefix)
        else:
            self.bus = layer_bus(layer, config)
        self._events: queue.Queue[Message] = queue.Queue()
        self._loop = loop
        self._task = loop.run(self._start())
        wait_for(self._is_there, "the bus", 60)
        self._drain()

    async def _start(self) -> Any:
        return asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while True:
            # As a hub does, it joins again after an error.
            with suppress(RedisError, OSError):
                async for event in self.bus.subscribe():
                    self._events.put(event)
            await asyncio.sleep(0.1)

    def _is_there(self) -> bool:
        self.bus.publish({"publisher": "probe", "started": 0.0, "number": 1})
        try:
            self._events.get(timeout=0.2)
        except queue.Empty:
            return False
        return True

    def _drain(self) -> None:
        """Until the last probe is through."""
        self.bus.publish({"publisher": "probe", "started": 0.0, "number": 2})
        while self._events.get(timeout=60)["number"] != 2:
            pass

    def next(self, seconds: float = 60) -> Message:
        return self._events.get(timeout=seconds)

    def tags(self, *names: str, seconds: float = 60) -> list[Message]:
        """The events until these tags were told to be written, without repeated numbers."""
        events, missing = [], set(names)
        deadline = time.monotonic() + seconds
        while missing:
            event = self.next(max(0.01, deadline - time.monotonic()))
            for change in event.get("changes", ()):
                if change["label"] == "shop.tag":
                    missing -= set(change["written"] or ())
            if "changes" in event:
                events.append(event)
        return events

    def close(self) -> None:
        async def stop() -> None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

        self._loop.run(stop())
        if isinstance(self.bus, NATSBus):
            self.bus.close()


# Servers.


@contextmanager
def served(server: str, prefix: str, log: Path, layer: str = PUBSUB, module: str = "") -> Iterator[str]:
    """Serve the test's project until the block ends; yields where. ``module`` declares more than the project does."""
    port = free_port()
    command = [part.format(port=port) for part in _SERVERS[server]]
    with log.open("wb") as output:
        env = {**environment(prefix, layer), "TEST_MODULE": module}
        process = forkserver.start(["-m", *command], cwd=ROOT, stdout=output, stderr=output, env=env)
        origin = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return httpx.post(f"{origin}/mcp", json={}, timeout=START_SECONDS).status_code == 401
            except httpx.TransportError:
                return False

        try:
            wait_for(answers, server, START_SECONDS)
            yield origin
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert_no_traceback(log.read_text())


class ServedPeer(HTTPPeer):
    """A client of a server in another process, over HTTP."""

    def __init__(self, token: str, origin: str) -> None:
        super().__init__(token)
        self.origin = origin
        # A connection that was kept may just be closed by its server, while a busy machine lets the client wait.
        self.client = httpx.Client(timeout=60, limits=httpx.Limits(max_keepalive_connections=0))
        self.streams: list[ServedWatching] = []

    def http(self, method: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answered:
        answer = self.client.request(method, f"{self.origin}/mcp", content=body, headers=self.headers(headers))
        return Answered(
            answer.status_code, {name.lower(): value for name, value in answer.headers.items()}, answer.content
        )

    def watch(self, revision: str, uris: list[str], *, tools: bool = False, resources: bool = False) -> Watching:
        if revision != MODERN:
            for uri in uris:
                self.result(revision, "resources/subscribe", {"uri": uri})
            headers = {"Mcp-Session-Id": self.session(revision), "MCP-Protocol-Version": revision}
            return self._stream("GET", revision, headers, b"")
        wanted = wanted_of(uris, tools=tools, resources=resources)
        params = {"notifications": wanted, "_meta": meta()}
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": "subscriptions/listen", "params": params}
        headers = self.modern_headers("subscriptions/listen", params)
        watching = self._stream("POST", revision, headers, json.dumps(message).encode())
        watching.honoured = watching.next()["params"]["notifications"]
        return watching

    def _stream(self, method: str, revision: str, headers: dict[str, str], body: bytes) -> Watching:
        stream = ServedWatching(self, method, revision, self.headers(headers), body)
        self.streams.append(stream)
        return stream

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self.client.close()


class ServedWatching(Watching):
    def __init__(self, peer: ServedPeer, method: str, revision: str, headers: dict[str, str], body: bytes) -> None:
        self.revision = revision
        request = peer.client.build_request(method, f"{peer.origin}/mcp", content=body, headers=headers)
        self.response = peer.client.send(request, stream=True)
        assert self.response.status_code == 200, self.response.read()
        self._lines = self.response.iter_lines()

    def next(self, seconds: float = 60) -> Message:
        deadline = time.monotonic() + seconds
        for line in self._lines:
            if line.startswith("data: "):
                message: Message = json.loads(line.removeprefix("data: "))
                schemas.check(message, self.revision, "subscriptions/listen")
                return message
            if time.monotonic() > deadline:
                raise TimeoutError
        raise EOFError("the stream has ended")

    def close(self) -> None:
        self.response.close()


class ServedSocket(Watching):
    """A modern listen on a WebSocket of a server in another process."""

    def __init__(self, token: str, origin: str, uris: list[str]) -> None:
        url = origin.replace("http", "ws", 1) + "/mcp"
        headers = {"Authorization": f"Bearer {token}"}
        self._open = ExitStack()
        connecting = connect(url, open_timeout=60, additional_headers=headers, subprotocols=[Subprotocol("mcp")])
        self.socket = self._open.enter_context(connecting)
        params = {"notifications": {"resourceSubscriptions": uris}, "_meta": meta()}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        self.socket.send(json.dumps(message))
        self.honoured = self.next()["params"]["notifications"]

    def next(self, seconds: float = 60) -> Message:
        message: Message = json.loads(self.socket.recv(timeout=seconds))
        schemas.check(message, MODERN, "subscriptions/listen")
        return message

    def close(self) -> None:
        self._open.close()


class SlowToJoin(RedisPubSubChannelLayer):  # type: ignore[misc]
    """A layer whose broker is far away."""

    async def group_add(self, group: str, channel: str) -> None:
        await asyncio.sleep(0.3)
        await self._get_layer().group_add(group, channel)
