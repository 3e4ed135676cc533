"""A person with a browser connects a client to the demo: Chromium obeys the policy of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.end_to_end.browsing import keep, log_in
from tests.end_to_end.callback import Callback, url_of
from tests.end_to_end.servers import Served
from tests.oauth.flow import CLAUDE_CODE, Program

pytestmark = pytest.mark.more("pages in the browser")


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """A page of a person who is not logged in. Whatever Chromium complains of fails the test."""
    context = browser.new_context(base_url=served.origin)
    page = context.new_page()
    complaints: list[str] = []

    def hear(message: Any) -> None:
        if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):
            complaints.append(f"{message.text} {message.location['url']}")

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert complaints == []


def test_a_person_logs_in_sees_who_asks_and_connects_a_program(page: Page, served: Served, callback: Callback) -> None:
    program = Program(CLAUDE_CODE, callback.url)

    page.goto(url_of(program, served))
    log_in(page, "ops")

    page.get_by_role("heading", name="Connect an app").wait_for()
    assert page.locator(".client strong").inner_text() == "claude.ai"
    assert "calls itself “Claude Code”" in page.locator(".client").inner_text()
    assert "Continue only if you have started this login yourself" in page.locator(".warning").inner_text()
    assert page.get_by_label("Read").is_checked()
    assert not page.get_by_label("Run").is_checked()
    assert page.locator("main").evaluate("one => getComputedStyle(one).borderTopLeftRadius") == "12px"
    page.get_by_role("button", name="Connect", exact=True).click()
    page.wait_for_url(f"{callback.url}?**")

    answer = callback.answers.get(timeout=60)
    assert (answer["state"], answer["iss"]) == ("a state", served.origin)
    tokens = httpx.post(f"{served.origin}/mcp/token", data={
        "grant_type": "authorization_code", "code": answer["code"], "client_id": CLAUDE_CODE,
        "redirect_uri": callback.url, "code_verifier": program.verifier,
    }).json()  # fmt: skip
    assert tokens["scope"] == "read"
    assert "find_records" in served.tools(tokens["access_token"])

    page.goto("/mcp/connected")
    assert page.get_by_role("heading", name="claude.ai").is_visible()
    page.get_by_role("button", name="Disconnect").click()
    page.get_by_text("No app is connected.").wait_for()
    assert served.ask(tokens["access_token"], "tools/list").status_code == 401


def test_a_person_cancels(page: Page, served: Served, callback: Callback) -> None:
    page.goto(url_of(Program(CLAUDE_CODE, callback.url), served))
    log_in(page, "ops")

    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url(f"{callback.url}?**")

    assert callback.answers.get(timeout=60)["error"] == "access_denied"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(browser: Browser, served: Served, callback: Callback, scheme: Any) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = context.new_page()
    page.goto(url_of(Program(CLAUDE_CODE, callback.url), served))
    log_in(page, "ops")
    page.get_by_role("button", name="Connect", exact=True).wait_for()
    keep(page, f"consent-{scheme}-360")

    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    colour = page.locator("main").evaluate("one => getComputedStyle(one).backgroundColor")
    context.close()

    assert not wide
    assert (colour == "rgb(255, 255, 255)") is (scheme == "light")


def test_a_page_of_another_origin_cannot_frame_the_consent(
    browser: Browser, served: Served, callback: Callback
) -> None:
    context = browser.new_context(base_url=served.origin)
    page = context.new_page()
    url = url_of(Program(CLAUDE_CODE, callback.url), served)
    page.goto(url)
    log_in(page, "ops")
    page.get_by_role("button", name="Connect", exact=True).wait_for()

    page.goto("data:text/html,<iframe></iframe>")
    page.evaluate("url => new Promise(done => { const frame = document.querySelector('iframe');"
                  " frame.onload = done; frame.src = url; })", url)  # fmt: skip
    framed = page.frames[1]

    assert framed.locator("button").count() == 0
    context.close()
