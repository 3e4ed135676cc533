"""What is open when a person pauses agents ends, and says why where the protocol has room for it."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from tests.axes import PUSHING
from tests.push.conftest import updated, watch
from tests.support.data import token_of
from tests.support.grpc import Stream
from tests.support.pausing import SAID, WHY, line_of, pause, resume
from tests.support.peers import LEGACY, MODERN, ASGIPeer, DuplexPeer, DuplexWatching, Peer, Peers, Socket, SocketPeer
from tests.support.sse import sse_peers

FLIGHT = "db://flights/flight/1"
ENDED = {
    "jsonrpc": "2.0",
    "id": "sub-1",
    "error": {"code": -32603, "message": SAID, "data": {"reason": "PAUSED", "retryAfter": 60, "why": WHY}},
}
SAID_SHORTLY = f"All agents are paused: {WHY}"


@pytest.mark.parametrize("transport", PUSHING)
@pytest.mark.parametrize("silently", [True, False])
def test_an_idle_listen_ends_with_the_reason_and_can_be_opened_again_after_the_pause(
    admin: Peer, flights: Any, silently: bool
) -> None:
    """No control reports it: the sweep finds it."""
    watching = watch(admin, MODERN, FLIGHT, listen_id="sub-1")

    pause(silently=silently)

    if isinstance(watching, DuplexWatching):
        assert watching.connection.answer() == ENDED
        assert isinstance(admin, DuplexPeer)
        if isinstance(watching.connection, Socket | Stream):
            assert ending_of(watching.connection) in (1013, grpc.StatusCode.UNAVAILABLE)
            admin.connections.clear()
    else:
        assert watching.next() == ENDED
        with pytest.raises(EOFError):
            watching.next()
    resume()
    again = watch(admin, MODERN, FLIGHT, listen_id="sub-2")
    flights[0].save()
    assert again.next() == updated(FLIGHT, "sub-2")


def ending_of(connection: Socket | Stream) -> Any:
    """The code with which the server ends it. On stdio it goes on: hardly any client starts a process again."""
    return connection.wait_closed() if isinstance(connection, Socket) else connection.status()[0]


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-asgi", "http-protobuf"])
def test_the_stream_of_a_session_ends_and_the_session_goes_on_after_the_pause(admin: ASGIPeer, flights: Any) -> None:
    watching = watch(admin, LEGACY[-1], FLIGHT)

    pause()

    with pytest.raises(EOFError):
        watching.next()
    headers = {"Mcp-Session-Id": admin.session(LEGACY[-1]), "MCP-Protocol-Version": LEGACY[-1]}
    answer = admin.http("GET", headers=headers)
    assert (answer.status, answer.headers["retry-after"]) == (503, "60")
    resume()
    again = admin.stream("GET", LEGACY[-1], headers)
    flights[0].save()
    assert again.next() == updated(FLIGHT)


@pytest.mark.parametrize("transport", ["stdio"])
def test_a_session_on_stdio_is_silent_during_the_pause_and_is_told_of_everything_after_it(
    admin: Peer, flights: Any, swept: Any
) -> None:
    watching = watch(admin, LEGACY[-1], FLIGHT)
    pause()
    swept()

    flights[0].save()
    swept()

    watching.assert_nothing_waits()
    resume()
    told = [watching.next() for _ in range(4)]
    assert updated(FLIGHT) in told
    assert {one["method"] for one in told} >= {f"notifications/{name}/list_changed" for name in ("tools", "prompts")}


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_is_closed_to_be_tried_again_later_and_a_new_one_is_refused(
    admin: SocketPeer, serving_loop: Any
) -> None:
    socket = admin.socket(MODERN)

    pause()

    assert (socket.wait_closed(), socket.close_reason) == (1013, SAID_SHORTLY)
    refused = admin.connect({"Authorization": f"Bearer {admin.token}"})
    assert not refused.accepted and refused.refused[0]["status"] == 503


@pytest.mark.parametrize("transport", ["grpc"])
def test_a_stream_of_grpc_ends_as_unavailable_and_so_is_a_new_one_and_a_single_call(admin: Any) -> None:
    stream = admin.connection(MODERN)

    pause()

    assert stream.status() == (grpc.StatusCode.UNAVAILABLE, SAID)
    assert admin.connect().status() == (grpc.StatusCode.UNAVAILABLE, SAID)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        admin.ask_alone({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": admin.meta()}})
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_stream_of_the_old_transport_ends_and_a_new_one_is_refused(
    users: Any, settings: Any, serving_loop: Any, transactional_db: None
) -> None:
    from django.core.asgi import get_asgi_application as django_application

    from mcp_django.routing import get_asgi_application

    settings.MCP = {**settings.MCP, "SSE_TRANSPORT": True}
    with sse_peers(get_asgi_application(django_application()), serving_loop) as make:
        peer = make(token_of(users.admin))
        stream = peer.connection(LEGACY[0])

        pause()

        stream.assert_shut_out()
        assert (peer.open().status, peer.connections.clear()) == (503, None)


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
@pytest.mark.parametrize("kind", ["user", "token"])
def test_what_another_agent_has_open_stays_open(peers: Peers, users: Any, flights: Any, swept: Any, kind: str) -> None:
    tokens = token_of(users.admin), token_of(users.ops)
    paused, other = (watch(peers(token), MODERN, FLIGHT, listen_id="sub-1") for token in tokens)

    pause(kind, users.admin.pk if kind == "user" else line_of(tokens[0]))

    ended = paused.connection.answer() if isinstance(paused, DuplexWatching) else paused.next()
    assert ended["error"]["data"]["reason"] == "PAUSED"
    swept()
    flights[0].save()
    assert other.next() == updated(FLIGHT, "sub-1")
