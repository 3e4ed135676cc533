"""A collector leaves to that of another process, which the test plays by the mail that it writes and reads."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.core.events.controls import Control, ControlKind
from mcp_django.core.events.publisher import flush
from mcp_django.models import Poll, StreamEvent
from mcp_django.protocol.jsonrpc import encode
from mcp_django.push import collectors
from mcp_django.push.hub import Hub
from mcp_django.push.sessions import mailbox, polls
from tests.end_to_end.servers import wait_for
from tests.push.conftest import list_changed, updated
from tests.support.polling import REVISION, Polling
from tests.transports.polls.conftest import FLIGHT, OTHER, over_http

ELSEWHERE = "e" * 32


def send(name: str, **mail: Any) -> None:
    mailbox.put(Control(ControlKind.MAIL, name), json.dumps(mail))
    flush()


def mail_to_elsewhere() -> Any:
    """The next mail that a collector of this process sends to the other one."""
    found: list[str] = []

    def came() -> bool:
        found.extend(mailbox.take(Control(ControlKind.MAIL, ELSEWHERE)))
        return bool(found)

    wait_for(came, "mail")
    [mail] = found
    return json.loads(mail)


def text_of(uri: str) -> str:
    return encode(updated(uri)).decode()


@over_http
def test_who_leaves_sends_on_what_it_could_not_store(
    watching: Polling, flights: Any, hub: Callable[[], Hub], until_one_waits: Callable[[], None]
) -> None:
    waiting = watching.begin()
    until_one_waits()
    poll = Poll.objects.get()
    polls.take_over(poll.session_id, poll.stream_id, ELSEWHERE)
    flights[0].save()
    send(poll.collector, successor=ELSEWHERE)

    assert mail_to_elsewhere() == {"kept": [text_of(FLIGHT)]}
    assert waiting.result(30).status == 204
    wait_for(lambda: not hub().members(), "the end of the collector")
    assert not StreamEvent.objects.exists()
    assert Poll.objects.get().collector == ELSEWHERE


@over_http
def test_who_comes_stores_what_it_is_sent_on_except_what_it_has_stored_itself(watching: Polling, flights: Any) -> None:
    watching.peer.result(REVISION, "resources/subscribe", {"uri": OTHER})
    Poll.objects.update(collector=ELSEWHERE)

    assert watching.next(0) == []
    name = mail_to_elsewhere()["successor"]
    assert name == Poll.objects.get().collector
    flights[0].save()
    assert watching.uris() == [FLIGHT]
    send(name, kept=[text_of(FLIGHT), text_of(OTHER)])

    assert watching.uris() == [OTHER]
    assert watching.next(0) == []


@over_http
def test_who_comes_is_sent_what_it_is_just_storing(
    watching: Polling, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching.peer.result(REVISION, "resources/subscribe", {"uri": OTHER})
    Poll.objects.update(collector=ELSEWHERE)
    run, taken = collectors.run_patiently, threading.Event()

    async def hear_of_it_late(function: Any, *arguments: Any) -> Any:
        result = await run(function, *arguments)
        if function is mailbox.take and result:
            taken.set()
        while function is polls.collect and not taken.is_set():
            await asyncio.sleep(0.01)
        return result

    monkeypatch.setattr(collectors, "run_patiently", hear_of_it_late)

    assert watching.next(0) == []
    name = mail_to_elsewhere()["successor"]
    flights[0].save()
    assert watching.uris() == [FLIGHT]
    send(name, kept=[text_of(FLIGHT), text_of(OTHER)])

    assert watching.uris() == [OTHER]
    assert watching.next(0) == []


@over_http
def test_who_comes_after_one_that_does_not_answer_tells_of_everything(
    watching: Polling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collectors, "_HANDOVER_SECONDS", 0)
    Poll.objects.update(collector=ELSEWHERE)

    told = watching.next()

    assert told == [*(list_changed(name) for name in ("prompts", "resources", "tools")), updated(FLIGHT)]


@over_http
def test_who_is_asked_to_leave_while_it_waits_for_an_older_one_waits_for_that_first(
    watching: Polling, hub: Callable[[], Hub]
) -> None:
    """Or what the older one sends on would be lost."""
    Poll.objects.update(collector=ELSEWHERE)
    assert watching.next(0) == []
    name = mail_to_elsewhere()["successor"]
    poll = Poll.objects.get()
    polls.take_over(poll.session_id, poll.stream_id, ELSEWHERE)
    send(name, successor=ELSEWHERE)
    send(name, kept=[text_of(FLIGHT)])

    assert mail_to_elsewhere() == {"kept": [text_of(FLIGHT)]}
