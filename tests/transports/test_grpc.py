"""gRPC: who is let in, the status at the end, calls without a session, and how the server ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from demo_project.flights.models import Flight
from mcp_django.models import AccessToken, digest
from mcp_django.protocol import jsonrpc, protobuf
from mcp_django.protocol import mcp_pb2 as pb
from mcp_django.push.hub import get_hub
from mcp_django.transports.grpc.calls import Session
from mcp_django.transports.http.bodies import SMALL_BODY_BYTES, memory
from mcp_django.transports.lasting import admission
from tests.end_to_end.servers import wait_for
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.grpc import GRPCPeer
from tests.support.http2 import HTTP2Call, outlast
from tests.support.peers import MODERN, Peers, meta

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
Code = grpc.StatusCode

pytestmark = pytest.mark.parametrize("transport", ["grpc"])


def refused(peer: GRPCPeer, message: Any = PING, **more: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        peer.ask_alone(message, **more)
    return caught.value


def call_of(name: str, request_id: Any = 1, **more: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": {}, "_meta": meta(MODERN), **more}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def hub_of(peer: GRPCPeer) -> Any:
    async def find() -> Any:
        return get_hub()

    return peer.loop.run(find())


# Who is let in.


def test_a_caller_who_is_not_known_is_unauthenticated_and_a_foreign_page_refused(
    peers: Peers, users: Any, client: Any
) -> None:
    """A login of the site is no credential."""
    client.force_login(users.admin)
    cookie = f"sessionid={client.cookies['sessionid'].value}"

    for token in (None, "mcp_wrong"):
        peer = peers(token)
        error = refused(peer)

        assert error.code() is Code.UNAUTHENTICATED
        # Not by dict(): the keys of the first releases are pairs.
        trailing = {name: value for name, value in error.trailing_metadata()}  # noqa: C416
        assert trailing["www-authenticate"].startswith("Bearer")
        assert trailing["mcp-reason"] == "UNAUTHENTICATED"
        assert peer.connect().status()[0] is Code.UNAUTHENTICATED
    assert refused(peers(None), metadata=(("cookie", cookie),)).code() is Code.UNAUTHENTICATED
    known = peers(token_of(users.admin))
    from_page = refused(known, metadata=(*known.metadata, ("origin", "https://evil.example")))
    assert from_page.code() is Code.PERMISSION_DENIED


def test_a_client_cannot_choose_the_host(admin: GRPCPeer, declared: Declared) -> None:
    def where(request: Any) -> str:
        """The host of the request."""
        return str(request.get_host())

    declared.tool(where)

    answer = admin.ask_alone(call_of("where"), metadata=(*admin.metadata, ("x-forwarded-host", "evil.example")))

    assert "evil" not in answer["result"]["content"][0]["text"]


def test_a_principal_has_so_many_sessions(admin: GRPCPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 2}
    for _ in range(2):
        assert admin.connect().ask(PING) == PONG

    code, details = admin.connect().status()

    assert (code, details) == (Code.RESOURCE_EXHAUSTED, "You have 2 connections open (MAX_LISTENS). Close one of them.")


def test_a_token_that_is_revoked_ends_its_session(admin: GRPCPeer) -> None:
    session = admin.connect()
    assert session.ask(PING) == PONG

    AccessToken.objects.filter(hash=digest(admin.token or "")).delete()
    session.send(PING)

    assert session.status()[0] is Code.UNAUTHENTICATED


# Calls without a session.


def test_a_call_is_one_request(admin: GRPCPeer) -> None:
    unknown = {"jsonrpc": "2.0", "id": 1, "method": "nothing", "params": {"_meta": meta(MODERN)}}

    answer = admin.ask_alone(call_of("find_records", "a", arguments={"model": "flights.flight"}))

    assert (answer["id"], answer["result"]["isError"]) == ("a", False)
    assert admin.ask_alone(unknown)["error"]["code"] == -32601


def test_what_is_no_request_is_an_invalid_argument(admin: GRPCPeer) -> None:
    messages: list[Any] = [
        {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 1, "result": {}},
        [PING], {"jsonrpc": "1.0", "id": 1, "method": "ping"}, 7, {},
    ]  # fmt: skip

    assert [refused(admin, message).code() for message in messages] == [Code.INVALID_ARGUMENT] * len(messages)


def test_what_lasts_needs_a_session(admin: GRPCPeer) -> None:
    listen = {"notifications": {}, "_meta": meta(MODERN)}
    for method, params in (("initialize", {}), ("subscriptions/listen", listen)):
        error = admin.ask_alone({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})["error"]

        assert error["message"] == f"{method} opens something that outlasts a Call. Open a Session."


@pytest.mark.parametrize("ends_by", ["a cancellation", "a deadline"])
def test_a_client_that_gives_up_stops_the_work(admin: GRPCPeer, declared: Declared, ends_by: str) -> None:
    begun, stopped = threading.Event(), threading.Event()

    async def long(request: Any) -> str:
        """Takes long."""
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()
        return "never"

    async def give_up() -> grpc.StatusCode:
        # A deadline may come before the work has begun.
        for seconds in (1, 4, 16, 64):
            timeout = 60 if ends_by == "a cancellation" else seconds
            call = admin.stub.Call(protobuf.message_of(call_of("long")), metadata=admin.metadata, timeout=timeout)
            await asyncio.to_thread(begun.wait, timeout)
            if ends_by == "a cancellation":
                call.cancel()
            code = await call.code()
            if begun.is_set():
                break
        return code

    declared.tool(long)

    code = admin.loop.run(give_up())

    assert code is (Code.CANCELLED if ends_by == "a cancellation" else Code.DEADLINE_EXCEEDED)
    assert stopped.wait(30)


def test_a_call_has_room_for_the_result_alone(admin: GRPCPeer, declared: Declared) -> None:
    def poem(request: Any) -> Iterator[str]:
        """Say it piece by piece."""
        yield from ("roses ", "are ", "red")

    declared.tool(poem, read_only=True)

    answer = admin.ask_alone(call_of("poem", _stream=True))

    assert answer["result"]["content"] == [{"type": "text", "text": "roses are red"}]


def raw_call(peer: GRPCPeer, metadata: Any) -> Any:
    """A call whose client has not sent its message."""

    async def begin() -> Any:
        return peer.channel.stream_unary("/mcp_django.v1.MCP/Call")(metadata=metadata, timeout=60)

    return peer.loop.run(begin())


async def code_of(call: Any) -> grpc.StatusCode:
    return await call.code()  # type: ignore[no-any-return]


def test_no_message_is_waited_for_before_its_caller_is_known(admin: GRPCPeer) -> None:
    assert admin.loop.run(code_of(raw_call(admin, (("authorization", "Bearer no"),)))) is Code.UNAUTHENTICATED


def test_what_nobody_has_asked_for_stays_with_its_client(admin: GRPCPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    admit, may_go = admission.admit, asyncio.Event()

    async def admit_late(*asked: Any) -> Any:
        await may_go.wait()
        return await admit(*asked)

    async def call() -> tuple[int, Any]:
        client = HTTP2Call(admin.server.port, "/mcp_django.v1.MCP/Call", admin.metadata)
        await client.open()
        try:
            left = await client.send_all_that_is_taken(message)
            may_go.set()
            await client.send_rest(left)
            return len(message) - len(left), (client.trailers, client.answer)
        finally:
            await client.close()

    monkeypatch.setattr(admission, "admit", admit_late)
    message = protobuf.encode(jsonrpc.encode({**PING, "params": {"a": "x" * 900_000}}))

    taken, (trailers, answer) = admin.loop.run(call())

    assert taken < 200_000
    assert trailers["grpc-status"] == "0"
    assert protobuf.decode(answer[5:]) == PONG


def test_a_message_that_does_not_come_is_not_waited_for(admin: GRPCPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.2}

    assert admin.loop.run(code_of(raw_call(admin, admin.metadata))) is Code.DEADLINE_EXCEEDED
    assert memory._held.total == 0


def test_messages_that_do_not_come_take_no_more_than_their_part_of_memory(admin: GRPCPeer, settings: Any) -> None:
    limit = 50_000
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": limit, "MAX_BODY_MEMORY": 4 * limit}
    waiting = [raw_call(admin, admin.metadata) for _ in range(2)]
    wait_for(lambda: memory._held.total == 2 * limit, "two calls that wait for their messages")

    error = refused(admin)

    assert error.code() is Code.RESOURCE_EXHAUSTED
    for call in waiting:
        admin.loop.loop.call_soon_threadsafe(call.cancel)
    wait_for(lambda: memory._held.total == 0, "the end of the calls")
    assert admin.ask_alone(PING) == PONG


@pytest.mark.parametrize("way", ["session", "call"])
def test_a_long_message_is_read_by_a_worker(admin: GRPCPeer, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    threads: list[int] = []
    decode = protobuf.decode

    def watched(body: bytes) -> Any:
        if len(body) > SMALL_BODY_BYTES:
            threads.append(threading.get_ident())
        return decode(body)

    monkeypatch.setattr("mcp_django.transports.grpc.calls.protobuf.decode", watched)
    long = {**PING, "params": {"a": "x" * (SMALL_BODY_BYTES + 1)}}

    answer = admin.connect().ask(long) if way == "session" else admin.ask_alone(long)

    async def of_the_loop() -> int:
        return threading.get_ident()

    assert answer == PONG
    assert len(threads) == 1
    assert threads[0] != admin.loop.run(of_the_loop())


# Sessions.


def test_ten_messages_that_are_none_end_the_session(admin: GRPCPeer) -> None:
    session = admin.connect()

    for _ in range(9):
        session.send_message(pb.Message())
        assert session.answer()["error"]["code"] == -32700
    session.send_message(pb.Message())

    assert session.answer()["error"]["code"] == -32700
    assert session.status()[0] is Code.INVALID_ARGUMENT


def test_a_message_that_is_too_long_ends_the_session(admin: GRPCPeer, peers: Peers, users: Any, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 50_000}
    peer = peers(token_of(users.ops))
    session = peer.connect()
    assert session.ask(PING) == PONG

    session.send({**PING, "params": {"a": "x" * 60_000}})

    assert session.status()[0] is Code.RESOURCE_EXHAUSTED
    wait_for(lambda: hub_of(admin).is_empty, "an empty hub")


def test_a_client_that_sends_nothing_more_gets_its_answers(
    admin: GRPCPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_left, left = threading.Event(), Session.left

    async def note(self: Session) -> None:
        has_left.set()
        await left(self)

    def slow(request: Any) -> str:
        """Answers once the server knows that the client has said its last."""
        assert has_left.wait(60)
        return "done"

    monkeypatch.setattr(Session, "left", note)
    declared.tool(slow)
    session = admin.connect()
    session.send(call_of("slow"))

    session.half_close()

    assert session.answer()["result"]["content"][0]["text"] == "done"
    assert session.status()[0] is Code.OK


def test_a_session_that_its_client_leaves_leaves_nothing_behind(admin: GRPCPeer, flights: Any) -> None:
    for _ in range(20):
        session = admin.connect()
        assert session.ask(PING) == PONG
        session.close()

    wait_for(lambda: not admission._open, "the end of the sessions")
    assert hub_of(admin).is_empty


def test_a_client_that_does_not_read_loses_its_session(
    admin: GRPCPeer, declared: Declared, settings: Any, users: Any, peers: Peers
) -> None:
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 0.3}

    def large(request: Any) -> str:
        """Says much."""
        return "x" * 600_000

    declared.tool(large)
    ended = admin.loop.run(_deaf_client(admin))

    assert ended is Code.RESOURCE_EXHAUSTED
    wait_for(lambda: not admission._open, "the end of the sessions")


async def _deaf_client(peer: GRPCPeer) -> grpc.StatusCode:
    """Asks for more than the connection holds, and reads only once the server has let go."""
    call = peer.stub.Session(metadata=peer.metadata)
    for number in range(30):
        await call.write(protobuf.message_of(call_of("large", number)))
    # Its session begins once its caller is known.
    while not admission._open:
        await asyncio.sleep(0.02)
    while admission._open:
        await asyncio.sleep(0.02)
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.aio.AioRpcError:
        pass
    return await call.code()


def test_a_connection_without_a_call_ends(peers: Peers, users: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.transports.grpc.server._IDLE_MS", 100)
    peer = peers(None)

    peer.loop.run(outlast(peer.server.port), 60)


# Its end, and its health.


def test_the_end_of_the_server_completes_listens(admin: GRPCPeer, flights: Any) -> None:
    flight = Flight.objects.first()
    assert flight is not None
    session = admin.connect()
    wanted = {"resourceSubscriptions": [f"db://flights/flight/{flight.pk}"]}
    params = {"notifications": wanted, "_meta": meta(MODERN)}
    session.send({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params})
    opened = admin.loop.run(asyncio.wait_for(session.notifications.get(), 30))
    assert opened["method"] == "notifications/subscriptions/acknowledged"

    stopping = asyncio.run_coroutine_threadsafe(admin.server.stop(), admin.loop.loop)

    assert session.answer()["id"] == 5
    assert session.status()[0] is Code.UNAVAILABLE
    stopping.result(30)


def test_the_health_service_says_that_it_serves_and_nobody_watches_it(admin: GRPCPeer) -> None:
    """A watch that is not read would hold up those of others, and the end of the server."""

    async def check(service: str) -> Any:
        stub = health_pb2_grpc.HealthStub(admin.channel)
        return (await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=60)).status

    async def watch() -> grpc.StatusCode:
        call = health_pb2_grpc.HealthStub(admin.channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        return await call.code()  # type: ignore[no-any-return]

    assert admin.loop.run(watch()) is Code.UNIMPLEMENTED
    assert admin.loop.run(check("")) == health_pb2.HealthCheckResponse.SERVING
    assert admin.loop.run(check("mcp_django.v1.MCP")) == health_pb2.HealthCheckResponse.SERVING
