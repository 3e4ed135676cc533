"""Many sockets of one principal that watch the same: it is asked once of them what the principal may see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest

from demo_project.flights.models import Airport, Flight
from mcp_django import MCPSite, ModelMCP, site
from mcp_django.access.authentication import authenticate
from mcp_django.core.events.changed_rows import Changes
from mcp_django.exchange.requests import MCPRequest
from mcp_django.push import hub as hubs
from mcp_django.push import visibility
from mcp_django.push.hub import get_hub
from mcp_django.push.listeners import Listener
from mcp_django.push.subscriptions import Subscription, watch
from tests.support.asking import request_of
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread

FLIGHT = "db://flights/flight/1"
FLIGHTS = "db://flights/flight"
FLIGHTS_OF_JFK = "shop://jfk"


def listener_of(user: User, at: MCPSite = site) -> Listener:
    meta = {"HTTP_AUTHORIZATION": f"Bearer {token_of(user)}"}
    request = MCPRequest(path="/mcp", scheme="http", meta=meta, attributes={})
    request.for_principal(authenticate(request, fresh=True))
    return Listener(site=at, principal=request.mcp.principal, request=request)


def group_of(user: User, uri: str, number: int, at: MCPSite = site) -> visibility.EqualRights:
    """Sockets of the user that watch the resource."""
    group = visibility.EqualRights(listener_of(user, at))
    for _ in range(number):
        subscription = watch(at, uri)
        assert subscription is not None
        assert subscription.look(at, group.listener.request)
        group.subscriptions[subscription] = group.listener
    return group


def saved(key: str) -> Changes:
    changes = Changes()
    changes.note("default", "flights.flight", written={key})
    return changes


def notified(group: visibility.EqualRights, changes: Changes) -> list[int]:
    """The places of the subscriptions to notify."""
    [checked] = visibility.check([group], changes)
    return [place for place, one in enumerate(group.subscriptions) if one in set(checked.notify)]


def test_each_is_told_by_what_it_saw_itself(users: Users, flights: list[Flight]) -> None:
    group = group_of(users.ops, FLIGHT, 4)
    first, second, *_ = group.subscriptions
    first.visible = second.visible = False
    Flight.objects.filter(pk=1).update(origin="EWR")

    assert notified(group, saved("1")) == [2, 3]
    assert notified(group, saved("1")) == []


def test_each_collection_is_told_of_the_rows_that_it_saw_itself(users: Users, flights: list[Flight]) -> None:
    group = group_of(users.ops, FLIGHTS, 4)
    first, second, *_ = group.subscriptions
    first.keys = second.keys = frozenset({"4"})
    Flight.objects.filter(pk=1).update(origin="EWR")

    assert notified(group, saved("1")) == [2, 3]
    assert [one.keys is not None and "1" in one.keys for one in group.subscriptions] == [False] * 4


def test_a_row_that_enters_the_view_is_remembered_by_each(users: Users, flights: list[Flight]) -> None:
    group = group_of(users.ops, FLIGHTS, 3)
    Flight.objects.filter(pk=2).update(origin=Airport.objects.get(pk="JFK"))

    assert notified(group, saved("2")) == [0, 1, 2]
    assert all(one.keys is not None and "2" in one.keys for one in group.subscriptions)


def test_one_that_another_thread_changes_meanwhile_is_checked_by_itself(users: Users, flights: list[Flight]) -> None:
    """As a look at the rows does, which runs in another worker."""
    group = group_of(users.ops, FLIGHTS, 3)
    _, second, third = group.subscriptions
    follow = Subscription.follow

    def meanwhile(self: Subscription, touched: set[str], visible: set[str]) -> bool | None:
        second.keys = (second.keys or frozenset()) | {"99"}
        return follow(self, touched, visible)

    Flight.objects.filter(pk=1).update(origin="EWR")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Subscription, "follow", meanwhile)
        told = notified(group, saved("1"))

    assert told == [0, 1, 2]
    assert second.keys is not None
    assert second.keys - {"99"} == third.keys
    assert "99" in second.keys


def test_the_hooks_are_asked_once(users: Users, flights: list[Flight]) -> None:
    asked: list[str] = []

    class Flights(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            asked.append(request.user.get_username())
            return True

    own = MCPSite("own")
    own.register(Flight, Flights)
    group = group_of(users.admin, FLIGHT, 50, own)
    asked.clear()

    assert notified(group, saved("1")) == list(range(50))
    # Once for the model, and once for the row.
    assert asked == ["admin", "admin"]


def test_those_that_are_notified_first_are_written_to_before_the_last_are_noted(
    db: None, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(pk=1, username="reader")

    class Written:
        """Counts the listeners that still have something to write when it is their turn."""

        def __init__(self, listener: Listener) -> None:
            self.listener = listener

        def wake(self) -> None:
            get_hub().delivery.add(self)

        async def flush(self, task: Any) -> None:
            self.listener.take()
            waiting.append(sum(bool(listener._pending) for listener in listeners))

    waiting: list[int] = []
    listeners: list[Listener] = []

    async def tell() -> None:
        hub = get_hub()
        for _ in range(5 * hubs._NOTIFIED_AT_ONCE):
            request = request_of(user)
            listener = Listener(site=site, principal=request.mcp.principal, request=request, subscription_id=1)
            subscription = watch(site, FLIGHT)
            assert subscription is not None
            listener.subscriptions[subscription.uri] = subscription
            listeners.append(listener)
            hub.add(listener)
            listener.write_to(Written(listener))

        def all_of_them(groups: Any, changes: Changes) -> list[visibility.Checked]:
            return [visibility.Checked(notify=list(group.subscriptions)) for group in groups]

        monkeypatch.setattr(visibility, "check", all_of_them)
        hub.receive(saved("1"), [])
        async with asyncio.timeout(60):
            while len(waiting) < len(listeners):
                await asyncio.sleep(0)

    serving_loop.run(tell())

    assert max(waiting) < len(listeners) / 2
