"""Scopes for one model or one tool: they grant that, and nothing beside it is there, whatever is asked and how."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import override_settings

from demo_project.flights.models import Airline, Flight
from mcp_django.access.authentication import authenticate
from mcp_django.checks.settings import check_settings
from mcp_django.exchange import scopes
from mcp_django.models import AccessToken, Tool
from tests.access.test_grants import request_to
from tests.oauth.flow import Person, Program, boxes_in, code_in
from tests.support.asking import DirectPeer
from tests.support.data import Users, make_flights, make_users, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer, Peers

FLIGHTS = "model:flights.flight:read"
CANCEL = "flights_flight_mark_cancelled"
QUERY_TOOLS = ["aggregate_records", "describe_models", "find_records", "get_record"]


# The grammar.


def test_scopes_are_written_by_one_grammar() -> None:
    named = ["tool:find_records", " model:flights.Flight:read ", "actions", "read", "", "tool:a-B_1"]

    assert scopes.parse(named) == ["read", "actions", FLIGHTS, "tool:a-B_1", "tool:find_records"]


def test_what_is_no_scope_is_refused() -> None:
    for name in (
        "writing", "model:flights.flight", "model:flights.flight:delete", "model:flight:read", "model:*:read",
        "model:a.*:read", "model:a.b.c:read", "model::read", "tool:", "tool:a b", "tool:*", "tool:" + "x" * 65, "READ",
        "read,actions",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"the scopes are {re.escape(scopes.GRAMMAR)}"):
            scopes.parse([name])


def test_read_holds_the_scopes_of_models_and_no_other_scope_holds_another() -> None:
    expected: list[tuple[set[str], str, bool]] = [
        ({"read"}, FLIGHTS, True), ({"read"}, scopes.ANY_MODEL, True), ({FLIGHTS}, FLIGHTS, True),
        ({FLIGHTS}, scopes.ANY_MODEL, True), ({FLIGHTS}, "read", False), ({FLIGHTS}, "model:flights.plane:read", False),
        ({"actions"}, "read", False), ({"actions"}, FLIGHTS, False), ({"tool:find_records"}, FLIGHTS, False),
        ({"tool:find_records"}, scopes.ANY_MODEL, False), ({"tool:x"}, "actions", False),
        (set(), scopes.ANY_MODEL, False),
    ]  # fmt: skip

    assert [(held, scope, scopes.grant(held, scope)) for held, scope, _ in expected] == expected


def test_scopes_that_two_sides_grant() -> None:
    assert scopes.common({"read", "actions"}, {FLIGHTS, "tool:x"}) == {FLIGHTS}
    assert scopes.common({FLIGHTS}, {FLIGHTS, "read"}) == {FLIGHTS}
    assert scopes.common({"tool:x"}, {"read", "actions"}) == frozenset()


def test_scopes_of_other_packages_grant_nothing() -> None:
    credential = type("OAuth", (), {"scope": "openid read offline_access model:*:read model:flights.Flight:read"})()

    assert scopes.granted_by(credential, ["read"]) == {"read", FLIGHTS}
    assert scopes.granted_by(type("OAuth", (), {"scope": "openid"})(), ["read"]) == frozenset()


# A token for one model.


@pytest.fixture
def of_flights(users: Any, flights: Any, peers: Peers) -> Peer:
    """A superuser with a token for flights alone."""
    return peers(token_of(users.admin, FLIGHTS))


def reason(peer: Peer, method: str, **params: Any) -> Any:
    return peer.error(MODERN, method, params)["data"]["reason"]


@pytest.mark.http_and_duplex
def test_lists_with_a_token_for_one_model(of_flights: Peer) -> None:
    tools = {tool["name"]: tool for tool in of_flights.result(MODERN, "tools/list")["tools"]}
    resources = of_flights.result(MODERN, "resources/list")["resources"]
    templates = of_flights.result(MODERN, "resources/templates/list")["resourceTemplates"]

    assert sorted(tools) == QUERY_TOOLS
    assert all(tool["inputSchema"]["properties"]["model"]["enum"] == ["flights.flight"] for tool in tools.values())
    assert [one["uri"] for one in resources] == ["db://flights/flight"]
    assert {one["uriTemplate"].partition("{")[0] for one in templates} == {
        "db://flights/flight", "db://flights/flight/", "db://",
    }  # fmt: skip
    assert of_flights.result(MODERN, "prompts/list")["prompts"] == []


def test_querying_other_models_with_a_token_for_one(of_flights: Peer) -> None:
    own = of_flights.call("find_records", model="flights.flight", limit=2)
    other = of_flights.call("find_records", model="flights.airline")
    absent = of_flights.call("find_records", model="flights.axrline")
    counted = of_flights.call("aggregate_records", model="flights.flight", group_by=["status"], measures=["count"])
    by_other = of_flights.call("aggregate_records", model="flights.flight", group_by=["carrier__name"])

    assert len(own["structuredContent"]["rows"]) == 2 and counted["structuredContent"]["rows"]
    assert other["isError"] is by_other["isError"] is True
    assert str(other).replace("flights.airline", "x") == str(absent).replace("flights.axrline", "x")
    assert list(of_flights.call("describe_models")["structuredContent"]["models"]) == ["flights.flight"]


def test_reading_other_models_through_relations_with_a_token_for_one(of_flights: Peer) -> None:
    asked: list[Any] = [
        {"fields": ["carrier__name"]}, {"filter": {"carrier__name": "United"}}, {"order_by": ["origin__name"]},
        {"filter": {"carrier__name__startswith": "U"}}, {"fields": ["disruptions__note"]},
    ]  # fmt: skip
    fields = of_flights.call("describe_models", model="flights.flight")["structuredContent"]["fields"]

    answered = [one for one in asked if not of_flights.call("find_records", model="flights.flight", **one)["isError"]]

    assert answered == []
    assert "number" in fields and {"carrier", "origin", "destination", "plane"}.isdisjoint(fields)
    assert {"carrier", "plane"}.isdisjoint(of_flights.read("db://flights/flight/2"))


def test_reading_other_resources_with_a_token_for_one_model(of_flights: Peer) -> None:
    for uri in (
        "db://flights/airline", "db://flights/airline/UA", "db://flights/airline.schema",
        "db://flights/airline?limit=1", "db://flights/flight?carrier__name=United", "flights://about",
        "flights://board/JFK/2013-01-01",
    ):  # fmt: skip
        assert reason(of_flights, "resources/read", uri=uri) == "RESOURCE_NOT_FOUND", uri
    assert of_flights.read("db://flights/flight/1")["id"] == 1


@pytest.mark.http_and_duplex
def test_calling_tools_with_a_token_for_one_model(of_flights: Peer) -> None:
    for tool in (CANCEL, "delay_statistics", "flights_flight_export_as_csv"):
        switch_on(tool)
        assert reason(of_flights, "tools/call", name=tool, arguments={"ids": ["1"]}) == "TOOL_NOT_FOUND"
    assert Flight.objects.get(pk=1).status == "on_time"


def test_using_a_prompt_with_a_token_for_one_model(users: Any, peers: Peers, declared: Declared, flights: Any) -> None:
    def greet(request: Any) -> str:
        """Greets."""
        return "Hello"

    declared.prompt(greet)
    restricted, whole = peers(token_of(users.admin, FLIGHTS)), peers(token_of(users.admin, "read"))

    assert reason(restricted, "prompts/get", name="greet") == "PROMPT_NOT_FOUND"
    assert whole.result(MODERN, "prompts/get", {"name": "greet"})["messages"]


def test_completing_keys_of_other_models_with_a_token_for_one(of_flights: Peer, admin: Peer) -> None:
    def values(peer: Peer, template: str, name: str, typed: str) -> Any:
        params = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": name, "value": typed}}
        answer = peer.request(MODERN, "completion/complete", params)
        return answer["result"]["completion"]["values"] if "result" in answer else None

    assert values(admin, "db://flights/airline/{carrier}", "carrier", "U") == ["UA"]
    assert not values(of_flights, "db://flights/airline/{carrier}", "carrier", "U")
    assert values(of_flights, "db://flights/flight/{id}", "id", "1")
    assert values(of_flights, "db://{app_label}/{model}.schema", "model", "") == ["flight"]


def test_watching_other_models_with_a_token_for_one(of_flights: Peer) -> None:
    watching = of_flights.watch(MODERN, ["db://flights/airline/UA", "db://flights/airline", "db://flights/flight/1"])
    refused = of_flights.error("2025-06-18", "resources/subscribe", {"uri": "db://flights/airline/UA"})

    assert watching.honoured == {"resourceSubscriptions": ["db://flights/flight/1"]}
    assert refused["data"]["reason"] == "RESOURCE_NOT_FOUND"
    Airline.objects.get(pk="UA").save()
    Flight.objects.get(pk=1).save()
    assert watching.uris(1) == ["db://flights/flight/1"]
    watching.close()


def test_an_action_needs_the_scope_actions_and_that_of_its_model(users: Any, peers: Peers, flights: Any) -> None:
    with_model = peers(token_of(users.admin, "actions", FLIGHTS))
    with_another = peers(token_of(users.admin, "actions", "model:flights.airline:read"))

    assert CANCEL in with_model.tools() and CANCEL not in with_another.tools()
    assert with_model.call(CANCEL, ids=["1"])["isError"] is False


# A token for one tool.


def test_lists_with_a_token_for_one_tool(users: Any, peers: Peers, flights: Any) -> None:
    for tool in (CANCEL, "delay_statistics", "find_records", "describe_models"):
        peer = peers(token_of(users.admin, f"tool:{tool}"))

        assert peer.tools() == [tool]
        assert peer.result(MODERN, "resources/list")["resources"] == []
        assert peer.result(MODERN, "resources/templates/list")["resourceTemplates"] == []
        assert peer.result(MODERN, "prompts/list")["prompts"] == []


def test_a_tool_may_do_what_it_needs_with_a_token_for_it_alone(users: Any, peers: Peers, flights: Any) -> None:
    cancelling = peers(token_of(users.admin, f"tool:{CANCEL}"))
    counting = peers(token_of(users.admin, "tool:delay_statistics"))
    finding = peers(token_of(users.admin, "tool:find_records"))

    done = cancelling.call(CANCEL, ids=["1"])
    counted = counting.call("delay_statistics", origin="JFK")
    found = finding.call("find_records", model="flights.flight", fields=["carrier__name"], limit=1)

    assert done["isError"] is False and Flight.objects.get(pk=1).status == "cancelled"
    assert counted["structuredContent"]["flights"] == 4
    assert found["structuredContent"]["rows"] == [[1, "United"]]


def test_calling_other_tools_with_a_token_for_one(users: Any, peers: Peers, flights: Any) -> None:
    peer = peers(token_of(users.admin, "tool:describe_models"))

    said = str(peer.call("describe_models")["structuredContent"])

    for name in ("find_records", CANCEL, "delay_statistics", "nonsense"):
        assert reason(peer, "tools/call", name=name, arguments={}) == "TOOL_NOT_FOUND", name
    assert "change data" not in said and "find_records gives rows" not in said, "it lends them no rights"


def test_reading_completing_and_watching_with_a_token_for_one_tool(users: Any, peers: Peers, flights: Any) -> None:
    peer = peers(token_of(users.admin, "tool:find_records"))
    peer.call("find_records", model="flights.flight", limit=1)
    reference = {"type": "ref/resource", "uri": "db://flights/flight/{id}"}

    params = {"ref": reference, "argument": {"name": "id", "value": "1"}}
    completed = peer.request(MODERN, "completion/complete", params)
    watching = peer.watch(MODERN, ["db://flights/flight/1", "flights://about"], tools=True)

    for uri in ("db://flights/flight", "db://flights/flight/1", "flights://about", "db://flights/flight.schema"):
        assert reason(peer, "resources/read", uri=uri) == "RESOURCE_NOT_FOUND", uri
    assert "error" in completed or completed["result"]["completion"]["values"] == []
    assert not (watching.honoured or {}).get("resourceSubscriptions")
    watching.close()


def test_a_tool_that_a_token_is_for_needs_its_users_permission_and_may_be_switched_off(
    users: Any, peers: Peers, flights: Any
) -> None:
    def assert_absent(peer: Peer) -> None:
        assert peer.tools() == []
        assert reason(peer, "tools/call", name=CANCEL, arguments={"ids": ["1"]}) == "TOOL_NOT_FOUND"

    assert_absent(peers(token_of(users.viewer, f"tool:{CANCEL}")))
    Tool.objects.filter(name=CANCEL).update(enabled=False)
    assert_absent(peers(token_of(users.admin, f"tool:{CANCEL}")))


# Live push.


@pytest.mark.django_db(transaction=True)
def test_a_watched_row_is_silent_once_its_model_is_taken_from_the_token(peers: Peers, transactional_db: None) -> None:
    users = make_users()
    make_flights()
    peer = peers(token_of(users.admin, FLIGHTS, "model:flights.airline:read"))
    token = AccessToken.objects.latest("pk")
    watching = peer.watch(MODERN, ["db://flights/airline/UA", "db://flights/flight/1"])
    token.scopes = [FLIGHTS]
    token.save()
    # A row that was seen is told of once more, as one that is gone.
    Airline.objects.get(pk="UA").save()
    gone = watching.uris(1)

    for _ in range(2):
        Airline.objects.get(pk="UA").save()
        Flight.objects.get(pk=1).save()
        assert watching.uris(1) == ["db://flights/flight/1"]

    assert gone == ["db://flights/airline/UA"]
    watching.close()


# Groups of scopes: names of the project that stand for several scopes, wherever a scope may stand.


SALES = ["model:Flights.Flight:read", "tool:flights_flight_mark_cancelled"]
EXPANDED = {"model:flights.flight:read", "tool:flights_flight_mark_cancelled"}
GROUPS = {"MCP": {"SCOPE_GROUPS": {"sales": SALES}}}


@override_settings(**GROUPS)
def test_a_token_of_a_group_may_what_its_scopes_allow(users: Users) -> None:
    plain = token_of(users.ops, "sales")

    found = authenticate(request_to(plain), fresh=True)

    assert AccessToken.objects.get().scopes == ["sales"]
    assert found.scopes == EXPANDED
    peer = DirectPeer(users.ops, *found.scopes)
    assert "flights_flight_mark_cancelled" in peer.tools(MODERN)


def test_a_group_that_is_gone_grants_nothing(users: Users) -> None:
    with override_settings(**GROUPS):
        plain = token_of(users.ops, "sales", "model:flights.airport:read")

    found = authenticate(request_to(plain), fresh=True)

    assert scopes.known(found.scopes) == {"model:flights.airport:read"}
    assert not scopes.grant(found.scopes, "model:flights.flight:read")
    with pytest.raises(ValueError, match="unknown scope 'sales'"):
        token_of(users.ops, "sales")


def test_a_group_that_cannot_be_used_is_found_and_grants_nothing() -> None:
    for wrong in (
        {"read": ["actions"]}, {"Sales": ["read"]}, {"tool:x": ["read"]}, {"a b": ["read"]}, {"sales": []},
        {"sales": "read"}, {"sales": ["write-all"]}, {"sales": ["read"], "more": ["sales"]},
    ):  # fmt: skip
        with override_settings(MCP={"SCOPE_GROUPS": wrong}):
            found = [message.id for message in check_settings(None) if message.id == "mcp_django.E016"]
            assert (found, set(scopes.groups())) == (["mcp_django.E016"], {"sales"} if len(wrong) == 2 else set()), (
                wrong
            )


def test_a_client_may_ask_for_a_group_where_it_may_ask_for_all_of_it(users: Users) -> None:
    def page(*offered: str) -> Any:
        with override_settings(MCP={"SCOPE_GROUPS": {"sales": SALES}, "OAUTH_SCOPES": offered}):
            return Person(users.ops).open(Program().url(scope="sales"))

    for offered in ((), ("read", "actions"), ("sales",)):
        shown = page(*offered)
        assert "sales" in boxes_in(shown), offered
        for text in ("Sales: Read 1 model; Run 1 action", "This can change data."):
            assert text in shown.content.decode()
    for offered in (("read",), ("actions",)):
        assert "sales" not in boxes_in(page(*offered)), offered


def test_a_grant_of_a_group_is_refreshed_while_the_group_is_there(users: Users) -> None:
    program = Program()
    with override_settings(**GROUPS):
        answer = Person(users.ops).allow(program.url(scope="sales"), "sales")
        tokens = program.exchange(code_in(answer)).json()
        again = program.refresh(tokens["refresh_token"]).json()

    gone = program.refresh(again["refresh_token"])

    assert (tokens["scope"], again["scope"]) == ("sales", "sales")
    assert (gone.status_code, gone.json()["error"]) == (400, "invalid_grant")
