"""What goes over NATS, in every form of its URL, and what becomes of messages that are too long, wrong or forged."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from nats.errors import SlowConsumerError

from mcp_django.core.events import nats as nats_bus
from mcp_django.core.events.nats import NATSBus
from mcp_django.core.events.nats_sender import NATSError
from tests.end_to_end.servers import free_port, wait_for
from tests.push.following import RESYNCED, following
from tests.push.nats.conftest import Start
from tests.support.certificates import make_certificate
from tests.support.loop import LoopThread

EVENT = {"publisher": "x", "started": 1.0, "number": 1, "controls": [{"kind": "tools"}]}
MakeBus = Callable[..., NATSBus]
Use = Callable[[NATSBus, LoopThread], None]


def event(number: int, *changes: dict[str, Any]) -> dict[str, Any]:
    return {"publisher": "x", "started": 0.0, "number": number, "changes": list(changes)}


def change(label: str, *written: str) -> dict[str, Any]:
    return {"alias": "default", "label": label, "written": list(written), "deleted": []}


async def first_of(bus: NATSBus, joined: Callable[[], None]) -> Any:
    """The first event after joining; ``joined`` is called in another thread."""
    calling: list[asyncio.Future[None]] = []

    def call() -> None:
        calling.append(asyncio.ensure_future(asyncio.to_thread(joined)))

    events = bus.subscribe(call)
    try:
        async with asyncio.timeout(60):
            found = await anext(events)
            await calling[0]
            return found
    finally:
        await events.aclose()


def publish(bus: NATSBus, loop: LoopThread) -> None:
    bus.publish(EVENT)


def subscribe(bus: NATSBus, loop: LoopThread) -> None:
    loop.run(first_of(bus, lambda: None))


# Forms of the URL.


def with_nothing(start: Start, folder: Path) -> str:
    return start().url


def by_name(start: Start, folder: Path) -> str:
    return f"nats://localhost:{start().port}"


def with_a_user(start: Start, folder: Path) -> str:
    port = start('authorization { user: me, password: "s3c@r,t/" }').port
    return f"nats://me:s3c%40r%2Ct%2F@127.0.0.1:{port}"


def with_a_token(start: Start, folder: Path) -> str:
    return f"nats://s3cret@127.0.0.1:{start('authorization { token: s3cret }').port}"


def with_tls(start: Start, folder: Path) -> str:
    certificate, key = make_certificate(folder)
    tls = f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}'
    return f"tls://s3cret@127.0.0.1:{start(tls + chr(10) + 'authorization { token: s3cret }').port}"


def with_tls_that_the_server_demands(start: Start, folder: Path) -> str:
    return with_tls(start, folder).replace("tls:", "nats:")


def with_another_server_that_is_away(start: Start, folder: Path) -> str:
    return f"nats://127.0.0.1:{free_port()},{start().url}"


@pytest.mark.parametrize("form", [
    with_tls, with_a_user, with_a_token, with_tls_that_the_server_demands, with_another_server_that_is_away, by_name,
    with_nothing,
])  # fmt: skip
def test_events_pass_in_every_form_of_url(
    start: Start,
    tmp_path: Path,
    make_bus: MakeBus,
    serving_loop: LoopThread,
    monkeypatch: pytest.MonkeyPatch,
    form: Callable[[Start, Path], str],
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    bus = make_bus(form(start, tmp_path))

    assert serving_loop.run(first_of(bus, lambda: bus.publish(EVENT))) == EVENT


def test_the_servers_of_a_cluster_pass_events_on(start: Start, make_bus: MakeBus, serving_loop: LoopThread) -> None:
    ports = [free_port(), free_port()]
    one, other = (
        start(f"cluster {{ name: c, listen: 127.0.0.1:{own}, routes: [nats://127.0.0.1:{its}] }}")
        for own, its in (ports, reversed(ports))
    )
    here, there = make_bus(one.url), make_bus(other.url)
    with following(here, serving_loop) as looking:
        # Servers of a cluster find each other in their time.
        wait_for(lambda: there.publish(EVENT) or not looking.heard.empty(), "an event by way of the other server", 60)

        assert looking.heard.get() == ["tools"]


def test_projects_with_subjects_of_their_own_do_not_hear_each_other(
    bus: NATSBus, make_bus: MakeBus, serving_loop: LoopThread
) -> None:
    [address] = bus._servers.addresses
    other = make_bus(address.url, "another.mcp_django")

    def publish() -> None:
        other.publish(event(1, change("others.model", "1")))
        bus.publish(EVENT)

    assert serving_loop.run(first_of(bus, publish)) == EVENT


# Long messages, and slow hubs.


def test_an_event_that_is_too_long_for_the_server_is_told_as_the_models_and_one_of_too_many_lets_everybody_look(
    start: Start, make_bus: MakeBus, serving_loop: LoopThread
) -> None:
    bus = make_bus(start("max_payload: 4KB").url)
    with following(bus, serving_loop) as looking:
        bus.publish(event(1, change("shop.tag", *(f"key {n}" for n in range(500))), change("shop.book", "1")))
        bus.publish(event(2, change("shop.book", "2")))
        bus.publish(event(3, *(change(f"shop.model{n}", "1") for n in range(200))))
        bus.publish(event(4, change("shop.book", "4")))

        heard = [looking.heard.get(timeout=60) for _ in range(4)]

    assert heard == [{"shop.tag": None, "shop.book": None}, {"shop.book": {"2"}}, RESYNCED, {"shop.book": {"4"}}]


def test_a_hub_that_does_not_keep_up_loses_messages_and_is_told_so(
    bus: NATSBus, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bus, "_PENDING_BYTES", 2_000)

    async def hear_late() -> list[Any]:
        taken = []
        published = threading.Event()

        def publish() -> None:
            for number in range(1, 101):
                bus.publish(event(number, change("shop.tag", "1")))
            published.set()

        async for found in bus.subscribe(lambda: publish_later(publish)):
            taken.append(found["number"])
            if len(taken) == 1:
                await asyncio.to_thread(published.wait, 60)
        return taken

    def publish_later(publish: Callable[[], None]) -> None:
        threading.Thread(target=publish).start()

    with pytest.raises(SlowConsumerError):
        serving_loop.run(hear_late())


# Who may speak on the bus.


def test_disturbing_those_who_listen_by_malformed_messages(bus: NATSBus, serving_loop: LoopThread) -> None:
    malformed = [
        b"", b"\xff\0", b"[" * 100_000, b"7", b"{}", b'{"changes":[]}', b"HMSG",
        *(
            json.dumps({**EVENT, **forged}).encode()
            for forged in (
                {"publisher": "x" * 65}, {"publisher": None}, {"started": "now"}, {"started": None}, {"number": 1.5},
                {"number": True}, {"number": -1}, {"number": 2**63}, {"changes": {}}, {"controls": "all"},
                {"lost": True}, {"changes": [{"label": "shop.tag"}]},
            )
        ),
    ]  # fmt: skip
    with following(bus, serving_loop) as looking:
        for payload in malformed:
            bus._sender.send([payload])
        bus.publish(EVENT)

        assert looking.heard.get(timeout=60) == ["tools"]


@pytest.mark.parametrize("use", [publish, subscribe])
def test_a_user_who_may_not_use_the_subject_is_told_so(
    start: Start, make_bus: MakeBus, serving_loop: LoopThread, use: Use
) -> None:
    user = f'{{ user: me, password: pw, permissions: {{ {use.__name__}: {{ deny: "mcp_django" }} }} }}'
    bus = make_bus(f"nats://me:pw@127.0.0.1:{start(f'authorization {{ users: [{user}] }}').port}")

    with pytest.raises(Exception, match=r"(?i)permissions violation"):
        while True:
            with suppress(TimeoutError):  # A busy machine.
                use(bus, serving_loop)


def test_reading_the_password_in_the_log(
    start: Start, make_bus: MakeBus, serving_loop: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    port = start('authorization { user: me, password: "another" }').port
    bus = make_bus(f"nats://me:s3cret@127.0.0.1:{port}")
    caplog.set_level(logging.DEBUG)

    with pytest.raises(NATSError, match="Authorization Violation") as refused:
        bus.publish(EVENT)
    with pytest.raises(Exception, match="Authorization Violation") as not_joined:
        serving_loop.run(first_of(bus, lambda: None))

    logging.getLogger("mcp_django").warning("seen", exc_info=refused.value)
    logging.getLogger("mcp_django").warning("seen", exc_info=not_joined.value)
    assert "Authorization Violation" in caplog.text
    assert "s3cret" not in caplog.text


class Impostor:
    """Listens on a port in the place of a NATS server, says something, and keeps what it is told."""

    def __init__(self, info: bytes, certificate: tuple[Path, Path] | None = None) -> None:
        self.told = b""
        self._info, self._certificate = info, certificate
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        connection.settimeout(60)
        with suppress(OSError):  # Whoever has heard enough goes.
            self._talk(connection)
        connection.close()

    def _talk(self, connection: socket.socket) -> None:
        connection.sendall(self._info)
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._certificate)
            with context.wrap_socket(connection, server_side=True) as encrypted:
                encrypted.recv(65_536)
        else:
            while data := connection.recv(65_536):
                self.told += data

    def __enter__(self) -> Impostor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        self._server.close()


@pytest.mark.parametrize("use", [publish, subscribe])
def test_taking_the_password_of_a_tls_client_by_offering_no_tls(
    make_bus: MakeBus, serving_loop: LoopThread, use: Use
) -> None:
    with Impostor(b'INFO {"server_id":"x","version":"2.9.10","auth_required":true,"max_payload":1048576}\r\n') as one:
        bus = make_bus(f"tls://me:s3cret@127.0.0.1:{one.port}")

        with pytest.raises(Exception, match="offers no TLS"):
            use(bus, serving_loop)

    assert one.told == b""


@pytest.mark.parametrize("use", [publish, subscribe])
def test_taking_the_password_of_a_tls_client_by_a_certificate_of_ones_own(
    make_bus: MakeBus,
    serving_loop: LoopThread,
    start: Start,
    tmp_path: Path,
    use: Use,
) -> None:
    bus = make_bus(with_tls(start, tmp_path))

    with pytest.raises(ssl.SSLCertVerificationError):
        use(bus, serving_loop)


def test_answering_a_tls_client_before_tls_begins(
    make_bus: MakeBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Impostor(b'INFO {"tls_required":true}\r\nPONG\r\nPONG\r\n', (certificate, key)) as one:
        bus = make_bus(f"tls://127.0.0.1:{one.port}")

        with pytest.raises(OSError, match=r"closed the connection|EOF|reset"):
            bus.publish(EVENT)


@pytest.mark.every_case
@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n", b"INFO [1]\r\n", b"INFO {\r\n", b"x" * 2_000_000])
def test_what_is_no_nats_server_is_said_to_be_none(make_bus: MakeBus, said: bytes) -> None:
    with Impostor(said) as one, pytest.raises(NATSError, match=r"is no NATS server|a line without an end"):
        make_bus(f"nats://127.0.0.1:{one.port}").publish(EVENT)


@pytest.fixture(autouse=True)
def _no_connection_is_left(serving_loop: LoopThread) -> Iterator[None]:
    """No test leaves a task of nats-py on the loop."""
    with _tasks_of(serving_loop):
        yield


@contextmanager
def _tasks_of(loop: LoopThread) -> Iterator[None]:
    async def running() -> set[str]:
        return {task.get_coro().__qualname__ for task in asyncio.all_tasks()}

    before = loop.run(running())
    yield
    wait_for(lambda: loop.run(running()) <= before, "the end of the tasks of nats-py", 60)


def test_a_bus_is_made_without_a_connection_and_without_nats_py() -> None:
    bus = NATSBus("nats://127.0.0.1:1")

    assert bus._sender._connection is None
