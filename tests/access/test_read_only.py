"""MCP["READ_ONLY"]: no tool that may change data is there, on any road, and changes that wait cannot be made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import UploadedFile
from django.core.management import call_command
from django.http import HttpRequest

from demo_project.flights.models import Flight
from mcp_django import site
from mcp_django.access.permissions import can_be_granted, scopes_to_ask_for
from mcp_django.bridge.changes import approvals
from mcp_django.console.review import inventory, reasons
from mcp_django.models import Change, Decision, Task, Tool
from tests.axes import TRANSPORTS
from tests.bridge.writes.approving import propose, staff, text_of
from tests.bridge.writes.clicking import Browser, proposed, said, state_of
from tests.bridge.writes.conftest import ALL_SCOPES, Writer
from tests.oauth.flow import Person, Program, boxes_in
from tests.support import tasks
from tests.support.data import Users, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, HTTPPeer, Peer, Peers
from tests.support.tasks import TASKS

WAITS = (
    'Agents change nothing on this server: MCP["READ_ONLY"] is True. The change waits; it can be made once that is '
    "False, or be rejected now."
)
#: What only reads, and is there for those that write.
BESIDE = {"describe_form", "preview_change"}


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """Requests are answered in other threads."""


@pytest.fixture
def tools(users: Users, flights: Any, declared: Declared) -> set[str]:
    """The names of all tools that may change data: of the package, of the admin and of the project."""

    def book(request: HttpRequest) -> str:
        """Book."""
        Flight.objects.update(notes="booked")
        return "booked"

    def store(request: HttpRequest, file: UploadedFile) -> str:
        """Store a file."""
        return "stored"

    declared.tool(book)
    declared.tool(book, name="book_later", task=True)
    declared.tool(store)
    switch_on(*site.tools)
    return {name for name, tool in site.tools.items() if tool.may_change}


@pytest.fixture
def read_only(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "READ_ONLY": True}


def set_read_only(settings: Any, value: bool) -> None:
    settings.MCP = {**settings.MCP, "READ_ONLY": value}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_no_tool_that_may_change_data_is_listed_or_called(
    peers: Peers, users: Users, tools: set[str], settings: Any, revision: str
) -> None:
    """Whatever the scopes: all, or one for the tool itself."""
    assert {"update_record", "book", "flights_flight_mark_cancelled", "request_rights", "undo_change"} <= tools
    peer = peers(token_of(users.admin, *ALL_SCOPES))
    single = peers(token_of(users.admin, "tool:book", "tool:update_record", "model:flights.flight:write"))
    listed = set(peer.tools(revision))
    assert listed >= {"update_record", "book", "undo_change", *BESIDE}

    set_read_only(settings, True)

    assert set(peer.tools(revision)) == listed - tools - BESIDE - {"get_change"}
    called = {name: one.error(revision, "tools/call", {"name": name, "arguments": {}})["data"]["reason"]
              for one in (peer, single) for name in sorted(tools | BESIDE)}  # fmt: skip
    assert set(called.values()) == {"TOOL_NOT_FOUND"}
    assert not single.tools(revision)
    assert not Flight.objects.filter(notes="booked").exists()
    set_read_only(settings, False)
    assert set(peer.tools(revision)) == listed


def test_what_agents_are_told_says_nothing_of_writing(admin: Peer, tools: set[str], read_only: None) -> None:
    told = [
        admin.result(MODERN, "server/discover")["instructions"],
        json.dumps(admin.call("describe_models")),
        json.dumps(admin.call("describe_models", model="flights.flight")),
        json.dumps(admin.result(MODERN, "resources/templates/list")),
    ]

    assert "Your tools only read." in told[0] and "switch on" not in told[0]
    words = ("create_record", "update_record", "describe_form", "mark_cancelled", "mcp-change", "confirm")
    assert [word for text in told for word in words if word in text] == []


def test_no_file_is_taken_for_a_tool_that_may_change_data(
    admin: Peer, tools: set[str], read_only: None, settings: Any
) -> None:
    assert isinstance(admin, HTTPPeer)

    def upload() -> Any:
        admin.path, admin.query = "/mcp/upload", "name=a.txt"
        return admin.http("POST", b"text", {"Content-Length": "4", "Content-Type": None})  # type: ignore[dict-item]

    refused = upload()
    set_read_only(settings, False)

    assert (refused.status, upload().status) == (404, 201)


def test_a_task_that_was_queued_before_changes_nothing(
    peers: Peers, users: Users, tools: set[str], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "TASK_BACKEND": "database"}
    peer = peers(token_of(users.admin))
    peer.capabilities = TASKS
    tasks.start(peer, "book_later")

    set_read_only(settings, True)
    tasks.work()

    assert Task.objects.get().state == Task.State.FAILED
    assert not Flight.objects.filter(notes="booked").exists()


# Logging in.


@pytest.mark.parametrize("named", [(), ("read", "actions", "write", "model:flights.flight:write")])
def test_a_client_is_offered_no_scope_to_change_data(
    users: Users, tools: set[str], settings: Any, named: tuple[str, ...]
) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_SCOPES": named, "READ_ONLY": True}

    page = Person(users.admin).open(Program().url(scope="read actions write tool:book"))

    assert scopes_to_ask_for(site) == ["read"]
    changing = ("actions", "write", "tool:book", "tool:update_record", "model:flights.flight:write")
    assert [one for one in changing if can_be_granted(site, one)] == []
    assert list(boxes_in(page)) == ["read"]


def test_a_client_is_not_told_to_ask_its_user_for_more(
    peers: Peers, users: Users, tools: set[str], read_only: None
) -> None:
    """The step-up of OAuth: what the client lacks would open nothing."""
    from django.test import Client

    granted = Program().log_in(users.admin)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "update_record", "arguments": {}}}
    headers = {"Authorization": f"Bearer {granted['access_token']}", "Accept": "application/json, text/event-stream"}

    answer = Client().post("/mcp", json.dumps(call), content_type="application/json", headers=headers)

    assert (answer.status_code, answer.json()["error"]["data"]["reason"]) == (200, "TOOL_NOT_FOUND")


# People.


def test_why_not_and_the_inventory_say_it(users: Users, tools: set[str], read_only: None) -> None:
    why = reasons.explain(site, users.admin, ALL_SCOPES, "update_record").no
    built = inventory.build(site, users.admin, ALL_SCOPES)

    assert why is not None and (why.step, "READ_ONLY" in str(why.why)) == ("read_only", True)
    assert reasons.explain(site, users.admin, ALL_SCOPES, "find_records").allowed
    assert not tools & built["tools"].keys()
    assert not any(model.get("writes") for model in built["models"].values())


def test_a_tool_is_not_tried_in_the_console_either(users: Users, tools: set[str], read_only: None) -> None:
    row = Tool.objects.get(site="mcp", name="book")

    page = Browser(users.admin).client.post(f"/admin/mcp_django/tool/{row.pk}/try/", {"try-agreed": "on"})

    assert page.status_code in (200, 404) and not Flight.objects.filter(notes="booked").exists()


def test_a_click_makes_no_change_that_waits_and_can_reject_it(
    peers: Peers, users: Users, tools: set[str], declared: Declared, settings: Any
) -> None:
    declared.model(Flight, consent={"update": "ask"})
    agent, browser = peers(token_of(users.admin, *ALL_SCOPES)), Browser(users.admin)
    keys = [
        str(proposed(agent, "update_record", model="flights.flight", id=key, values={"notes": "fog"})["change"])
        for key in ("1", "4")
    ]
    digests = [browser.digest(key) for key in keys]
    set_read_only(settings, True)

    told = said(browser.decide(keys[0], "apply", digest=digests[0]))
    page = browser.page(keys[0]).content.decode()

    assert told == [WAITS] and "MCP[&quot;READ_ONLY&quot;] is True" in page
    assert browser.reject(keys[1]) == ["The change was rejected. Nothing was changed."]
    assert [state_of(key) for key in keys] == ["waiting", "rejected"]
    set_read_only(settings, False)
    assert browser.apply(keys[0]) == ["The change was made."]


def test_who_may_approve_a_change_can_only_reject_it(
    users: Users, tools: set[str], declared: Declared, settings: Any
) -> None:
    declared.model(Flight, consent={"update": "approve"})
    key = propose(Writer(users.ops))
    browser, stranger = Browser(staff("bob")), Browser(staff("eve", "mcp_django.approve_change"))
    digest = browser.digest(key)
    set_read_only(settings, True)

    page = text_of(browser.page(key))

    assert "MCP[&quot;READ_ONLY&quot;] is True" in page and 'name="_reject"' in page and "fog" in page
    assert 'name="_approve"' not in page and 'name="_reject"' not in text_of(stranger.page(key))
    assert said(browser.decide(key, "approve", digest=digest)) == [WAITS] and not Decision.objects.exists()
    assert stranger.reject(key) == ["You may not do this yourself, so you may not approve it either."]
    assert state_of(key) == "waiting"
    assert browser.reject(key) == ["The change was rejected. Nothing was changed."]
    assert state_of(key) == "rejected"


def test_cron_makes_no_change_that_has_all_its_votes(
    users: Users, tools: set[str], declared: Declared, settings: Any
) -> None:
    declared.model(Flight, consent={"update": "approve"})
    bob, key = staff("bob"), propose(Writer(users.ops))
    digest = Browser(bob).digest(key)
    approvals.vote(Change.objects.get(), bob, Decision.Verdict.APPROVE, digest, "")
    set_read_only(settings, True)

    call_command("mcp_due", verbosity=0)

    assert state_of(key) == "waiting"
    set_read_only(settings, False)
    call_command("mcp_due", verbosity=0)
    assert state_of(key) == "applied"


def test_a_person_may_undo_what_an_agent_has_changed(users: Users, tools: set[str], settings: Any) -> None:
    """That is no agent's change."""
    made = Writer(users.admin).confirmed("update_record", model="flights.flight", id="3", values={"notes": "fog"})
    set_read_only(settings, True)
    url, browser = f"/admin/mcp_django/change/{made['change']}/undo/", Browser(users.admin)
    digest = browser.client.get(url).content.decode().partition('name="digest" value="')[2].partition('"')[0]

    undone = browser.client.post(url, {"digest": digest})

    assert said(undone) == ["It was undone."]
    assert Flight.objects.get(pk=3).notes == "note 2"
