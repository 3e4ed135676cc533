"""Redis servers of a test's own, on free ports: alone, behind a sentinel, and as a cluster."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis

from tests.conftest import need
from tests.end_to_end.servers import free_port, wait_for

#: The slots of a Redis Cluster.
_SLOTS = 16_384


@dataclass
class Broker:
    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def client(self) -> redis.Redis[bytes]:
        return redis.Redis(port=self.port, socket_timeout=60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def redis_server(
    folder: Path, *options: str, port: int | None = None, url: str = "", **kwargs: str
) -> Iterator[Broker]:
    """A Redis server with such options (``--name value``), until the block ends. ``url`` is where it answers then."""
    program = shutil.which("redis-server")
    need(program is not None, "redis-server")
    assert program is not None
    port = port or free_port()
    own = folder / str(port)
    own.mkdir()
    listen = [] if "--port" in options else ["--port", str(port)]
    command = [program, *listen, "--bind", "127.0.0.1", "--dir", str(own), "--save", "", *options]
    with (own / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    broker = Broker(port, process)

    def answers() -> bool:
        assert process.poll() is None, (own / "log").read_text()
        with suppress(redis.ConnectionError), redis.Redis.from_url(url or broker.url, **kwargs) as client:
            return bool(client.ping())
        return False

    try:
        wait_for(answers, "the Redis server", 60)
        yield broker
    finally:
        broker.kill()


@dataclass
class Watched:
    """A master with its replica, and the sentinel that watches both."""

    master: Broker
    replica: Broker
    sentinel: Broker
    name: str = "events"

    def fail_over(self) -> None:
        """Kill the master; returns when the sentinel names the replica in its place."""
        self.master.kill()
        wait_for(lambda: self._named() == self.replica.port, "the replica to be made the master", 60)

    def _named(self) -> int:
        _, port = self.sentinel.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
        return int(port)


@contextmanager
def sentinel(folder: Path) -> Iterator[Watched]:
    with ExitStack() as stack:
        master = stack.enter_context(redis_server(folder))
        replica = stack.enter_context(redis_server(folder, "--replicaof", f"127.0.0.1 {master.port}"))
        wait_for(lambda: replica.client.info("replication")["master_link_status"] == "up", "the replica", 60)
        port = free_port()
        settings = folder / "sentinel.conf"
        settings.write_text(
            f"sentinel monitor events 127.0.0.1 {master.port} 1\n"
            "sentinel down-after-milliseconds events 300\n"
            "sentinel failover-timeout events 3000\n"
        )
        watching = stack.enter_context(_sentinel(folder, settings, port))
        watched = Watched(master, replica, watching)
        # Until it has heard of the replica, it could not choose it.
        wait_for(lambda: watching.client.execute_command("SENTINEL", "REPLICAS", "events"), "the sentinel", 60)
        yield watched


@contextmanager
def _sentinel(folder: Path, settings: Path, port: int) -> Iterator[Broker]:
    program = shutil.which("redis-server")
    assert program is not None
    with (folder / "sentinel.log").open("wb") as log:
        process = subprocess.Popen(
            [program, str(settings), "--sentinel", "--port", str(port), "--bind", "127.0.0.1"], stdout=log, stderr=log
        )
    broker = Broker(port, process)

    def answers() -> bool:
        assert process.poll() is None, (folder / "sentinel.log").read_text()
        with suppress(redis.ConnectionError):
            return bool(broker.client.ping())
        return False

    try:
        wait_for(answers, "the sentinel", 60)
        yield broker
    finally:
        broker.kill()


@contextmanager
def cluster(folder: Path, nodes: int = 3) -> Iterator[list[Broker]]:
    """A Redis Cluster: the slots are shared out among its nodes."""
    with ExitStack() as stack:
        buses = [free_port() for _ in range(nodes)]
        brokers = [
            stack.enter_context(redis_server(folder, "--cluster-enabled", "yes", "--cluster-port", str(bus)))
            for bus in buses
        ]
        for number, broker in enumerate(brokers):
            first, last = number * _SLOTS // nodes, (number + 1) * _SLOTS // nodes - 1
            broker.client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            broker.client.execute_command("CLUSTER", "MEET", "127.0.0.1", brokers[0].port, buses[0])
        for broker in brokers:
            wait_for(lambda broker=broker: _is_whole(broker, nodes), "the cluster", 60)
        yield brokers


def _is_whole(broker: Broker, nodes: int) -> bool:
    said = broker.client.execute_command("CLUSTER", "INFO")
    text = said.decode() if isinstance(said, bytes) else "\n".join(f"{key}:{value}" for key, value in said.items())
    return "cluster_state:ok" in text and f"cluster_known_nodes:{nodes}" in text
