"""People who are not staff: what pages tell them, and how they agree to what their agents ask."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from mcp_django.models import Change
from mcp_django.server.waiting_changes import approvers
from mcp_django.test import MCPClient
from tests.api.project.models import Order
from tests.console.visiting import client_of, offered, text_of
from tests.oauth.flow import Person, Program
from tests.support.data import make_staff, switch_on, token_of
from tests.support.peers import Peers

URL = "/mcp/connected"
AS_PAGE = {"Accept": "text/html"}
PROGRAM = Program(redirect_uri="https://claude.com/api/mcp/auth_callback")


@pytest.fixture
def served(declared_api: None, settings: Any) -> None:
    settings.LOGIN_URL = "/accounts/login/"
    settings.MCP = {**settings.MCP, "SELF_SERVICE": ["read", "write", "api:order:read"]}
    switch_on("change_api")


def words_of(response: Any) -> str:
    assert response.status_code == 200, response
    return text_of(response.content.decode())


def test_pages_say_how_many_operations_this_user_gets(served: None, shop: SimpleNamespace) -> None:
    client = client_of(shop.anna)

    landing, own = words_of(client.get("/mcp", headers=AS_PAGE)), client.get(URL)
    consent = words_of(Person(shop.anna).open(PROGRAM.url(scope="read write")))

    for page in (landing, consent):
        found = [int(number) for number in re.findall(r"Call (\d+) operations of the API", page)]
        assert len(found) == 2 and all(found), page
        assert "0 models" not in page and "Read 0" not in page
    assert "claude mcp add" in words_of(own) and offered(own.content.decode()) == {"read", "write", "api:order:read"}


def test_of_operations_that_staff_alone_may_call_nobody_else_reads(served: None, shop: SimpleNamespace) -> None:
    def calls_of(user: Any) -> int:
        [found] = re.findall(
            r"Call (\d+) operations of the API that read", words_of(client_of(user).get("/mcp", headers=AS_PAGE))
        )
        return int(found)

    assert calls_of(shop.anna) == calls_of(shop.otto) < calls_of(shop.stella)


def test_agents_are_told_of_the_api_and_never_of_no_models(served: None, shop: SimpleNamespace) -> None:
    with MCPClient(shop.anna, ["read"]) as client:
        told = client.request("server/discover", {})["instructions"]

    assert re.search(r"You reach \d+ operations of the API, of \d+ resources\.", told)
    assert "describe_api names the operations" in told and "0 models" not in told


def test_people_who_are_not_staff_log_in_where_the_project_says(served: None, shop: SimpleNamespace) -> None:
    answer = Client().get(PROGRAM.url())

    assert answer.status_code == 302 and answer["Location"].startswith("/accounts/login/?next=")


@pytest.mark.every_database
def test_a_deletion_waits_for_its_user_who_agrees_on_my_agent(
    served: None, shop: SimpleNamespace, transactional_db: None, peers: Peers
) -> None:
    peer, order = peers(token_of(shop.anna, "read", "write")), shop.anna_order
    arguments = {"operation": "order.destroy", "params": {"pk": order.pk}}
    plan = peer.call("change_api", **arguments)["structuredContent"]
    waits = peer.call("change_api", **arguments, confirm=plan["confirm"])["structuredContent"]
    client, url = client_of(shop.anna), f"{URL}?change={waits['change']}"

    page = client.get(url)
    [digest] = re.findall(r'name="digest" value="(\w+)"', page.content.decode())
    others = client_of(shop.otto).get(url)
    agreed = {"do": "decide", "change": waits["change"], "agree": "1", "digest": digest}
    told = words_of(client.post(URL, agreed, follow=True))

    assert waits["status"] == "pending" and waits["url"].endswith(url)
    assert f"DELETE /api/orders/{order.pk}/" in words_of(page) and order.number in words_of(page)
    assert others.status_code == 404
    assert "The change was made." in told and not Order.objects.filter(pk=order.pk).exists()
    assert Change.objects.get(pk=waits["change"]).state == "applied"


def test_a_record_that_has_moved_since_the_page_was_shown_is_not_deleted(
    served: None, shop: SimpleNamespace, transactional_db: None, peers: Peers
) -> None:
    peer, order = peers(token_of(shop.anna, "read", "write")), shop.anna_order
    arguments = {"operation": "order.destroy", "params": {"pk": order.pk}}
    plan = peer.call("change_api", **arguments)["structuredContent"]
    waits = peer.call("change_api", **arguments, confirm=plan["confirm"])["structuredContent"]
    client = client_of(shop.anna)
    page = client.get(f"{URL}?change={waits['change']}").content.decode()
    [digest] = re.findall(r'name="digest" value="(\w+)"', page)

    Order.objects.filter(pk=order.pk).update(note="somebody else's")
    client.post(URL, {"do": "decide", "change": waits["change"], "agree": "1", "digest": digest}, follow=True)

    assert Order.objects.filter(pk=order.pk).exists()
    assert Change.objects.get(pk=waits["change"]).state == "waiting"


def test_staff_approve_what_they_may_call_themselves_and_nothing_else(
    declared: Any, shop: SimpleNamespace, transactional_db: None, peers: Peers
) -> None:
    declared.expose("api/", consent={"order.pay": "approve", "settings.partial_update": "approve"})
    switch_on("change_api")
    make_staff("clerk", "mcp_django.approve_change")
    make_staff("guard")
    peer = peers(token_of(shop.anna, "read", "write"))
    arguments = {
        "operation": "order.pay", "params": {"pk": shop.anna_order.pk}, "body": {"amount": "10.50", "method": "card"},
    }  # fmt: skip
    plan = peer.call("change_api", **arguments)["structuredContent"]

    waits = peer.call("change_api", **arguments, confirm=plan["confirm"])["structuredContent"]

    assert waits["needs"]["approvals"] == 1 and waits["status"] == "pending"
    found = approvers(Change.objects.get(pk=waits["change"]), 5)
    assert {one.username for one in found} == {"stella", "clerk"}

    # A setting is its owner's alone: the API shows it to nobody who could approve.
    mine = {"operation": "settings.partial_update", "params": {"pk": shop.anna_setting.pk}, "body": {"value": "green"}}
    plan = peer.call("change_api", **mine)["structuredContent"]
    assert "nobody can" in str(peer.call("change_api", **mine, confirm=plan["confirm"]))


def test_the_check_names_a_project_in_which_only_staff_can_log_in(
    declared_api: None, settings: Any, capsys: Any
) -> None:
    settings.LOGIN_URL = "/nowhere/"
    settings.SILENCED_SYSTEM_CHECKS = []

    call_command("check")

    assert "mcp_django.W041" in capsys.readouterr().err
