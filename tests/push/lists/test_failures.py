"""Lists that are compared while something goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection

from demo_project.flights.models import Airline
from mcp_django import site
from mcp_django.bridge.tools.catalog import AvailableTool
from mcp_django.core.db import outages
from mcp_django.core.db.interrupts import Interruptible
from mcp_django.models import Tool
from mcp_django.protocol.errors import RequestCancelled
from mcp_django.push import list_changes
from mcp_django.push.listeners import LISTS, Listener
from tests.end_to_end.servers import wait_for
from tests.push.conftest import list_changed, updated
from tests.push.lists.conftest import (
    EACH_ERA,
    ON_ASGI_AND_A_SOCKET,
    UA,
    Hubs,
    assert_told,
    describe_a_tool,
    watch_lists,
)
from tests.support.asking import request_of
from tests.support.data import Users, token_of
from tests.support.leaving import Leaving, LeavingInContext
from tests.support.peers import MODERN, Peer, Peers

Meanwhile = dict[str, Callable[[], None]]


@ON_ASGI_AND_A_SOCKET
def test_what_was_changed_without_a_signal_is_found_by_the_sweep(
    viewer: Peer, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = watch_lists(viewer, MODERN, UA)

    Tool.objects.filter(name="delay_statistics").update(enabled=False)
    monkeypatch.setattr(list_changes, "_SWEPT_SECONDS", 0.0)

    assert_told(watching, {"tools"}, MODERN)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """What happens before and after the first look at the lists of a stream."""
    happens: Meanwhile = {}
    first_look = list_changes.first_look

    def look(*args: Any) -> dict[str, bytes]:
        happens.get("before", lambda: None)()
        found = first_look(*args)
        happens.get("after", lambda: None)()
        return found

    monkeypatch.setattr(list_changes, "first_look", look)
    return happens


@EACH_ERA
def test_a_change_that_is_compared_while_the_first_look_goes_on_is_not_taken_back_by_it(
    viewer: Peer, users: Users, flights: Any, revision: str, hub: Hubs, meanwhile: Meanwhile
) -> None:
    def change() -> None:
        [group] = hub().lists._audiences.values()
        in_a_thread(lambda: describe_a_tool(users))
        wait_for(lambda: "tools" in group.digests, "the comparison", 60)

    meanwhile["after"] = change
    watching = watch_lists(viewer, revision, UA)
    Airline.objects.get(pk="UA").save()
    tag = "sub-1" if revision == MODERN else None
    assert watching.next() == updated(UA, tag)

    # As it was at the first look.
    Tool.objects.get(name="delay_statistics").delete()

    assert_told(watching, {"tools"}, revision)


def test_a_change_right_before_the_first_look_is_in_the_list(
    viewer: Peer, users: Users, flights: Any, meanwhile: Meanwhile
) -> None:
    meanwhile["before"] = lambda: in_a_thread(lambda: describe_a_tool(users))

    watching = watch_lists(viewer, MODERN, UA)
    described = {tool["name"]: tool["description"] for tool in viewer.result(MODERN, "tools/list")["tools"]}

    assert described["delay_statistics"] == "Another description."
    assert_told(watching, set(), MODERN)


def in_a_thread(work: Callable[[], None]) -> None:
    """Somebody else does it, and has done it when this returns."""

    def run() -> None:
        work()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)


def test_a_change_is_told_although_the_database_was_away_at_the_first_look(
    viewer: Peer, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(list_changes, "_digests", fail_with(OperationalError("away")))
        watching = watch_lists(viewer, MODERN, UA)

    describe_a_tool(users)

    # A tool may close resources, and what their list was is not known.
    assert_told(watching, {"tools", "resources"}, MODERN)


def test_a_change_is_told_once_the_database_is_there_again(
    viewer: Peer, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(list_changes, "_AFTER_ERROR_SECONDS", 0.01)
    watching = watch_lists(viewer, MODERN, UA)

    with monkeypatch.context() as broken:
        broken.setattr(list_changes, "_digests", fail_with(OperationalError("away")))
        describe_a_tool(users)
        wait_for(lambda: caplog.text.count("trying again") > 1, "two failures", 60)

    assert_told(watching, {"tools"}, MODERN)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError, "Lists could not be compared with what they were; no client is notified"),
        (SystemExit, "Lists could not be compared with what they were; no client is notified"),
        # Of a tenant whose database is away, say.
        (OperationalError, "Lists cannot be compared with what they were; trying again: no tenant"),
    ],
)
def test_a_context_that_fails_for_one_principal_silences_no_other(
    peers: Peers,
    users: Users,
    flights: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
    said: str,
) -> None:
    watch_lists(peers(token_of(users.ops)), MODERN)
    watching = watch_lists(peers(token_of(users.viewer)), MODERN, UA)
    call_context = type(site).call_context

    def fail_for_ops(self: Any, request: Any) -> Any:
        if request.user.username == "ops":
            raise error("no tenant")
        return call_context(self, request)

    monkeypatch.setattr(type(site), "call_context", fail_for_ops)
    describe_a_tool(users)

    assert_told(watching, {"tools"}, MODERN)
    assert said in caplog.text


@pytest.mark.parametrize("is_away", [False, True])
def test_a_list_that_cannot_be_given_any_more_has_changed(
    viewer: Peer, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    watching = watch_lists(viewer, MODERN)

    with monkeypatch.context() as broken:
        broken.setattr(outages, "is_database_away", lambda: is_away)
        broken.setattr(AvailableTool, "describe", fail_with(SystemExit(1)))
        users.viewer.save()
        gone = watching.next()
    users.viewer.save()

    assert [gone, watching.next()] == [list_changed("tools", "sub-1")] * 2


def fail_with(error: BaseException) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


def test_a_client_that_leaves_while_its_lists_are_read_is_no_fault(
    users: Users, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(users.viewer)
    monkeypatch.setattr(list_changes, "current_request", lambda _: request)
    listener = Listener(site=site, principal=request.mcp.principal, request=request, lists=frozenset(LISTS))
    given_up = Interruptible()
    given_up.interrupted = True

    with given_up.answering(), pytest.raises(RequestCancelled):
        list_changes.first_look(listener, LISTS)

    assert caplog.text == ""


@pytest.mark.parametrize("hook", [Leaving, LeavingInContext])
def test_a_database_that_goes_away_while_lists_are_compared_changes_none(
    peers: Peers, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, hook: type[Leaving]
) -> None:
    monkeypatch.setattr(list_changes, "_AFTER_ERROR_SECONDS", 0.01)
    leaving = hook("flights.flight", monkeypatch)
    watching = watch_lists(peers(token_of(users.viewer)), MODERN, UA)
    leaving.times = 2

    users.viewer.save()
    wait_for(lambda: not leaving.times, "two comparisons in vain", 60)

    assert_told(watching, set(), MODERN)
