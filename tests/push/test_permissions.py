"""Permissions and hooks that change while a stream is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.auth.models import Group, Permission
from django.db import transaction

from demo_project.flights.models import Flight
from mcp_django.models import Tool
from tests.push.conftest import assert_nothing_but, wait_for_first_answers, watch
from tests.support.data import Users, token_of
from tests.support.peers import LEGACY, MODERN, Peer, Peers

EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])

FLIGHTS = "db://flights/flight"
JFK = "db://flights/flight/1"
QUIET = "db://flights/airline/UA"


@pytest.fixture(autouse=True)
def no_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """A legacy session is told of resources alone, and not, unasked, of the lists that change with the permissions."""
    for module in ("http.sessions", "lasting.duplex"):
        monkeypatch.setattr(f"mcp_django.transports.{module}.LISTS", ())


@pytest.mark.http_and_duplex
@EACH_ERA
def test_after_the_permission_is_lost_a_record_is_told_once_more_and_a_collection_never(
    viewer: Peer, revision: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(viewer, revision, JFK, FLIGHTS, QUIET)

    Group.objects.get(name="Flight viewers").permissions.remove(Permission.objects.get(codename="view_flight"))
    jfk.save()

    assert watching.uris(1) == [JFK]
    jfk.save()
    assert_nothing_but(watching, QUIET, touch)


@pytest.mark.http_and_duplex
@EACH_ERA
def test_after_the_group_is_lost_the_rows_of_the_group_are_told_no_more(
    ops: Peer, admin: Peer, users: Users, revision: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, revision, JFK, FLIGHTS, QUIET)
    allowed = watch(admin, revision, QUIET)

    users.ops.groups.clear()
    jfk.save()
    touch()

    # The last word on two records that were visible; of the collection, nothing.
    assert watching.uris(2) == sorted([JFK, QUIET])
    jfk.save()
    # Nothing is left that this user may see, so that another one shows that the hub is through.
    assert_nothing_but(allowed, QUIET, touch)
    watching.assert_nothing_waits()


def switch_off(name: str) -> None:
    tool = Tool.objects.get(name=name)
    tool.enabled = False
    tool.save()


@EACH_ERA
def test_a_collection_and_its_queries_are_told_no_more_once_find_records_is_off(
    viewer: Peer, revision: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(viewer, revision, JFK, FLIGHTS, f"{FLIGHTS}?origin=JFK", f"{FLIGHTS}?order_by=id&limit=1")
    wait_for_first_answers()

    switch_off("find_records")
    jfk.notes = "changed"
    jfk.save()

    assert watching.uris(1) == [JFK]
    jfk.notes = "changed again"
    assert_nothing_but(watching, JFK, jfk.save)


@EACH_ERA
def test_a_record_is_told_once_more_and_no_more_once_get_record_is_off(
    viewer: Peer, revision: str, jfk: Flight
) -> None:
    watching = watch(viewer, revision, JFK, FLIGHTS)

    switch_off("get_record")
    jfk.save()

    assert watching.uris(2) == [FLIGHTS, JFK]
    assert_nothing_but(watching, FLIGHTS, jfk.save)


def test_a_permission_that_is_given_while_a_stream_is_open_shows_the_rows(
    peers: Peers, users: Users, jfk: Flight, ewr: Flight
) -> None:
    ops = peers(token_of(users.ops))
    watching = watch(ops, MODERN, FLIGHTS)

    users.ops.groups.add(Group.objects.get_or_create(name="Flight viewers")[0])
    users.ops.groups.remove(Group.objects.get(name="JFK operations"))
    ewr.save()

    assert watching.uris(1) == [FLIGHTS]


# Hooks of the project.


@pytest.fixture
def broken_hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """An admin whose hook fails once the list holds something."""
    broken: list[bool] = []
    flight_admin = django_admin.site._registry[Flight]
    get_queryset = flight_admin.get_queryset

    def fail(request: Any) -> Any:
        if broken:
            raise RuntimeError("the hook is broken")
        return get_queryset(request)

    monkeypatch.setattr(flight_admin, "get_queryset", fail)
    return broken


def test_a_hook_that_fails_hides_its_rows_and_does_not_silence_other_models(
    admin: Peer, jfk: Flight, broken_hook: list[bool], touch: Callable[[], None]
) -> None:
    watching = watch(admin, MODERN, JFK, FLIGHTS, QUIET)

    broken_hook.append(True)
    jfk.save()
    # As of any record that leaves the view, and nothing of the collection.
    assert watching.uris(1) == [JFK]
    with transaction.atomic():
        jfk.save()
        touch()

    assert watching.uris(1) == [QUIET]
    assert_nothing_but(watching, QUIET, touch)


def test_a_hook_that_would_end_the_process_silences_nobody_else(
    peers: Peers, users: Users, jfk: Flight, monkeypatch: pytest.MonkeyPatch, touch: Callable[[], None]
) -> None:
    flight_admin = django_admin.site._registry[Flight]
    get_queryset = flight_admin.get_queryset
    watch(peers(token_of(users.ops)), MODERN, JFK)
    watching = watch(peers(token_of(users.viewer)), MODERN, JFK, QUIET)

    def end_for_ops(request: Any) -> Any:
        if request.user.username == "ops":
            raise SystemExit
        return get_queryset(request)

    monkeypatch.setattr(flight_admin, "get_queryset", end_for_ops)

    for _ in range(2):
        jfk.save()
        assert watching.uris(1) == [JFK]
    assert_nothing_but(watching, QUIET, touch)
