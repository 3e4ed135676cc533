"""Two servers that share a database, which may be their bus, or Redis too: a session lives in neither of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.models import OpenQuestion, Session
from tests.end_to_end.servers import wait_for
from tests.push.conftest import Two
from tests.push.processes import ServedPeer
from tests.support import schemas
from tests.support.data import Users, switch_on, token_of
from tests.support.http import parse_events
from tests.support.peers import LEGACY, Message
from tests.support.talking import in_session

pytestmark = [pytest.mark.every_database, pytest.mark.slow]

RESUMED = "2025-11-25"


class Stream:
    """The answer to a request as it comes."""

    def __init__(
        self, peer: ServedPeer, revision: str, method: str, headers: dict[str, str], message: Any = None
    ) -> None:
        content = b"" if message is None else json.dumps(message).encode()
        given = peer.headers({**in_session(peer, revision), **headers})
        request = peer.client.build_request(method, f"{peer.origin}/mcp", content=content, headers=given)
        self.response: httpx.Response = peer.client.send(request, stream=True)
        assert self.response.status_code == 200, self.response.read()
        self._blocks = self._read()
        self.last_id = ""

    def _read(self) -> Iterator[Any]:
        buffer = ""
        for text in self.response.iter_text():
            blocks, separator, buffer = (buffer + text).rpartition("\n\n")
            yield from parse_events((blocks + separator).encode())

    def next(self) -> Message | None:
        """The next message; None at the end."""
        for event in self._blocks:
            self.last_id = event.id or self.last_id
            if event.data:
                message: Message = json.loads(event.data)
                return message
        return None

    def close(self) -> None:
        self.response.close()


def begin(peer: ServedPeer, revision: str, tool: str, **arguments: Any) -> Stream:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return Stream(peer, revision, "POST", {}, message)


def answer(peer: ServedPeer, revision: str, question: Message | None, name: str) -> None:
    assert question is not None
    schemas.check(question, revision)
    body = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": name}}}
    assert peer.post(body, in_session(peer, revision)).status == 202


@pytest.mark.parametrize("revision", LEGACY)
def test_a_session_lives_in_no_process(here: ServedPeer, there: ServedPeer, revision: str) -> None:
    here.session(revision)
    for tool in there.result(revision, "tools/list")["tools"]:
        assert tool["name"]
    assert there.result(revision, "logging/setLevel", {"level": "error"}) == {}
    assert Session.objects.get().log_level == "error"
    headers = in_session(here, revision)
    assert there.http("DELETE", headers=headers).status == 204
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert here.http("DELETE", headers=headers).status == 404
    assert here.http("GET", headers=headers).status == 404
    # Without a broker this process remembers the session for TOKEN_CACHE_SECONDS.
    wait_for(lambda: here.post(ping, headers).status == 404, "the end of the session", 60)


def test_a_session_expires_in_every_process(here: ServedPeer, there: ServedPeer) -> None:
    headers = in_session(here, RESUMED)
    Session.objects.update(expires_at=timezone.now())
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for peer in (here, there):
        wait_for(lambda peer=peer: peer.post(ping, headers).status == 404, "the end of the session", 60)


def test_the_session_of_another_user_is_404_everywhere(here: ServedPeer, two: Two, users: Users) -> None:
    headers = in_session(here, RESUMED)
    for origin in (two.one, two.other):
        stranger = ServedPeer(token_of(users.ops), origin)
        assert stranger.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers).status == 404
        assert stranger.http("DELETE", headers=headers).status == 404
        stranger.client.close()


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_question_is_answered_to_the_other_process(here: ServedPeer, there: ServedPeer, revision: str) -> None:
    stream = begin(here, revision, "greet")
    answer(there, revision, stream.next(), "Ada")
    answer(there, revision, stream.next(), "Lovelace")
    last = stream.next()
    assert last is not None
    assert last["result"]["content"] == [{"type": "text", "text": "Hello, Ada Lovelace."}]
    assert stream.next() is None
    assert OpenQuestion.objects.count() == 0


def test_a_question_is_seen_and_answered_at_the_other_process(here: ServedPeer, there: ServedPeer) -> None:
    stream = begin(here, RESUMED, "greet")
    first = stream.next()
    stream.close()
    rest = Stream(there, RESUMED, "GET", {"Last-Event-ID": stream.last_id})
    answer(there, RESUMED, first, "Ada")
    answer(there, RESUMED, rest.next(), "Lovelace")
    last = rest.next()
    assert last is not None
    assert last["result"]["content"] == [{"type": "text", "text": "Hello, Ada Lovelace."}]
    assert rest.next() is None


def test_a_question_ends_with_its_session_at_the_other_process(here: ServedPeer, there: ServedPeer) -> None:
    stream = begin(here, RESUMED, "greet")
    question = stream.next()
    assert question is not None
    assert there.http("DELETE", headers=in_session(there, RESUMED)).status == 204
    cancelled, end = stream.next(), stream.next()
    assert cancelled is not None
    assert end is not None
    assert cancelled["params"]["requestId"] == question["id"]
    assert end["error"]["data"] == {"reason": "UNAUTHENTICATED"}
    assert stream.next() is None


def test_the_rest_of_a_call_at_the_other_process(here: ServedPeer, there: ServedPeer) -> None:
    stream = begin(here, RESUMED, "work", seconds=0.5)
    assert stream.next() is None
    rest = Stream(there, RESUMED, "GET", {"Last-Event-ID": stream.last_id})
    last = rest.next()
    assert last is not None
    assert last["result"]["content"] == [{"type": "text", "text": "worked"}]
    headers = {**in_session(there, RESUMED), "Last-Event-ID": rest.last_id}
    assert there.http("GET", headers=headers).status == 405


def test_a_call_is_cancelled_at_the_other_process(two: Two, here: ServedPeer, there: ServedPeer, request: Any) -> None:
    """The stream ends without an answer, long before the work would."""
    stream = begin(here, RESUMED, "work", seconds=600)
    assert stream.next() is None
    rest = Stream(here, RESUMED, "GET", {"Last-Event-ID": stream.last_id})
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert there.post(notice, in_session(there, RESUMED)).status == 202
    assert rest.next() is None


def test_a_live_query_is_told_of_on_the_streams_that_its_session_opens_elsewhere(
    here: ServedPeer, there: ServedPeer, flights: Any
) -> None:
    changes, stays = (f"db://flights/flight?origin={origin}&fields=number&limit=20" for origin in ("JFK", "EWR"))
    for uri in (changes, stays):
        here.result(RESUMED, "resources/subscribe", {"uri": uri})
    Flight.objects.filter(pk=1).update(number=7)  # Nobody hears of it.

    first = there.watch(RESUMED, [])
    assert first.uris(1) == [changes]
    first.close()

    # Whether the client has read that, nobody knows.
    second = here.watch(RESUMED, [])
    assert second.uris(1) == [changes]
    second.close()
    Flight.objects.filter(pk=2).update(number=7)
    third = there.watch(RESUMED, [])
    assert third.uris(2) == [stays, changes]
    third.close()


# The transport HTTP+SSE.


class OldStream:
    """A stream of HTTP+SSE at one process, whose messages are posted to the other."""

    def __init__(self, two: Two, token: str) -> None:
        self.client = httpx.Client(timeout=60, headers={"Authorization": f"Bearer {token}"})
        self.elsewhere = two.other
        request = self.client.build_request("GET", f"{two.one}/sse", headers={"Accept": "text/event-stream"})
        self.response = self.client.send(request, stream=True)
        self._data = (line.removeprefix("data: ") for line in self.response.iter_lines() if line.startswith("data: "))
        self.endpoint = next(self._data)

    def post(self, message: Message, token: str = "") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.elsewhere}{self.endpoint}"
        return self.client.post(url, json={"jsonrpc": "2.0", **message}, headers=headers).status_code

    def next(self) -> Message:
        message: Message = json.loads(next(self._data))
        return message

    def close(self) -> None:
        self.response.close()


def test_what_is_posted_to_the_other_process_reaches_the_old_stream(two: Two, users: Users) -> None:
    switch_on("greet")
    stream = OldStream(two, token_of(users.admin))
    client = {"name": "tests", "version": "1"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": client}

    taken = [stream.post({"id": 1, "method": "initialize", "params": opening})]
    opened = stream.next()
    taken.append(stream.post({"method": "notifications/initialized"}))
    taken.append(stream.post({"id": 2, "method": "tools/call", "params": {"name": "greet", "arguments": {}}}))
    for name in ("Ada", "Lovelace"):
        question = stream.next()
        schemas.check(question, "2025-06-18")
        taken.append(stream.post({"id": question["id"], "result": {"action": "accept", "content": {"name": name}}}))
    greeted = stream.next()
    of_another = stream.post({"id": 3, "method": "ping"}, token_of(users.ops))
    stream.close()
    wait_for(lambda: stream.post({"id": 4, "method": "ping"}) == 404, "the end of the stream", 60)

    schemas.check(opened, "2025-06-18", "initialize")
    assert taken == [202] * 5
    assert (greeted["id"], greeted["result"]["content"]) == (2, [{"type": "text", "text": "Hello, Ada Lovelace."}])
    assert of_another == 404
