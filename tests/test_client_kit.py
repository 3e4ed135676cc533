"""What the tests of a project see of MCPClient beyond what an agent sees: switches, exceptions and true reasons."""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User

from demo_project.flights.admin import AirlineAdmin, FlightAdmin
from demo_project.flights.models import Airline, Flight
from mcp_django.bridge.tools.saved_queries import write
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.models import Restriction, Tool
from mcp_django.test import CallRefused, MCPClient, ProtocolError, ToolResult
from tests.support.data import make_flights, make_staff, switch_on
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN

CANCEL = "flights_flight_mark_cancelled"
both_eras = pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])


@pytest.fixture
def root(db: None) -> User:
    make_flights(3)
    return User.objects.create_superuser("root")


def names(client: MCPClient) -> set[str]:
    return {tool["name"] for tool in client.list_tools()}


# Switches.


@both_eras
def test_a_tool_is_on_for_the_client_that_switches_it_on_and_for_no_other(root: User, revision: str) -> None:
    rows = list(Tool.objects.order_by("pk").values())

    with MCPClient(root, revision=revision, switched_on=[CANCEL]) as client, MCPClient(root) as other:
        assert CANCEL in names(client)
        assert CANCEL not in names(other)
        assert "1 flight" in client.call(CANCEL, ids=[1]).text
        with pytest.raises(ProtocolError, match="TOOL_NOT_FOUND"):
            other.call(CANCEL, ids=[2])
        assert CANCEL in names(client)

    assert list(Flight.objects.order_by("pk").values_list("status", flat=True)) == ["cancelled", "on_time", "on_time"]
    assert list(Tool.objects.order_by("pk").values()) == rows


def test_every_kind_of_tool_that_is_off_is_switched_on_and_its_groups_stay(root: User, declared: Declared) -> None:
    def greet(request: Any) -> str:
        """Greet."""
        return "Hello."

    declared.tool(greet)
    query = write("find_records", {"model": "flights.flight"}, [])
    off = [CANCEL, "greet", "find_records", "update_record", "flights_now"]
    for name in off:
        values = {"enabled": False, "query": query if name == "flights_now" else ""}
        Tool.objects.update_or_create(site="mcp", name=name, defaults=values)
    members = Tool.objects.get(name="request_rights")
    members.groups.add(Group.objects.create(name="pilots"))

    with MCPClient(root) as plain, MCPClient(root, switched_on=[*off, "request_rights"]) as client:
        assert names(plain).isdisjoint([*off, "request_rights"])
        assert names(client) - names(plain) == set(off)
        # What the switch of a query tool closes is open too.
        assert client.read("db://flights/flight?limit=1").json()
        assert len(client.call("flights_now").structured["rows"]) == 3


def test_a_saved_query_with_the_name_of_a_declared_tool_does_not_decide_about_it(root: User) -> None:
    query = write("find_records", {"model": "flights.flight"}, [])
    Tool.objects.update_or_create(site="mcp", name=CANCEL, defaults={"enabled": False, "query": query})

    with MCPClient(root, switched_on=[CANCEL]) as client:
        assert "1 flight" in client.call(CANCEL, ids=[1]).text


def test_a_switch_of_the_client_opens_a_tool_for_nobody_who_may_not_use_it(db: None) -> None:
    make_flights(1)
    viewer = make_staff("viewer", "flights.view_flight")
    clerk = make_staff("clerk", "flights.view_flight", "flights.change_flight")

    for user, scopes in ((viewer, None), (clerk, ["read"])):
        with MCPClient(user, scopes, switched_on=[CANCEL]) as client:
            assert CANCEL not in names(client)


def test_a_switch_of_the_client_opens_no_model_that_an_administrator_has_closed(root: User) -> None:
    Restriction.objects.create(site="mcp", kind="model", name="flights.flight")

    with MCPClient(root, switched_on=["find_records", CANCEL]) as client:
        assert CANCEL not in names(client)
        with pytest.raises(ToolError) as refused:
            client.call("find_records", model="flights.flight")

    assert "no model 'flights.flight'" in refused.value.errors[0]["message"]


def test_a_misspelt_name_of_a_tool_is_an_error_that_names_the_right_one(root: User) -> None:
    with pytest.raises(ValueError, match=f"there is no tool 'flights_flight_mark_canceled'. Did you mean {CANCEL}?"):
        MCPClient(root, switched_on=[CANCEL, "flights_flight_mark_canceled"])


def test_an_action_that_is_offered_to_some_users_alone_is_known(root: User, declared: Declared) -> None:
    @admin.action(permissions=["change"])
    def close(self: Any, request: Any, queryset: Any) -> None:
        self.message_user(request, "Closed.")

    class ForSuperusers(FlightAdmin):
        def get_actions(self, request: Any) -> Any:
            more = {"close": (close, "close", "Close")} if request.user.is_superuser else {}
            return {**super().get_actions(request), **more}

    declared.admin(Flight, ForSuperusers)

    with MCPClient(root, switched_on=["flights_flight_close"]) as client:
        assert client.call("flights_flight_close", ids=[1]).text == "Closed."
    with MCPClient(make_staff("clerk", "flights.change_flight"), switched_on=["flights_flight_close"]) as client:
        assert "flights_flight_close" not in names(client)


# Exceptions.


class Broken(Exception):
    """What the code of the project raises."""


def broken(request: Any) -> str:
    """Break."""
    raise Broken("the password is hunter2")


async def abroken(request: Any) -> str:
    """Break."""
    raise Broken("the password is hunter2")


def yielding(request: Any) -> Iterator[str]:
    """Break on the way."""
    yield "begun"
    raise Broken("the password is hunter2")


async def ayielding(request: Any) -> AsyncIterator[str]:
    """Break on the way."""
    yield "begun"
    raise Broken("the password is hunter2")


def with_value(request: Any, value: str) -> str:
    """Break."""
    raise Broken("the password is hunter2")


def suggest(request: Any, value: str, arguments: Any) -> list[str]:
    raise Broken("the password is hunter2")


class BrokenFlights(FlightAdmin):
    actions = ["fail"]

    @admin.action(permissions=["change"])
    def fail(self, request: Any, queryset: Any) -> None:
        raise Broken("the password is hunter2")


class BrokenAirlines(AirlineAdmin):
    def save_model(self, *args: Any) -> None:
        raise Broken("the password is hunter2")


def _confirmed(client: MCPClient, name: str, **arguments: Any) -> ToolResult:
    preview = client.call(name, **arguments)
    return client.call(name, **arguments, confirm=preview.structured["confirm"])


#: What is declared → how it is asked.
PLACES: dict[str, tuple[Callable[[Declared], None], Callable[[MCPClient], Any]]] = {
    "tool": (lambda one: one.tool(broken), lambda client: client.call("broken")),
    "async tool": (lambda one: one.tool(abroken, read_only=True), lambda client: client.call("abroken")),
    "generator": (lambda one: one.tool(yielding), lambda client: client.call("yielding")),
    "async generator": (lambda one: one.tool(ayielding), lambda client: client.call("ayielding")),
    "task": (lambda one: one.tool(broken, task=True), lambda client: client.call("broken")),
    "asked": (lambda one: one.tool(broken, consent="ask"), lambda client: _confirmed(client, "broken")),
    "action": (
        lambda one: one.admin(Flight, BrokenFlights), lambda client: client.call("flights_flight_fail", ids=[1])
    ),
    "form": (
        lambda one: one.admin(Airline, BrokenAirlines),
        lambda client: _confirmed(client, "update_record", model="flights.airline", id="UA", values={"name": "Late"}),
    ),
    "prompt": (lambda one: one.prompt(broken), lambda client: client.get_prompt("broken")),
    "async prompt": (lambda one: one.prompt(abroken), lambda client: client.get_prompt("abroken")),
    "resource": (lambda one: one.resource("one://broken", broken), lambda client: client.read("one://broken")),
    "template": (lambda one: one.resource("one://{value}", with_value), lambda client: client.read("one://x")),
    "completion": (
        lambda one: one.prompt(with_value, complete={"value": suggest}),
        lambda client: client.complete("with_value", "value", "x"),
    ),
}  # fmt: skip


@pytest.mark.every_case
@pytest.mark.parametrize("place", PLACES)
def test_an_exception_of_the_projects_own_code_is_raised_in_the_test_with_its_traceback(
    root: User, declared: Declared, place: str
) -> None:
    declare, ask = PLACES[place]
    declare(declared)
    switched_on = {"action": ["flights_flight_fail"], "form": ["update_record"]}.get(place, [])
    options: Any = {"tasks": place == "task", "switched_on": switched_on, "elicit": lambda asked: "accept"}

    with MCPClient(root, **options) as client, pytest.raises(Broken, match="hunter2") as raised:
        ask(client)
    with (
        MCPClient(root, **options, raise_exceptions=False) as client,
        pytest.raises((ToolError, ProtocolError)) as told,
    ):
        ask(client)

    assert traceback.extract_tb(raised.tb)[-1].filename == __file__
    assert "hunter2" not in str(told.value)
    assert told.value.true_reason == "Broken: the password is hunter2"  # type: ignore[union-attr]


@both_eras
def test_a_client_whose_request_has_raised_goes_on(root: User, declared: Declared, revision: str) -> None:
    declared.tool(broken)

    with MCPClient(root, revision=revision) as client:
        for _ in range(2):
            with pytest.raises(Broken):
                client.call("broken")
        assert client.call("find_records", model="flights.airline").structured["rows"]


def test_what_is_written_for_agents_is_no_exception_of_the_code(root: User, declared: Declared) -> None:
    def refuse(request: Any, how: str) -> str:
        """Refuse."""
        raise ToolError("Only on Mondays.") if how == "tool" else MCPError("Not today.")

    declared.tool(refuse)

    with MCPClient(root) as client:
        with pytest.raises(ToolError, match="Only on Mondays") as refused:
            client.call("refuse", how="tool")
        with pytest.raises(ProtocolError, match="Not today"):
            client.call("refuse", how="protocol")

    assert isinstance(refused.value, CallRefused)
    assert refused.value.true_reason == str(refused.value) == "Only on Mondays."


def test_a_test_that_fails_prints_which_argument_was_wrong(root: User) -> None:
    with MCPClient(root) as client, pytest.raises(ToolError) as refused:
        client.call("get_record", model="flights.airport", id="JFK", fields="name")

    assert refused.value.message == "Invalid arguments for get_record."
    assert str(refused.value).startswith("Invalid arguments for get_record. fields: fields must be a list")


# True reasons.


def reason(ask: Callable[[], Any]) -> str:
    with pytest.raises((CallRefused, ProtocolError)) as refused:
        ask()
    return str(refused.value.true_reason)


def test_a_refusal_has_its_true_reason_where_an_agent_reads_absence(db: None, declared: Declared) -> None:
    class Own(AirlineAdmin):
        def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
            return False

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(pk="AA")

    def note(request: Any) -> str:
        """Write it."""
        return "x"

    make_flights(2)
    declared.admin(Airline, Own)
    declared.tool(note, permission="flights.change_flight")
    declared.prompt(note, name="memo", permission="flights.change_flight")
    declared.resource("one://note", note, permission="flights.change_flight")
    declared.resource("two://note", note)
    clerk = make_staff("clerk", "flights.view_airline", "flights.view_plane", "flights.delete_plane")
    viewer = make_staff("viewer", "flights.view_flight")
    switch_on("update_record", "delete_record", "create_record")
    Tool.objects.filter(name="describe_models").update(enabled=False)
    pilots = Tool.objects.get(name="aggregate_records")
    pilots.groups.add(Group.objects.create(name="pilots"))

    with (
        MCPClient(clerk) as client,
        MCPClient(clerk, ["read"]) as reader,
        MCPClient(clerk, ["actions"]) as actor,
        MCPClient(viewer, switched_on=[CANCEL]) as agent,
    ):
        airline: Any = {"model": "flights.airline"}
        found = {
            "no such tool": reason(lambda: client.call("find_record")),
            "off": reason(lambda: client.call("describe_models")),
            "groups": reason(lambda: client.call("aggregate_records", **airline)),
            "permission of a tool": reason(lambda: client.call("note")),
            "scope": reason(lambda: reader.call("note")),
            "permission of an action": reason(lambda: agent.call(CANCEL, ids=[1])),
            "model": reason(lambda: client.call("find_records", model="flights.flight")),
            "no model": reason(lambda: client.call("find_records", model="flights.flihgt")),
            "no exposed model": reason(lambda: client.call("find_records", model="mcp_django.call")),
            "hidden row": reason(lambda: client.call("get_record", **airline, id="AA")),
            "no row": reason(lambda: client.call("get_record", **airline, id="ZZ")),
            "way to write": reason(lambda: client.call("delete_record", **airline, ids=["UA"])),
            "nothing to write": reason(lambda: agent.call("update_record", model="flights.flight", id=1, values={})),
            "permission of a prompt": reason(lambda: client.get_prompt("memo")),
            "no prompt": reason(lambda: client.get_prompt("memmo")),
            "permission of a resource": reason(lambda: client.read("one://note")),
            "scope of a resource": reason(lambda: actor.read("two://note")),
            "no resource": reason(lambda: client.read("one://notes")),
            "URI of a model": reason(lambda: client.read("db://flights/flight")),
            "URI of a row": reason(lambda: client.read("db://flights/airline/AA")),
            "arguments": reason(lambda: client.call("find_records", **airline, fields=["nmae"])),
        }

    nothing = "There is no such model, field, row, tool, operation, prompt or resource."
    view = "The permission flights.view_flight or flights.change_flight is missing."
    change = "The permission flights.change_flight is missing."
    hidden = "No row of this key is among those that get_queryset gives the user."
    assert found == {
        "no such tool": f"{nothing} Did you mean find_records?",
        "off": "describe_models is switched off.",
        "groups": "aggregate_records is limited to groups, and the user is in none of them.",
        "permission of a tool": change,
        "scope": "The scope tool:note or actions is missing.",
        "permission of an action": (
            "The admin does not offer the action to the user: it needs the permission change on flights.flight."
        ),
        "model": view,
        "no model": f"{nothing} Did you mean flights.flight?",
        "no exposed model": "it holds the keys to the rest",
        "hidden row": hidden,
        "no row": "There is no flights.Airline ZZ.",
        "way to write": f"{Own.has_delete_permission.__qualname__} says no.",
        "nothing to write": "There is no model of which the user may change rows.",
        "permission of a prompt": change,
        "no prompt": f"{nothing} Did you mean memo?",
        "permission of a resource": change,
        "scope of a resource": "The scope read is missing.",
        "no resource": f"{nothing} Did you mean one://note?",
        "URI of a model": view,
        "URI of a row": hidden,
        "arguments": "Invalid arguments for find_records.",
    }
