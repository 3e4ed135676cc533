"""Clients that come back to the stream of a call."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, connections

from mcp_django.core.events.controls import Control, ControlKind
from mcp_django.models import PostedMessage, StreamEvent
from mcp_django.protocol.errors import Overloaded
from mcp_django.push.sessions import mailbox, stored_questions, streams
from tests.end_to_end.servers import wait_for
from tests.support.http import ASGIPeer
from tests.support.talking import accept, call, talk
from tests.transports.calling import Gate, begin, events_until, message, resume
from tests.transports.calls.conftest import hub_of, over_http, text_of

HERE = Control(ControlKind.MAIL, "here")


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

    monkeypatch.setattr(stored_questions, function, fail)

    said = call(peer, "greet", "2025-11-25", accept(name="Ada"))

    assert said.answer["error"]["data"] == {"reason": "INTERNAL_ERROR"}
    assert [record.getMessage() for record in caplog.records] == ["A request could not be answered"]
    wait_for(lambda: not hub_of(peer)._members, "the end of the call")
    assert hub_of(peer).waiters._expected == {}


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
