"""Why a user may use something or not: each no that can come first, by the page's and the command's one function."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User

from demo_project.flights.models import Airline, Flight
from mcp_django import site
from mcp_django.console.review import reasons
from mcp_django.console.review.reasons import Verdict, explain
from mcp_django.models import Prompt, Tool
from tests.bridge.resources.inventory.conftest import Admin, refused, run
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]


def no_of(user: Any, name: str, *scopes: str) -> tuple[str, str]:
    """The first no: what was asked, and why."""
    found = explain(site, user, scopes or ("read", "actions", "write"), name)
    assert found.kind is not None and found.no is not None
    return found.no.step, str(found.no.why)


def test_what_is_seen_has_no_no(users: Users, flights: Any) -> None:
    for name in (
        "flights.flight", "Flights.Flight", "flights.flight.origin", "flights.flight.id", "db://flights/flight/1",
        "db://flights/flight", "find_records", "tool:find_records", "punctuality_report", "prompt:punctuality_report",
    ):  # fmt: skip
        found = explain(site, users.admin, ["read"], name)
        assert found.allowed and {step.verdict for step in found.steps} == {Verdict.YES}, name


def test_after_the_first_no_nothing_is_asked(users: Users) -> None:
    found = explain(site, users.viewer, ["actions"], "flights.flight")

    verdicts = [step.verdict for step in found.steps]
    assert verdicts == [Verdict.YES, Verdict.NO, *[Verdict.NOT_ASKED] * 4]


def test_the_first_no_is_told_in_words(users: Users) -> None:
    clerk, outsider = make_staff("clerk"), User.objects.create_user("outsider")
    missing = "The permission flights.view_flight or flights.change_flight is missing."
    exact: list[tuple[User, str, tuple[str, ...], str, str]] = [
        (users.admin, "mcp_django.accesstoken", (), "exposure", "it holds the keys to the rest"),
        (users.admin, "flights.flight", ("actions",), "scope",
         "The scope model:flights.flight:read or read is missing."),
        (users.admin, "delete_record", ("read",), "scope", "The scope tool:delete_record or write is missing."),
        (outsider, "flights.flight", (), "permission", "The user may not enter the admin, which shows the model."),
        (clerk, "flights.flight", (), "permission", missing),
        (clerk, "delay_statistics", (), "permission", "The permission flights.view_flight is missing."),
        (clerk, "punctuality_report", (), "permission", "The permission flights.view_flight is missing."),
        (clerk, "flights_flight_mark_cancelled", (), "permission",
         f"The model flights.flight is not visible. {missing}"),
    ]  # fmt: skip

    for user, name, scopes, step, why in exact:
        assert no_of(user, name, *scopes) == (step, why)
    step, why = no_of(users.admin, "contenttypes.contenttype")
    assert step == "exposure" and "register a ModelMCP" in why
    step, why = no_of(make_staff("reader", "flights.view_flight"), "flights_flight_mark_cancelled")
    assert step == "permission" and "the permission to change flights.flight" in why


def test_a_hook_of_the_project_that_says_no_or_fails_is_named(users: Users, declared: Declared) -> None:
    class Closed(Admin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return False

    class Broken(Admin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            raise ZeroDivisionError

    declared.admin(Airline, Closed)
    step, why = no_of(users.admin, "flights.airline")
    assert step == "permission" and why.endswith("Closed.has_view_permission says no.")
    declared.admin(Airline, Broken)
    assert no_of(users.admin, "flights.airline")[1] == "ModelMCP.has_view_permission failed with ZeroDivisionError."


def test_a_model_is_closed_where_every_query_tool_is_off(users: Users) -> None:
    for name in ("find_records", "get_record", "aggregate_records"):
        Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": False})
    assert explain(site, users.admin, ["read"], "flights.flight").allowed
    Tool.objects.update_or_create(site="mcp", name="describe_models", defaults={"enabled": False})

    assert no_of(users.admin, "flights.flight") == ("switch", "find_records is switched off.")


def test_what_is_limited_to_groups_says_so(users: Users) -> None:
    group = Group.objects.create(name="chosen")
    limited: list[tuple[Any, str, str]] = [(Tool, "tool", "delay_statistics"), (Prompt, "prompt", "punctuality_report")]
    for kind, place, name in limited:
        row, _ = kind.objects.update_or_create(site="mcp", name=name, defaults={"enabled": True})
        row.groups.add(group)
        found = explain(site, users.ops, ["read"], name)
        assert found.no is not None and found.no.step == "groups", name
        assert found.no.place == reasons.Place(place, name)


def test_a_field_that_is_secret_or_excluded_says_why_and_how_to_show_it(users: Users, declared: Declared) -> None:
    declared.model(User, fields=["username"])
    declared.model(Flight, exclude=["notes"])
    step, why = no_of(users.admin, "auth.user.password")

    assert step == "field" and "looks like a secret" in why and "name it in fields" in why
    assert no_of(users.admin, "flights.flight.notes") == ("field", "get_exclude names it.")


def test_a_row_is_among_those_of_the_user_or_not_and_whether_it_exists_is_not_said(users: Users, flights: Any) -> None:
    there, absent = no_of(users.ops, "db://flights/flight/2"), no_of(users.ops, "db://flights/flight/999999")

    assert explain(site, users.ops, ["read"], "db://flights/flight/1").allowed
    assert there == absent == ("row", "No row of this key is among those that get_queryset gives the user.")


UNKNOWN = [
    ("flights.fligt", "flights.flight"), ("find_record", "find_records"), ("punctuality_reports", "punctuality_report"),
    ("flights.flight.orign", "flights.flight.origin"),
]  # fmt: skip


def test_an_unknown_name_gets_the_nearest_and_nonsense_none(users: Users) -> None:
    for name, meant in UNKNOWN:
        found = explain(site, users.admin, ["read"], name)
        assert found.kind is None and not found.allowed and list(found.steps) == [], name
        text = f"There is no such model, field, row, tool, prompt or resource. Did you mean {meant}?"
        assert str(found.unknown) == text
    for name in ("", ".", "..", "a.b.c.d", "db://", "db://x/y/z", "prompt:", "\0", "x" * 10_000):
        assert explain(site, users.admin, ["read"], name).kind is None, name


def test_the_command_gives_the_same_reasons(users: Users) -> None:
    printed = run("--user", "viewer", "--scopes", "actions", "--why", "flights.flight")

    assert "flights.flight is not reached." in printed
    assert "Do the scopes allow it? no. The scope model:flights.flight:read or read is missing." in printed
    assert "Does the user have the permission? not asked." in printed


def test_the_command_refuses_an_unknown_name(users: Users) -> None:
    assert "Did you mean flights.flight?" in refused("--user", "viewer", "--why", "flights.fligt")


def test_without_a_user_no_database_is_asked(django_assert_num_queries: Any) -> None:
    site.tools  # noqa: B018 - found once for the process
    with django_assert_num_queries(0):
        printed = run("--why", "delete_record")

    assert "delete_record is reached." in printed
    assert admin.site.is_registered(Flight)
