"""An administrator, in the admin: decides what agents read, gives one a token, sees why it failed, and stops them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.browsing import choose_user, log_in, made_token
from tests.end_to_end.servers import Served, wait_for

pytestmark = pytest.mark.more("the story of an administrator")

ADMIN = "/admin/mcp_django/"
WHY = "We are looking at the bookings."


def test_what_agents_read_is_decided_seen_and_stopped_on_pages(browser: Browser, served: Served) -> None:
    context = browser.new_context(base_url=served.origin, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(ADMIN)
    log_in(page)

    token = given(page)
    before = found(served, token)
    switch_off(page, "tailnum")
    after = found(served, token)
    refused = found(served, token, "tailnum")
    served.ask(token, "tools/call", {"name": "update_record", "arguments": {"model": "flights.flight"}})

    wait_for(lambda: "NO_SCOPE" in listed(page), "the line of the last call")
    reasons = listed(page)
    page.locator("#result_list tr", has_text="NO_SCOPE").locator("th a, td a").first.click()
    expect(page.get_by_text("The token lacks the scope.")).to_be_visible()
    page.goto(ADMIN)
    page.get_by_label("Reason (the agents read it)").fill(WHY)
    page.get_by_role("button", name="Stop all agents").click()
    expect(page.get_by_role("button", name="Let agents go on")).to_be_visible()
    stopped = found(served, token)
    page.get_by_role("button", name="Let agents go on").click()
    expect(page.get_by_role("button", name="Stop all agents")).to_be_visible()
    again = found(served, token)
    page.goto(f"{ADMIN}accesstoken/?q=analyst")
    page.locator("#result_list tbody th a").first.click()
    page.get_by_role("link", name="Revoke").click()
    page.get_by_role("button", name="Revoke").click()
    page.wait_for_load_state()
    over = served.ask(token, "tools/list")
    context.close()

    assert "tailnum" in before and "tailnum" not in after
    # It is told as a field is that code leaves out.
    assert '"rows"' not in refused and "no field" in refused
    assert "INVALID_ARGUMENTS" in reasons
    assert WHY in stopped and again == after
    assert over.status_code == 401 and "This token was revoked on" in over.text


def given(page: Page) -> str:
    """A token for ops, by the template of an analyst."""
    page.goto(f"{ADMIN}accesstoken/add/")
    page.get_by_role("link", name="Read-only analyst").click()
    page.wait_for_url("**/add/?template=analyst")
    choose_user(page, "ops")
    page.get_by_label("Name:").fill("analyst of ops")
    page.get_by_role("button", name="Save", exact=True).click()
    return made_token(page)


def switch_off(page: Page, field: str) -> None:
    page.goto(f"{ADMIN}restriction/")
    page.get_by_role("link", name="flights.flight", exact=True).click()
    page.get_by_label(field, exact=True).uncheck()
    page.get_by_role("button", name="Save the switches").click()
    expect(page.locator("li", has=page.get_by_label(field, exact=True))).to_contain_text("off")


def found(served: Served, token: str, *fields: str) -> str:
    """What the agent reads of a flight."""
    arguments = {"model": "flights.flight", "limit": 1, **({"fields": fields} if fields else {})}
    answer = served.ask(token, "tools/call", {"name": "find_records", "arguments": arguments}).json()
    return str(answer["result"]["content"][0]["text"] if "result" in answer else answer["error"]["message"])


def listed(page: Page) -> str:
    """The newest calls, as the activity lists them."""
    page.goto(f"{ADMIN}call/")
    return page.locator("#result_list").inner_text()
