"""Which bodies are read, and how many of them are held at the same time."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from io import BytesIO
from typing import Any

import pytest
from django.test import Client

from mcp_django.core.running.workers import ADDRESS
from mcp_django.exchange.token_format import new_token
from mcp_django.protocol.errors import Overloaded
from mcp_django.transports.http import bodies
from mcp_django.transports.http.bodies import SMALL_BODY_BYTES, BodyMemory
from mcp_django.transports.http.incoming import ReadBody
from tests.end_to_end.servers import wait_for
from tests.support.challenges import NEEDED, own_part
from tests.support.data import Users, token_of
from tests.support.peers import ASGICall, ASGIPeer, HTTPPeer, Peers, decode_headers
from tests.support.raw import error

#: Bodies that are cut into pieces by hand.
pytestmark = pytest.mark.own_form

PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
LARGE = PING.ljust(SMALL_BODY_BYTES + 1)
OWN = ["tests.access.test_authentication.ProjectAuthentication"]
FULL = error(-32603, "OVERLOADED", "The server holds too many long messages (MAX_BODY_MEMORY). Try again in a moment.")
NOBODY = error(-32600, "UNAUTHENTICATED", NEEDED)


class Sending:
    """A request whose body is sent in pieces."""

    def __init__(self, peer: Any, length: int | None = None, **headers: str) -> None:
        assert isinstance(peer, ASGIPeer)
        self._loop = peer.loop
        given = {**headers, **({} if length is None else {"Content-Length": str(length)})}
        self._call: ASGICall = self._loop.run(self._open(peer, given))

    async def _open(self, peer: ASGIPeer, headers: dict[str, str]) -> ASGICall:
        return ASGICall(peer.application, peer.scope("POST", peer.headers(headers)))

    def send(self, piece: bytes, *, more: bool = True) -> None:
        self._loop.run(self._call.inbox.put({"type": "http.request", "body": piece, "more_body": more}))

    def taken(self) -> bool:
        return self._call.inbox.empty()

    def answer(self) -> tuple[int, dict[str, str], Any, bool]:
        """Status, headers and message of the answer, and whether it has ended."""
        start, part = self._loop.run(self._call.receive()), self._loop.run(self._call.receive())
        return start["status"], decode_headers(start["headers"]), json.loads(part["body"]), not part["more_body"]

    def end(self) -> Any:
        """The last message of the answer, once the application has returned."""
        last = self._loop.run(self._call.receive())
        self._loop.run(self._call.finish())
        return last

    def leave(self) -> None:
        self._loop.run(self._call.disconnect("http.disconnect"))


@pytest.mark.parametrize("length", [None, len(LARGE)])
def test_a_large_body_of_nobody_is_refused_while_it_is_sent_and_then_thrown_away(
    users: Users, peers: Peers, length: int | None
) -> None:
    sending = Sending(peers(None), length)
    sending.send(LARGE)

    status, headers, message, ended = sending.answer()
    for _ in range(3):
        sending.send(b" " * 1_000)
    sending.send(b"", more=False)

    assert (status, message, ended) == (401, NOBODY, False)
    assert own_part(headers["www-authenticate"]) == 'Bearer realm="mcp"'
    assert "connection" not in headers
    assert sending.end() == {"type": "http.response.body", "body": b"", "more_body": False}
    assert sending.taken()
    assert bodies.memory._held.total == 0


def test_an_endless_body_of_nobody_is_drained_up_to_the_limit(users: Users, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 100_000}
    sending = Sending(peers("mcp_unknown"))
    for _ in range(3):
        sending.send(b" " * 50_000)

    status, _, _, _ = sending.answer()

    assert status == 401
    assert sending.end()["more_body"] is False


def test_a_body_beyond_the_limit_is_refused_by_its_announced_length_and_an_endless_one_as_it_comes(
    users: Users, peers: Peers
) -> None:
    known = peers(token_of(users.admin))
    announced = [Sending(known, length) for length in (1_000_001, 10**30 - 1)]
    for sending in announced:
        sending.send(b"{")
    endless = Sending(known)
    for _ in range(11):
        endless.send(b" " * 100_000)

    for sending in (*announced, endless):
        status, headers, message, _ = sending.answer()
        assert (status, headers["content-type"]) == (413, "application/json")
        assert message["error"]["data"]["reason"] == "REQUEST_ENTITY_TOO_LARGE"
        sending.leave()


def test_a_body_that_never_ends_is_not_waited_for(users: Users, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.2}
    sending = Sending(peers(None))
    sending.send(b"{")

    status, _, message, _ = sending.answer()

    assert status == 408
    assert "REQUEST_SECONDS" in message["error"]["message"]
    sending.leave()


def test_small_bodies_are_always_read(users: Users, peers: Peers) -> None:
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)

    answer = peer.http("POST", PING.ljust(SMALL_BODY_BYTES))

    assert (answer.status, answer.json["id"]) == (401, 1)


@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-view-asgi", "http-asgi"])
def test_a_large_body_of_a_token_is_read(users: Users, peers: Peers) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, HTTPPeer)

    assert peer.http("POST", LARGE).json == PONG
    assert bodies.memory._held.total == 0


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_a_body_in_chunks_is_read_under_wsgi_where_its_end_is_known(users: Users, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": len(LARGE)}
    token = token_of(users.admin)

    def post(body: bytes, **environ: Any) -> Any:
        # As servers give it: without a length.
        given = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": BytesIO(body), "CONTENT_TYPE": "application/json"}
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        return Client(headers=headers).generic("POST", "/mcp", **given, **environ)

    known = {"wsgi.input_terminated": True}

    assert post(LARGE, **known).json() == PONG
    assert [post(body, **known).status_code for body in (LARGE + b" ", b"")] == [413, 400]
    unknown = post(PING)
    assert unknown.status_code == 411
    assert "Send Content-Length: this server does not know where a body in chunks ends." in unknown.text


def test_a_large_body_of_nobody_is_read_where_anybody_may_call(users: Users, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": ["read"]}
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)

    assert peer.http("POST", LARGE).json == PONG
    assert peer.http("POST", LARGE, {"Authorization": "Bearer mcp_unknown"}).status == 401


def test_a_large_body_comes_in_pieces(users: Users, peers: Peers) -> None:
    sending = Sending(peers(token_of(users.admin)))
    for start in range(0, len(LARGE), 1_000):
        sending.send(LARGE[start : start + 1_000])
    sending.send(b"", more=False)

    status, _, message, ended = sending.answer()

    assert (status, message, ended) == (200, PONG, True)


def test_classes_of_the_project_are_asked_before_a_large_body_is_read(
    users: Users, peers: Peers, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "AUTHENTICATION_CLASSES": OWN}
    refused = Sending(peers(None), len(LARGE), Authorization="Project nobody")
    let_in = Sending(peers(None), len(LARGE), Authorization="Project admin")

    status, _, message, _ = refused.answer()
    let_in.send(LARGE, more=False)

    assert (status, message["error"]["data"]["reason"]) == (401, "UNAUTHENTICATED")
    assert refused.taken()
    assert let_in.answer()[:3:2] == (200, PONG)
    refused.leave()


def test_classes_of_the_project_are_asked_once_for_a_body_that_comes_at_once(
    users: Users, peers: Peers, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.access.test_authentication import ProjectAuthentication

    settings.MCP = {**settings.MCP, "AUTHENTICATION_CLASSES": OWN, "TOKEN_CACHE_SECONDS": 60}
    asked: list[Any] = []
    authenticate = ProjectAuthentication.authenticate
    monkeypatch.setattr(
        ProjectAuthentication, "authenticate", lambda self, request: asked.append(1) or authenticate(self, request)
    )
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)

    assert peer.http("POST", LARGE, {"Authorization": "Project admin"}).json == PONG
    assert len(asked) == 1


def test_classes_of_the_project_are_asked_again_after_a_body_that_took_long(
    users: Users, peers: Peers, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "AUTHENTICATION_CLASSES": OWN, "TOKEN_CACHE_SECONDS": 0}
    sending = Sending(peers(None), len(LARGE), Authorization="Project admin")
    sending.send(LARGE[:10_000])
    wait_for(sending.taken, "the first piece to be read")
    users.admin.is_active = False
    users.admin.save()

    sending.send(LARGE[10_000:], more=False)

    assert sending.answer()[0] == 401


def test_a_page_of_another_origin_gets_no_large_body_read(users: Users, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "AUTHENTICATION_CLASSES": OWN}
    sending = Sending(peers(None), len(LARGE), Authorization="Project admin", Origin="https://evil.example")

    assert sending.answer()[0] == 403
    sending.leave()


# Memory.


@pytest.fixture
def little_memory(settings: Any) -> None:
    """Room for a body of a caller who is not known, and for four in all."""
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 100_000, "MAX_BODY_MEMORY": 400_000}


def test_many_connections_that_send_bodies_cannot_fill_the_memory(
    users: Users, peers: Peers, little_memory: None
) -> None:
    known, stranger = peers(token_of(users.admin)), peers(new_token())
    known.tools()
    held = Sending(stranger)
    held.send(b" " * 90_000)
    refused = Sending(stranger)
    refused.send(b" " * 20_000)

    status, headers, message, ended = refused.answer()
    refused.send(b"", more=False)

    assert (status, message, ended) == (503, FULL, False)
    assert headers["retry-after"] == "1"
    assert refused.end()["more_body"] is False
    assert isinstance(known, HTTPPeer)
    assert known.http("POST", LARGE).json == PONG
    held.leave()
    assert bodies.memory._held.total == 0


def test_a_body_is_held_until_it_is_answered(users: Users, peers: Peers, little_memory: None, gate: Any) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "enter", "arguments": {}}}
    body = json.dumps(call).encode().ljust(50_000)
    running: Future[Any] = run_later(peer, body)
    gate.wait_for_entry()

    held = bodies.memory._held.total
    gate.open()

    assert held == 50_000
    assert running.result(30).status == 200
    assert bodies.memory._held.total == 0


def run_later(peer: ASGIPeer, body: bytes) -> Future[Any]:
    work = peer._exchange(peer.scope("POST", peer.headers({"Accept": "application/json"})), body)
    return asyncio.run_coroutine_threadsafe(work, peer.loop.loop)


def test_a_client_that_leaves_gives_its_part_back(users: Users, peers: Peers, little_memory: None) -> None:
    sending = Sending(peers(token_of(users.admin)))
    sending.send(b" " * 50_000)

    sending.leave()

    assert bodies.memory._held.total == 0


def test_each_caller_gets_a_part(little_memory: None) -> None:
    memory = BodyMemory()
    memory.take("user:1", 200_000)
    memory.take(f"{ADDRESS}10.0.0.1", 100_000)

    for key, size in (("user:1", 1), (f"{ADDRESS}10.0.0.1", 1), (f"{ADDRESS}10.0.0.2", 1), ("user:2", 100_001)):
        with pytest.raises(Overloaded):
            memory.take(key, size)
    memory.take("user:2", 100_000)
    memory.give_back("user:1", 200_000)
    memory.take("user:3", 100_000)


def test_one_body_fits_however_little_memory_there_is(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 100_000, "MAX_BODY_MEMORY": 10}
    memory = BodyMemory()

    memory.take(f"{ADDRESS}10.0.0.1", 100_000)

    with pytest.raises(Overloaded):
        memory.take("user:1", 1)


# Bodies that are read before Django's handler asks for them.


@pytest.mark.parametrize("sizes", [(0,), (5,), (7, 0, 9), (300_000, 300_000), (20_000,) * 40])
def test_a_body_that_was_read_is_given_to_django_as_it_came(sizes: tuple[int, ...]) -> None:
    parts = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    last = {"type": "http.disconnect"}
    events: list[Any] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    events[-1]["more_body"] = False
    events.append(last)

    async def receive() -> Any:
        return events.pop(0)

    async def read_again() -> bytes:
        found, more = b"", True
        async with ReadBody(receive) as body:
            await body.read(None)
            while more:
                event = await body.receive()
                found, more = found + event["body"], event["more_body"]
            assert await body.receive() is last
        return found

    assert asyncio.run(read_again()) == b"".join(parts)


def test_a_body_over_the_limit_is_not_read_to_its_end() -> None:
    sent: list[int] = []

    async def receive() -> Any:
        sent.append(1)
        return {"type": "http.request", "body": b"x" * 300_000, "more_body": True}

    async def read() -> int:
        async with ReadBody(receive) as body:
            await body.read(500_000)
            return len(sent)

    assert asyncio.run(read()) == 2
