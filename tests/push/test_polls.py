"""A client that polls, now at the one process and now at the other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mcp_django.models import CallStream, OpenQuestion, Poll, PostedMessage, StreamEvent
from tests.conftest import is_listening, need
from tests.end_to_end.servers import wait_for
from tests.push.conftest import Two, list_changed, updated
from tests.push.processes import PUBSUB, ServedPeer, new_prefix, run_python, served
from tests.support.data import Users, switch_on, token_of
from tests.support.peers import Answered, Message
from tests.support.polling import REVISION, Polling, in_background
from tests.support.talking import in_session

pytestmark = [pytest.mark.more("polls over several processes"), pytest.mark.every_database, pytest.mark.slow]

FLIGHT = "db://flights/flight/1"
EVERYTHING = [*(list_changed(name) for name in ("prompts", "resources", "tools")), updated(FLIGHT)]
SAVE = "from demo_project.flights.models import Flight; Flight.objects.get(pk=1).save()"
TOOL = "flights_flight_mark_cancelled"


class Wandering(Polling):
    """A client whose polls come to one peer or another."""

    def at(self, peer: ServedPeer) -> Wandering:
        self.peer = peer
        return self

    def until_told(self, *messages: Message) -> None:
        """Poll until all of the messages have come. A server that has just joined a bus may tell of more."""
        told: list[Message] = []

        def are_told() -> bool:
            told.extend(self.next())
            return all(message in told for message in messages)

        wait_for(are_told, "the messages", 60)

    def begin_and_wait(self) -> Future[Answered]:
        """A poll that waits: it has ended another one."""
        polls = [self.begin() for _ in range(2)]
        wait_for(lambda: any(poll.done() for poll in polls), "the end of the older poll", 60)
        [waiting] = [poll for poll in polls if not poll.done()]
        return waiting


@pytest.fixture
def client(here: ServedPeer, flights: Any) -> Wandering:
    """A client that watches a flight, and has polled at the one process."""
    client = Wandering(here)
    here.result(REVISION, "resources/subscribe", {"uri": FLIGHT})
    assert client.next(0) == []
    return client


def is_alone() -> bool:
    """Whether each collector that was asked to leave has left. They say so by mail."""
    return not PostedMessage.objects.filter(address__startswith="mail:").exists()


def test_what_one_process_heard_is_told_by_the_other(client: Wandering, here: ServedPeer, there: ServedPeer) -> None:
    """Each process makes its change itself: without a broker, no other one hears of it."""
    for key in ("2", "3", "4"):
        here.result(REVISION, "resources/subscribe", {"uri": f"db://flights/flight/{key}"})
    for key, making, asking in zip("1234", [here, there] * 2, [there, here] * 2, strict=True):
        assert not making.call(TOOL, ids=[key]).get("isError")

        client.at(asking).until_told(updated(f"db://flights/flight/{key}"))
        wait_for(is_alone, "the end of the older collector", 60)
    assert CallStream.objects.count() == 1


def test_a_poll_at_the_other_process_ends_the_one_that_waits(
    client: Wandering, here: ServedPeer, there: ServedPeer
) -> None:
    """So a client holds one connection, and each message has one way."""
    waiting = client.begin_and_wait()
    other = Wandering(there)

    assert other.next(0) == []

    assert waiting.result(60).status == 204


def test_a_question_is_polled_and_answered_at_the_other_process(
    client: Wandering, here: ServedPeer, there: ServedPeer
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet", "arguments": {}}}
    plain = {**in_session(here, REVISION), "Accept": "application/json"}
    called = in_background(lambda: here.post(message, plain))
    for asked, name in ((there, "Ada"), (here, "Lovelace")):
        [question] = client.at(asked).next()
        body = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": name}}}
        assert there.post(body, in_session(there, REVISION)).status == 202

    [text] = called.result(60).json["result"]["content"]
    assert text["text"] == "Hello, Ada Lovelace."
    assert OpenQuestion.objects.count() == 0


def test_a_session_that_ends_elsewhere_ends_a_poll_that_waits(client: Wandering, there: ServedPeer) -> None:
    waiting = client.begin_and_wait()

    assert there.http("DELETE", headers=in_session(there, REVISION)).status == 204

    assert waiting.result(60).status == 204
    assert client.send().status == 404
    assert not (Poll.objects.exists() or CallStream.objects.exists())


def test_the_polls_of_another_users_session_are_404_everywhere(client: Wandering, two: Two, users: Users) -> None:
    for origin in (two.one, two.other):
        stranger = ServedPeer(token_of(users.ops), origin)
        stranger.sessions = client.peer.sessions
        assert Polling(stranger).send().status == 404
        stranger.client.close()


# Processes that go, with Redis.


@pytest.fixture
def servers(
    users: Users, flights: Any, django_db_setup: None, tmp_path: Path
) -> Iterator[tuple[ExitStack, Wandering, ServedPeer, str]]:
    """One process, which ends with the stack, a client that has polled there, the same client elsewhere, the prefix."""
    need(is_listening(6379), "Redis on 127.0.0.1:6379")
    prefix = new_prefix()
    switch_on("process")
    with ExitStack() as stays, ExitStack() as goes:
        module = "tests.push.worker_tools"
        origins = [
            stack.enter_context(served("uvicorn", prefix, tmp_path / f"{number}.log", PUBSUB, module))
            for number, stack in enumerate((goes, stays))
        ]
        here, there = (ServedPeer(token_of(users.admin) if not n else "", origin) for n, origin in enumerate(origins))
        there.token, there.sessions = here.token, here.sessions
        client = Wandering(here)
        here.result(REVISION, "resources/subscribe", {"uri": FLIGHT})
        assert client.next(0) == []
        yield goes, client, there, prefix
        here.client.close()
        there.client.close()


def go_on(client: Wandering, prefix: str) -> None:
    """What is saved from now on is told."""
    for _ in range(2):
        run_python(SAVE, prefix)
        client.until_told(updated(FLIGHT))


def test_what_changes_while_no_process_collects_is_told_by_the_next(servers: Any) -> None:
    goes, client, there, prefix = servers
    run_python(SAVE, prefix)
    wait_for(lambda: StreamEvent.objects.count() == 1, "the notification", 60)
    goes.close()
    assert Poll.objects.get().collector == ""
    run_python(SAVE, prefix)

    client.at(there).until_told(*EVERYTHING)
    go_on(client, prefix)


def test_a_process_that_is_killed_takes_no_message_with_it(servers: Any) -> None:
    _, client, there, prefix = servers
    os.kill(int(client.peer.call("process")["content"][0]["text"]), signal.SIGKILL)
    run_python(SAVE, prefix)

    client.at(there).until_told(*EVERYTHING)
    go_on(client, prefix)
