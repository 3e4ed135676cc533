"""Streams and their readers: slow ones, ones that leave, and several of one session."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from demo_project.flights.models import Airline, Flight
from mcp_django import changed
from mcp_django.bridge.sites import site
from mcp_django.protocol.errors import TooSlow
from mcp_django.push import subscriptions as subscribing
from mcp_django.push.hub import Hub, get_hub
from mcp_django.push.listeners import LISTS, Listener
from mcp_django.push.subscriptions import watch as watched
from mcp_django.transports.http import views
from tests.push.conftest import acknowledged, assert_nothing_but, list_changed, listen, updated, watch
from tests.support.asking import request_of
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, MODERN, ASGIPeer, HTTPWatching, Peer, Peers

ON_HTTP = pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])


def listeners(hub: Hub) -> list[Listener]:
    return list(hub._listeners)


@ON_HTTP
def test_a_stream_ends_whose_client_leaves_just_as_an_event_comes(
    admin: Peer, flights: Any, hub: Callable[[], Hub], serving_loop: LoopThread
) -> None:
    async def tell_and_leave(watching: HTTPWatching, turns: int) -> None:
        [listener] = listeners(hub())
        await watching.call.inbox.put({"type": "http.disconnect"})
        for _ in range(turns):
            await asyncio.sleep(0)
        listener.notify_updated("db://flights/flight/1")
        await watching.call.finish()

    left = []
    for turns in range(6):
        watching = watch(admin, MODERN, "db://flights/flight/1")
        assert isinstance(watching, HTTPWatching)
        serving_loop.run(tell_and_leave(watching, turns))
        left.append(listeners(hub()))

    assert left == [[]] * 6


@pytest.mark.parametrize("transport", ["http-view-asgi"])
def test_a_stream_whose_client_leaves_before_its_first_chunk_leaves_nothing_behind(
    admin: Peer, hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_close_connections", asyncio.Event().wait)
    kept: list[Any] = []
    monkeypatch.setattr(views.weakref, "finalize", lambda response, *_: kept.append(response))

    admin.watch(LEGACY[-1], []).close()

    assert listeners(hub()) == []


def test_a_listener_that_is_never_read_does_not_grow(
    admin: Peer, flights: Any, hub: Callable[[], Hub], serving_loop: LoopThread
) -> None:
    blocked = asyncio.Event()
    application, reading = admin.application, admin  # type: ignore[attr-defined]

    async def full(scope: Any, receive: Any, send: Any) -> None:
        async def send_to_a_full_pipe(message: Any) -> None:
            if b"resources/updated" in message.get("body", b""):
                await blocked.wait()
            await send(message)

        await application(scope, receive, send_to_a_full_pipe)

    assert isinstance(reading, ASGIPeer)
    reading.application = full
    stuck = watch(reading, MODERN, "db://flights/flight", "db://flights/airline/UA", listen_id="stuck")
    reading.application = application
    quick = watch(reading, MODERN, "db://flights/flight", "db://flights/airline/UA", listen_id="quick")

    for flight in flights:
        flight.save()
        assert quick.next() == updated("db://flights/flight", "quick")
    [listener] = [found for found in listeners(hub()) if found.subscription_id == "stuck"]
    pending = len(listener._pending)
    serving_loop.loop.call_soon_threadsafe(blocked.set)

    assert pending == 1
    assert stuck.next() == updated("db://flights/flight", "stuck")
    assert stuck.next() == updated("db://flights/flight", "stuck")
    assert_nothing_but(stuck, "db://flights/airline/UA", Airline.objects.get(pk="UA").save)


def test_five_hundred_rows_of_a_collection_are_one_update(admin: Peer, flights: Any) -> None:
    watching = watch(admin, MODERN, "db://flights/flight", "db://flights/airline/UA")

    with transaction.atomic():
        for number in range(500):
            flights[number % len(flights)].save(update_fields=["notes"])

    assert watching.next() == updated("db://flights/flight", "sub-1")
    assert_nothing_but(watching, "db://flights/airline/UA", Airline.objects.get(pk="UA").save)


def test_more_rows_than_max_changed_keys_are_told_to_every_watched_record(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.core.events.changed_rows.MAX_CHANGED_KEYS", 3)
    watching = watch(admin, MODERN, "db://flights/flight/1", "db://flights/flight/12", "db://flights/flight")

    with transaction.atomic():
        for flight in flights[4:8]:
            flight.save()

    assert watching.uris(3) == ["db://flights/flight", "db://flights/flight/1", "db://flights/flight/12"]


def test_a_stream_is_told_of_changes_after_the_settings_have_changed(admin: Peer, flights: Any, settings: Any) -> None:
    watching = watch(admin, MODERN, "db://flights/airline/UA")

    settings.MCP = {**settings.MCP, "MAX_ROWS": 3}
    Airline.objects.get(pk="UA").save()

    assert watching.uris(1) == ["db://flights/airline/UA"]


@ON_HTTP
def test_each_message_of_a_session_goes_on_its_newest_stream_alone(admin: Peer, flights: Any) -> None:
    older = watch(admin, LEGACY[-1], "db://flights/airline/UA")
    newer = admin.watch(LEGACY[-1], [])

    assert_nothing_but(newer, "db://flights/airline/UA", Airline.objects.get(pk="UA").save)
    newer.close()

    assert_nothing_but(older, "db://flights/airline/UA", Airline.objects.get(pk="UA").save)


def test_a_silent_listen_of_many_subscriptions_costs_no_query_when_another_model_changes(
    admin: Peer, flights: Any, hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = watch(admin, MODERN, *(flight_uri(number) for number in range(1, 13)), "db://flights/airline/UA")
    asked = count_asked(monkeypatch)

    assert_nothing_but(watching, "db://flights/airline/UA", Airline.objects.get(pk="UA").save)

    assert asked == []


def test_permission_is_asked_once_for_each_principal_at_an_event(
    peers: Peers, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = token_of(users.admin)
    watched = [
        watch(
            peers(token), MODERN, "db://flights/flight", "db://flights/flight/1", "db://flights/flight/2", listen_id=n
        )
        for n in range(3)
    ]
    watched.append(watch(peers(token_of(users.ops)), MODERN, "db://flights/flight", "db://flights/flight/1"))
    asked = count_asked(monkeypatch)

    with transaction.atomic():
        flights[0].save()
        flights[1].save()
    for watching in watched[:3]:
        watching.uris(3)
    watched[3].uris(2)

    assert sorted(asked) == ["admin", "ops"]


def flight_uri(number: int) -> str:
    return f"db://flights/flight/{number}"


def count_asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For whom the admin was asked which flights there are, from now on."""
    from demo_project.flights.admin import FlightAdmin

    asked: list[str] = []
    get_queryset = FlightAdmin.get_queryset

    def noted(self: Any, request: Any) -> Any:
        asked.append(request.user.username)
        return get_queryset(self, request)

    monkeypatch.setattr(FlightAdmin, "get_queryset", noted)
    return asked


def keys_of(hub: Hub) -> list[frozenset[str] | None]:
    """Of each stream, the keys that are remembered of the flights."""
    return [listener.subscriptions["db://flights/flight"].keys for listener in listeners(hub)]


def test_all_who_see_the_same_rows_remember_one_set_of_keys(ops: Peer, ewr: Flight, hub: Callable[[], Hub]) -> None:
    watching = [watch(ops, MODERN, "db://flights/flight", listen_id=listen_id) for listen_id in ("one", "two")]
    before = keys_of(hub())
    assert before[0] is before[1]
    assert before[0] is not None

    ewr.origin_id = "JFK"
    ewr.save()
    assert [stream.uris(1) for stream in watching] == [["db://flights/flight"]] * 2

    after = keys_of(hub())
    assert after[0] is after[1]
    assert after[0] == before[0] | {str(ewr.pk)}


def test_no_more_than_max_watched_keys_are_remembered_however_often_the_rows_are_others(
    ops: Peer, jfk: Flight, monkeypatch: pytest.MonkeyPatch, hub: Callable[[], Hub]
) -> None:
    watching = watch(ops, MODERN, "db://flights/flight")
    [keys] = keys_of(hub())
    assert keys is not None
    monkeypatch.setattr("mcp_django.push.live_answers.MAX_WATCHED_KEYS", len(keys))

    # Another row comes in the place of this one, and no signal says so.
    Flight.objects.filter(pk=jfk.pk)._raw_delete("default")
    jfk.pk = None
    Flight.objects.bulk_create([jfk])
    changed(Flight)

    assert watching.uris(1) == ["db://flights/flight"]
    # Deletes of the rows that are there now are told all the same.
    assert keys_of(hub()) == [keys - {"1"} | {str(Flight.objects.latest("pk").pk)}]


def test_a_row_that_comes_while_the_rows_are_looked_at_is_remembered_and_rows_that_could_not_be_are_not_known(
    users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys_there = subscribing.watched_keys
    subscription, failed = (watched(site, "db://flights/flight") for _ in range(2))
    assert subscription is not None and failed is not None

    def look_while_a_row_comes(rights: Any) -> Any:
        keys = keys_there(rights)
        assert subscription.follow({"99"}, {"99"}) is False
        return keys

    def fail(rights: Any) -> Any:
        raise TooSlow

    monkeypatch.setattr(subscribing, "watched_keys", look_while_a_row_comes)
    assert subscription.look(site, request_of(users.ops))
    monkeypatch.setattr(subscribing, "watched_keys", fail)
    with pytest.raises(TooSlow):
        failed.look(site, request_of(users.ops))

    assert subscription.keys == {"1", "4", "7", "10", "99"}
    assert failed.follow({"1"}, set()) is None


def test_a_listen_to_nothing_is_acknowledged_with_nothing_and_stays_open(
    admin: Peer, hub: Callable[[], Hub], swept: Callable[[], None]
) -> None:
    nothing: list[dict[str, Any]] = [
        {}, {"resourceSubscriptions": ["db://flights/nothing"]}, {"rootsListChanged": True},
        {"templatesListChanged": True, "toolsListChanged": False, "promptsListChanged": False},
    ]  # fmt: skip
    streams = [listen(admin, wanted) for wanted in nothing]
    assert [stream.next() for stream in streams] == [acknowledged("sub-1")] * len(nothing)

    swept()

    assert len(listeners(hub())) == len(nothing)


@pytest.mark.parametrize("is_read", [False, True], ids=["pending", "being-written"])
def test_what_a_stream_did_not_write_any_more_is_told_on_another_one_of_its_session(
    db: None, serving_loop: LoopThread, is_read: bool
) -> None:
    kept, unwatched = "db://flights/flight/1", "db://flights/flight/2"

    request = request_of(User.objects.create_superuser("root"))

    async def leave() -> tuple[list[bytes] | None, bool]:
        hub = get_hub()
        older, newer = (
            Listener(
                site=site,
                principal=request.mcp.principal,
                request=request,
                session_key="session",
                lists=frozenset(LISTS),
            )
            for _ in range(2)
        )
        for listener in (older, newer):
            hub.add(listener)
        hub.arrange(older.session_name or "")
        subscription = watched(site, kept)
        assert subscription is not None
        hub.watch(older, subscription)
        newer.notify_updated(kept)
        newer.notify_updated(unwatched)
        newer.notify_list_changed("tools")
        if is_read:
            await newer.next()
        hub.remove(newer)
        hub.remove(newer)
        told = await older.next()
        return told, older.muted

    told, muted = serving_loop.run(leave())
    assert [json.loads(body) for body in told or ()] == [updated(kept), list_changed("tools")]
    assert muted is False


async def left_of(hub: Hub) -> set[Any]:
    """Its tasks that do not end; they are cancelled."""
    _, left = await asyncio.wait(list(hub._tasks), timeout=60)
    for task in left:
        task.cancel()
    return left


def test_a_hub_ends_with_all_of_its_tasks_although_one_has_just_run_out_of_time(
    db: None, serving_loop: LoopThread
) -> None:
    async def work() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                # Right after the timeout has struck, and before the task has heard of it.
                asyncio.get_running_loop().call_soon(get_hub().close)
                await asyncio.Event().wait()
        await asyncio.Event().wait()

    async def end() -> set[Any]:
        hub = get_hub()
        hub._start(work())
        return await left_of(hub)

    assert serving_loop.run(end()) == set()


def test_a_hub_ends_with_all_of_its_tasks_although_a_check_fails_at_that_moment(
    db: None, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TaskGroup whose task fails while the group is being cancelled raises the failure alone."""
    checking = asyncio.Event()

    async def fail_when_cancelled(*_: Any) -> None:
        async with asyncio.TaskGroup() as checks:
            checks.create_task(fail())

    async def fail() -> None:
        checking.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("a check has failed")

    monkeypatch.setattr(Hub, "_handle", fail_when_cancelled)

    async def end() -> set[Any]:
        hub = get_hub()
        hub.resync()
        await checking.wait()
        hub.close()
        return await left_of(hub)

    assert serving_loop.run(end()) == set()
