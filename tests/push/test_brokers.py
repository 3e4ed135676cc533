"""Redis in the forms in which it is run: with a password, with TLS, on several hosts, with a sentinel, as a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.end_to_end.servers import free_port, wait_for
from tests.push.brokers import Broker, cluster, redis_server, sentinel
from tests.push.processes import CORE, PUBSUB, Tape, layer_bus, new_prefix
from tests.support.certificates import make_certificate
from tests.support.loop import LoopThread
from tests.support.peers import Message


@contextmanager
def behind_a_password(folder: Path) -> Iterator[Any]:
    with redis_server(folder, "--requirepass", "s3cret@x", password="s3cret@x") as broker:
        yield f"redis://:s3cret%40x@127.0.0.1:{broker.port}/0"


@contextmanager
def on_a_unix_socket(folder: Path) -> Iterator[Any]:
    url = f"unix://{folder}/s"
    with redis_server(folder, "--unixsocket", f"{folder}/s", "--port", "0", url=url):
        yield url


@contextmanager
def with_tls(folder: Path) -> Iterator[Any]:
    (certificate, key), port = make_certificate(folder), free_port()
    tls = ("--port", "0", "--tls-port", str(port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key))
    url = f"rediss://127.0.0.1:{port}"
    trusted = {"ssl_ca_certs": str(certificate)}
    with redis_server(folder, *tls, "--tls-auth-clients", "no", port=port, url=url, **trusted):
        yield {"address": url, **trusted}


def event(number: int) -> Message:
    return {"publisher": "x", "started": 1.0, "number": number, "controls": []}


@pytest.mark.parametrize("layer", [PUBSUB, CORE])
@pytest.mark.parametrize("form", [behind_a_password, on_a_unix_socket, with_tls])
def test_events_pass_in_every_form_of_address(
    tmp_path: Path, serving_loop: LoopThread, form: Callable[[Path], Any], layer: str
) -> None:
    with form(tmp_path) as host:
        tape = Tape(new_prefix(), layer, serving_loop, [host])

        tape.bus.publish(event(1))
        told = tape.next()
        tape.close()

    assert told == event(1)


#: Names decide which host is used, and part of them is random: so many never fall to one host alone.
NAMES = [str(number) for number in range(60)]


@pytest.mark.every_case
@pytest.mark.parametrize("layer", [PUBSUB, CORE])
def test_of_several_hosts_publishers_and_processes_choose_the_same(
    tmp_path: Path, serving_loop: LoopThread, layer: str
) -> None:
    with redis_server(tmp_path) as one, redis_server(tmp_path) as other:
        for prefix in NAMES:
            tape = Tape(prefix, layer, serving_loop, [one.url, ("127.0.0.1", other.port)])

            tape.bus.publish(event(1))
            told = tape.next()
            tape.close()

            assert told == event(1)
            if busy := _commands(one) > 0 and _commands(other) > 0:
                break

    assert busy


def _commands(broker: Broker) -> int:
    """How many messages the host was given."""
    said: dict[str, Any] = broker.client.info("commandstats")
    return sum(said.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("publish", "zadd"))


def test_events_pass_again_after_a_sentinel_has_chosen_another_master(tmp_path: Path, serving_loop: LoopThread) -> None:
    with sentinel(tmp_path) as watched:
        host = {"sentinels": [("127.0.0.1", watched.sentinel.port)], "master_name": watched.name}
        tape = Tape(new_prefix(), PUBSUB, serving_loop, [host])
        tape.bus.publish(event(1))
        before = tape.next()

        watched.fail_over()

        def is_told_of_the_second() -> bool:
            with suppress(redis.RedisError, TimeoutError):
                tape.bus.publish(event(2))
            with suppress(Exception):
                return tape.next(0.2) == event(2)
            return False

        wait_for(is_told_of_the_second, "an event by way of the new master", 60)
        tape.close()

    assert before == event(1)


def test_in_a_cluster_any_node_carries_events_to_any_other(tmp_path: Path, serving_loop: LoopThread) -> None:
    prefix = new_prefix()
    with cluster(tmp_path) as nodes:
        tapes = [Tape(prefix, PUBSUB, serving_loop, [node.url]) for node in nodes]

        config = {"hosts": [nodes[0].url], "prefix": prefix}
        layer_bus(PUBSUB, config).publish(event(3))
        told = [_next(tape, 3) for tape in tapes]
        for tape in tapes:
            tape.close()

    assert told == [event(3)] * 3


def _next(tape: Tape, number: int) -> Message:
    """The event of that number; before it come the probes of the other tapes."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = tape.next()
        if found["number"] == number:
            return found
    raise TimeoutError
