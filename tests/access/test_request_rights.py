"""An agent asks for a scope with a reason, and people lend it to its credential for some hours."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User

from demo_project.flights.models import Flight
from mcp_django.models import Change, Lending, Tool
from tests.bridge.writes.approving import LONG_AGO, staff, text_of
from tests.bridge.writes.clicking import Browser, approve, state_of
from tests.support.data import Users, switch_on, token_of
from tests.support.peers import Message, Peer, Peers

pytestmark = pytest.mark.usefixtures("transactional_db")

ASKED = {"scopes": ["write"], "hours": 2, "reason": "the fog of today"}


@pytest.fixture
def reader(users: Users, peers: Peers, settings: Any, flights: list[Flight]) -> Peer:
    """The agent of ops, which may read."""
    settings.MCP = {**settings.MCP, "LENDABLE": {"write": 8}}
    switch_on("update_record", "get_change")
    return peers(token_of(users.ops, "read"))


@pytest.fixture
def bob(users: Users) -> User:
    made = staff("bob")
    made.user_permissions.add(Permission.objects.get(codename="change_accesstoken"))
    return User.objects.get(pk=made.pk)


def ask(agent: Peer, **more: Any) -> Message:
    shown = agent.call("request_rights", **{**ASKED, **more})
    assert not shown["isError"], shown
    confirm = shown["structuredContent"]["confirm"]
    waits: Message = agent.call("request_rights", **{**ASKED, **more}, confirm=confirm)["structuredContent"]
    return waits


def refused(agent: Peer, **more: Any) -> str:
    result = agent.call("request_rights", **{**ASKED, **more})
    assert result["isError"], result
    return str(result["content"][0]["text"])


@pytest.mark.every_database
def test_somebody_else_lends_it_and_the_agent_has_it_at_once(reader: Peer, bob: User, users: Users) -> None:
    assert "update_record" not in reader.tools()
    waits = ask(reader)
    assert waits["status"] == "pending" and waits["needs"]["approvals"] == 1 and not Lending.objects.exists()
    page = text_of(Browser(bob).page(waits["change"]))
    assert "Run Lend write for 2 hours" in page and "the fog of today" in page

    assert approve(bob, waits["change"]) == ["The change was made."]

    made = Lending.objects.get()
    assert (made.scopes, made.agreed_by, made.reason, made.change_id) == (
        ["write"], "bob", "the fog of today", waits["change"],
    )  # fmt: skip
    assert round((made.until - made.starts_at).total_seconds()) == 7_200
    assert "update_record" in reader.tools()
    told = reader.call("get_change", change=waits["change"])["structuredContent"]
    assert (told["status"], told["scopes"]) == ("applied", ["write"])


@pytest.mark.every_database
def test_the_own_user_lends_what_staff_may_give_themselves_by_a_click_and_not_in_the_client(
    reader: Peer, users: Users, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "SELF_SERVICE": ["read", "write"]}
    reader.capabilities = {"elicitation": {}}
    waits = ask(reader)
    assert waits["status"] == "pending" and "needs" not in waits

    assert Browser(users.ops).apply(waits["change"]) == ["The change was made."]

    assert Lending.objects.get().agreed_by == "ops" and "update_record" in reader.tools()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"scopes": ["actions"]}, "is not lent here"),
        ({"hours": 9}, "for 8 hours at most"),
        ({"hours": -1}, "more than 0"),
        ({"scopes": ["read"]}, "not lent here"),
        ({"scopes": ["everything"]}, "scopes"),
        ({"reason": ""}, "reason"),
        ({"scopes": []}, "scopes"),
    ],
)
def test_what_is_not_lent_is_refused_at_once(reader: Peer, bob: User, more: Any, words: str) -> None:
    assert words in refused(reader, **more) and not Change.objects.exists()


def test_where_nobody_could_lend_it_is_refused_at_once(reader: Peer) -> None:
    User.objects.filter(is_superuser=True).update(is_active=False)
    shown = reader.call("request_rights", **ASKED)["structuredContent"]

    told = reader.call("request_rights", **ASKED, confirm=shown["confirm"])

    assert told["isError"] and "nobody can" in told["content"][0]["text"]


def test_who_may_approve_changes_and_not_change_tokens_lends_nothing(reader: Peer, bob: User) -> None:
    other = staff("other")
    key = ask(reader)["change"]

    assert 'name="_approve"' not in text_of(Browser(other).page(key))
    Browser(other).decide(key, "approve", digest=Browser(bob).digest(key))
    assert state_of(key) == "waiting" and not Lending.objects.exists()


def test_the_user_of_the_agent_lends_it_nothing(reader: Peer, bob: User, users: Users) -> None:
    for codename in ("approve_change", "change_accesstoken"):
        users.ops.user_permissions.add(Permission.objects.get(codename=codename))
    User.objects.filter(pk=users.ops.pk).update(date_joined=LONG_AGO)
    key = ask(reader)["change"]

    assert Browser(users.ops).decide(key, "approve", digest=Browser(bob).digest(key)).status_code in (302, 400)
    assert not Lending.objects.exists()


def test_it_is_there_only_where_something_is_lent_to_a_token(users: Users, peers: Peers, settings: Any) -> None:
    agent = peers(token_of(users.ops, "read"))
    assert "request_rights" not in agent.tools()

    settings.MCP = {**settings.MCP, "LENDABLE": {"write": 8}}
    assert "request_rights" in agent.tools()
    Tool.objects.update_or_create({"enabled": False}, site="mcp", name="request_rights")
    assert "request_rights" not in agent.tools()


def test_a_right_that_is_there_is_asked_for_by_nobody(users: Users, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "LENDABLE": {"write": 8}}

    assert "are yours already" in refused(peers(token_of(users.ops, "read", "write")))
