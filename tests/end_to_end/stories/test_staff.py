"""Somebody of the staff who connects their agent, agrees to what it wants to change, and sees what it did."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.browsing import log_in
from tests.end_to_end.callback import Callback, url_of
from tests.end_to_end.servers import Project, Served, wait_for
from tests.end_to_end.test_deciding_browser import FLIGHT, _proposed
from tests.end_to_end.test_own_browser import flights_of
from tests.oauth.flow import CLAUDE_CODE, Program

pytestmark = pytest.mark.more("the story of the staff")

OWN = "/mcp/connected"
#: Ops agrees to each change of one record.
ASKING = """
from mcp_django.models import Tool
Tool.objects.update_or_create(site="mcp", name="update_record", defaults={"enabled": True, "asks": "ask"})
"""


def test_an_agent_is_connected_watched_and_sent_away_by_its_user(
    browser: Browser, demo_project: Project, served: Served, callback: Callback
) -> None:
    demo_project.run(ASKING)
    context = browser.new_context(base_url=served.origin, viewport={"width": 390, "height": 900})
    page = context.new_page()
    # The client has opened this page; its user has never seen the console.
    token = connected(page, served, callback)
    page.goto("/mcp")
    page.get_by_role("link", name="My agent").click()
    expect(page.get_by_role("heading", name="claude.ai")).to_be_visible()

    notes = {"departure_delay": 95, "notes": "Fog at noon"}
    first, second, *_ = flights_of(served, token)
    agreed = _proposed(served, token, "update_record", model=FLIGHT, id=first, values=notes)
    rejected = _proposed(served, token, "update_record", model=FLIGHT, id=second, values={"notes": "Late"})
    page.reload()
    page.get_by_role("link", name="Look at it and agree").and_(page.locator(f"[href$='{agreed}']")).click()
    expect(page.get_by_text("Fog at noon")).to_be_visible()
    page.get_by_role("button", name="Make this change").click()
    expect(page.get_by_role("status")).to_have_text("The change was made.")
    page.goto(f"{OWN}?change={rejected}")
    page.get_by_label("Reason for rejecting (the agent reads it)").fill("Ask the tower first.")
    page.get_by_role("button", name="Reject").click()
    answers = [state(served, token, key) for key in (agreed, rejected)]
    served.ask(token, "tools/call", {"name": "no_such_tool", "arguments": {}})
    page.goto(OWN)
    # The server writes down what was done a moment later.
    wait_for(lambda: page.reload() and "no_such_tool" in page.locator(".mcp-calls").inner_text(), "the last call")
    calls = page.locator(".mcp-calls").inner_text()
    page.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_text("No app is connected.")).to_be_visible()
    context.close()

    assert "Fog at noon" in demo_project.run(_NOTES.format(key=first))
    assert "Late" not in demo_project.run(_NOTES.format(key=second))
    assert "applied" in answers[0] and "Ask the tower first." in answers[1]
    assert "update_record waiting" in calls and "There is no such thing, or this agent may not use it." in calls
    assert served.ask(token, "tools/list").status_code == 401


_NOTES = "from demo_project.flights.models import Flight; print(Flight.objects.get(pk={key}).notes)"


def connected(page: Page, served: Served, callback: Callback) -> str:
    """The token of a program that its user lets in, with all that it asks for."""
    program = Program(CLAUDE_CODE, callback.url)
    page.goto(url_of(program, served, "read write"))
    log_in(page, "ops")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Connect", exact=True).click()
    page.wait_for_url(f"{callback.url}?**")
    tokens = httpx.post(f"{served.origin}/mcp/token", data={
        "grant_type": "authorization_code", "code": callback.answers.get(timeout=60)["code"],
        "client_id": CLAUDE_CODE, "redirect_uri": callback.url, "code_verifier": program.verifier,
    }).json()  # fmt: skip
    assert tokens["scope"] == "read write"
    return str(tokens["access_token"])


def state(served: Served, token: str, key: str) -> str:
    """What the agent reads of its change."""
    return served.ask(token, "resources/read", {"uri": f"mcp-change://{key}"}).text
