"""A call that is answered on a stream: what bounds it, what ends it, and what goes wrong around it."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from django.db.models.signals import pre_delete
from django.utils import timezone

from demo_project.flights.models import Airline
from mcp_django import ModelMCP, site
from mcp_django.events.controls import Control, ControlKind
from mcp_django.exchange.running import Running
from mcp_django.models import AccessToken, CallStream, OpenQuestion, PostedMessage, Session, StreamEvent
from mcp_django.protocol.errors import Overloaded
from mcp_django.push import hub as hubs
from mcp_django.sessions import mailbox, questions, streams
from mcp_django.sessions.questions import answer_question
from mcp_django.transports.http import asgi, event_log
from mcp_django.transports.http.endpoint import EndpointView
from mcp_django.transports.http.messages import HTTPResponse
from mcp_django.transports.http.routes import Route
from tests.end_to_end.servers import ROOT, Project, wait_for
from tests.push.processes import ServedPeer
from tests.push.test_two_servers import Stream
from tests.push.test_two_servers import begin as begin_served
from tests.support import schemas
from tests.support.asgi import ASGICall
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.http import ASGIPeer
from tests.support.peers import MODERN, Message, Peers, Socket, SocketPeer
from tests.support.talking import accept, call, in_session, talk
from tests.transports.calling import NAME, Gate, begin, events_until, message, resume

HTTP_ASGI = ("http-view-asgi", "http-asgi")
RESUMING = ("2025-03-26", "2025-06-18", "2025-11-25")
LEVEL = "io.modelcontextprotocol/logLevel"
ORIGIN = "https://app.example.com"
END_SECONDS = 30
HERE = Control(ControlKind.MAIL, "here")

over_http = pytest.mark.parametrize("transport", HTTP_ASGI)
bypassing_middleware = pytest.mark.parametrize("transport", ["http-asgi"])


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def peer(declared: Declared, users: Any, peers: Peers, gate: Gate) -> Any:
    """A client that can be asked, of an administrator."""

    def slow(request: Any) -> str:
        """Says something, waits, says something else."""
        request.mcp.log("info", "begun")
        gate.wait(request)
        request.mcp.log("info", "waited")
        return "done"

    def count(request: Any, steps: int = 5) -> str:
        """Counts."""
        for number in range(steps):
            request.mcp.progress(number)
        return "counted"

    def greet(request: Any) -> str:
        """Asks for a name."""
        return f"Hello, {request.mcp.elicit('Your name?', NAME).content['name']}."

    def until_cancelled(request: Any) -> str:
        """Chats until nobody wants to hear more."""
        gate.reached.set()
        while not request.mcp.cancelled and not gate.opened.is_set():
            request.mcp.log("info", "." * 500)
        gate.cancelled = request.mcp.cancelled
        gate.left.set()
        return "stopped"

    for function in (slow, count, greet, until_cancelled):
        declared.tool(function, read_only=True)
        switch_on(function.__name__)
    made = peers(token_of(users.admin))
    made.capabilities = {"elicitation": {}}
    return made


def ada(question: Message) -> Message:
    """The answer to a question for a name."""
    return {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}


def hub_of(peer: ASGIPeer) -> Any:
    return hubs._hubs[peer.loop.loop]


def text_of(answer: Message) -> str:
    [block] = answer["result"]["content"]
    return str(block["text"])


# Who may read it, and how much of it there may be.


@over_http
def test_a_page_of_an_allowed_origin_may_read_the_stream(peer: ASGIPeer, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "ALLOWED_ORIGINS": [ORIGIN]}
    stream = begin(peer, "count", "2025-11-25", headers={"Origin": ORIGIN}, _meta={"progressToken": 1})
    assert stream.headers["content-type"] == "text/event-stream"
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.3}
    timed_out = begin(peer, "slow", MODERN, headers={"Origin": ORIGIN})

    for answer in (stream, timed_out):
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["vary"] == "Origin"
    gate.opened.set()


@over_http
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_ten_thousand_steps(peer: ASGIPeer, revision: str) -> None:
    """Those that do not fit are left out, and everybody else is answered meanwhile."""
    params = {"name": "count", "arguments": {"steps": 10_000}, "_meta": {"progressToken": 1}}

    said = talk(peer, revision, "tools/call", params)

    steps = [step for step, _, _ in said.progress]
    assert steps == sorted(set(steps))
    assert said.text == "counted"
    assert StreamEvent.objects.count() == (len(steps) + 1 if revision != MODERN else 0)


@bypassing_middleware
def test_a_flood_for_a_client_that_is_gone_holds_up_nobody(peer: ASGIPeer, gate: Gate) -> None:
    """A legacy call goes on without its client; what it says goes nowhere, and the loop has other things to do."""
    stream = begin(peer, "until_cancelled", "2025-11-25")
    assert gate.reached.wait(30)
    stream.leave()

    assert peer.result("2025-11-25", "ping") == {}
    gate.opened.set()


class Stalled:
    """A client that reads the beginning of an answer, and nothing after it, but whose connection stays."""

    def __init__(self, peer: ASGIPeer, message: Message, headers: dict[str, str]) -> None:
        self.loop = peer.loop
        self.first = b""
        self.loop.run(self._open(peer, peer.scope("POST", peer.headers(headers)), json.dumps(message).encode()))

    async def _open(self, peer: ASGIPeer, scope: Message, body: bytes) -> None:
        self._begun = asyncio.Event()
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.task = asyncio.ensure_future(peer.application(scope, self.inbox.get, self._send))
        await self.inbox.put({"type": "http.request", "body": body, "more_body": False})
        await asyncio.wait_for(self._begun.wait(), 30)

    async def _send(self, sent: Message) -> None:
        if sent["type"] == "http.response.body":
            self.first = sent["body"]
            self._begun.set()
            await asyncio.Event().wait()

    def leave(self) -> None:
        async def leave() -> None:
            await self.inbox.put({"type": "http.disconnect"})
            await asyncio.wait({self.task}, timeout=30)

        self.loop.run(leave())


@over_http
def test_who_comes_back_does_not_wait_for_the_connection_that_was_lost(
    peer: ASGIPeer, gate: Gate, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is not told of every lost connection: it takes it for a client that reads slowly."""
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 5_000}
    monkeypatch.setattr(event_log, "_READER_SECONDS", 0.1)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "until_cancelled"}}
    lost = Stalled(peer, body, in_session(peer, "2025-11-25"))
    priming = lost.first.decode().split("id: ")[1].split("\n")[0]
    wait_for(lambda: StreamEvent.objects.count() > 30, "more events than wait for a client")
    gate.opened.set()

    *_, answer = resume(peer, "2025-11-25", priming).events()

    assert text_of(message(answer)) == "stopped"
    lost.leave()


@over_http
def test_a_client_that_does_not_read_has_no_more_time_than_others(peer: ASGIPeer, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 5_000, "REQUEST_SECONDS": 2.0}
    params = {"name": "until_cancelled", "_meta": peer.meta(**{LEVEL: "info"})}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    stalled = Stalled(peer, body, peer.modern_headers("tools/call", params))

    assert gate.left.wait(30)

    assert gate.cancelled
    stalled.leave()


@over_http
def test_a_request_has_its_time_once_whether_it_says_something_or_not(
    peer: ASGIPeer, declared: Declared, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 4.0}
    peer.session("2025-11-25")
    ended = []

    def late(request: Any) -> str:
        """Says something late, and goes on."""
        begun = time.monotonic()
        time.sleep(2.5)
        request.mcp.log("info", "late")
        while not request.mcp.cancelled and time.monotonic() < begun + 30:
            time.sleep(0.01)
        ended.append(time.monotonic() - begun)
        return "done"

    declared.tool(late, read_only=True)
    switch_on("late")

    said = call(peer, "late", "2025-11-25")

    assert said.answer["error"]["data"]["reason"] == "REQUEST_TIMED_OUT"
    wait_for(lambda: ended, "the end of the tool")
    assert ended[0] < 6.4  # It would have been 6.5 from what it said on.


# How it ends before its answer.


@over_http
@pytest.mark.parametrize("frame", ["alone", "in a batch"])
def test_a_call_that_is_given_up_ends_its_stream_though_its_tool_does_not_look(
    peer: ASGIPeer, gate: Gate, frame: str
) -> None:
    stream = begin(peer, "slow", "2025-03-26", "mine")
    events_until(stream, 1)
    notice: Any = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}}

    assert peer.post([notice] if frame == "in a batch" else notice, in_session(peer, "2025-03-26")).status == 202

    assert list(stream.events()) == []
    gate.opened.set()
    assert gate.left.wait(30)
    assert gate.cancelled


@over_http
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_revoked_token_ends_the_stream_and_the_work(peer: ASGIPeer, gate: Gate, revision: str) -> None:
    stream = begin(peer, "slow", revision, _meta={LEVEL: "info"})
    events_until(stream, 1)

    AccessToken.objects.get().revoke()

    [*_, end] = [message(event) for event in stream.events() if event.data]
    assert end["error"]["data"]["reason"] == "UNAUTHENTICATED"
    gate.opened.set()
    assert gate.left.wait(30)
    assert gate.cancelled
    peer.sessions.clear()


@over_http
def test_a_revoked_token_ends_an_open_question(peer: ASGIPeer) -> None:
    stream = begin(peer, "greet", "2025-11-25")
    _, question = events_until(stream, 2)

    AccessToken.objects.get().revoke()

    cancelled, end = [message(event) for event in stream.events()]
    assert cancelled["params"]["requestId"] == message(question)["id"]
    assert end["error"]["data"]["reason"] == "UNAUTHENTICATED"
    assert not OpenQuestion.objects.exists()
    peer.sessions.clear()


@over_http
@pytest.mark.parametrize("how", ["by its client", "by another process"])
def test_a_session_that_ends_takes_its_open_questions_with_it(peer: ASGIPeer, how: str) -> None:
    """Nobody can answer them any more."""
    stream = begin(peer, "greet", "2025-11-25")
    _, question = events_until(stream, 2)

    if how == "by its client":
        assert peer.http("DELETE", headers=in_session(peer, "2025-11-25")).status == 204
    else:
        Session.objects.all().delete()

    peer.sessions.clear()
    cancelled, end = [message(event) for event in stream.events()]
    assert cancelled["params"]["requestId"] == message(question)["id"]
    assert end["error"]["data"]["reason"] == "UNAUTHENTICATED"
    assert hub_of(peer).waiters._expected == {}
    assert not hub_of(peer)._members
    assert hub_of(peer).waiters.stored_streams == {}


@over_http
def test_a_session_that_ends_before_its_client_is_asked(
    peer: ASGIPeer, declared: Declared, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    def late(request: Any) -> str:
        """Asks when it is too late."""
        request.mcp.log("info", "begun")
        gate.wait(request)
        return str(request.mcp.elicit("Your name?", NAME).action)

    declared.tool(late, read_only=True)
    switch_on("late")
    stream = begin(peer, "late", "2025-11-25")
    events_until(stream, 2)
    assert peer.http("DELETE", headers=in_session(peer, "2025-11-25")).status == 204
    peer.sessions.clear()

    gate.opened.set()

    [end] = [message(event) for event in stream.events()]
    assert end["error"]["data"]["reason"] == "SESSION_NOT_FOUND"
    assert caplog.records == []


@over_http
def test_a_session_ends_though_one_of_its_calls_stores_an_event_just_then(peer: ASGIPeer, gate: Gate) -> None:
    """The database does not let the stream go, to which the event points: the session is over all the same."""
    key = peer.session("2025-11-25")
    stream = begin(peer, "slow", "2025-11-25")
    events_until(stream, 2)

    def store(sender: Any, instance: CallStream, **kwargs: Any) -> None:
        StreamEvent.objects.create(stream=instance, number=99, body="{}")

    pre_delete.connect(store, sender=CallStream)
    try:
        ended = peer.http("DELETE", headers=in_session(peer, "2025-11-25"))
        again = peer.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, in_session(peer, "2025-11-25"))
    finally:
        pre_delete.disconnect(store, sender=CallStream)

    assert (ended.status, again.status) == (204, 404)
    peer.sessions.clear()
    gate.opened.set()
    [*_, end] = stream.events()
    assert text_of(message(end)) == "done"
    peer.session("2025-11-25")
    assert not Session.objects.filter(pk=key).exists()
    assert not CallStream.objects.exists()


@over_http
def test_a_session_lives_as_long_as_its_client_is_asked(peer: ASGIPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SESSION_SECONDS": 1_000}
    stream = begin(peer, "greet", "2025-11-25")
    _, question = events_until(stream, 2)
    Session.objects.update(expires_at=timezone.now() + timedelta(seconds=500))

    wait_for(lambda: Session.objects.get().expires_at > timezone.now() + timedelta(seconds=900), "a renewal")

    assert peer.post(ada(message(question)), in_session(peer, "2025-11-25")).status == 202
    [end] = stream.events()
    assert text_of(message(end)) == "Hello, Ada."


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_who_was_asked_is_not_sent_away_because_the_workers_are_busy(
    users: Any, declared: Declared, peers: Peers, gate: Gate, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "QUEUE_PER_PRINCIPAL": 1, "THREADS": 2}

    def wait(request: Any) -> str:
        """Waits."""
        gate.wait(request)
        return "waited"

    def greet(request: Any) -> str:
        """Asks for a name."""
        return f"Hello, {request.mcp.elicit('Your name?', NAME).content['name']}."

    for function in (wait, greet):
        declared.tool(function, read_only=True)
        switch_on(function.__name__)
    peer = peers(token_of(users.admin))
    peer.capabilities = {"elicitation": {}}
    busy = {"jsonrpc": "2.0", "id": "busy", "method": "tools/call", "params": {"name": "wait"}}
    asking = {"jsonrpc": "2.0", "id": "asking", "method": "tools/call", "params": {"name": "greet"}}
    opening = threading.Timer(1, gate.opened.set)
    if isinstance(peer, SocketPeer):
        socket = peer.socket("2025-11-25")
        socket.send(asking)
        question = socket.loop.run(asyncio.wait_for(socket.notifications.get(), 30))
        socket.send(busy)
        assert gate.reached.wait(30)
        socket.send(ada(question))
        opening.start()
        answers = {answer["id"]: answer for answer in (socket.answer(), socket.answer())}
        assert text_of(answers["asking"]) == "Hello, Ada."
        return
    assert isinstance(peer, ASGIPeer)
    stream = begin(peer, "greet", "2025-11-25", "asking")
    _, asked = events_until(stream, 2)
    work = peer._exchange(peer.scope("POST", peer.headers(in_session(peer, "2025-11-25"))), json.dumps(busy).encode())
    waiting = asyncio.run_coroutine_threadsafe(work, peer.loop.loop)
    assert gate.reached.wait(30)
    # To another process, which is not busy.
    answer_question(peer.sessions["2025-11-25"], message(asked)["id"], ada(message(asked)))
    opening.start()
    [end] = stream.events()
    assert text_of(message(end)) == "Hello, Ada."
    assert waiting.result(30).status == 200


@bypassing_middleware
def test_questions_beyond_the_limit_are_refused_in_band(peer: ASGIPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 2}
    open_ = [begin(peer, "greet", "2025-11-25", number) for number in range(2)]
    asked = [message(events_until(stream, 2)[1]) for stream in open_]

    [*_, refused] = begin(peer, "greet", "2025-11-25", 3).messages()

    assert refused["error"]["data"]["reason"] == "LIMIT_EXCEEDED"
    assert "MAX_LISTENS" in refused["error"]["message"]
    for stream, question in zip(open_, asked, strict=True):
        assert peer.post(ada(question), in_session(peer, "2025-11-25")).status == 202
        [end] = stream.events()
        assert text_of(message(end)) == "Hello, Ada."


# Coming back.


@over_http
def test_of_those_who_resume_one_stream_the_newest_is_told(peer: ASGIPeer, gate: Gate) -> None:
    """A client cannot have the database asked for one stream a thousand times."""
    stream = begin(peer, "slow", "2025-11-25")
    first, _ = events_until(stream, 2)
    resumed = [resume(peer, "2025-11-25", str(first.id)) for _ in range(5)]

    assert list(stream.events()) == []
    for older in resumed[:-1]:
        assert [message(event)["params"]["data"] for event in older.events()] == ["begun"]
    gate.opened.set()

    [*_, end] = resumed[-1].events()
    assert text_of(message(end)) == "done"
    wait_for(lambda: not hub_of(peer).waiters._readers and not hub_of(peer)._members, "the end of every stream")


@over_http
def test_the_rest_is_read_again_after_a_failure(
    peer: ASGIPeer, gate: Gate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = events_until(begin(peer, "slow", "2025-11-25"), 2)
    failures = [Overloaded("busy"), OSError("the database is away")]
    real = streams.rest

    def rest(*args: Any) -> Any:
        if failures:
            raise failures.pop(0)
        return real(*args)

    monkeypatch.setattr(streams, "rest", rest)
    resumed = resume(peer, "2025-11-25", str(first.id))
    gate.opened.set()

    [*_, end] = resumed.events()

    assert text_of(message(end)) == "done"
    assert [record.getMessage() for record in caplog.records] == [
        "The rest of a stream could not be read; trying again"
    ]


@over_http
def test_a_database_that_is_away_costs_the_stream_and_not_the_answer(
    peer: ASGIPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **named: Any) -> Any:
        raise OSError("the database is away")

    for function in ("open_stream", "add_events"):
        with monkeypatch.context() as patch:
            patch.setattr(streams, function, fail)
            said = talk(peer, "2025-11-25", "tools/call", {"name": "count", "_meta": {"progressToken": 1}})
        assert [step for step, _, _ in said.progress] == [0, 1, 2, 3, 4]
        assert said.text == "counted"
    assert hub_of(peer).waiters.stored_streams == {}


@over_http
@pytest.mark.parametrize("function", ["open_questions", "take_responses"])
def test_a_database_that_is_away_while_a_client_is_asked(
    peer: ASGIPeer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, function: str
) -> None:
    def fail(*args: Any) -> Any:
        raise OSError("the database is away")

    monkeypatch.setattr(questions, function, fail)

    said = call(peer, "greet", "2025-11-25", accept(name="Ada"))

    assert said.answer["error"]["data"] == {"reason": "INTERNAL_ERROR"}
    assert [record.getMessage() for record in caplog.records] == ["A request could not be answered"]
    wait_for(lambda: not hub_of(peer)._members, "the end of the call")
    assert hub_of(peer).waiters._expected == {}


@over_http
def test_a_stream_whose_time_is_over_is_405(peer: ASGIPeer, gate: Gate) -> None:
    gate.opened.set()
    first, *_ = begin(peer, "slow", "2025-11-25").events()
    CallStream.objects.update(expires_at=timezone.now())

    assert resume(peer, "2025-11-25", str(first.id)).status == 405


@pytest.mark.parametrize("transport", ["http-asgi"])
@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite refuses a write behind a read")
def test_streams_are_stored_and_messages_taken_in_parallel_on_sqlite(peer: ASGIPeer) -> None:
    """With the transactions that a project has by default, which begin with what they read."""
    key = peer.session("2025-11-25")
    errors: list[str] = []
    taken: list[str] = []

    def work(number: int) -> None:
        connection.ensure_connection()
        connection.transaction_mode = None
        stream = streams.open_stream(key, number)
        for step in range(1, 31):
            try:
                assert streams.add_events(stream, step, [f"{number}"], ended=step == 30, report=False)
                PostedMessage.objects.create(address="mail:here", body=f"{number}/{step}")
                taken.extend(mailbox.take(HERE))
            except Exception as error:  # noqa: BLE001 - told by the test
                errors.append(repr(error))
        connections.close_all()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert StreamEvent.objects.count() == 6 * 30
    assert sorted([*taken, *mailbox.take(HERE)]) == sorted(
        f"{number}/{step}" for number in range(6) for step in range(1, 31)
    )


# What is not an answer.


@pytest.mark.parametrize("transport", [*HTTP_ASGI, "websocket", "stdio"])
def test_a_handler_that_wants_to_end_the_process(declared: Declared, users: Any, peers: Peers) -> None:
    def leave(request: Any) -> str:
        raise SystemExit(3)

    declared.resource("leave://it", leave)
    peer = peers(token_of(users.admin))

    for revision in ("2025-11-25", MODERN):
        error = peer.error(revision, "resources/read", {"uri": "leave://it"})
        assert (error["code"], error["data"]) == (-32603, {"reason": "INTERNAL_ERROR"})


@over_http
def test_nothing_but_what_it_listens_to_goes_on_the_stream_of_a_listen(
    peer: ASGIPeer, declared: Declared, flights: Any
) -> None:
    """A hook that logs does not take the place of the acknowledgement."""

    class Chatty(ModelMCP):
        def get_queryset(self, request: Any) -> Any:
            if hasattr(request, "exchange"):
                request.mcp.log("error", "looked")
                request.mcp.progress(1)
            return super().get_queryset(request)

    declared.model(Airline, Chatty)
    wanted = {"resourceSubscriptions": ["db://flights/airline/UA"]}
    params = {"notifications": wanted, "_meta": peer.meta(**{LEVEL: "debug", "progressToken": 1})}
    body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}

    stream = peer.stream("POST", MODERN, peer.modern_headers(body["method"], params), json.dumps(body).encode())

    opened = stream.next()
    assert opened["method"] == "notifications/subscriptions/acknowledged"
    assert opened["params"]["notifications"] == wanted


@bypassing_middleware
def test_a_stream_that_is_never_begun_is_given_up(peer: ASGIPeer, gate: Gate) -> None:
    """The server ends a request just when its answer is there."""
    peer.session("2025-11-25")

    async def run() -> None:
        class EndingView(EndpointView):
            async def respond_on_loop(self) -> HTTPResponse:
                response = await super().respond_on_loop()
                task.cancel()
                return response

        application = asgi.HTTPApplication(site, Route("mcp", "endpoint", EndingView))
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "slow", "_meta": peer.meta(**{LEVEL: "info"})}}  # fmt: skip
        scope = peer.scope("POST", peer.headers(peer.modern_headers("tools/call", body["params"])))
        exchange = ASGICall(application, scope)
        task = exchange.task
        await exchange.inbox.put({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
        await asyncio.wait({task}, timeout=30)
        assert task.cancelled()

    peer.loop.run(run())

    gate.opened.set()
    assert gate.left.wait(30)
    assert gate.cancelled
    wait_for(lambda: not hub_of(peer)._members, "the end of the call")


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_that_breaks_while_it_is_written_to_is_no_error(
    peer: SocketPeer, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    """Servers raise, each its own exception, where an application writes to a client that is gone."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        async def send_or_fail(sent: Message) -> None:
            if sent["type"] == "websocket.send":
                raise OSError("the client is gone")
            await send(sent)

        await peer.application(scope, receive, send_or_fail)

    socket = Socket(peer.loop, application, {"Authorization": f"Bearer {peer.token}"})
    params = {"name": "slow", "_meta": peer.meta(**{LEVEL: "info"})}
    socket.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert gate.reached.wait(30)
    gate.opened.set()
    assert gate.left.wait(30)

    socket.close()

    # What becomes of the tasks of the one is known before the other is answered.
    assert peer.result("2025-11-25", "ping") == {}
    gc.collect()
    assert caplog.records == []


def test_requests_begin_while_the_sweep_asks_which_there_are() -> None:
    running: Any = Running()
    kept = [_Kept() for _ in range(100)]
    for number, one in enumerate(kept):
        running[f"kept {number}"] = one
    over = threading.Event()

    def begin_many() -> None:
        number = 0
        while not over.is_set():
            running[f"{number}"] = _Kept()
            number += 1

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=begin_many) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(2_000):
            assert len([key for key in running if key.startswith("kept")]) == 100
    finally:
        over.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()


class _Kept:
    """What a weak reference may lead to."""


# How a server ends.


def _project(folder: Path) -> Project:
    folder.mkdir()
    variables = {
        "DJANGO_SETTINGS_MODULE": "tests.settings", "TEST_DATABASE_NAME": str(connection.settings_dict["NAME"]),
        "TEST_MODULE": "tests.push.asking_tools", "DEMO_DIR": str(folder),
    }  # fmt: skip
    return Project(ROOT, "tests", folder, variables)


def _client(token: str, origin: str) -> ServedPeer:
    peer = ServedPeer(token, origin)
    peer.capabilities = {"elicitation": {}}
    return peer


@pytest.mark.parametrize("server", ["daphne", "uvicorn"])
def test_open_questions_end_with_the_server(server: str, users: Any, tmp_path: Path) -> None:
    """A server waits for open streams, and a question is open for as long as its user likes."""
    switch_on("greet")
    with _project(tmp_path / "one").served(server) as served:
        peer = _client(token_of(users.admin), served.origin)
        stream = begin_served(peer, "2025-11-25", "greet")
        question = stream.next()
        assert question is not None

        served.process.terminate()
        cancelled, end = stream.next(), stream.next()

        for told in (cancelled, end):
            assert told is not None
            schemas.check(told, "2025-11-25", "tools/call")
        assert cancelled["params"]["requestId"] == question["id"]
        assert end["error"]["data"] == {"reason": "OVERLOADED"}
        assert stream.next() is None
        assert served.process.wait(END_SECONDS) is not None
        peer.client.close()


@pytest.mark.parametrize("server", ["daphne", "uvicorn"])
def test_resumed_streams_end_with_the_server_and_go_on_at_another(server: str, users: Any, tmp_path: Path) -> None:
    switch_on("greet")
    with _project(tmp_path / "one").served("uvicorn") as one, _project(tmp_path / "other").served(server) as other:
        here, there = (_client(token_of(users.admin), served.origin) for served in (one, other))
        there.token, there.sessions = here.token, here.sessions
        stream = begin_served(here, "2025-11-25", "greet")
        question = stream.next()
        assert question is not None
        first = {"Last-Event-ID": f"{stream.last_id.rpartition('-')[0]}-0"}
        rest = Stream(there, "2025-11-25", "GET", first)
        assert rest.next() == question

        other.process.terminate()
        assert rest.next() is None
        assert other.process.wait(END_SECONDS) is not None

        again = Stream(here, "2025-11-25", "GET", first)
        assert again.next() == question
        for peer in (here, there):
            peer.client.close()
