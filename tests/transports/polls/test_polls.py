"""Long polling: a session is sent its messages as the answers to requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.core.running.workers import run_patiently
from mcp_django.models import CallStream, Poll, StreamEvent, Tool
from mcp_django.push.hub import Hub
from tests.end_to_end.servers import wait_for
from tests.push.conftest import updated
from tests.support.peers import LEGACY
from tests.support.polling import Polling
from tests.transports.polls.conftest import FLIGHT, OTHER, over_http


@over_http
@pytest.mark.parametrize("revision", LEGACY)
def test_a_poll_is_answered_with_what_waits(admin: Any, flights: Any, revision: str) -> None:
    polling = Polling(admin, revision)
    admin.result(revision, "resources/subscribe", {"uri": FLIGHT})
    assert polling.next(0) == []

    flights[0].save()
    answer = polling.send()

    assert polling.take(answer) == [updated(FLIGHT)]
    sent = {name: answer.headers.get(name) for name in ("content-type", "cache-control", "preference-applied")}
    assert sent == {
        "content-type": "application/json", "cache-control": "no-store", "preference-applied": "wait=30",
    }  # fmt: skip


@over_http
def test_a_poll_that_waits_is_answered_at_once(
    watching: Polling, flights: Any, until_one_waits: Callable[[], None]
) -> None:
    waiting = watching.begin()
    until_one_waits()

    flights[0].save()

    assert watching.take(waiting.result(30)) == [updated(FLIGHT)]


def test_the_first_poll_of_a_session_waits_in_the_line_of_its_caller(
    polling: Polling, users: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have their turns, however many sessions one user begins to poll."""
    keys: list[str] = []

    async def watched(function: Callable[..., Any], *args: Any, principal_key: str = "") -> Any:
        keys.append(principal_key)
        return await run_patiently(function, *args, principal_key=principal_key)

    monkeypatch.setattr("mcp_django.transports.http.polling.run_patiently", watched)

    assert polling.next(0) == []

    assert keys == [f"user:{users.admin.pk}"] * 2


@over_http
def test_when_its_time_is_over_a_poll_has_no_content_and_says_where_the_client_is(watching: Polling) -> None:
    answer = watching.send(0)

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["preference-applied"] == "wait=0"
    assert answer.headers["last-event-id"].endswith("-0")


@over_http
def test_what_was_not_acknowledged_is_told_again_and_what_was_is_not(watching: Polling, flights: Any) -> None:
    flights[0].save()
    first = watching.send()
    again = watching.send()
    watching.take(again)
    after = watching.send(0)

    assert (first.json, first.headers["last-event-id"]) == (again.json, again.headers["last-event-id"])
    assert after.status == 204
    assert not StreamEvent.objects.exists()


@over_http
def test_a_resource_that_changes_often_waits_once(watching: Polling, flights: Any) -> None:
    watching.peer.result(watching.revision, "resources/subscribe", {"uri": OTHER})
    for _ in range(3):
        flights[0].save()
        wait_for(lambda: StreamEvent.objects.count() == 1, "the notification")
    before = Poll.objects.get().last
    flights[0].save()
    wait_for(lambda: Poll.objects.get().last > before, "the notification")
    flights[1].save()
    wait_for(lambda: StreamEvent.objects.count() == 2, "the notification")

    assert watching.uris() == [FLIGHT, OTHER]


@over_http
def test_a_change_after_an_answer_was_lost_is_told_with_it(watching: Polling, flights: Any) -> None:
    """The client may have read the resource between the two."""
    flights[0].save()
    lost = watching.send()
    last = Poll.objects.get().last
    flights[0].save()
    wait_for(lambda: Poll.objects.get().last > last, "the notification")

    again = watching.send()

    assert lost.json == again.json == [updated(FLIGHT)]
    assert again.headers["last-event-id"] != lost.headers["last-event-id"]
    watching.last_id = lost.headers["last-event-id"]
    assert watching.uris() == [FLIGHT]
    assert watching.next(0) == []


@over_http
def test_lists_that_change_are_told(polling: Polling, users: Any) -> None:
    assert polling.next(0) == []
    tool = Tool.objects.get(name="flights_flight_mark_cancelled")
    tool.enabled = False
    tool.save()

    assert [message["method"] for message in polling.next()] == ["notifications/tools/list_changed"]


def test_what_prefer_says_is_read_as_rfc_7240_has_it(watching: Polling, flights: Any) -> None:
    """Without it a poll waits by default."""
    wanted = {
        **dict.fromkeys(["wait=7", "WAIT = 7", 'respond-async, wait="7"; x=1', "wait=7, wait=9"], "wait=7"),
        **dict.fromkeys(["wait=600", "wait=999999999"], "wait=55"),
        **dict.fromkeys(["wait=-1", "wait=1.5", "wait=9999999999999999999999", "wait", "await=3", "", None]),
    }
    flights[0].save()

    answers = {prefer: watching.send(None, **({} if prefer is None else {"Prefer": prefer})) for prefer in wanted}

    assert {prefer: answer.headers.get("preference-applied") for prefer, answer in answers.items()} == wanted
    assert {answer.status for answer in answers.values()} == {200}


@pytest.mark.parametrize("transport", ["http-protobuf"])
def test_a_poll_in_protobuf(admin: Any, flights: Any) -> None:
    polling = Polling(admin)
    admin.result(polling.revision, "resources/subscribe", {"uri": FLIGHT})
    assert polling.next(0) == []
    flights[0].save()

    assert polling.next() == [updated(FLIGHT)]


@over_http
def test_nothing_is_left_behind_by_many_polls(watching: Polling, flights: Any, hub: Callable[[], Hub]) -> None:
    for _ in range(10):
        flights[0].save()
        assert watching.uris() == [FLIGHT]
    assert watching.next(0) == []

    found = hub()
    assert len(found.listeners()) == len(found.members()) == len(found.waiters.stored_streams) == 1
    assert not found.waiters._readers
    assert len(found.waiters._expected) == 1
    assert (CallStream.objects.count(), StreamEvent.objects.count()) == (1, 0)


# Two at once.


@over_http
def test_of_two_polls_of_a_session_the_older_is_answered_at_once(
    watching: Polling, flights: Any, hub: Callable[[], Hub], until_one_waits: Callable[[], None]
) -> None:
    older = watching.begin()
    until_one_waits()
    newer = watching.begin()

    assert older.result(30).status == 204
    until_one_waits()
    flights[0].save()
    assert newer.result(30).json == [updated(FLIGHT)]
    assert len(hub().listeners()) == 1


@over_http
def test_of_many_first_polls_at_once_at_most_one_waits(polling: Polling, hub: Callable[[], Hub]) -> None:
    polling.peer.session(polling.revision)
    polls = [polling.begin() for _ in range(5)]

    wait_for(lambda: sum(poll.done() for poll in polls) >= 4, "the end of the older ones")
    older = [poll for poll in polls if poll.done()]
    assert polling.peer.http("DELETE", headers={"Mcp-Session-Id": polling.peer.sessions.pop(polling.revision)})
    assert {poll.result().status for poll in older} <= {200, 204}
    # Under load the newest may come to its session only now, when it is gone.
    assert {poll.result(30).status for poll in polls} <= {200, 204, 404}
    wait_for(lambda: not hub().members(), "the end of the collectors")


@over_http
def test_a_stream_cannot_be_resumed_from_where_polls_are(watching: Polling, flights: Any) -> None:
    flights[0].save()
    assert watching.uris() == [FLIGHT]
    headers = {"Mcp-Session-Id": watching.peer.session(watching.revision), "Last-Event-ID": watching.last_id}

    assert watching.peer.http("GET", headers=headers).status == 405
