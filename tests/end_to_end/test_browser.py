"""A person with a browser in the demo's admin, and the clients that see what the person does.

Playwright keeps an event loop running in the thread of the test, where Django refuses the ORM: all goes over HTTP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.end_to_end.browsing import log_in
from tests.end_to_end.servers import Served, wait_for
from tests.support import schemas
from tests.support.peers import MODERN, meta

further = pytest.mark.more("a further story in the browser")

CANCEL = "flights_flight_mark_cancelled"


@pytest.fixture
def admin_page(browser: Browser, served: Served) -> Iterator[Page]:
    """The index of the admin, with ``admin`` logged in."""
    context = browser.new_context(base_url=served.origin)
    page = context.new_page()
    page.goto("/admin/")
    log_in(page)
    page.wait_for_selector("#user-tools")
    yield page
    context.close()


@pytest.fixture
def told_of_tools(served: Served, token: str) -> Iterator[Iterator[str]]:
    """The methods of what a listening client is told of the list of tools."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta()}
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "subscriptions/listen",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    with httpx.stream("POST", served.url, json=body, headers=headers, timeout=60) as response:
        messages = (json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line[:5] == "data:")
        assert next(messages)["method"] == "notifications/subscriptions/acknowledged"

        def methods() -> Iterator[str]:
            for message in messages:
                schemas.check(message, MODERN)
                yield message["method"]

        yield methods()


def switch(page: Page, tool: str, *, on: bool) -> None:
    """Set the switch of a tool in the list, and save the list."""
    page.goto("/admin/mcp_django/tool/")
    page.get_by_label(f"on {tool}", exact=True).set_checked(on)
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".messagelist li")


def make_token(page: Page, name: str, *, user: str = "admin", actions: bool = False) -> str:
    """Fill in the form for a new token, and return the token that the next page shows."""
    page.goto("/admin/mcp_django/accesstoken/add/")
    page.locator(".field-user .select2-selection").first.press("Enter")
    page.locator(".select2-search__field").press_sequentially(user)
    page.locator(".select2-results__option--highlighted", has_text=user).wait_for()
    page.keyboard.press("Enter")
    page.get_by_label("Name:").fill(name)
    if actions:
        page.get_by_label("Run tools and admin actions").check()
    page.get_by_role("button", name="Save", exact=True).click()
    return page.locator("#mcp-token").inner_text()


def test_the_list_of_tools_says_what_each_does_and_which_are_on(admin_page: Page) -> None:
    admin_page.get_by_role("link", name="Tools", exact=True).first.click()
    admin_page.wait_for_selector("#result_list")

    rows = {
        row.locator("strong").inner_text(): (
            row.locator("input[name$=enabled]").is_checked(),
            row.locator(".mcp-badge").nth(1).inner_text(),
        )
        for row in admin_page.locator("#result_list li").all()
    }

    assert rows == {
        "aggregate_records": (True, "reads"),
        "create_record": (True, "changes data"),
        "create_records": (True, "changes data"),
        "delay_statistics": (True, "reads"),
        "delete_record": (True, "may destroy data"),
        "describe_form": (True, "reads"),
        "describe_models": (True, "reads"),
        "find_records": (True, "reads"),
        "flights_flight_export_as_csv": (True, "reads"),
        "flights_flight_mark_cancelled": (True, "may destroy data"),
        "flights_flight_mark_on_time": (False, "may destroy data"),
        "get_change": (True, "reads"),
        "get_record": (True, "reads"),
        "preview_change": (True, "reads"),
        "request_rights": (True, "changes data"),
        "undo_change": (True, "may destroy data"),
        "update_record": (True, "may destroy data"),
        "update_records": (True, "may destroy data"),
    }


def test_a_tool_that_is_switched_off_is_gone_for_clients_and_they_are_told(
    admin_page: Page, served: Served, token: str, told_of_tools: Iterator[str]
) -> None:
    before = served.tools(token)

    switch(admin_page, CANCEL, on=False)
    told = next(told_of_tools)
    after = served.tools(token)
    call = served.ask(token, "tools/call", {"name": CANCEL, "arguments": {"ids": [1]}}).json()
    switch(admin_page, CANCEL, on=True)
    told_again = next(told_of_tools)

    assert told == told_again == "notifications/tools/list_changed"
    assert set(before) - set(after) == {CANCEL}
    assert call["error"]["data"]["reason"] == "TOOL_NOT_FOUND"


@further
def test_a_description_that_an_administrator_writes_is_what_agents_read(
    admin_page: Page, served: Served, token: str
) -> None:
    admin_page.goto("/admin/mcp_django/tool/")
    admin_page.get_by_role("link", name="get_record", exact=True).click()

    admin_page.get_by_label("Description:", exact=True).fill("Reads one record. Ask for one at a time.")
    admin_page.get_by_role("button", name="Save", exact=True).click()
    admin_page.wait_for_selector(".messagelist li")

    tools = {tool["name"]: tool for tool in served.ask(token, "tools/list").json()["result"]["tools"]}
    assert tools["get_record"]["description"] == "Reads one record. Ask for one at a time."


def test_a_token_is_shown_once_works_and_is_refused_once_it_is_revoked(admin_page: Page, served: Served) -> None:
    made = make_token(admin_page, "A laptop")
    admin_page.get_by_role("link", name="I have copied it").click()
    admin_page.wait_for_selector("#result_list")
    listed = admin_page.content()
    admin_page.locator("#result_list th a").filter(has_text="A laptop").click()
    admin_page.wait_for_selector("#id_name")
    opened = admin_page.content()
    admin_page.go_back()

    works = served.ask(made, "tools/list").status_code
    admin_page.get_by_role("row").filter(has_text="A laptop").locator("input.action-select").check()
    admin_page.get_by_label("Action:").select_option("revoke")
    admin_page.locator("button[name=index]").click()
    admin_page.wait_for_selector(".messagelist li")
    refused = served.ask(made, "tools/list")

    assert re.fullmatch(r"mcpdj_[0-9A-Za-z]{49}", made)
    assert made not in listed + opened
    assert works == 200
    assert refused.status_code == 401
    assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]


@further
def test_a_token_without_the_scope_actions_sees_no_tool_that_may_change_data(admin_page: Page, served: Served) -> None:
    reading = make_token(admin_page, "Reads")
    acting = make_token(admin_page, "Acts", actions=True)
    switch(admin_page, "flights_flight_mark_on_time", on=True)

    for_reading, for_acting = served.tools(reading), served.tools(acting)
    switch(admin_page, "flights_flight_mark_on_time", on=False)

    assert set(for_acting) - set(for_reading) == {CANCEL, "flights_flight_mark_on_time"}


@further
def test_the_page_of_a_new_token_names_the_server_so_that_claude_code_takes_it(
    admin_page: Page, served: Served
) -> None:
    made = make_token(admin_page, "Named")

    command = admin_page.locator("#mcp-claude-code").inner_text()

    assert command == (
        f'claude mcp add --transport http demo-project {served.url} --header "Authorization: Bearer {made}"'
    )


@further
def test_the_page_of_a_new_token_is_not_kept_by_the_browser(admin_page: Page) -> None:
    with admin_page.expect_response(lambda response: response.request.method == "POST") as answered:
        make_token(admin_page, "Not cached")

    assert "no-store" in answered.value.headers["cache-control"]


@further
def test_what_an_agent_did_is_found_in_the_activity_of_its_token(admin_page: Page, served: Served) -> None:
    token = make_token(admin_page, "Watched")
    for name in ("describe_models", "no_such_tool"):
        served.ask(token, "tools/call", {"name": name, "arguments": {}})
    of_token = admin_page.get_by_role("row").filter(has_text="Watched")

    def is_written() -> bool:
        admin_page.goto("/admin/mcp_django/call/")
        return of_token.count() == 3  # That it was made is the first.

    wait_for(is_written, "the lines of the token")
    admin_page.get_by_role("textbox", name="tool or prompt").fill("no_such_tool")
    admin_page.get_by_role("textbox", name="tool or prompt").press("Enter")
    admin_page.get_by_role("link", name="Clear all filters").wait_for()
    found = [row.locator(".field-subject, .field-result").all_inner_texts() for row in of_token.all()]
    of_token.get_by_role("link").first.click()
    admin_page.get_by_role("link", name="Watched").click()

    assert found == [["no_such_tool", "refused TOOL_NOT_FOUND"]]
    assert admin_page.get_by_label("Name:").input_value() == "Watched"
