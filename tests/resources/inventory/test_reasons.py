"""Why a user may use something or not: each no that can come first, by the page's and the command's one function."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User

from demo_project.flights.models import Airline, Flight
from mcp_django import reasons, site
from mcp_django.models import Prompt, Tool
from mcp_django.reasons import Verdict, explain
from tests.resources.inventory.conftest import Admin, refused, run
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]


def no_of(user: Any, name: str, *scopes: str) -> tuple[str, str]:
    """The first no: what was asked, and why."""
    found = explain(site, user, scopes or ("read", "actions", "write"), name)
    assert found.kind is not None and found.no is not None
    return found.no.step, str(found.no.why)


@pytest.mark.parametrize("name", [
    "flights.flight", "Flights.Flight", "flights.flight.origin", "flights.flight.id", "db://flights/flight/1",
    "db://flights/flight", "find_records", "tool:find_records", "punctuality_report", "prompt:punctuality_report",
])  # fmt: skip
def test_what_is_seen_has_no_no(users: Users, flights: Any, name: str) -> None:
    found = explain(site, users.admin, ["read"], name)

    assert found.allowed and {step.verdict for step in found.steps} == {Verdict.YES}


def test_after_the_first_no_nothing_is_asked(users: Users) -> None:
    found = explain(site, users.viewer, ["actions"], "flights.flight")

    verdicts = [step.verdict for step in found.steps]
    assert verdicts == [Verdict.YES, Verdict.NO, *[Verdict.NOT_ASKED] * 4]


def test_a_model_that_is_hidden_says_why(users: Users) -> None:
    assert no_of(users.admin, "mcp_django.accesstoken") == ("exposure", "it holds the keys to the rest")


def test_a_model_beside_the_admin_is_to_be_registered(users: Users) -> None:
    step, why = no_of(users.admin, "contenttypes.contenttype")

    assert step == "exposure" and "register a ModelMCP" in why


def test_a_model_needs_a_permission_which_is_named(users: Users) -> None:
    clerk = make_staff("clerk")

    assert no_of(clerk, "flights.flight") == (
        "permission", "The permission flights.view_flight or flights.change_flight is missing.",
    )  # fmt: skip


def test_a_user_who_is_no_staff_is_told_of_the_admin(users: Users) -> None:
    user = User.objects.create_user("outsider")

    assert no_of(user, "flights.flight") == ("permission", "The user may not enter the admin, which shows the model.")


def test_a_hook_of_the_project_is_named(users: Users, declared: Declared) -> None:
    class Closed(Admin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return False

    declared.admin(Airline, Closed)

    step, why = no_of(users.admin, "flights.airline")

    assert step == "permission" and why.endswith("Closed.has_view_permission says no.")


def test_a_hook_that_fails_is_named_with_its_error(users: Users, declared: Declared) -> None:
    class Broken(Admin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            raise ZeroDivisionError

    declared.admin(Airline, Broken)

    assert no_of(users.admin, "flights.airline")[1] == "ModelMCP.has_view_permission failed with ZeroDivisionError."


def test_a_missing_scope_is_named(users: Users) -> None:
    assert no_of(users.admin, "flights.flight", "actions") == (
        "scope", "The scope model:flights.flight:read or read is missing.",
    )  # fmt: skip
    assert no_of(users.admin, "delete_record", "read") == (
        "scope", "The scope tool:delete_record or write is missing.",
    )  # fmt: skip


def test_a_model_is_closed_where_every_query_tool_is_off(users: Users) -> None:
    for name in ("find_records", "get_record", "aggregate_records"):
        Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": False})
    assert explain(site, users.admin, ["read"], "flights.flight").allowed
    Tool.objects.update_or_create(site="mcp", name="describe_models", defaults={"enabled": False})

    assert no_of(users.admin, "flights.flight") == ("switch", "find_records is switched off.")


@pytest.mark.parametrize("kind", [Tool, Prompt])
def test_what_is_limited_to_groups_says_so(users: Users, kind: Any) -> None:
    name = "delay_statistics" if kind is Tool else "punctuality_report"
    row, _ = kind.objects.update_or_create(site="mcp", name=name, defaults={"enabled": True})
    row.groups.add(Group.objects.create(name="chosen"))

    found = explain(site, users.ops, ["read"], name)

    assert found.no is not None and found.no.step == "groups"
    assert found.no.place == reasons.Place("tool" if kind is Tool else "prompt", name)


def test_a_tool_and_a_prompt_need_their_permission(users: Users) -> None:
    clerk = make_staff("clerk")

    assert no_of(clerk, "delay_statistics") == ("permission", "The permission flights.view_flight is missing.")
    assert no_of(clerk, "punctuality_report") == ("permission", "The permission flights.view_flight is missing.")


def test_an_action_is_not_there_without_its_model(users: Users) -> None:
    step, why = no_of(make_staff("clerk"), "flights_flight_mark_cancelled")

    assert step == "permission"
    assert why == (
        "The model flights.flight is not visible. "
        "The permission flights.view_flight or flights.change_flight is missing."
    )


def test_an_action_needs_the_permission_that_it_names(users: Users) -> None:
    step, why = no_of(make_staff("clerk", "flights.view_flight"), "flights_flight_mark_cancelled")

    assert step == "permission" and "the permission to change flights.flight" in why


def test_a_secret_field_says_why_and_how_to_show_it(users: Users, declared: Declared) -> None:
    declared.model(User, fields=["username"])
    step, why = no_of(users.admin, "auth.user.password")

    assert step == "field" and "looks like a secret" in why and "name it in fields" in why


def test_a_field_that_is_excluded_says_so(users: Users, declared: Declared) -> None:
    declared.model(Flight, exclude=["notes"])

    assert no_of(users.admin, "flights.flight.notes") == ("field", "get_exclude names it.")


def test_a_row_is_among_those_of_the_user_or_not_and_whether_it_exists_is_not_said(users: Users, flights: Any) -> None:
    there, absent = no_of(users.ops, "db://flights/flight/2"), no_of(users.ops, "db://flights/flight/999999")

    assert explain(site, users.ops, ["read"], "db://flights/flight/1").allowed
    assert there == absent == ("row", "No row of this key is among those that get_queryset gives the user.")


@pytest.mark.parametrize(("name", "meant"), [
    ("flights.fligt", "flights.flight"), ("find_record", "find_records"), ("punctuality_reports", "punctuality_report"),
    ("flights.flight.orign", "flights.flight.origin"),
])  # fmt: skip
def test_an_unknown_name_gets_the_nearest(users: Users, name: str, meant: str) -> None:
    found = explain(site, users.admin, ["read"], name)

    assert found.kind is None and not found.allowed and list(found.steps) == []
    assert str(found.unknown) == f"There is no such model, field, row, tool or prompt. Did you mean {meant}?"


@pytest.mark.parametrize("name", ["", ".", "..", "a.b.c.d", "db://", "db://x/y/z", "prompt:", "\0", "x" * 10_000])
def test_nonsense_is_unknown(users: Users, name: str) -> None:
    assert explain(site, users.admin, ["read"], name).kind is None


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
