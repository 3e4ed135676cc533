"""Why a user may use something or not: each no that can come first, by the page's and the command's one function."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User

from demo_project.flights.models import Airline, Flight
from mcp_django import site
from mcp_django.bridge.tools import catalog as tools
from mcp_django.console.review.checklist import Place, Step, Verdict
from mcp_django.console.review.reasons import _Asker as Asker
from mcp_django.console.review.reasons import explain
from mcp_django.models import Prompt, Restriction, Tool
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


def steps_of(user: Any, name: str, *scopes: str) -> dict[str, Step]:
    """By the question's last words, in the order in which they are asked."""
    return {str(step.question): step for step in explain(site, user, scopes, name).steps}


SCOPE, SWITCH, GROUPS = (
    "Do the scopes allow it?", "Is it switched on?", "Is it open to a group of the user?"
)  # fmt: skip
PERMISSION, KEY, ROW = (
    "Does the user have the permission?", "Can its primary key be read?",
    "Is the row among those that the user sees?",
)  # fmt: skip


def test_every_harmless_no_is_told_in_one_round(users: Users) -> None:
    group, clerk = Group.objects.create(name="chosen"), make_staff("clerk")
    closed: list[tuple[Any, str]] = [
        (Tool, "delay_statistics"), (Prompt, "punctuality_report"), *(
            (Tool, name) for name in ("find_records", "get_record", "aggregate_records", "describe_models")
        ),
    ]  # fmt: skip
    for kind, name in closed:
        row, _ = kind.objects.update_or_create(site="mcp", name=name, defaults={"enabled": False})
        row.groups.add(group)

    writing = steps_of(clerk, "flights.airline:update", "actions")["May the user write it so?"]
    assert writing.verdict is Verdict.NO and "flights.airline:write" in str(writing.why)
    for name in ("delay_statistics", "punctuality_report", "flights.airline", "db://flights/airline/1"):
        steps = steps_of(clerk, name, "write" if "report" in name else "actions")
        nos = [question for question, step in steps.items() if step.verdict is Verdict.NO]
        assert set(nos) == {SCOPE, SWITCH, GROUPS, PERMISSION}, name
        assert all(steps[question].why for question in nos), name
    assert steps[KEY].verdict is steps[ROW].verdict is Verdict.NOT_ASKED


def test_after_a_no_neither_a_hook_of_the_project_nor_a_row_is_asked(users: Users, declared: Declared) -> None:
    asked: list[str] = []

    class Noting(Admin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            asked.append("has_view_permission")
            return True

        def get_queryset(self, request: Any) -> Any:
            asked.append("get_queryset")
            return super().get_queryset(request)

    declared.admin(Airline, Noting)
    steps = steps_of(users.admin, "db://flights/airline/1", "actions")

    assert asked == []
    assert {q for q, step in steps.items() if step.verdict is Verdict.NOT_ASKED} == {PERMISSION, KEY, ROW}
    assert steps_of(users.admin, "db://flights/airline/1", "read")[PERMISSION].verdict is Verdict.YES
    assert asked


def test_a_model_or_a_field_that_an_administrator_switched_off_says_so_to_those_who_may_know(users: Users) -> None:
    for kind, name in (("model", "flights.airline"), ("field", "flights.flight.notes")):
        Restriction.objects.create(site="mcp", kind=kind, name=name)

    assert no_of(users.admin, "flights.airline") == ("exposure", "An administrator switched it off.")
    step, why = no_of(users.admin, "flights.flight.notes")
    assert step == "field" and "switched it off" in why
    assert explain(site, users.admin, ["read"], "flights.airline", known=()).kind is None


def test_a_permission_backend_that_fails_counts_as_a_no_and_breaks_nothing(users: Users, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Failing"]

    steps = steps_of(users.ops, "delay_statistics", "write")

    assert steps[SCOPE].verdict is Verdict.NO and steps[PERMISSION].verdict is Verdict.NO


class Failing:
    """A backend that asks something that is away."""

    def has_perm(self, user: Any, permission: str, obj: Any = None) -> bool:
        raise ZeroDivisionError


def test_the_first_no_is_what_decides_for_an_agent(users: Users) -> None:
    """For each tool and prompt, user, credential and switch."""
    by_step = {
        "scope": "NO_SCOPE", "switch": "SWITCHED_OFF", "groups": "NO_GROUP", "permission": "NO_PERMISSION",
        "tasks": "ALLOWED",
    }  # fmt: skip
    group = Group.objects.create(name="chosen")
    for enabled, restricted in ((True, False), (False, False), (True, True), (False, True)):
        for row in (*Tool.objects.all(), *Prompt.objects.all()):
            type(row).objects.filter(pk=row.pk).update(enabled=enabled, restricted=restricted)
            row.groups.set([group] if restricted else [])
        for user, scopes in (
            (users.ops, ["read"]),
            (users.admin, ["write"]),
            (make_staff(f"c{enabled}{restricted}"), ["read"]),
        ):
            asker = Asker(site, user, scopes, None)
            with asker.context:
                asker._decide()
                for name, tool in asker.tools.items():
                    no = asker._answer(name).no
                    decision = tools.decision(asker.exchange, tool, asker.tool_rows)
                    assert decision.name == ("ALLOWED" if no is None else by_step[no.step]), (name, user, scopes)


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
        (clerk, "describe_models", (), "permission", "There is no model of which the user may read rows."),
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
    assert step == "permission" and "the permission change on flights.flight" in why


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
        assert found.no.place == Place(place, name)


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
        text = f"There is no such model, field, row, tool, operation, prompt or resource. Did you mean {meant}?"
        assert str(found.unknown) == text
    for name in ("", ".", "..", "a.b.c.d", "db://", "db://x/y/z", "prompt:", "\0", "x" * 10_000):
        assert explain(site, users.admin, ["read"], name).kind is None, name


def test_the_command_gives_the_same_reasons(users: Users) -> None:
    printed = run("--user", "viewer", "--scopes", "actions", "--why", "flights.flight")

    assert "flights.flight is not reached." in printed
    assert "Do the scopes allow it? no. The scope model:flights.flight:read or read is missing." in printed
    assert "Can its primary key be read? not asked." in printed


def test_the_command_refuses_an_unknown_name(users: Users) -> None:
    assert "Did you mean flights.flight?" in refused("--user", "viewer", "--why", "flights.fligt")


def test_without_a_user_no_database_is_asked(django_assert_num_queries: Any) -> None:
    site.tools  # noqa: B018 - found once for the process
    with django_assert_num_queries(0):
        printed = run("--why", "delete_record")

    assert "delete_record is reached." in printed
    assert admin.site.is_registered(Flight)
