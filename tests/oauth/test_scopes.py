"""The scopes that clients may ask for, and those that they keep."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from mcp_django.models import Grant
from tests.oauth.flow import Person, Program, boxes_in, error_in
from tests.support.data import Users


def boxes(users: Users, scope: str) -> list[str]:
    return list(boxes_in(Person(users.ops).open(Program().url(scope=scope))))


@pytest.mark.parametrize(("offered", "asked", "shown"), [
    ([], "tool:find_records", ["tool:find_records"]),
    # Its calls read every model, and not the one that clients may read.
    (["model:flights.airport:read", "actions"], "tool:find_records actions", ["actions"]),
    (["model:flights.airport:read"], "model:flights.airport:read", ["model:flights.airport:read"]),
    (["read"], "read tool:flights_flight_mark_cancelled", ["read"]),
    (["read", "actions"], "tool:flights_flight_mark_cancelled", ["tool:flights_flight_mark_cancelled"]),
    (["read", "actions"], "read tool:no_such_tool model:no.model:read", ["read"]),
])  # fmt: skip
def test_what_can_be_given(users: Users, offered: list[str], asked: str, shown: list[str], settings: Any) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_SCOPES": offered}

    assert boxes(users, asked) == shown


@pytest.mark.parametrize("odd", [
    "model:%00a.b:read", "model:\x00a.b:read", "model:\u202eabc.de\u2066f:read", 'model:a"b.c:read', "model:中.b:read",
    "model:This-app-is-safe.Click-Connect:read", "model:a.b:read\r\nSet-Cookie", "tool:ä",
])  # fmt: skip
def test_writing_to_the_person_in_the_name_of_a_scope(users: Users, odd: str) -> None:
    program = Program()

    shown = boxes(users, f"read {odd}")
    tokens = program.log_in(users.ops, asks=f"read {odd}")

    assert shown == ["read"]
    assert tokens["scope"] == "read"
    assert Grant.objects.get().declined == []


def test_a_client_keeps_no_more_than_clients_may_have_now(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops, "read", "actions", asks="read actions")

    with override_settings(MCP={"OAUTH_SCOPES": ["read"]}):
        narrowed = program.refresh(tokens["refresh_token"]).json()
    again = program.refresh(narrowed["refresh_token"]).json()

    assert (narrowed["scope"], again["scope"]) == ("read", "read actions")


def test_a_client_of_a_user_who_may_connect_none_any_more_gets_no_token(users: Users) -> None:
    program = Program()
    tokens = program.log_in(users.ops)

    with override_settings(MCP={"OAUTH_USERS": "flights.no_such_permission"}):
        refused = program.refresh(tokens["refresh_token"])

    assert error_in(refused) == (400, "invalid_grant")
    assert program.refresh(tokens["refresh_token"]).status_code == 200
