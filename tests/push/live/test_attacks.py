"""Attempts to learn more from being told than a read would say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Permission

from demo_project.flights.models import Airport, Flight
from mcp_django import site
from mcp_django.bridge.resources import uris
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.scopes import READ
from mcp_django.models import AccessToken
from mcp_django.push.live_answers import Viewer
from tests.push.conftest import next_uri, watch
from tests.push.live.conftest import COUNTED, EACH_ERA, JFK, QUIET, Told, WithoutJFK, change, move, touch
from tests.shop.models import Product
from tests.support.asking import request_of
from tests.support.data import Users, make_staff, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer, Peers

pytestmark = pytest.mark.every_database


ALL = "db://flights/flight?number__gte=0&fields=number"


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


def test_hearing_of_a_field_that_is_hidden(admin: Peer, flights: Any, declared: Declared, told: Told) -> None:
    declared.model(Flight, fields=["number", "carrier"], exclude=["notes"])
    Product.objects.create(pk=1, name="lamp")
    watched = [
        "db://flights/flight?number__gte=0&limit=20",
        "db://flights/airline?flights__number__gte=0&limit=20",
        "db://shop/product?name=lamp&limit=20",
    ]
    watching = watch(admin, MODERN, *watched, QUIET)

    change(Flight, 1, notes="hidden", departure_delay=99)
    change(Product, 1, api_key="another secret")
    assert told(watching) == []
    change(Flight, 1, number=7)
    assert told(watching) == ["db://flights/flight?number__gte=0&limit=20"]


def test_hearing_of_a_related_row_that_is_hidden(admin: Peer, flights: Any, declared: Declared, told: Told) -> None:
    declared.model(Airport, WithoutJFK)
    queries = (
        "fields=id,origin__name", "origin__name=changed", "group_by=origin__name", "search=changed", "fields=origin",
        "measures=count:origin__name,max:origin__altitude", "order_by=number&origin__altitude__gte=1000",
    )  # fmt: skip
    watching = watch(admin, MODERN, *(f"db://flights/flight?{query}" for query in queries), QUIET)

    change(Airport, "JFK", name="changed", altitude=2000)

    assert told(watching) == []


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


@pytest.mark.parametrize("few_keys", [False, True])
def test_rows_that_other_rights_bring_into_view_are_told(
    peers: Peers, users: Users, flights: Any, told: Told, monkeypatch: pytest.MonkeyPatch, few_keys: bool
) -> None:
    if few_keys:
        monkeypatch.setattr("mcp_django.push.live_answers.MAX_WATCHED_KEYS", 1)
    watching = watch(peers(token_of(users.ops)), MODERN, ALL, QUIET)

    users.ops.groups.clear()
    users.ops.user_permissions.add(*Permission.objects.filter(codename__in=["view_flight", "view_plane"]))

    assert told(watching) == [ALL]


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
