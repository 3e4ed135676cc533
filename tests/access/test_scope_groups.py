"""Groups of scopes: names of the project that stand for several scopes, wherever a scope may stand."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from mcp_django.access.authentication import authenticate
from mcp_django.checks import check_settings
from mcp_django.exchange import scopes
from mcp_django.models import AccessToken
from tests.access.test_grants import request_to
from tests.oauth.flow import Person, Program, boxes_in, code_in
from tests.support.asking import DirectPeer
from tests.support.data import Users, token_of
from tests.support.peers import MODERN

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


@pytest.mark.parametrize("wrong", [
    {"read": ["actions"]}, {"Sales": ["read"]}, {"tool:x": ["read"]}, {"a b": ["read"]}, {"sales": []},
    {"sales": "read"}, {"sales": ["write-all"]}, {"sales": ["read"], "more": ["sales"]},
], ids=str)  # fmt: skip
def test_a_group_that_cannot_be_used_is_found_and_grants_nothing(wrong: dict[str, Any]) -> None:
    with override_settings(MCP={"SCOPE_GROUPS": wrong}):
        found = [message for message in check_settings(None) if message.id == "mcp_django.E016"]
        assert len(found) == 1
        assert set(scopes.groups()) == ({"sales"} if len(wrong) == 2 else set())


@pytest.mark.parametrize(("offered", "is_offered"), [
    ([], True), (["read", "actions"], True), (["read"], False), (["sales"], True), (["actions"], False),
])  # fmt: skip
def test_a_client_may_ask_for_a_group_where_it_may_ask_for_all_of_it(
    users: Users, offered: list[str], is_offered: bool
) -> None:
    with override_settings(MCP={"SCOPE_GROUPS": {"sales": SALES}, "OAUTH_SCOPES": offered}):
        page = Person(users.ops).open(Program().url(scope="sales"))

    assert ("sales" in boxes_in(page)) is is_offered
    if is_offered:
        assert "Sales: Read 1 model, Run 1 action" in page.content.decode()
        assert "This can change data." in page.content.decode()


def test_a_grant_of_a_group_is_refreshed_while_the_group_is_there(users: Users) -> None:
    program = Program()
    with override_settings(**GROUPS):
        answer = Person(users.ops).allow(program.url(scope="sales"), "sales")
        tokens = program.exchange(code_in(answer)).json()
        again = program.refresh(tokens["refresh_token"]).json()

    gone = program.refresh(again["refresh_token"])

    assert (tokens["scope"], again["scope"]) == ("sales", "sales")
    assert (gone.status_code, gone.json()["error"]) == (400, "invalid_grant")
