"""Asking to be told: what is acknowledged, under which id, and what comes then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from demo_project.flights.models import Airline
from mcp_django import site
from mcp_django.push import session_streams
from mcp_django.push.hub import Hub
from mcp_django.push.session_streams import session_uris, unseen
from mcp_django.transports import attachment
from tests.axes import PUSHING
from tests.push.conftest import (
    acknowledged,
    assert_nothing_but,
    list_changed,
    listen,
    switch_a_tool,
    updated,
    watch,
)
from tests.support.peers import LEGACY, MODERN, DuplexPeer, HTTPWatching, Peer, Watching

ON_EACH = pytest.mark.parametrize("transport", PUSHING)
ON_HTTP_AND_A_SOCKET = pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
EACH_SESSION = pytest.mark.parametrize("revision", LEGACY[::-1])

#: A record, a collection, a model without permission, a model that nobody sees, a model that does not exist, …
HIDDEN = [
    "db://flights/flight/999",
    "db://flights/flight/abc",
    "db://flights/weather",
    "db://flights/weather.schema",
    "db://flights/weather/1",
    "db://shop/apikey",
    "db://auth/user/1",
    "db://mcp_django/accesstoken",
    "db://flights/nothing",
    "db://flights/flight?nothing=1",
    "flights://nothing",
    "file:///etc/passwd",
    "",
]


def id_of(revision: str) -> str | None:
    return "sub-1" if revision == MODERN else None


def rename(carrier: str) -> Callable[[], None]:
    return Airline.objects.get(pk=carrier).save


@ON_EACH
@pytest.mark.parametrize("revision", [MODERN, *LEGACY])
def test_a_change_of_a_record_is_told_and_a_new_row_as_a_change_of_its_collection(
    admin: Peer, revision: str, flights: Any
) -> None:
    wanted = ["db://flights/flight/1", "db://flights/airline", "db://flights/airline.schema"]
    watching = watch(admin, revision, *wanted)

    flights[0].save()
    told = [watching.next()]
    flights[1].save()  # Of another record.
    Airline.objects.create(carrier="B6", name="JetBlue")
    told.append(watching.next())

    assert told == [updated(uri, id_of(revision)) for uri in wanted[:2]]


@ON_HTTP_AND_A_SOCKET
def test_only_what_is_there_for_the_principal_is_acknowledged(viewer: Peer, flights: Any) -> None:
    there = ["db://flights/flight/1", "db://flights/airport", "flights://board/JFK/2013-01-01"]
    wanted = [*HIDDEN, *there, "flights://about"]

    watching = listen(viewer, {"resourceSubscriptions": wanted})

    assert watching.next() == acknowledged("sub-1", resourceSubscriptions=there)


@EACH_SESSION
def test_what_may_not_be_read_is_refused_as_what_does_not_exist(viewer: Peer, revision: str, flights: Any) -> None:
    errors = {uri: viewer.error(revision, "resources/subscribe", {"uri": uri}) for uri in HIDDEN}

    assert {error["code"] for error in errors.values()} == {-32002}
    assert {error["message"].replace(uri, "") for uri, error in errors.items()} == {
        errors["db://flights/nothing"]["message"].replace("db://flights/nothing", "")
    }


def test_a_query_that_rows_decide_which_are_not_watched_is_refused_in_words_and_not_acknowledged(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.models["flights.airport"], "watch", False)
    uri = "db://flights/flight?origin__name=JFK&limit=1"

    error = admin.error(LEGACY[-1], "resources/subscribe", {"uri": uri})
    watching = listen(admin, {"resourceSubscriptions": [uri, "db://flights/flight/1"]})

    assert watching.next() == acknowledged("sub-1", resourceSubscriptions=["db://flights/flight/1"])
    assert error["code"] == -32002
    what = "looks at rows of other models, whose changes are not reported here. Watch flights.flight without it."
    assert error["data"]["errors"] == [{"field": "origin__name", "message": what, "received": None}]


@ON_HTTP_AND_A_SOCKET
@EACH_ERA
def test_what_was_refused_or_not_acknowledged_is_never_told(admin: Peer, revision: str, flights: Any) -> None:
    absent, there = "db://flights/airline/XX", "db://flights/airline/UA"
    if revision == MODERN:
        watching = listen(admin, {"resourceSubscriptions": [absent, there]})
        assert watching.next() == acknowledged("sub-1", resourceSubscriptions=[there])
    else:
        watching = watch(admin, revision, there)
        admin.error(revision, "resources/subscribe", {"uri": absent})

    Airline.objects.create(carrier="XX", name="new")

    assert_nothing_but(watching, there, rename("UA"))


@ON_EACH
def test_the_acknowledgement_comes_first_whoever_saves_meanwhile(admin: Peer, flights: Any) -> None:
    stop = threading.Event()

    def save() -> None:
        from django.db import connection

        while not stop.is_set():
            flights[0].save()
        connection.close()

    threads = [threading.Thread(target=save) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        watched = [listen(admin, {"resourceSubscriptions": ["db://flights/flight/1"]}, f"sub-{n}") for n in range(8)]
        heard = first_of_each(watched, 8)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)

    assert {message["method"] for message in heard} == {"notifications/subscriptions/acknowledged"}


def first_of_each(watched: list[Watching], count: int) -> list[dict[str, Any]]:
    """The first message of each subscription; those of one socket share its queue."""
    if isinstance(watched[0], HTTPWatching):
        return [watching.next() for watching in watched]
    first: dict[str, dict[str, Any]] = {}
    while len(first) < count:
        message = watched[0].next()
        first.setdefault(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], message)
    return list(first.values())


@ON_EACH
@pytest.mark.parametrize("listen_id", [0, 1, -7, 2**53 - 1, "1", "", "a b", "ü☃", "9007199254740993"])
def test_messages_carry_the_id_of_the_listen_as_it_was_written(admin: Peer, flights: Any, listen_id: int | str) -> None:
    watching = listen(admin, {"resourceSubscriptions": ["db://flights/flight/1"], "toolsListChanged": True}, listen_id)
    opened = watching.next()
    flights[0].save()
    told = watching.next()
    switch_a_tool()
    changed = watching.next()

    assert opened == acknowledged(listen_id, resourceSubscriptions=["db://flights/flight/1"], toolsListChanged=True)
    assert told == updated("db://flights/flight/1", listen_id)
    assert changed == list_changed("tools", listen_id)
    assert {type(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"])
            for message in (opened, told, changed)} == {type(listen_id)}  # fmt: skip


@ON_HTTP_AND_A_SOCKET
def test_each_listen_gets_one_copy_of_what_it_asked_for_with_its_own_id(admin: Peer, flights: Any) -> None:
    """Although a URI may stand twice in it."""
    uri = "db://flights/flight/1"
    watched = [watch(admin, MODERN, uri, listen_id=1), watch(admin, MODERN, uri, listen_id="1")]
    watched.append(listen(admin, {"toolsListChanged": True}, "tools"))
    assert watched[2].next() == acknowledged("tools", toolsListChanged=True)
    watched.append(listen(admin, {"resourceSubscriptions": [uri] * 2}, "twice"))
    assert watched[3].next() == acknowledged("twice", resourceSubscriptions=[uri])

    flights[0].save()
    told = [watched[place].next() for place in (0, 1, 3)]
    switch_a_tool()
    told.append(watched[2].next())

    wanted = [*(updated(uri, listen_id) for listen_id in (1, "1", "twice")), list_changed("tools", "tools")]
    assert sorted(told, key=repr) == sorted(wanted, key=repr)


@ON_EACH
@EACH_SESSION
def test_a_session_subscribes_and_unsubscribes_while_its_stream_is_open(
    admin: Peer, revision: str, flights: Any
) -> None:
    watching = watch(admin, revision, "db://flights/airline/UA")
    admin.result(revision, "resources/subscribe", {"uri": "db://flights/flight/1"})

    flights[0].save()
    assert watching.next() == updated("db://flights/flight/1")

    # The second time there is nothing to unsubscribe from, which is no error.
    answers = [admin.result(revision, "resources/unsubscribe", {"uri": "db://flights/flight/1"}) for _ in range(2)]
    flights[0].save()

    assert answers == [{}, {}]
    assert_nothing_but(watching, "db://flights/airline/UA", rename("UA"))


@ON_EACH
def test_a_sweep_while_a_stream_is_opened_notifies_of_nothing(
    admin: Peer, flights: Any, swept: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that watches nothing yet has missed nothing."""
    watches = threading.Event()

    def read_slowly(key: str | None) -> Any:
        found = session_uris(key)
        swept()
        return found

    def look(*args: Any) -> Any:
        watches.set()
        return unseen(*args)

    def look_late(*args: Any) -> Any:
        assert watches.wait(60)
        return unseen(*args)

    monkeypatch.setattr(attachment, "session_uris", read_slowly)
    monkeypatch.setattr(attachment, "unseen", look)
    monkeypatch.setattr(session_streams, "unseen", look_late)

    watching = watch(admin, LEGACY[-1], "db://flights/flight/1", "db://flights/airline/UA")

    assert_nothing_but(watching, "db://flights/airline/UA", rename("UA"))


@ON_EACH
def test_a_listen_that_was_given_up_is_told_no_more(admin: Peer, flights: Any, hub: Callable[[], Hub]) -> None:
    cancelled = watch(admin, MODERN, "db://flights/flight/1", listen_id="given up")
    kept = watch(admin, MODERN, "db://flights/flight/1", listen_id="kept")

    cancelled.close()
    if isinstance(admin, DuplexPeer):
        # Messages are taken in their order, so that the answer says that the cancellation has been read.
        admin.result(MODERN, "server/discover")
    for _ in range(2):
        flights[0].save()
        assert kept.next() == updated("db://flights/flight/1", "kept")

    assert len(hub()._index["flights.flight"]) == 1
