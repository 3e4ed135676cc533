"""*My agent* in Chromium, for staff and others: accessible, by the keyboard, under a strict policy."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.end_to_end.browsing import keep
from tests.end_to_end.servers import Project, Served
from tests.end_to_end.test_console_browser import LOOKS, _complaint, guard, opened
from tests.end_to_end.test_deciding_browser import FLIGHT, _proposed

pytestmark = pytest.mark.more("pages in the browser")

URL = "/mcp/connected"
#: Ops agrees to changes of one flight, and others to those of many. A guest is no staff.
_SETUP = """
from django.contrib.auth.models import User
from mcp_django.models import Tool
for name, asks in (("update_record", "ask"), ("update_records", "approve")):
    Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": True, "asks": asks})
for name in ("bob", "guest"):
    getattr(User.objects, "create_superuser" if name == "bob" else "create_user")(name, password=name)
User.objects.update(date_joined="2020-01-01T00:00Z")
"""


@pytest.fixture(scope="module")
def waiting(demo_project: Project, served: Served) -> Mapping[str, str]:
    """The numbers of changes of ops' agent, by what they are."""
    demo_project.run(_SETUP)
    token = served.token("ops", "read", "actions", "write")
    propose = partial(_proposed, served, token)
    keys = flights_of(served, token)
    served.ask(token, "tools/call", {"name": "no_such_tool", "arguments": {}})
    return {
        "mine": propose("update_record", model=FLIGHT, id=keys[0], reason="The tower has called.",
                        values={"notes": "Fog at noon", "departure_delay": 95}),
        "second": propose("update_record", model=FLIGHT, id=keys[1], values={"notes": "Late"}),
        "rejected": _rejected(propose("update_record", model=FLIGHT, id=keys[1], values={"notes": "No"}), demo_project),
        "others": propose("update_records", model=FLIGHT, ids=keys[2:12], values={"departure_delay": 7}),
    }  # fmt: skip


def flights_of(served: Served, token: str) -> list[str]:
    """The keys of some flights that the user of a token sees."""
    found = served.ask(token, "tools/call", {"name": "find_records", "arguments": {"model": FLIGHT, "limit": 12}})
    return [str(row[0]) for row in json.loads(found.json()["result"]["content"][0]["text"])["rows"]]


def _rejected(key: str, demo_project: Project) -> str:
    demo_project.run(f"from mcp_django.models import Change; Change.objects.filter(pk={key!r}).update("
                     "state='rejected', note='Not in May.', arguments='', summary='')")  # fmt: skip
    return key


def page_of(context: Any, demo_project: Project, served: Served, name: str) -> Page:
    """A page in the browser of somebody who is logged in. The demo has no login page for people who are no staff."""
    key = demo_project.run(_LOGGED_IN.format(name=name)).strip().splitlines()[-1]
    context.clear_cookies()
    context.add_cookies([{"name": "sessionid", "value": key, "url": served.origin}])
    page: Page = context.new_page()
    return page


_LOGGED_IN = """
from django.contrib.auth.models import User
from django.test import Client
browser = Client()
browser.force_login(User.objects.get(username="{name}"))
print(browser.cookies["sessionid"].value)
"""


def pages(waiting: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
    """By their names, whose they are and where."""
    return {
        "endpoint": ("guest", "/mcp"), "of nobody yet": ("guest", URL), "whole": ("ops", URL),
        "change": ("ops", f"{URL}?change={waiting['mine']}"), "of others": ("ops", f"{URL}?change={waiting['others']}"),
        "rejected": ("ops", f"{URL}?change={waiting['rejected']}"),
    }  # fmt: skip


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_each_page_is_for_everybody_and_obeys_a_strict_policy(
    browser: Browser, demo_project: Project, served: Served, waiting: Mapping[str, str], theme: str, width: int
) -> None:
    complaints, wide, found = list[str](), list[str](), list[tuple[str, str, str]]()
    with opened(browser, served, [], theme, width) as context:
        context.route("**/*", guard)
        for name, (user, url) in pages(waiting).items():
            page = page_of(context, demo_project, served, user)
            page.on("console", lambda message: complaints.extend(_complaint(message)))
            page.goto(url)
            if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"):
                wide.append(name)
            keep(page, f"own-{name.replace(' ', '-')}-{theme}-{width}")
            results = Axe().run(page).response
            assert results["passes"]
            found += [
                (name, rule["id"], node["html"][:200]) for rule in results["violations"] for node in rule["nodes"]
            ]

    assert (complaints, wide, found) == ([], [], [])


def test_a_person_agrees_by_the_keyboard_alone(
    browser: Browser, demo_project: Project, served: Served, waiting: Mapping[str, str]
) -> None:
    with opened(browser, served, [], "light", 390) as context:
        page = page_of(context, demo_project, served, "ops")
        page.goto(URL)
        press(page, "Look at it and agree")
        page.get_by_role("heading", name="What it would change now").wait_for()
        title = page.title()
        press(page, "Make this change")
        page.get_by_role("status").wait_for()
        told = page.get_by_role("status").inner_text()
        page.goto(URL)
        calls = page.locator(".mcp-calls").inner_text()

    assert re.match(r"Flight .+ · My agent · Demo project", title)
    assert told == "The change was made."
    assert "no_such_tool" in calls and "There is no such thing, or this agent may not use it." in calls


def press(page: Page, text: str) -> None:
    """Go on with the Tab key until something of this text has the focus, and press Enter."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if text in page.evaluate("document.activeElement.textContent"):
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"{text} cannot be reached")


def test_a_copied_line_is_what_the_page_shows(
    browser: Browser, demo_project: Project, served: Served, waiting: Mapping[str, str]
) -> None:
    with opened(browser, served, [], "light", 1280) as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = page_of(context, demo_project, served, "guest")
        page.goto("/mcp")
        names = page.locator("summary").all_inner_texts()
        page.get_by_text("Windsurf", exact=True).click()
        page.locator("details[open]").get_by_role("button", name="Copy").click()
        page.get_by_role("button", name="Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")

    assert '"serverUrl": "' + served.url + '"' in copied and '"demo-project"' in copied
    assert "Claude Desktop" in names and not {"Claude", "ChatGPT", "n8n"} & set(names)


def test_a_header_of_the_admin_leads_there(
    browser: Browser, demo_project: Project, served: Served, waiting: Mapping[str, str]
) -> None:
    with opened(browser, served, [], "light", 1280) as context:
        page = page_of(context, demo_project, served, "ops")
        page.goto("/admin/flights/flight/")
        keep(page, "own-link-in-the-admin")
        page.get_by_role("link", name="My agent").first.click()
        page.get_by_role("heading", name="My agent").wait_for()
