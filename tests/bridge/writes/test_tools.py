"""Which tools there are, for whom, and what their list costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from demo_project.flights.models import Flight
from mcp_django import site
from mcp_django.access.permissions import scopes_to_ask_for
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.console.review import inventory
from mcp_django.models import Tool
from tests.bridge.writes.conftest import Writer
from tests.oauth.test_step_up import call, post, token_with
from tests.support.data import Users, make_flights, make_staff, switch_on
from tests.support.peers import Peers

NAMES = {tool.name for tool in WRITE_TOOLS}
READING = {"describe_form", "preview_change", "get_change"}


def test_they_are_nine_and_their_list_takes_less_than_seven_and_a_half_kilobytes() -> None:
    listed = inventory.build(site)["tools"]

    assert len(NAMES) == 9
    assert sum(listed[name]["bytes"] for name in NAMES) <= 7_500
    assert sum(listed[name]["bytes"] for name in ("create_records", "update_records", "undo_change")) <= 2_600


def test_all_of_them_start_switched_off(users: Users) -> None:
    assert NAMES.isdisjoint(Writer(users.admin).tools())


def test_they_need_the_scope_to_write_and_that_to_read(root: Writer, users: Users) -> None:
    assert set(root.tools()) >= NAMES
    assert NAMES.isdisjoint(Writer(users.admin, "read", "actions").tools())
    assert NAMES.isdisjoint(Writer(users.admin, "write").tools())


def test_the_scope_for_one_model_opens_that_model_alone(root: Writer, users: Users) -> None:
    one = Writer(users.admin, "read", "model:flights.airline:write")

    assert one.ask("describe_form") == {"models": {"flights.airline": ["create", "update", "delete"]}}
    assert "flights.airport" in one.refused("describe_form", model="flights.airport")


def test_an_oauth_client_is_asked_for_the_scope_to_write_a_model_where_its_user_may_write_it(
    users: Users, peers: Peers
) -> None:
    switch_on("update_record")
    permissions = [f"flights.{verb}_{name}" for verb in ("view", "change") for name in ("flight", "plane")]
    clerk = make_staff("clerk", *permissions)
    peer = peers(token_with(clerk, "read", "model:flights.flight:write"))

    plane, airline, nothing = (
        post(peer, call("update_record", model=model, id="1", values={"notes": "x"}))
        for model in ("flights.plane", "flights.airline", "flights.nothing")
    )

    assert plane.status == 403
    assert 'scope="read model:flights.flight:write model:flights.plane:write"' in plane.headers["www-authenticate"]
    for refused in (airline, nothing):
        assert refused.status == 200
        assert "no model of which you may update rows" in refused.json["result"]["content"][0]["text"]


def test_those_that_read_are_there_and_the_scope_is_asked_for_where_one_that_writes_is_on(users: Users) -> None:
    switch_on(*READING)
    before, asked_before = set(Writer(users.admin).tools()), scopes_to_ask_for(site)
    switch_on("update_record")

    assert READING.isdisjoint(before) and "write" not in asked_before
    assert set(Writer(users.admin).tools()) >= READING
    assert "write" in scopes_to_ask_for(site)


@pytest.fixture
def staff(users: Users) -> User:
    return make_staff("clerk", "flights.view_flight", "flights.change_flight")


def test_a_user_has_those_for_what_the_admin_allows(writer: Callable[..., Writer], users: Users, staff: User) -> None:
    clerk = writer(staff)

    assert NAMES.isdisjoint(writer(users.viewer).tools())
    assert NAMES & set(clerk.tools()) == READING | {"update_record", "update_records", "undo_change"}
    assert clerk.ask("describe_form") == {"models": {"flights.flight": ["update"]}}


def test_somebody_who_is_no_staff_writes_nothing(writer: Callable[..., Writer], staff: User) -> None:
    staff.is_staff = False
    staff.save()

    assert NAMES.isdisjoint(writer(staff).tools())


def test_a_tool_for_some_groups_alone_hides_those_that_read_with_it(writer: Callable[..., Writer], staff: User) -> None:
    clerk = writer(staff)
    Tool.objects.filter(name__startswith="update_record").update(restricted=True)

    assert NAMES.isdisjoint(clerk.tools())


def test_a_preview_is_there_for_what_can_be_called(writer: Callable[..., Writer], staff: User) -> None:
    refused = writer(staff).refused("preview_change", operation="delete", model="flights.flight", ids=["1"])

    assert "delete_record cannot be called." in refused


def test_arguments_that_do_not_go_with_the_operation_are_named(root: Writer) -> None:
    refused = root.refused("preview_change", operation="create", model="flights.airline", id="UA")

    assert '"field":"id","message":"does not go with create."' in refused
    assert '"field":"values","message":"is needed to create."' in refused


def test_an_agent_without_push_sees_what_it_wrote(ops: Writer) -> None:
    flight = make_flights(3)[0]

    answer = ops.confirmed("update_record", model="flights.flight", id=str(flight.pk), values={"notes": "fog"})

    assert answer["record"] == f"db://flights/flight/{flight.pk}"
    assert ops.read(answer["record"])["notes"] == "fog"
    assert Flight.objects.get(pk=flight.pk).notes == "fog"


def test_a_form_says_what_must_be_given_and_what_stands_there_already(root: Writer) -> None:
    fields = root.ask("describe_form", model="flights.disruption")["fields"]

    assert {name for name, one in fields.items() if one.get("required")} == {"flight", "kind"}
    assert {name: one["default"] for name, one in fields.items() if "default" in one} == {
        "severity": "minor",
        "resolved": False,
    }
