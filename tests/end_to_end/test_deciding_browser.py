"""*Changes by agents* in Chromium, as an approver has them: accessible, by keyboard, under a strict policy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.browsing import keep, log_in
from tests.end_to_end.servers import Project, Served
from tests.end_to_end.test_console_browser import (
    _IS_OURS,
    IS_WIDE,
    LOOKS,
    _complaint,
    guard,
    opened,
    violations_of_django,
)

pytestmark = pytest.mark.more("pages in the browser")

#: Everything that may write needs other people, by *Asks* on the page of each tool.
_SETUP = """
from django.contrib.auth.models import User
from mcp_django.models import Tool
for name in ("update_record", "update_records", "delete_record", "flights_flight_mark_cancelled"):
    Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": True, "asks": "approve"})
for name in ("bob", "clerk"):
    User.objects.create_superuser(name, password=name)
User.objects.update(date_joined="2020-01-01T00:00Z")
"""
FLIGHT = "flights.flight"
LIST = "/admin/mcp_django/change/"
#: What has the focus: its text, and whether it looks otherwise without the focus.
_FOCUSED = """() => {
    const one = document.activeElement;
    if (one === document.body) return null;
    const look = () => { const css = getComputedStyle(one); return [css.outlineStyle, css.outlineWidth, css.boxShadow,
        css.color, css.backgroundColor, css.borderColor, css.textDecorationLine].join(); };
    const focused = look();
    one.style.transition = "none";
    one.blur();
    const plain = look();
    one.focus({focusVisible: true});
    return {text: one.value || one.textContent, is_visible: focused !== plain};
}"""


@pytest.fixture(scope="module")
def waiting(demo_project: Project, served: Served) -> Mapping[str, str]:
    """The numbers of changes that wait for bob, by what they are."""
    demo_project.run(_SETUP)
    admin, clerk = (partial(_proposed, served, served.token(name, "read", "actions", "write"))
                    for name in ("admin", "clerk"))  # fmt: skip
    keys = [str(number) for number in range(1, 151)]
    return {
        "record": admin("update_record", model=FLIGHT, id=keys[0], reason="The tower has called.",
                        values={"notes": "Fog at noon", "departure_delay": 95}),
        "alike": admin("update_record", model=FLIGHT, id=keys[1], values={"departure_delay": 95, "notes": "Late"}),
        "cancelled": admin("update_record", model=FLIGHT, id=keys[2], values={"status": "cancelled"}),
        "cancelled too": admin("update_record", model=FLIGHT, id=keys[3], values={"status": "cancelled"}),
        "rows": clerk("update_records", model=FLIGHT, ids=keys, values={"departure_delay": 7}),
        "delete": clerk("delete_record", model=FLIGHT, ids=keys[4:7]),
        "action": clerk("flights_flight_mark_cancelled", ids=keys[7:9]),
    }  # fmt: skip


def _proposed(served: Served, token: str, tool: str, **arguments: Any) -> str:
    """The number of a change that a token proposes."""

    def call(**more: Any) -> str:
        params = {"name": tool, "arguments": {**arguments, **more}}
        return str(served.ask(token, "tools/call", params).json()["result"]["content"][0]["text"])

    confirm = re.search(r'"?confirm"?:\s*"([^"]+)"', call())
    assert confirm is not None
    told = call(confirm=confirm[1])
    change = re.search(r"mcp-change://(\w+)", told)
    assert change is not None, told
    return change[1]


@pytest.fixture(scope="module")
def cookies(browser: Browser, served: Served, waiting: Mapping[str, str]) -> Any:
    """Those of bob, who is logged in."""
    context = browser.new_context(base_url=served.origin)
    page = context.new_page()
    page.goto("/admin/")
    log_in(page, "bob")
    page.wait_for_selector("#user-tools")
    found = context.cookies()
    context.close()
    return found


def pages(waiting: Mapping[str, str]) -> Mapping[str, str]:
    changes = {
        f"change {what}": f"{LIST}{key}/change/" for what, key in waiting.items() if not what.startswith("cancelled")
    }
    return {
        "inbox": LIST, "mine": f"{LIST}?show=mine", **changes, "second page": f"{changes['change rows']}?rows=2",
        "reject all": f"{LIST}{waiting['record']}/reject-all/", "several": "",
    }  # fmt: skip


def open_several(page: Page) -> None:
    page.goto(f"{LIST}?show=mine")
    page.locator("#action-toggle").check()
    page.get_by_label("Action:").select_option("approve_several")
    page.locator("button[name=index]").click()
    page.get_by_role("heading", name="Several changes by agents").wait_for()


def show(page: Page, url: str) -> None:
    page.goto(url) if url else open_several(page)
    page.wait_for_load_state()


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_no_page_breaks_a_strict_policy_or_is_wider_than_the_screen(
    browser: Browser, served: Served, cookies: Any, waiting: Mapping[str, str], theme: str, width: int
) -> None:
    complaints, wide = list[str](), list[str]()
    with opened(browser, served, cookies, theme, width) as context:
        context.route("**/*", guard)
        page = context.new_page()
        page.on("console", lambda message: complaints.extend(_complaint(message)))
        for name, url in pages(waiting).items():
            show(page, url)
            parts = [page.locator("html"), *page.locator(".results").all()]
            if any(part.evaluate(IS_WIDE) for part in parts):
                wide.append(name)
            keep(page, f"deciding-{name.replace(' ', '-')}-{theme}-{width}")

    assert (complaints, wide) == ([], [])


@pytest.mark.parametrize(("theme", "width"), LOOKS[:2])
def test_what_stands_on_these_pages_is_for_everybody(
    browser: Browser, served: Served, cookies: Any, waiting: Mapping[str, str], theme: str, width: int
) -> None:
    """axe-core finds nothing within our own part of a page, and around it only what Django's markup is known for."""
    found: list[tuple[str, str, str]] = []
    known = {rule for rules in violations_of_django().values() for rule in rules}
    with opened(browser, served, cookies, theme, width) as context:
        page = context.new_page()
        for name, url in pages(waiting).items():
            show(page, url)
            results = Axe().run(page).response
            assert results["passes"]
            for rule in results["violations"]:
                found += [
                    (name, rule["id"], node["html"][:200])
                    for node in rule["nodes"]
                    if rule["id"] not in known or page.evaluate(_IS_OURS, node["target"][0])
                ]

    assert found == []


def test_an_approver_on_a_phone_approves_by_keyboard_alone(
    browser: Browser, served: Served, cookies: Any, waiting: Mapping[str, str]
) -> None:
    with opened(browser, served, cookies, "light", 390) as context:
        page = context.new_page()
        page.goto(LIST)
        _tab_to(page, "wait for you")
        page.keyboard.press("Enter")
        page.wait_for_url("**?show=mine")
        _tab_to(page, "Fog at noon")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="What it would change now")).to_be_visible()
        _tab_to(page, "Approve")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The change was made.")).to_be_visible()
        keep(page, "deciding-decided-light-390")


def _tab_to(page: Page, text: str) -> None:
    """Go on with the keyboard to what says so. Fails where that does not look otherwise for having the focus."""
    page.evaluate("document.activeElement.blur()")
    for _ in range(200):
        page.keyboard.press("Tab")
        found = page.evaluate(_FOCUSED)
        if found is not None and text in found["text"]:
            assert found["is_visible"], found
            return
    pytest.fail(f"no keyboard leads to {text}")
