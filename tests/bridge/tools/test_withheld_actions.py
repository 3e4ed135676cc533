"""describe_models says that actions exist which are switched off or beyond the token's scope, and names none."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Flight
from mcp_django import site
from mcp_django.models import Tool
from tests.support.asking import DirectPeer, described
from tests.support.data import make_staff, switch_on
from tests.support.declared import Declared

ACTIONS = [f"flights_flight_{name}" for name in ("mark_cancelled", "mark_on_time", "export_as_csv")]
OFF = "Actions exist that are switched off; an administrator can switch them on."
NO_SCOPE = "Actions exist that this token may not run; an administrator can give the token the scope actions."
BOTH = (
    "Actions exist that are switched off, or that this token may not run; an administrator can switch them on and give "
    "the token the scope actions."
)


@pytest.fixture
def root(db: None) -> DirectPeer:
    Tool.objects.filter(name__in=ACTIONS).update(enabled=False)
    return DirectPeer(User.objects.create_superuser("root"))


def notes(peer: DirectPeer, model: str = "flights.flight") -> list[str]:
    found: list[str] = described(peer, model).get("notes", [])
    return found


def test_actions_that_are_off_or_beyond_the_scope_are_mentioned_without_their_names(
    root: DirectPeer, settings: Any
) -> None:
    reader = DirectPeer(root.user, "read")

    assert (notes(root), notes(reader), notes(root, "flights.airport")) == ([OFF], [BOTH], [])
    assert not any(name.removeprefix("flights_flight_") in str(described(root)) for name in ACTIONS)
    assert "actions" not in described(root) and set(ACTIONS).isdisjoint(root.tools())
    settings.MCP = {**settings.MCP, "MENTION_SWITCHED_OFF": False}
    assert notes(root) == notes(reader) == []


def test_nothing_is_mentioned_where_every_action_is_on(root: DirectPeer) -> None:
    switch_on(*ACTIONS)

    assert (notes(root), notes(DirectPeer(root.user, "read"))) == ([], [NO_SCOPE])
    assert described(root)["actions"] == ACTIONS


def test_actions_that_name_no_permission_are_for_all_who_see_the_list_where_the_site_says_so(
    db: None, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.admin(
        Flight, type("Admin", (admin.ModelAdmin,), {"actions": ["note", "close"], "note": note, "close": close})
    )
    switch_on("flights_flight_note", "flights_flight_close")
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))

    found = [set(viewer.tools()) & {"flights_flight_note", "flights_flight_close"}]
    monkeypatch.setattr(type(site), "action_permission", "view")
    found.append(set(viewer.tools()) & {"flights_flight_note", "flights_flight_close"})

    assert found == [set(), {"flights_flight_note"}]


def note(admin: Any, request: HttpRequest, queryset: Any) -> None: ...


@admin.action(permissions=["change"])
def close(admin: Any, request: HttpRequest, queryset: Any) -> None: ...


# Attacks.


def test_learning_of_actions_that_the_user_may_not_run(root: DirectPeer) -> None:
    switch_on("flights_flight_export_as_csv")  # Who may view may run it; the others need the change permission.

    assert notes(DirectPeer(make_staff("viewer", "flights.view_flight"))) == []
    assert notes(DirectPeer(make_staff("changer", "flights.change_flight"))) == [OFF]


def test_learning_of_actions_that_are_restricted_to_other_groups(root: DirectPeer) -> None:
    switch_on(*ACTIONS)
    group = Group.objects.create(name="closers")
    for tool in Tool.objects.filter(name__in=ACTIONS):
        tool.groups.add(group)

    for enabled, note in ((True, NO_SCOPE), (False, BOTH)):
        Tool.objects.filter(name__in=ACTIONS).update(enabled=enabled)
        root.user.groups.clear()
        assert [notes(root), notes(DirectPeer(root.user, "read"))] == [[], []]
        root.user.groups.add(group)
        assert notes(DirectPeer(root.user, "read")) == [note]


def test_a_hook_that_fails_mentions_nothing(root: DirectPeer, declared: Declared) -> None:
    class Failing(FlightAdmin):
        actions = ["mark_on_time"]

        def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            raise RuntimeError

        @admin.action(permissions=["change"])
        def mark_on_time(self, request: HttpRequest, queryset: Any) -> None: ...

    declared.admin(Flight, Failing)

    assert OFF not in notes(root)
