"""Results that stream: a tool waits for a client that reads slowly, and ends with the request of one that goes."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest

from mcp_django.audit.recorder import recorder
from mcp_django.bridge.resources.reading import rows
from mcp_django.exchange import chunks
from mcp_django.exchange.cancellation import Cancellation
from mcp_django.exchange.chunks import ChunkStream, Part
from mcp_django.exchange.exchange import Sent
from mcp_django.exchange.usage import Usage
from mcp_django.models import Call, StreamEvent
from mcp_django.protocol import protobuf
from tests.axes import DUPLEX
from tests.end_to_end.servers import wait_for
from tests.support.chunks import KEY, chunks_in, parts_in, texts_in
from tests.support.declared import Declared
from tests.support.grpc import GRPCPeer
from tests.support.http import Answering
from tests.support.peers import MODERN, REVISIONS, ASGIPeer, DuplexPeer, Peer, Socket, SocketPeer
from tests.support.stdio import StdioPeer
from tests.support.talking import in_session, talk
from tests.transports.calling import Gate, begin, events_until, message, resume

STREAMING = ("http-asgi", "http-view-asgi", *DUPLEX)
PAGE = 4096
#: What may wait for one client: an answer, three chunks, and what the system takes, or both ends of gRPC.
MOST_ROWS = 5_000
MOST_BYTES = 50_000_000


class Deaf:
    """An application whose client reads so many messages, and no more until it is told to listen."""

    def __init__(self, application: Any, reads: int) -> None:
        self._application = application
        self._left = reads
        self.listens = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_or_wait(part: Any) -> None:
            if not self._left:
                await self.listens.wait()
            self._left = max(0, self._left - 1)
            await send(part)

        await self._application(scope, receive, send_or_wait)


class Ticking:
    """A tool that yields, and what the test wants to know of it."""

    def __init__(self) -> None:
        self.count = 0
        self.memory = 0
        self.begun = threading.Event()
        self.ended = threading.Event()

    def million(self, request: HttpRequest) -> Iterator[list[Any]]:
        """A million rows of a thousand bytes."""
        try:
            for number in range(1_000_000):
                self._note(number)
                yield [number, "a" * 1_000]
        finally:
            self.ended.set()

    async def amillion(self, request: HttpRequest) -> AsyncIterator[list[Any]]:
        """A million rows of a thousand bytes."""
        try:
            for number in range(1_000_000):
                self._note(number)
                yield [number, "a" * 1_000]
        finally:
            self.ended.set()

    def tick(self, request: HttpRequest) -> Iterator[str]:
        """Ticks until nobody listens."""
        try:
            while not self.ended.wait(0.01):
                yield "tick"
        finally:
            self.ended.set()

    async def atick(self, request: HttpRequest) -> AsyncIterator[str]:
        """Ticks once, and then waits for something that never comes."""
        try:
            yield "tick"
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    def _note(self, number: int) -> None:
        self.count = number + 1
        if number % 100 == 0:
            memory = memory_now()
            self.memory = max(self.memory, memory)
        self.begun.set()


def memory_now() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def ticking(declared: Declared) -> Iterator[Ticking]:
    made = Ticking()
    for function in (made.million, made.amillion, made.tick, made.atick):
        declared.tool(function, read_only=True)
    yield made
    made.ended.set()


async def _unread(peer: GRPCPeer, body: Any) -> Any:
    """A session over gRPC in which the client asks, and does not read."""
    call = peer.stub.Session(metadata=peer.metadata)
    await call.write(protobuf.message_of(body))
    return call


@pytest.fixture
def deaf() -> Iterator[Callable[[Peer, str], Any]]:
    """``deaf(peer, tool)`` calls the tool for a client that does not read."""
    made: list[tuple[Any, Any, Deaf | None]] = []

    def call(peer: Any, tool: str) -> Any:
        params = {"name": tool, "_stream": True, "_meta": peer.meta()}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        if isinstance(peer, ASGIPeer):
            application = Deaf(peer.application, 1)
            scope = peer.scope("POST", peer.headers(peer.modern_headers("tools/call", params)))
            client: Any = Answering(peer.loop, application, scope, json.dumps(body).encode(), MODERN)
            made.append((peer, client, application))
            return client
        if isinstance(peer, GRPCPeer):
            client = peer.loop.run(_unread(peer, body))
            made.append((peer, client, None))
            return client
        if isinstance(peer, StdioPeer):
            client = peer.connect(reads=False)
            made.append((peer, client, None))
        else:
            application = Deaf(peer.application, 1)
            client = Socket(peer.loop, application, {"Authorization": f"Bearer {peer.token}"})
            made.append((peer, client, application))
        client.send(body)
        return client

    yield call
    for peer, client, application in made:
        if application is not None:
            peer.loop.loop.call_soon_threadsafe(application.listens.set)
        if isinstance(client, Answering):
            client.leave()
        elif isinstance(client, Socket):
            client.close()
        elif isinstance(peer, GRPCPeer):
            peer.loop.loop.call_soon_threadsafe(client.cancel)


# A client that does not read.


@pytest.mark.every_case
@pytest.mark.parametrize("transport", [*STREAMING, "grpc"])
@pytest.mark.parametrize("tool", ["million", "amillion"])
def test_filling_memory_with_rows_that_nobody_reads(
    admin: Peer, ticking: Ticking, deaf: Any, settings: Any, tool: str
) -> None:
    """The tool waits, and its time ends it."""
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 2}
    before = memory_now()

    deaf(admin, tool)

    assert ticking.ended.wait(60)
    assert 100 < ticking.count < MOST_ROWS
    assert ticking.memory - before < MOST_BYTES


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
@pytest.mark.every_case
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_has_waited_for_its_client_goes_on(
    declared: Declared, admin: Any, monkeypatch: pytest.MonkeyPatch, settings: Any, is_async: bool
) -> None:
    waits, real = threading.Event(), ChunkStream._add

    def add(stream: ChunkStream, part: Part) -> Any:
        waiting = real(stream, part)
        if waiting is not None:
            waits.set()
        return waiting

    def many(request: HttpRequest) -> Iterator[list[Any]]:
        """More than one chunk holds."""
        for number in range(600):
            yield [number, "a" * 1_000]

    async def amany(request: HttpRequest) -> AsyncIterator[list[Any]]:
        """More than one chunk holds."""
        for number in range(600):
            yield [number, "a" * 1_000]

    # However slowly this machine makes them.
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 1.0)
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 300_000}
    declared.tool(amany if is_async else many, name="many", read_only=True)
    monkeypatch.setattr(ChunkStream, "_add", add)

    said = talk(admin, MODERN, "tools/call", {"name": "many", "_stream": True})

    assert waits.is_set()
    assert [row[0] for row in parts_in(said.told)] == list(range(600))
    assert said.answer["result"]["content"][-1]["text"].startswith("The result is cut here: it has 600 parts")


# A client that goes away or cancels.


@pytest.mark.parametrize("transport", DUPLEX)
@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
@pytest.mark.parametrize("tool", ["tick", "atick"])
def test_cancelling_closes_the_generator(admin: DuplexPeer, ticking: Ticking, revision: str, tool: str) -> None:
    connection = admin.connection(revision)
    params = {"name": tool, "_stream": True, **({"_meta": admin.meta()} if revision == MODERN else {})}
    connection.send({"jsonrpc": "2.0", "id": "t", "method": "tools/call", "params": params})
    first = connection.loop.run(asyncio.wait_for(connection.notifications.get(), 30))

    connection.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "t"}})

    assert ticking.ended.wait(30)
    assert first["params"]["progressToken"] == "t"
    assert admin.request(revision, "tools/list")["result"]["tools"]


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-asgi", "websocket"])
@pytest.mark.parametrize("tool", ["million", "tick", "atick"])
def test_a_client_that_disconnects_closes_the_generator(admin: Any, ticking: Ticking, tool: str) -> None:
    if isinstance(admin, SocketPeer):
        socket = admin.connect()
        params = {"name": tool, "_stream": True, "_meta": admin.meta()}
        socket.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        socket.loop.run(asyncio.wait_for(socket.notifications.get(), 60))
        leave: Any = socket.close
    else:
        stream = begin(admin, tool, MODERN, _stream=True)
        events_until(stream, 1)
        leave = stream.leave

    leave()

    assert ticking.ended.wait(60)


@pytest.mark.parametrize("transport", STREAMING)
@pytest.mark.parametrize("tool", ["tick", "atick"])
def test_the_deadline_closes_the_generator(admin: Peer, ticking: Ticking, settings: Any, tool: str) -> None:
    # Enough for the first tick.
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 3}

    said = talk(admin, MODERN, "tools/call", {"name": tool, "_stream": True})

    assert said.answer["error"]["data"]["reason"] == "REQUEST_TIMED_OUT"
    assert ticking.ended.wait(30)
    assert texts_in(said.told).startswith("tick")


def test_a_generator_that_goes_on_after_it_was_closed_is_no_longer_heard(
    declared: Declared, admin: ASGIPeer, caplog: pytest.LogCaptureFixture
) -> None:
    left = threading.Event()

    def stubborn(request: HttpRequest) -> Iterator[str]:
        """Swallows its end."""
        while not left.is_set():
            try:
                yield "tick"
                left.wait(0.01)
            except GeneratorExit:
                left.set()
                yield "never"

    declared.tool(stubborn, read_only=True)
    stream = begin(admin, "stubborn", MODERN, _stream=True)
    events_until(stream, 1)

    stream.leave()

    assert left.wait(30)
    assert admin.call("describe_models")["isError"] is False
    assert not caplog.records


# Streams that are resumed, and messages that leave together.


def test_a_client_that_comes_back_gets_the_whole_result_and_no_chunk_is_stored(
    declared: Declared, admin: ASGIPeer
) -> None:
    gate = Gate()

    def halves(request: HttpRequest) -> Iterator[str]:
        """Waits in the middle."""
        yield "one "
        gate.wait(request)
        yield "two"

    declared.tool(halves, read_only=True)
    stream = begin(admin, "halves", "2025-11-25", _stream=True)
    primed, chunk = events_until(stream, 2)
    stream.leave()

    gate.opened.set()
    [*_, end] = resume(admin, "2025-11-25", str(primed.id)).events()

    assert (texts_in([message(chunk)]), chunk.id) == ("one ", None)
    assert message(end)["result"]["content"] == [{"type": "text", "text": "one two"}]
    assert [json.loads(event.body).keys() for event in StreamEvent.objects.all()] == [{"jsonrpc", "id", "result"}]


@pytest.mark.parametrize("transport", ["http-asgi", "websocket", "stdio"])
def test_a_member_of_a_batch_gets_the_result_alone(declared: Declared, admin: Any) -> None:
    def poem(request: HttpRequest) -> Iterator[str]:
        """Say it."""
        yield "roses "
        yield "are red"

    declared.tool(poem, read_only=True)
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "poem", "_stream": True}}

    if isinstance(admin, ASGIPeer):
        [answer] = admin.post([call], in_session(admin, "2025-03-26")).json
    else:
        [answer] = admin.connection("2025-03-26").ask([call])
        assert admin.connection("2025-03-26").notifications.empty()

    assert answer["result"]["content"] == [{"type": "text", "text": "roses are red"}]


# Pages of rows.


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize("transport", STREAMING)
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_rows_of_a_page_go_ahead_of_it(admin: Peer, revision: str) -> None:
    arguments = {"model": "flights.flight", "fields": ["id", "origin"], "total": True}

    said = talk(admin, revision, "tools/call", {"name": "find_records", "arguments": arguments, "_stream": True})

    page = json.loads(said.text)
    assert parts_in(said.told) == page["rows"] and len(page["rows"]) > 1
    assert {tuple(chunk["columns"]) for chunk in chunks_in(said.told)} == {("id", "origin")}
    assert page["total"] == len(page["rows"])


@pytest.mark.usefixtures("flights")
def test_a_progress_token_alone_does_not_ask_for_a_page_twice(admin: Peer) -> None:
    params = {"name": "find_records", "arguments": {"model": "flights.flight"}, "_meta": {"progressToken": 1}}

    assert talk(admin, MODERN, "tools/call", params).told == []


# What is counted.


@pytest.mark.usefixtures("trail")
@pytest.mark.parametrize("tool", ["rows", "fails"])
def test_reading_more_than_the_budget_allows_in_chunks(
    declared: Declared, admin: ASGIPeer, settings: Any, tool: str
) -> None:
    """An answer that is an error counts too: what went before it was read."""

    def rows(request: HttpRequest) -> Iterator[str]:
        """Much."""
        yield from ["a" * 1_000] * 50

    def fails(request: HttpRequest) -> Iterator[str]:
        """Much, and then nothing."""
        yield from ["a" * 1_000] * 50
        raise ValueError

    for function in (rows, fails):
        declared.tool(function, read_only=True)
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"bytes": "80000/day"}}}

    first = talk(admin, MODERN, "tools/call", {"name": tool, "_stream": True})
    second = talk(admin, MODERN, "tools/call", {"name": tool, "_stream": True})

    assert len(texts_in(first.told)) == 50_000
    assert second.answer["error"]["data"]["reason"] == "THROTTLED"
    recorder.flush()
    assert Call.objects.filter(name=tool).earliest("pk").bytes > 100_000


@pytest.mark.parametrize("is_async", [False, True])
def test_reading_past_the_budget_by_cancelling_each_call(
    declared: Declared, admin: ASGIPeer, settings: Any, is_async: bool
) -> None:
    stopped = threading.Event()

    def endless(request: HttpRequest) -> Iterator[str]:
        """Much, and then it waits."""
        yield "a" * 30_000
        while not stopped.wait(0.01):
            yield ""

    async def aendless(request: HttpRequest) -> AsyncIterator[str]:
        """Much, and then it waits."""
        yield "a" * 30_000
        await asyncio.Event().wait()

    declared.tool(aendless if is_async else endless, name="endless", read_only=True)
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"bytes": "50000/day"}}}
    stream = begin(admin, "endless", MODERN, _stream=True)
    [first] = events_until(stream, 1)

    stream.leave()

    def is_throttled() -> bool:
        # Errors cost nothing.
        return bool(admin.error(MODERN, "tools/call", {"name": "nothing"})["data"]["reason"] == "THROTTLED")

    wait_for(is_throttled, "the count of what was read")
    stopped.set()
    assert len(texts_in([message(first)])) == 30_000


def test_reading_rows_past_the_budget_in_calls_that_fail(
    admin: ASGIPeer, flights: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows went to the client before the rest of the call failed."""

    def fail(*_: Any) -> None:
        raise ValueError

    monkeypatch.setattr(rows, "_count", fail)
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"rows": "3/day"}}}
    arguments = {"model": "flights.flight", "total": True}

    first = talk(admin, MODERN, "tools/call", {"name": "find_records", "arguments": arguments, "_stream": True})
    second = talk(admin, MODERN, "tools/call", {"name": "find_records", "arguments": arguments, "_stream": True})

    assert first.answer["result"]["isError"] is True
    assert len(parts_in(first.told)) > 3
    assert second.answer["error"]["data"]["reason"] == "THROTTLED"


def test_rows_that_stream_and_are_answered_count_once(admin: ASGIPeer, flights: Any, settings: Any) -> None:
    call = {"name": "find_records", "arguments": {"model": "flights.flight"}, "_stream": True}
    count = len(parts_in(talk(admin, MODERN, "tools/call", call).told))
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"rows": f"{2 * count}/day"}}}

    assert all("result" in talk(admin, MODERN, "tools/call", call).answer for _ in range(2))
    assert talk(admin, MODERN, "tools/call", call).answer["error"]["data"]["reason"] == "THROTTLED"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_tool_that_waits_in_the_last_thread_is_heard(
    declared: Declared, admin: ASGIPeer, settings: Any, threads: int
) -> None:
    """The server stores what it sends on in the stream of a session, for which it needs a thread as well."""

    def many(request: HttpRequest) -> Iterator[list[Any]]:
        """Four megabytes."""
        for number in range(2_000):
            yield [number, "a" * 1_000]

    declared.tool(many, read_only=True)
    settings.MCP = {**settings.MCP, "THREADS": threads}

    said = talk(admin, "2025-11-25", "tools/call", {"name": "many", "_stream": True})

    assert [row[0] for row in parts_in(said.told)] == list(range(2_000))


# The pace.


class FakeLoop:
    """Holds back what is to happen later."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.later.append((seconds, callback))


def test_chunks_keep_a_distance_of_a_twentieth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, str]] = []
    loop, now = FakeLoop(), [100.0]
    monkeypatch.setattr(chunks.asyncio, "get_running_loop", lambda: loop)
    monkeypatch.setattr(chunks.time, "monotonic", lambda: now[0])
    exchange: Any = ExchangeStub(sent)
    stream = ChunkStream(exchange, "content")

    for text in "abc":
        stream.put(piece(text))
    now[0] += 0.02
    exchange.taken()
    [(seconds, go_on)] = loop.later

    assert sent == [(1, "a")]
    assert seconds == pytest.approx(0.03)
    go_on()
    assert sent == [(1, "a"), (2, "bc")]
    stream.put(piece("d"))
    stream.end()
    assert sent[2:] == [(1, "d")]


def test_no_chunk_goes_before_the_last_one_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, str]] = []
    exchange: Any = ExchangeStub(sent)
    stream = ChunkStream(exchange, "content")

    for _ in range(10):
        stream.put(piece("a" * 25_000))
    exchange.cancellation.cancel()

    assert sent == [(1, "a" * 25_000)]
    with pytest.raises(chunks.RequestCancelled):
        stream.put(piece("b"))


def test_a_tool_does_not_wait_for_a_loop_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_LOOK_SECONDS", 0.01)
    exchange: Any = ExchangeStub([])
    stream = ChunkStream(exchange, "content")
    for _ in range(2):
        stream.put(piece("a" * 200_000))

    with pytest.raises(chunks.RequestCancelled):
        stream.put(piece("a" * 200_000))


def piece(text: str) -> Part:
    return Part({"type": "text", "text": text}, text, len(text), 0, is_piece=True)


class ExchangeStub:
    """The exchange of a client whose transport takes chunks when the test says so."""

    def __init__(self, sent: list[tuple[int, str]]) -> None:
        self.cancellation, self.sent, self.usage = Cancellation(), Sent(), Usage()
        self.connection = self
        self.params: Any = {}
        self.request_id, self.revision = 1, MODERN
        self.is_live = False
        self._chunks = sent
        self.taken: Callable[[], None] = lambda: None

    @property
    def cancelled(self) -> bool:
        return self.cancellation.cancelled

    def send_chunk(self, body: bytes, taken: Callable[[], None]) -> None:
        params = json.loads(body)["params"]
        self._chunks.append((params["_meta"][KEY]["count"], params["message"]))
        self.taken = taken
