"""Live queries: who watches the answer to a query is told when that is another one, and only then."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Permission
from django.db import OperationalError, transaction

from demo_project.flights.models import Airline, Airport, Disruption, Flight, Plane
from mcp_django import ModelMCP, site
from mcp_django.events.changes import Changes
from mcp_django.events.controls import Control, ControlKind
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.scopes import READ
from mcp_django.models import AccessToken, WatchedResource
from mcp_django.protocol.errors import TooSlow
from mcp_django.push import live_queries
from mcp_django.push.hub import Hub
from mcp_django.push.identities import Identity
from mcp_django.push.live_answers import LiveAnswer, Viewer
from mcp_django.resources import uris
from mcp_django.transports.http import sessions
from tests.conftest import PUSHING
from tests.push.conftest import acknowledged, listen, updated, watch
from tests.shop.models import Product, Tag
from tests.support.asking import request_of
from tests.support.data import Users, make_staff, token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, MODERN, REVISIONS, ASGIPeer, Peer, Peers, Watching

ON_EACH = pytest.mark.parametrize("transport", PUSHING)
ON_THE_DOOR = pytest.mark.parametrize("transport", ["http-asgi"])
EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])

#: Flights 1, 4, 7 … leave from JFK, which is all that ops may see.
JFK = "db://flights/flight?origin=JFK&fields=number"
ALL = "db://flights/flight?number__gte=0&fields=number"
COUNTED = "db://flights/flight?group_by=carrier&measures=count,avg:departure_delay"
#: Handled after all that was committed before it.
MARK = Control(ControlKind.MAIL, "mark")
QUIET = "db://flights/plane/N14228"

Told = Callable[[Watching], list[str]]


@pytest.fixture(autouse=True)
def _often(settings: LazySettings) -> None:
    settings.CHANNEL_LAYERS = {}
    settings.MCP = {**settings.MCP, "LIVE_SECONDS": 0.02}


@pytest.fixture
def settle(hub: Callable[[], Hub], serving_loop: LoopThread) -> Callable[[], None]:
    """Waits until all that was committed so far is looked at, and told."""

    async def wait() -> None:
        for _ in range(2):  # The first may be heard together with changes that are looked at only then.
            heard = hub().waiters.expect(MARK)
            hub().receive(Changes(), [MARK])
            await asyncio.wait_for(heard.wait(), 30)
            hub().waiters.unexpect(MARK, heard)
        while any(query.scheduled for query in hub().live._queries.values()):
            await asyncio.sleep(0.005)

    return lambda: serving_loop.run(wait())


def touch() -> None:
    """Tell everybody who watches QUIET, so that a test need not wait for silence."""
    Plane.objects.get(pk="N14228").save()


@pytest.fixture
def each_told(settle: Callable[[], None]) -> Callable[..., list[list[str]]]:
    """What each of the streams, which watch QUIET too, was told of all that was committed so far."""

    def told(*streams: Watching) -> list[list[str]]:
        settle()
        touch()
        return [heard_of(stream) for stream in streams]

    return told


@pytest.fixture
def told(each_told: Callable[..., list[list[str]]]) -> Told:
    """The same of one stream."""
    return lambda watching: each_told(watching)[0]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[uris.Target]:
    """The queries that were computed since, in their order."""
    computed: list[uris.Target] = []
    answer = Viewer.answer

    def noted(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        computed.append(target)
        return answer(self, target)

    monkeypatch.setattr(Viewer, "answer", noted)
    return computed


def change(model: Any, pk: Any, **values: Any) -> None:
    row = model.objects.get(pk=pk)
    for name, value in values.items():
        setattr(row, name, value)
    row.save()


def next_uri(watching: Watching) -> str:
    """What is told next, but for lists, which a change of permissions changes too."""
    while (message := watching.next())["method"] != "notifications/resources/updated":
        pass
    uri: str = message["params"]["uri"]
    return uri


def heard_of(watching: Watching) -> list[str]:
    """What is told until QUIET is."""
    found = set()
    while (uri := next_uri(watching)) != QUIET:
        found.add(uri)
    return sorted(found)


def move(pk: int, origin: str) -> None:
    change(Flight, pk, origin=Airport.objects.get(pk=origin))


# What is told.


@ON_EACH
@EACH_ERA
def test_a_query_is_told_of_when_its_answer_changes_and_only_then(
    admin: Peer, flights: Any, revision: str, told: Told
) -> None:
    watching = watch(admin, revision, JFK, QUIET)

    change(Flight, 1, notes="not asked for")
    change(Flight, 2, number=7)
    assert told(watching) == []
    change(Flight, 1, number=7)
    assert told(watching) == [JFK]
    change(Flight, 1, number=7)
    assert told(watching) == []
    Flight.objects.get(pk=4).delete()
    assert told(watching) == [JFK]
    move(2, "JFK")
    assert told(watching) == [JFK]
    move(1, "EWR")
    assert told(watching) == [JFK]


@ON_THE_DOOR
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_aggregate_is_told_of_when_one_of_its_measures_changes(
    admin: Peer, flights: Any, revision: str, told: Told
) -> None:
    watching = watch(admin, revision, COUNTED, QUIET)

    change(Flight, 1, notes="not measured")
    assert told(watching) == []
    change(Flight, 1, departure_delay=1000)
    assert told(watching) == [COUNTED]
    Flight.objects.get(pk=1).delete()
    assert told(watching) == [COUNTED]


@ON_THE_DOOR
def test_a_notification_carries_the_uri_as_it_was_written(admin: Peer, flights: Any) -> None:
    uri = "db://FLIGHTS/flight?origin=%4AFK&limit=1"
    watching = watch(admin, MODERN, uri)

    change(Flight, 1, number=7)

    assert watching.next() == updated(uri, "sub-1")


@ON_THE_DOOR
def test_a_page_is_told_of_its_rows_its_total_and_whether_there_are_more(admin: Peer, flights: Any, told: Told) -> None:
    page, total, other = (
        f"db://flights/flight?order_by=departs_at&fields=id&{more}"
        for more in ("limit=2", "limit=2&total=true", "limit=20")
    )
    watching = watch(admin, MODERN, page, total, other, QUIET)

    # The place after which the next page begins, which its cursor holds, is no part of the answer.
    change(Flight, 2, departs_at=Flight.objects.get(pk=2).departs_at.replace(minute=1))
    assert told(watching) == []
    Flight.objects.get(pk=12).delete()
    assert told(watching) == sorted([total, other])
    Flight.objects.filter(pk__gt=3).delete()
    told(watching)
    Flight.objects.get(pk=3).delete()
    assert told(watching) == sorted([page, total, other])


@ON_EACH
@EACH_ERA
def test_a_change_that_was_rolled_back_is_not_told(admin: Peer, flights: Any, revision: str, told: Told) -> None:
    watching = watch(admin, revision, JFK, QUIET)

    with transaction.atomic():
        change(Flight, 1, number=7)
        transaction.set_rollback(True)

    assert told(watching) == []


@ON_THE_DOOR
def test_a_collection_without_a_query_is_told_of_every_change(admin: Peer, flights: Any, told: Told) -> None:
    watching = watch(admin, MODERN, "db://flights/flight", JFK, QUIET)

    change(Flight, 2, notes="x")

    assert told(watching) == ["db://flights/flight"]


# Related rows.


@ON_THE_DOOR
@pytest.mark.parametrize(("query", "rename", "other"), [
    ("carrier__name=United&fields=id", (Airline, "UA", {"name": "U"}), (Airline, "AA", {"name": "A"})),
    ("fields=id,origin__name&number=1000", (Airport, "JFK", {"name": "J"}), (Airport, "EWR", {"name": "E"})),
    ("order_by=-origin__altitude&limit=1", (Airport, "EWR", {"altitude": 99}), (Airport, "LGA", {"name": "L"})),
    ("search=American", (Airline, "AA", {"name": "A"}), (Airline, "UA", {"name": "U"})),
    ("disruptions__kind=crew", (Disruption, 1, {"kind": "crew"}), (Disruption, 1, {"note": "x"})),
    ("fields=disruptions__kind", (Disruption, 1, {"kind": "crew"}), (Disruption, 1, {"note": "x"})),
    ("group_by=carrier__name", (Airline, "AA", {"name": "A"}), (Airport, "JFK", {"name": "J"})),
    ("group_by=status&measures=max:origin__altitude", (Airport, "LGA", {"altitude": 99}),
     (Airport, "LGA", {"name": "L"})),
    ("group_by=status&origin__name=LGA", (Airport, "LGA", {"name": "L"}), (Airport, "LGA", {"altitude": 99})),
])  # fmt: skip
def test_a_change_of_a_related_row_is_told_where_it_changes_the_answer(
    admin: Peer, flights: Any, told: Told, query: str, rename: Any, other: Any
) -> None:
    Disruption.objects.create(pk=1, flight_id=1, kind="weather")
    uri = f"db://flights/flight?{query}"
    watching = watch(admin, MODERN, uri, QUIET)

    for model, key, values in (other, rename):
        change(model, key, **values)
        assert told(watching) == ([uri] if model is rename[0] and values == rename[2] and key == rename[1] else [])


@ON_THE_DOOR
def test_what_the_rows_of_a_model_depend_on_is_followed_too(
    admin: Peer, flights: Any, declared: Declared, told: Told
) -> None:
    class OfUnited(ModelMCP):
        fields = ("number",)

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(carrier__name="United")

    declared.model(Flight, OfUnited)
    uri = "db://flights/flight?order_by=-number"
    watching = watch(admin, MODERN, uri, QUIET)

    change(Airline, "AA", name="United")

    assert told(watching) == [uri]


@ON_THE_DOOR
def test_a_many_to_many_relation_is_followed(admin: Peer, flights: Any, declared: Declared, told: Told) -> None:
    declared.model(Product, fields=["name", "tags"])
    tag, product = Tag.objects.create(name="old"), Product.objects.create(name="lamp")
    by_tag, count = "db://shop/product?tags__name=old", "db://shop/product?fields=tags__count"
    watching = watch(admin, MODERN, by_tag, count, QUIET)

    product.tags.add(tag)
    assert told(watching) == [count, by_tag]
    tag.delete()
    assert told(watching) == [count, by_tag]


@ON_THE_DOOR
def test_a_query_through_a_model_that_is_not_watched_is_not_acknowledged(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.models["flights.airline"], "watch", False)

    watching = listen(admin, {"resourceSubscriptions": ["db://flights/flight?carrier__name=United", JFK]})

    assert watching.next() == acknowledged("sub-1", resourceSubscriptions=[JFK])


# Attempts to learn more.


@ON_THE_DOOR
def test_hearing_of_a_row_that_is_hidden(ops: Peer, flights: Any, told: Told) -> None:
    watched = [
        "db://flights/flight?order_by=-number&limit=3&total=true", COUNTED, "db://flights/flight?group_by=origin",
        "db://flights/flight?number=4711", "db://flights/airline?flights__number=4711&fields=flights__count",
    ]  # fmt: skip
    watching = watch(ops, MODERN, *watched, QUIET)

    change(Flight, 2, number=4711, departure_delay=4711)
    Flight.objects.get(pk=3).delete()
    move(5, "LGA")

    assert told(watching) == []


@ON_THE_DOOR
def test_hearing_of_a_field_that_is_hidden(admin: Peer, flights: Any, declared: Declared, told: Told) -> None:
    declared.model(Flight, fields=["number", "carrier"], exclude=["notes"])
    Product.objects.create(pk=1, name="lamp")
    watched = [
        "db://flights/flight?number__gte=0",
        "db://flights/airline?flights__number__gte=0",
        "db://shop/product?name=lamp",
    ]
    watching = watch(admin, MODERN, *watched, QUIET)

    change(Flight, 1, notes="hidden", departure_delay=99)
    change(Product, 1, api_key="another secret")
    assert told(watching) == []
    change(Flight, 1, number=7)
    assert told(watching) == ["db://flights/flight?number__gte=0"]


@ON_THE_DOOR
@pytest.mark.parametrize("query", [
    "fields=id,origin__name", "origin__name=changed", "group_by=origin__name", "search=changed", "fields=origin",
    "measures=count:origin__name,max:origin__altitude", "order_by=number&origin__altitude__gte=1000",
])  # fmt: skip
def test_hearing_of_a_related_row_that_is_hidden(
    admin: Peer, flights: Any, declared: Declared, told: Told, query: str
) -> None:
    class WithoutJFK(ModelMCP):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(faa="JFK")

    declared.model(Airport, WithoutJFK)
    uri = f"db://flights/flight?{query}"
    watching = watch(admin, MODERN, uri, QUIET)

    change(Airport, "JFK", name="changed", altitude=2000)

    assert told(watching) == []


@ON_THE_DOOR
@EACH_ERA
def test_watching_on_after_the_permission_is_lost(
    peers: Peers, users: Users, flights: Any, settle: Callable[[], None], revision: str
) -> None:
    user = make_staff("reader", "flights.view_flight", "flights.view_plane")
    watching = watch(peers(token_of(user)), revision, ALL, QUIET)
    permission = Permission.objects.get(codename="view_flight")

    settle()  # An answer that was being computed is one of before.
    user.user_permissions.remove(permission)
    settle()
    change(Flight, 1, number=7)
    settle()
    touch()
    assert next_uri(watching) == QUIET

    # What was not told then is told when it may be seen again.
    user.user_permissions.add(permission)
    assert next_uri(watching) == ALL


def test_seeing_by_the_rights_of_whose_request_it_was_before(users: Users) -> None:
    request, target = request_of(users.admin), uris.parse(JFK)
    assert target is not None
    assert Viewer.of(site, request).sees(target)

    request.for_principal(Principal(make_staff("nobody"), frozenset({READ})))

    assert not Viewer.of(site, request).sees(target)


@ON_THE_DOOR
def test_rows_that_come_into_view_are_told(peers: Peers, users: Users, flights: Any, told: Told) -> None:
    watching = watch(peers(token_of(users.ops)), MODERN, ALL, QUIET)

    users.ops.groups.clear()
    users.ops.user_permissions.add(*Permission.objects.filter(codename__in=["view_flight", "view_plane"]))

    assert told(watching) == [ALL]


@ON_THE_DOOR
def test_a_token_that_is_revoked_hears_nothing_more(
    peers: Peers, users: Users, flights: Any, settle: Callable[[], None], computed: list[Any], settings: LazySettings
) -> None:
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 3600}
    peer = peers(token_of(users.admin))
    watching = watch(peer, MODERN, JFK)
    settle()
    computed.clear()

    AccessToken.objects.get().revoke()
    change(Flight, 1, number=7)
    settle()

    assert computed == []
    watching.close()


# What it costs.


@ON_THE_DOOR
def test_who_watch_the_same_with_equal_rights_share_one_computation(
    peers: Peers, users: Users, flights: Any, each_told: Callable[..., list[list[str]]], computed: list[uris.Target]
) -> None:
    token = token_of(users.admin)
    watching = [watch(peers(token), MODERN, JFK, QUIET, listen_id=number) for number in range(5)]
    watching.append(watch(peers(token_of(users.ops)), MODERN, JFK, QUIET))
    computed.clear()

    change(Flight, 1, number=7)

    assert each_told(*watching) == [[JFK]] * 6
    assert computed == [uris.parse(JFK)] * 2


@ON_THE_DOOR
def test_the_first_change_is_looked_at_at_once_and_others_once_in_the_interval(
    admin: Peer, flights: Any, settings: LazySettings, computed: list[uris.Target]
) -> None:
    settings.MCP = {**settings.MCP, "LIVE_SECONDS": 3600}
    watching = watch(admin, MODERN, JFK, QUIET)
    computed.clear()

    change(Flight, 1, number=7)
    assert watching.uris(1) == [JFK]
    for number in range(20):
        change(Flight, 1, number=number)
    for _ in range(2):
        touch()
        assert watching.uris(1) == [QUIET]

    assert computed == [uris.parse(JFK)]


@ON_THE_DOOR
def test_changes_of_other_models_cost_nothing(admin: Peer, flights: Any, told: Told, computed: list[Any]) -> None:
    watching = watch(admin, MODERN, JFK, QUIET)
    computed.clear()

    change(Airport, "JFK", name="another")

    assert told(watching) == [] and computed == []


@ON_THE_DOOR
def test_nothing_is_left_of_a_query_that_nobody_watches_any_more(
    admin: Peer, flights: Any, hub: Callable[[], Hub], settle: Callable[[], None]
) -> None:
    watching = watch(admin, MODERN, JFK, "db://flights/flight?carrier__name=United", COUNTED)
    change(Flight, 1, number=7)
    settle()

    watching.close()

    wait_until(lambda: not hub().live._queries)
    assert not hub().live._index


def wait_until(condition: Callable[[], bool]) -> None:
    done = threading.Event()
    for _ in range(600):
        if condition():
            return
        done.wait(0.05)
    raise TimeoutError


@ON_THE_DOOR
def test_a_slow_query_holds_up_no_other_and_no_request(
    admin: Peer, flights: Any, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 2}
    slow, begun, go_on = uris.parse(COUNTED), threading.Event(), threading.Event()
    answer = Viewer.answer

    def hold(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        found = answer(self, target)
        if target != slow or found is None:
            return found
        if subscribed.is_set():
            begun.set()
            assert go_on.wait(60)
        return LiveAnswer(found.digest, found.labels, seconds=1.0)

    subscribed = threading.Event()
    monkeypatch.setattr(Viewer, "answer", hold)
    watching = watch(admin, MODERN, COUNTED, JFK)
    subscribed.set()

    change(Flight, 2, departure_delay=1000)
    assert begun.wait(30)
    for number in range(5):
        change(Flight, 1, number=number)
        assert watching.uris(1) == [JFK]
        assert admin.read("db://flights/flight/1")["number"] == number
    go_on.set()

    assert watching.uris(1) == [COUNTED]


def test_one_principal_s_many_queries_wait_for_the_few_of_another() -> None:
    lane = live_queries.Lane()
    first, second = Identity("user:1"), Identity("user:2")
    many = [live_queries.LiveQuery(first, uris.Target("collection", f"a.{n}")) for n in range(200)]
    few = [live_queries.LiveQuery(second, uris.Target("collection", f"b.{n}")) for n in range(3)]
    for query in (*many, *few):
        lane.put(query)

    taken = [asyncio.run(lane.take(50)) for _ in range(3)]

    assert taken == [many[:50], [*few, *many[50:97]], many[97:147]]


# What goes wrong.


@ON_THE_DOOR
@EACH_ERA
def test_a_change_while_it_is_subscribed_to_is_told(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told, revision: str
) -> None:
    answer, done = Viewer.answer, threading.Event()

    def overtaken(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        found = answer(self, target)
        if not done.is_set():
            done.set()
            change(Flight, 1, number=4711)
        return found

    monkeypatch.setattr(Viewer, "answer", overtaken)

    watching = watch(admin, revision, JFK, QUIET)

    assert told(watching) == [JFK]
    assert told(watching) == []


@ON_THE_DOOR
def test_a_query_that_is_too_slow_is_asked_again_and_its_clients_are_told_to_look_in_the_end(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    watching = watch(admin, MODERN, JFK, QUIET)
    answer, asked = Viewer.answer, []

    def too_slow(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        asked.append(target)
        raise TooSlow

    monkeypatch.setattr(Viewer, "answer", too_slow)
    monkeypatch.setattr(live_queries, "_LONGEST_PAUSE", 0.1)
    change(Flight, 2, notes="the answer stays")
    assert told(watching) == [JFK]
    assert len(asked) == live_queries._TRIES

    # Which answer they then saw, nobody knows: the next one that is found is told.
    monkeypatch.setattr(Viewer, "answer", answer)
    change(Flight, 2, notes="x")
    assert told(watching) == [JFK]
    change(Flight, 2, notes="y")
    assert told(watching) == []


@ON_THE_DOOR
def test_hearing_of_a_query_that_is_too_slow_and_may_be_seen_no_more(
    peers: Peers, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    user = make_staff("reader", "flights.view_flight", "flights.view_plane")
    uri = "db://flights/flight?number__gte=0"
    watching = watch(peers(token_of(user)), MODERN, uri, QUIET)

    def too_slow(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        user.user_permissions.remove(Permission.objects.get(codename="view_flight"))
        raise TooSlow

    monkeypatch.setattr(Viewer, "answer", too_slow)
    monkeypatch.setattr(live_queries, "_LONGEST_PAUSE", 0.1)
    change(Flight, 1, number=7)

    assert told(watching) == []


@ON_THE_DOOR
def test_a_query_that_the_database_fails_is_asked_again(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    watching = watch(admin, MODERN, JFK, COUNTED, QUIET)
    answer, failures = Viewer.answer, [OperationalError("away")] * 3

    def fails(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        if failures:
            raise failures.pop()
        return answer(self, target)

    monkeypatch.setattr(Viewer, "answer", fails)
    change(Flight, 1, number=7, departure_delay=1000)

    assert told(watching) == [COUNTED, JFK]
    assert not failures


@ON_THE_DOOR
def test_a_hook_that_fails_tells_nobody(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    watching = watch(admin, MODERN, JFK, QUIET)

    def broken(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        raise ValueError("a hook")

    with monkeypatch.context() as patched:
        patched.setattr(Viewer, "answer", broken)
        change(Flight, 1, number=7)
        assert told(watching) == []
    change(Flight, 2, notes="x")

    assert told(watching) == [JFK]
    assert "A live query cannot be computed; no client is notified" in caplog.text


@ON_EACH
@EACH_ERA
def test_after_a_resync_what_has_changed_is_told_and_nothing_else(
    admin: Peer, flights: Any, revision: str, hub: Callable[[], Hub], told: Told
) -> None:
    watching = watch(admin, revision, JFK, COUNTED, QUIET)

    hub().resync()
    assert watching.uris(1) == [QUIET]
    assert told(watching) == []
    Flight.objects.filter(pk=1).update(number=7)
    hub().resync()
    assert watching.uris(2) == [JFK, QUIET]
    assert told(watching) == []


class ReadsFromTheReplica:
    """A router of the shop's tags: written to the one database, read from the other."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model is Tag else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "default" if model is Tag else None


@ON_THE_DOOR
@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_replica_that_lags_hides_no_change(admin: Peer, flights: Any, settings: LazySettings, told: Told) -> None:
    settings.DATABASE_ROUTERS = [ReadsFromTheReplica()]
    watched = ["db://shop/tag?measures=count", "db://shop/tag?name__startswith=a"]
    watching = watch(admin, MODERN, *watched, QUIET)

    Tag(name="a").save(using="default")

    assert not Tag.objects.exists()
    assert told(watching) == watched


# Sessions, whose streams come and go.


def stream_of(peer: Peer) -> Watching:
    return peer.watch(LEGACY[-1], [])


@ON_THE_DOOR
def test_what_changed_while_a_session_had_no_stream_is_told_on_the_next(admin: Peer, flights: Any, told: Told) -> None:
    for uri in (JFK, COUNTED, QUIET):
        admin.result(LEGACY[-1], "resources/subscribe", {"uri": uri})

    change(Flight, 1, number=7)

    assert told(stream_of(admin)) == [JFK]


@ON_THE_DOOR
def test_what_is_found_before_a_stream_may_speak_is_told_when_it_does(
    admin: Peer, flights: Any, computed: list[uris.Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.result(LEGACY[-1], "resources/subscribe", {"uri": JFK})
    change(Flight, 1, number=7)
    computed.clear()
    look = sessions.unseen

    def late(*arguments: Any) -> Any:
        wait_until(lambda: len(computed) > 2)
        return look(*arguments)

    monkeypatch.setattr(sessions, "unseen", late)

    assert stream_of(admin).uris(1) == [JFK]


@ON_THE_DOOR
def test_what_was_told_on_a_stream_that_broke_is_told_once_more_on_the_next(
    admin: Peer, flights: Any, told: Told
) -> None:
    watching = watch(admin, LEGACY[-1], JFK, COUNTED, QUIET)
    change(Flight, 1, number=7)
    assert told(watching) == [JFK]
    watching.close()

    watching = stream_of(admin)

    assert told(watching) == [JFK]
    assert told(watching) == []
    assert {item.uri: bool(item.digest) for item in WatchedResource.objects.all()} == {
        JFK: False, COUNTED: True, QUIET: False,
    }  # fmt: skip


@ON_THE_DOOR
def test_what_a_session_subscribes_to_while_its_stream_is_open_is_told(admin: Peer, flights: Any, told: Told) -> None:
    watching = watch(admin, LEGACY[-1], QUIET)
    admin.result(LEGACY[-1], "resources/subscribe", {"uri": JFK})

    assert told(watching) == []
    change(Flight, 1, number=7)
    assert told(watching) == [JFK]
    admin.result(LEGACY[-1], "resources/unsubscribe", {"uri": JFK})
    change(Flight, 1, number=8)
    assert told(watching) == []


@ON_THE_DOOR
def test_the_newest_stream_of_a_session_is_told(admin: Peer, flights: Any, told: Told) -> None:
    assert isinstance(admin, ASGIPeer)
    older = watch(admin, LEGACY[-1], JFK, QUIET)
    newer = stream_of(admin)

    change(Flight, 1, number=7)
    assert told(newer) == [JFK]
    newer.close()
    change(Flight, 1, number=8)
    assert told(older) == [JFK]


# Whatever is written.


def write(random: random.Random) -> None:
    """One change, of any of the models that the queries look at."""
    flight = random.choice(list(Flight.objects.all()))
    match random.randrange(8):
        case 0 if Flight.objects.count() > 6:
            flight.delete()
        case 0 | 1:
            flight.pk = Flight.objects.latest("pk").pk + 1
            flight.number = random.randrange(10**6)
            flight.save(force_insert=True)
        case 2:
            flight.number = random.randrange(10**6)
            flight.save()
        case 3:
            flight.departure_delay = random.choice([None, 0, 5, 90])
            flight.save()
        case 4:
            flight.origin_id = random.choice(["JFK", "EWR", "LGA"])
            flight.save()
        case 5:
            change(Airline, random.choice(["UA", "AA"]), name=random.choice(["United", "American", "Delta"]))
        case 6:
            change(Airport, random.choice(["JFK", "EWR", "LGA"]), altitude=random.randrange(3))
        case _:
            if random.random() < 0.5 and Disruption.objects.exists():
                random.choice(list(Disruption.objects.all())).delete()
            else:
                Disruption.objects.create(flight=flight, kind=random.choice(["crew", "weather"]))


@ON_THE_DOOR
def test_each_is_told_if_and_only_if_it_would_read_another_answer_now(
    peers: Peers, users: Users, flights: Any, each_told: Callable[..., list[list[str]]]
) -> None:
    chance = random.Random(20130101)
    watched = [
        "db://flights/flight?origin=JFK&fields=number&order_by=number",
        "db://flights/flight?order_by=-departure_delay&limit=2&fields=id&total=true",
        "db://flights/flight?carrier__name=United&limit=1&fields=departure_delay",
        "db://flights/flight?disruptions__kind=crew&fields=disruptions__count,origin__altitude",
        "db://flights/airline?flights__departure_delay__gte=60",
        "db://flights/flight?group_by=carrier__name&measures=count,max:origin__altitude&order_by=-count",
        "db://flights/flight?measures=avg:departure_delay&origin__altitude=1",
        "db://flights/flight?group_by=origin&having.count__gte=4",
    ]
    clients = [peers(token_of(user)) for user in (users.admin, users.ops)]

    def read(peer: Peer, uri: str) -> Any:
        answer = peer.read(uri)
        return {**answer, "next": "next" in answer}

    known = [{uri: read(peer, uri) for uri in watched} for peer in clients]
    streams = [watch(peer, MODERN, *watched, QUIET) for peer in clients]
    differed = 0
    for _ in range(15):
        with transaction.atomic():
            for _ in range(chance.randrange(1, 4)):
                write(chance)
            transaction.set_rollback(chance.random() < 0.2)
        for peer, heard, answers in zip(clients, each_told(*streams), known, strict=True):
            now = {uri: read(peer, uri) for uri in watched}
            changed = sorted(uri for uri in watched if now[uri] != answers[uri])
            assert heard == changed
            answers.update(now)
            differed += len(changed)
    assert 40 < differed < 200
