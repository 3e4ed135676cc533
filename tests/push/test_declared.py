"""Resources that a project declares as functions: which of them can be watched, and what their clients are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import ImproperlyConfigured
from django.db import models, transaction
from django.db.utils import ConnectionDoesNotExist

import mcp_django
from demo_project.flights.models import Airline, Airport, Flight
from mcp_django import site
from mcp_django.core.events.changed_rows import Changes
from mcp_django.push.hub import Hub
from tests.push.conftest import Heard, acknowledged, assert_nothing_but, listen, watch
from tests.shop.models import Product
from tests.support.data import Users, make_staff, token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, MODERN, Peer, Peers

EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])

QUIET = "db://flights/airline/UA"
NEWS = "shop://news"
INVOICE = "shop://invoice/{number}"


def text(request: Any, **values: str) -> str:
    return "text"


def invoice(request: Any, number: str) -> str:
    return number


@pytest.fixture
def news(declared: Declared) -> str:
    """A resource whose changes the project reports."""
    declared.resource(NEWS, text, watch=True)
    return NEWS


@pytest.fixture
def of_flights(declared: Declared) -> str:
    """A resource that changes with flights."""
    declared.resource("shop://flights", text, watch=[Flight])
    return "shop://flights"


# What can be watched.


@pytest.mark.parametrize("uri", ["shop://still", "shop://invoice/17"])
def test_a_resource_that_declares_no_changes_refuses_a_subscription_with_a_hint_and_a_listen_leaves_it_out(
    admin: Peer, declared: Declared, news: str, uri: str
) -> None:
    declared.resource("shop://still", text, name="still")
    declared.resource(INVOICE, invoice)

    error = admin.error(LEGACY[-1], "resources/subscribe", {"uri": uri})
    watching = listen(admin, {"resourceSubscriptions": [uri, news]})

    assert watching.next() == acknowledged("sub-1", resourceSubscriptions=[news])
    [wrong] = error["data"]["errors"]
    assert wrong["field"] == "uri" and "nothing reports its changes. Read it again" in wrong["message"]


@pytest.mark.http_and_duplex
@pytest.mark.parametrize("watched", [False, True])
def test_learning_by_a_subscription_that_a_resource_exists(viewer: Peer, declared: Declared, watched: bool) -> None:
    declared.resource("shop://secret", text, permission="shop.view_product", watch=watched)

    refused, absent = (
        viewer.error(LEGACY[-1], "resources/subscribe", {"uri": uri}) for uri in ("shop://secret", "shop://absent")
    )

    assert json.dumps(refused).replace("secret", "absent") == json.dumps(absent)


class Abstract(models.Model):
    class Meta:
        abstract = True
        app_label = "shop"


def test_a_wrong_watch_is_refused_when_the_resource_is_declared(declared: Declared) -> None:
    wrong: list[Any] = [[], "shop.Product", Product, [Product, "shop.Tag"], [Abstract], None, {Product}, [int]]
    for uri in ("shop://x", "shop://x/{number}"):
        for models_ in wrong:
            with pytest.raises(ImproperlyConfigured, match="watch= is True or a list of models"):
                declared.resource(uri, invoice, watch=models_)


# Changes of models.


@EACH_ERA
def test_a_resource_or_template_is_told_of_when_its_models_change(
    admin: Peer, revision: str, declared: Declared, flights: Any, jfk: Flight, touch: Callable[[], None]
) -> None:
    declared.resource("shop://both", text, watch=[Flight, Airport])
    declared.resource("shop://board/{airport}", lambda request, airport: airport, name="board", watch=[Flight])
    watching = watch(admin, revision, "shop://both", "shop://board/JFK", QUIET)

    jfk.save()
    assert watching.uris(2) == ["shop://board/JFK", "shop://both"]
    Airport.objects.get(pk="JFK").save()
    assert watching.uris(1) == ["shop://both"]
    jfk.delete()
    assert watching.uris(2) == ["shop://board/JFK", "shop://both"]
    assert_nothing_but(watching, QUIET, touch)


@pytest.mark.http_and_duplex
@EACH_ERA
def test_hearing_by_a_resource_of_rows_that_are_hidden(
    ops: Peer, revision: str, of_flights: str, jfk: Flight, ewr: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, revision, of_flights, QUIET)

    jfk.save()
    assert watching.uris(1) == [of_flights]
    jfk.delete()
    assert watching.uris(1) == [of_flights]
    ewr.save()
    ewr.delete()
    assert_nothing_but(watching, QUIET, touch)


@pytest.mark.http_and_duplex
def test_hearing_by_a_resource_of_a_model_that_is_hidden(
    peers: Peers, users: Users, of_flights: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    user = make_staff("reader", "flights.view_airline")
    watching = watch(peers(token_of(user)), MODERN, of_flights, QUIET)

    jfk.save()
    jfk.delete()

    assert_nothing_but(watching, QUIET, touch)


# Changes that the project reports.


@EACH_ERA
def test_what_the_project_reports_is_told(
    admin: Peer, revision: str, news: str, flights: Any, touch: Callable[[], None]
) -> None:
    watching = watch(admin, revision, news, QUIET)

    with transaction.atomic():
        for _ in range(3):
            mcp_django.updated(news)

    assert watching.uris(1) == [news]
    assert_nothing_but(watching, QUIET, touch)


def test_of_a_template_only_the_uri_that_is_reported_is_told_however_it_is_spelled(
    admin: Peer, declared: Declared, flights: Any, touch: Callable[[], None]
) -> None:
    declared.resource(INVOICE, invoice, watch=True)
    spellings = ["shop://invoice/a%2Fb", "shop://invoice/%61%2fb"]
    watching = watch(admin, MODERN, *spellings, "shop://invoice/c", QUIET)

    mcp_django.updated("shop://invoice/a%2fb")

    assert watching.uris(2) == sorted(spellings)
    assert_nothing_but(watching, QUIET, touch)


@pytest.mark.http_and_duplex
def test_hearing_of_a_resource_that_may_be_read_no_more(
    peers: Peers, users: Users, declared: Declared, flights: Any, jfk: Flight, touch: Callable[[], None]
) -> None:
    declared.resource("shop://secret", text, permission="flights.view_plane", watch=[Flight])
    user = make_staff("reader", "flights.view_plane", "flights.view_flight", "flights.view_airline")
    watching = watch(peers(token_of(user)), MODERN, "shop://secret", QUIET)
    mcp_django.updated("shop://secret")
    assert watching.uris(1) == ["shop://secret"]

    user.user_permissions.remove(Permission.objects.get(codename="view_plane"))
    mcp_django.updated("shop://secret")
    jfk.save()

    assert_nothing_but(watching, QUIET, touch)


def test_a_resource_of_models_is_told_when_it_is_reported_and_all_are_after_a_resync(
    admin: Peer, news: str, of_flights: str, hub: Callable[[], Hub]
) -> None:
    watching = watch(admin, MODERN, news, of_flights)

    mcp_django.updated(of_flights)
    assert watching.uris(1) == [of_flights]
    hub().resync()

    assert watching.uris(2) == sorted([news, of_flights])


def test_what_is_reported_goes_over_the_bus_as_a_change_at_the_commit(news: str, heard: Heard) -> None:
    with transaction.atomic():
        mcp_django.updated(news)
        transaction.set_rollback(True)
    with transaction.atomic():
        assert heard.changes() == {}
        mcp_django.updated(news)
        assert heard.changes() == {}

    expected = Changes()
    expected.note("default", NEWS, {NEWS})
    assert heard.changes() == expected


def test_a_report_that_nobody_can_hear_is_an_error(declared: Declared, news: str, db: None) -> None:
    declared.resource("shop://still", text, name="still")
    errors: dict[tuple[str, str], tuple[type[Exception], str]] = {
        ("shop://nothing", "default"): (LookupError, "No resource has the URI 'shop://nothing'"),
        ("db://flights/flight/1", "default"): (LookupError, "mcp_django.changed"),
        ("shop://still", "default"): (ValueError, r"declare it with @resource\('shop://still', watch=True\)"),
        (news, "nowhere"): (ConnectionDoesNotExist, "nowhere"),
    }
    for (uri, database), (error, words) in errors.items():
        with pytest.raises(error, match=words):
            mcp_django.updated(uri, using=database)


# What is left behind.


def test_nothing_is_left_of_a_resource_that_nobody_watches_any_more(
    admin: Peer, declared: Declared, flights: Any, hub: Callable[[], Hub], serving_loop: LoopThread
) -> None:
    declared.resource(INVOICE, invoice, watch=[Flight, Airline])
    watching = watch(admin, MODERN, *(f"shop://invoice/{number}" for number in range(5)), listen_id="many")
    kept = watch(admin, MODERN, QUIET, listen_id="kept")

    watching.close()
    for _ in range(2):
        Airline.objects.get(pk="UA").save()
        kept.uris(1)

    assert not hub()._index[INVOICE] and not hub()._index["flights.flight"]
    assert site.find_resource("shop://invoice/1") is not None
