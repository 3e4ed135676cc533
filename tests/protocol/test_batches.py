"""Several messages in one body or frame, which the revisions up to 2025-03-26 allow."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.axes import DUPLEX, HTTP
from tests.support.declared import Declared
from tests.support.peers import DuplexPeer, HTTPPeer, Peer, meta
from tests.support.raw import Raw, error, send_raw, send_unanswered

pytestmark = pytest.mark.every_transport

BATCHED = ("2024-11-05", "2025-03-26")
UNBATCHED = ("2025-06-18", "2025-11-25")

NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RESPONSE = {"jsonrpc": "2.0", "id": 9, "result": {}}


def ping(request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": "ping"}


def pong(request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": {}}


def send_batch(peer: Peer, members: list[Any], revision: str) -> Raw:
    return send_raw(peer, json.dumps(members), revision)


@pytest.mark.parametrize("revision", BATCHED)
def test_each_request_of_a_batch_is_answered_and_nothing_else(admin: Peer, revision: str) -> None:
    unknown = {"jsonrpc": "2.0", "id": 2, "method": "unheard/of"}

    raw = send_batch(admin, [ping(1), NOTIFICATION, unknown, RESPONSE, ping("1")], revision)

    refused = error(-32601, "METHOD_NOT_FOUND", "Method not found: unheard/of.", 2)
    assert raw.message == [pong(1), refused, pong("1")]
    assert raw.status in (200, None)


@pytest.mark.parametrize("revision", BATCHED)
def test_a_batch_without_requests_is_not_answered(admin: Peer, revision: str) -> None:
    for members in ([NOTIFICATION], [NOTIFICATION, NOTIFICATION], [RESPONSE, RESPONSE]):
        send_unanswered(admin, members, revision)


@pytest.mark.parametrize("revision", BATCHED)
def test_an_empty_batch_is_one_error(admin: Peer, revision: str) -> None:
    raw = send_batch(admin, [], revision)

    assert raw.message == error(-32600, "INVALID_REQUEST", "A batch must not be empty.")
    assert raw.status in (400, None)


@pytest.mark.parametrize("revision", BATCHED)
def test_members_that_are_no_messages_are_answered_one_by_one(admin: Peer, revision: str) -> None:
    raw = send_batch(admin, [1, [ping(2)], {"jsonrpc": "1.0", "id": 3, "method": "ping"}, ping(4)], revision)

    no_object = error(-32600, "INVALID_REQUEST", "A message must be a JSON object.")
    no_version = error(-32600, "INVALID_REQUEST", 'A message must carry "jsonrpc": "2.0".', 3)
    assert raw.message == [no_object, no_object, no_version, pong(4)]
    assert raw.status in (200, None)


@pytest.mark.parametrize("revision", BATCHED)
def test_initialize_is_refused_in_a_batch(admin: Peer, revision: str) -> None:
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": revision}}

    raw = send_batch(admin, [ping(0), initialize], revision)

    assert raw.message == error(-32600, "INVALID_REQUEST", "initialize must not be part of a batch.")
    assert raw.status in (400, None)


@pytest.mark.parametrize("revision", BATCHED)
def test_a_batch_beyond_the_limit_is_refused_whole(admin: Peer, revision: str) -> None:
    longest = send_batch(admin, [ping(n) for n in range(50)], revision)
    longer = send_batch(admin, [ping(n) for n in range(51)], revision)

    assert longest.message == [pong(n) for n in range(50)]
    assert longer.message == error(-32603, "LIMIT_EXCEEDED", "A batch may hold at most 50 messages.")
    assert longer.status in (400, None)


@pytest.mark.parametrize("revision", BATCHED)
def test_a_modern_member_is_never_served(admin: Peer, revision: str) -> None:
    modern = {"jsonrpc": "2.0", "id": 2, "method": "server/discover", "params": {"_meta": meta()}}

    raw = send_batch(admin, [ping(1), modern], revision)

    message = "A message with a modern _meta must not be part of a batch."
    assert raw.message == error(-32600, "INVALID_REQUEST", message)
    assert raw.status in (400, None)


@pytest.mark.parametrize("revision", UNBATCHED)
def test_later_revisions_know_no_batches(admin: Peer, revision: str) -> None:
    answers = [send_batch(admin, members, revision) for members in ([ping(1)], [NOTIFICATION], [])]

    for raw in answers:
        assert raw.message["error"]["code"] == -32600
        assert "id" not in raw.message
        assert raw.status in (400, None)


@pytest.mark.parametrize("transport", HTTP)
def test_a_batch_without_session_and_version_is_taken_for_2025_03_26(admin: HTTPPeer) -> None:
    answer = admin.post([ping(1), NOTIFICATION, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}])

    assert answer.status == 200
    assert [message["id"] for message in answer.json] == [1, 2]
    assert "outputSchema" not in answer.json[1]["result"]["tools"][0]


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize("revision", [*UNBATCHED, "2026-07-28"])
def test_a_version_header_alone_forbids_batches(admin: HTTPPeer, revision: str) -> None:
    answer = admin.post([ping(1)], {"MCP-Protocol-Version": revision})

    assert (answer.status, answer.json) == (
        400, error(-32600, "INVALID_REQUEST", f"Send one message at a time: {revision} knows no batches."),
    )  # fmt: skip


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_batch_before_initialize_is_refused(admin: DuplexPeer) -> None:
    raw = send_raw(admin, json.dumps([ping(1)]))

    assert raw.message == error(
        -32600, "INVALID_REQUEST", "Send one message at a time: an unopened session knows no batches."
    )


@pytest.mark.parametrize("revision", BATCHED)
def test_a_batch_may_subscribe_in_its_session(admin: Peer, revision: str, flights: Any) -> None:
    if not admin.push:
        return
    uri = "db://flights/flight/1"
    subscribe = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}}

    raw = send_batch(admin, [subscribe, ping(2)], revision)
    watching = admin.watch(revision, [])
    flights[0].save()

    assert raw.message == [pong(1), pong(2)]
    assert watching.uris(1) == [uri]


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_question_may_be_answered_in_a_batch(admin: DuplexPeer, declared: Declared) -> None:
    declared.tool(working_folder, read_only=True)
    admin.capabilities = {"roots": {}}
    connection = admin.connection("2025-03-26")
    connection.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "working_folder"}})
    question = connection.loop.run(asyncio.wait_for(connection.notifications.get(), 30))
    roots = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}

    answer = connection.ask([{"jsonrpc": "2.0", "id": question["id"], "result": roots}])

    assert question["method"] == "roots/list"
    assert answer["id"] == 5
    assert answer["result"]["content"] == [{"type": "text", "text": "home"}]


def working_folder(request: Any) -> str:
    """Name the client's folder."""
    [root] = request.mcp.list_roots()
    return str(root.name)
