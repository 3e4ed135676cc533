"""Both sides speak at any time: many requests at once, what is given up, listens, and what is left at the end."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_django.core.db.interrupts import Interruptible
from mcp_django.push import hub as hubs
from tests.axes import DUPLEX
from tests.end_to_end.servers import wait_for
from tests.push.conftest import assert_nothing_but
from tests.support import schemas
from tests.support.data import token_of
from tests.support.peers import MODERN, Connection, DuplexPeer, Peers, meta
from tests.support.raw import assert_next_is_mine, error
from tests.transports.gates import ENTER, Gate

pytestmark = pytest.mark.parametrize("transport", DUPLEX)


def modern(request_id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**(params or {}), "_meta": meta()}}


def listen(request_id: Any, *uris: str) -> dict[str, Any]:
    return modern(request_id, "subscriptions/listen", {"notifications": {"resourceSubscriptions": list(uris)}})


def cancel(request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


def notification(connection: Connection) -> Any:
    """The next notification on the connection, checked."""
    message = connection.loop.run(connection.notifications.get(), 60)
    schemas.check(message, MODERN)
    return message


# Many at once.


def test_many_requests_are_answered_each_by_its_id(admin: DuplexPeer) -> None:
    connection = admin.connect()
    ids = [*range(15), *map(str, range(15))]

    for request_id in ids:
        connection.send(modern(request_id, "tools/list"))
    answers = [connection.answer() for _ in ids]

    for answer in answers:
        schemas.check(answer, MODERN, "tools/list")
    assert sorted(map(repr, ids)) == sorted(repr(answer["id"]) for answer in answers)


def test_a_quick_answer_does_not_wait_for_a_slow_one(admin: DuplexPeer, gate: Gate) -> None:
    connection = admin.connect()
    connection.send(modern("slow", "tools/call", ENTER))
    gate.wait_for_entry()

    first = connection.ask(modern("quick", "tools/list"))
    gate.open()
    second = connection.answer()

    assert [first["id"], second["id"]] == ["quick", "slow"]


def test_an_id_that_is_still_being_answered_is_refused(admin: DuplexPeer, gate: Gate) -> None:
    connection = admin.connect()
    connection.send(modern(1, "tools/call", ENTER))
    gate.wait_for_entry()

    refused = connection.ask(modern(1, "tools/list"))
    other = connection.ask(modern("1", "tools/list"))
    gate.open()
    first = connection.answer()
    again = connection.ask(modern(1, "tools/list"))

    assert refused == error(-32600, "INVALID_REQUEST", "A request with this id is still being answered.", 1)
    assert "tools" in other["result"]
    assert first["result"]["content"] == [{"type": "text", "text": "through"}]
    assert "tools" in again["result"]


def test_more_requests_than_may_be_in_flight_are_refused(admin: DuplexPeer, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_IN_FLIGHT": 2}
    connection = admin.connect()
    for request_id in (1, 2):
        connection.send(modern(request_id, "tools/call", ENTER))
        gate.wait_for_entry()

    refused = connection.ask(modern(3, "tools/list"))
    gate.open()
    answered = {connection.answer()["id"] for _ in range(2)}
    taken = connection.ask(modern(3, "tools/list"))

    message = "At most 2 requests may be in flight (MAX_IN_FLIGHT)."
    assert refused == error(-32603, "LIMIT_EXCEEDED", message, 3)
    assert answered == {1, 2}
    assert "tools" in taken["result"]


def test_more_batches_than_may_be_in_flight_are_refused(admin: DuplexPeer, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_IN_FLIGHT": 1}
    connection = admin.connection("2025-03-26")
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    before = connection.ask([ping])
    assert_next_is_mine(connection)  # That batch is over: its answer was written before this one.
    connection.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ENTER}])
    gate.wait_for_entry()

    refused = connection.ask([ping])
    gate.open()
    [entered] = connection.answer()
    assert_next_is_mine(connection)
    after = connection.ask([ping])

    assert refused == error(-32603, "LIMIT_EXCEEDED", "At most 1 batches may be in flight (MAX_IN_FLIGHT).")
    assert entered["id"] == 1
    assert before == after == [{"jsonrpc": "2.0", "id": 2, "result": {}}]


def test_a_cancelled_request_is_not_answered(admin: DuplexPeer, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 1}
    connection = admin.connect()
    connection.send(modern("given up", "tools/call", ENTER))
    gate.wait_for_entry()

    connection.send(cancel("given up"))
    assert_next_is_mine(connection)  # The cancellation was read: a ping needs no worker.
    gate.open()

    # The one worker takes this up only after it has finished the call that was given up.
    assert connection.ask(modern("next", "tools/list"))["id"] == "next"
    assert connection.answers.empty()


def test_a_request_that_is_cancelled_again_and_again_is_interrupted_once(
    admin: DuplexPeer, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted: list[Interruptible] = []

    def interrupt(self: Interruptible) -> None:
        interrupted.append(self)

    monkeypatch.setattr(Interruptible, "interrupt", interrupt)
    connection = admin.connect()
    connection.send(modern("given up", "tools/call", ENTER))
    gate.wait_for_entry()

    for _ in range(20):
        connection.send(cancel("given up"))
    assert_next_is_mine(connection)
    gate.open()

    wait_for(lambda: len(interrupted) > 0, "the interrupt")
    assert_next_is_mine(connection)
    assert len(interrupted) == 1


def test_cancelling_what_is_not_there_does_nothing(admin: DuplexPeer, gate: Gate) -> None:
    """Nor does True cancel the request 1."""
    connection = admin.connect()
    connection.send(modern(1, "tools/call", ENTER))
    gate.wait_for_entry()

    for request_id in (True, "unheard of", 7, None, 1.5, [1], {}):
        connection.send(cancel(request_id))
        assert_next_is_mine(connection)
    gate.open()

    assert connection.answer()["id"] == 1


# Listens.


def test_listens_of_a_connection_are_told_apart_by_their_ids(admin: DuplexPeer, flights: Any) -> None:
    connection = admin.connect()
    for request_id, uri in ((1, "db://flights/flight/1"), ("1", "db://flights/flight/2")):
        connection.send(listen(request_id, uri))
        opened = notification(connection)
        assert opened["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": request_id}

    flights[1].save()
    told = notification(connection)

    assert told["params"] == {
        "uri": "db://flights/flight/2",
        "_meta": {"io.modelcontextprotocol/subscriptionId": "1"},
    }


def test_more_listens_than_may_be_open_are_refused(admin: DuplexPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 1}
    connection = admin.connect()
    connection.send(listen(1))
    notification(connection)

    refused = connection.ask(listen(2))
    connection.send(cancel(1))
    connection.send(listen(3))

    message = "You have 1 listens open (MAX_LISTENS). Close one of them."
    assert refused == error(-32603, "LIMIT_EXCEEDED", message, 2)
    assert notification(connection)["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 3}


def test_listens_that_are_sent_at_once_are_counted_too(admin: DuplexPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 2}
    connection = admin.connect()

    for request_id in range(6):
        connection.send(listen(request_id))
    refused = [connection.answer() for _ in range(4)]

    assert {answer["error"]["data"]["reason"] for answer in refused} == {"LIMIT_EXCEEDED"}


def test_a_cancelled_listen_ends_without_another_word(admin: DuplexPeer, flights: Any) -> None:
    connection = admin.connect()
    connection.send(listen("given up", "db://flights/flight/1"))
    connection.send(listen("kept", "db://flights/flight/1"))
    notification(connection), notification(connection)

    connection.send(cancel("given up"))
    assert_next_is_mine(connection)
    flights[0].save()

    assert notification(connection)["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "kept"}
    assert_next_is_mine(connection)
    assert connection.notifications.empty()


def test_the_id_of_an_open_listen_is_taken(admin: DuplexPeer) -> None:
    connection = admin.connect()
    connection.send(listen(1))
    notification(connection)

    assert connection.ask(modern(1, "tools/list"))["error"]["code"] == -32600


def test_nothing_is_left_of_a_connection_that_its_client_left(admin: DuplexPeer, flights: Any) -> None:
    admin.watch("2025-11-25", ["db://flights/flight/1"])
    admin.watch(MODERN, ["db://flights/flight/2"])
    [hub] = hubs._hubs.values()
    assert len(hub._listeners) == 2

    admin.close()
    admin.connections.clear()

    assert not hub._listeners
    assert not hub._members


def test_two_connections_of_one_user_are_two_sessions(users: Any, peers: Peers, flights: Any) -> None:
    token = token_of(users.admin)
    first, second = peers(token), peers(token)
    watching = first.watch("2025-11-25", ["db://flights/flight/1"])
    other = second.watch("2025-11-25", ["db://flights/flight/2"])

    flights[0].save()

    assert watching.uris(1) == ["db://flights/flight/1"]
    assert_nothing_but(other, "db://flights/flight/2", flights[1].save)
