"""Each page of the console in Chromium: light and dark, on a desk and on a phone, under a strict policy, accessible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Route

from tests.end_to_end.browsing import PATIENCE_MS, keep, log_in
from tests.end_to_end.servers import Served

pytestmark = pytest.mark.more("pages in the browser")

#: Each page by its name: where it is, and the link on that page that leads to it, if any.
PAGES: dict[str, tuple[str, str]] = {
    "endpoint": ("/mcp", ""),
    "overview": ("/admin/mcp_django/", ""),
    "chart": ("/admin/mcp_django/?period=month&tool=find_records", ""),
    "tools": ("/admin/mcp_django/tool/", ""),
    "tool": ("/admin/mcp_django/tool/", "find_records"),
    "answer": ("/admin/mcp_django/tool/", "Try it find_records"),
    "saving": ("/admin/mcp_django/tool/", "Try it find_records"),
    "models": ("/admin/mcp_django/restriction/", ""),
    "model": ("/admin/mcp_django/restriction/", "flights.flight"),
    "prompts": ("/admin/mcp_django/prompt/", ""),
    "preview": ("/admin/mcp_django/prompt/", ""),
    "tokens": ("/admin/mcp_django/accesstoken/", ""),
    "new token": ("/admin/mcp_django/accesstoken/add/", ""),
    "token": ("/admin/mcp_django/accesstoken/1/change/", ""),
    "roll": ("/admin/mcp_django/accesstoken/1/roll/", ""),
    "revoke": ("/admin/mcp_django/accesstoken/1/revoke/", ""),
    "pause": ("/admin/mcp_django/restriction/pause/", ""),
    "pause a token": ("/admin/mcp_django/accesstoken/1/pause/", ""),
    "sees": ("/admin/mcp_django/accesstoken/sees/?user=ops&scopes=read&scopes=actions&why=auth.user", ""),
    "activity": ("/admin/mcp_django/call/", ""),
    "live": ("/admin/mcp_django/call/live/", ""),
    "totals": ("/admin/mcp_django/call/totals/?period=week", ""),
    "credential": ("/admin/mcp_django/call/?kind=call", ""),
    "connections": ("/admin/mcp_django/call/connections/", ""),
    "changes": ("/admin/mcp_django/change/", ""),
    "own": ("/mcp/connected", ""),
    "own token": ("/mcp/connected", ""),
    # The last one, since every page says so.
    "paused": ("/admin/mcp_django/", ""),
}
#: The lists whose tables fit, too.
LISTS = ("tools", "prompts", "activity", "changes")
IS_WIDE = "one => one.scrollWidth > one.clientWidth + 1"
#: A file for each version of Django.
VIOLATIONS = Path(__file__).parent / "violations"
_IS_OURS = "part => document.querySelector(part).closest('.mcp') !== null"
LOOKS = [("light", 1280), ("dark", 390), ("dark", 1280), ("light", 390)]
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"


@pytest.fixture(scope="module")
def cookies(browser: Browser, served: Served) -> Any:
    """Those of admin, who is logged in."""
    context = browser.new_context(base_url=served.origin)
    page = context.new_page()
    page.goto("/admin/")
    log_in(page)
    page.wait_for_selector("#user-tools")
    found = context.cookies()
    context.close()
    return found


@contextmanager
def opened(browser: Browser, served: Served, cookies: Any, theme: Any, width: int) -> Iterator[BrowserContext]:
    size: Any = {"width": width, "height": 900}
    context = browser.new_context(base_url=served.origin, color_scheme=theme, viewport=size)
    context.add_cookies(cookies)
    yield context
    # What is still being fetched for a page that is left fails no test.
    context.unroute_all(behavior="ignoreErrors")
    context.close()


def guard(route: Route) -> None:
    """Answer as the server does, under a strict policy where it has none."""
    response = route.fetch(timeout=PATIENCE_MS)
    route.fulfill(response=response, headers={"content-security-policy": POLICY, **response.headers})


def show(page: Page, name: str) -> None:
    url, link = PAGES[name]
    page.goto(url)
    if link:
        page.get_by_role("link", name=link, exact=True).click()
        page.wait_for_load_state()
    if name in ("answer", "saving"):
        ask(page)
    if name == "preview":
        page.get_by_role("link", name="punctuality_report", exact=True).click()
        # Under unfold the page of a prompt has no such link.
        page.goto(page.url.replace("/change/", "/preview/"))
        page.get_by_label("origin:").wait_for()
    if name == "credential":
        page.locator("#result_list tbody a").first.click()
        page.get_by_role("link", name="What it did before and after this").click()
        page.wait_for_url("**/credential/")
    if name == "own token":
        page.get_by_label("Name:").fill("laptop")
        page.get_by_role("button", name="Make the token").click()
        page.get_by_role("heading", name="The new token").wait_for()
    if name == "paused":
        page.get_by_label("Reason (the agents read it)").fill("We are looking at the bookings.")
        page.get_by_role("button", name="Stop all agents").click()
        page.get_by_role("button", name="Let agents go on").wait_for()
    if name == "saving":
        page.get_by_role("button", name="Save as a tool").click()
        page.get_by_role("heading", name="Values").wait_for()
    page.wait_for_load_state()


def let_go_on(page: Page) -> None:
    page.get_by_role("button", name="Let agents go on").click()
    page.get_by_role("button", name="Stop all agents").wait_for()


def ask(page: Page) -> None:
    """Call find_records on its page."""
    page.get_by_label("model:").select_option("flights.airport")
    page.get_by_label("filter:").fill('{"name__icontains": "island"}')
    page.get_by_label("limit:").fill("2")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("heading", name="Answer").wait_for()


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_no_page_breaks_a_strict_policy_or_is_wider_than_the_screen(
    browser: Browser, served: Served, cookies: Any, theme: str, width: int
) -> None:
    with opened(browser, served, cookies, theme, width) as context:
        context.route("**/*", guard)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.extend(_complaint(message)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        wide: list[str] = []
        for name in PAGES:
            show(page, name)
            parts = [*page.locator(".mcp").all()[:1], *(page.locator(".results").all() if name in LISTS else ())]
            wide += [name for part in parts if part.evaluate(IS_WIDE)]
            keep(page, f"{name.replace(' ', '-')}-{theme}-{width}")
        let_go_on(page)

    assert complaints == []
    assert wide == []


def _complaint(message: Any) -> Iterator[str]:
    if message.type == "error" and not message.location["url"].endswith("/favicon.ico"):
        yield f"{message.text} {message.location['url']}"


@pytest.mark.parametrize(("theme", "width"), LOOKS[:2])
def test_what_stands_on_our_pages_is_for_everybody(
    browser: Browser, served: Served, cookies: Any, theme: str, width: int
) -> None:
    """axe-core finds nothing within our own part of a page, and around it only what Django's markup is known for."""
    ours: list[tuple[str, str, str]] = []
    around: set[tuple[str, str]] = set()
    with opened(browser, served, cookies, theme, width) as context:
        page = context.new_page()
        for name in PAGES:
            show(page, name)
            results = Axe().run(page).response
            assert results["passes"]
            for rule in results["violations"]:
                for node in rule["nodes"]:
                    if page.evaluate(_IS_OURS, node["target"][0]):
                        ours.append((name, rule["id"], node["html"][:200]))
                    else:
                        around.add((name, rule["id"]))
        let_go_on(page)

    assert ours == []
    assert around <= {(name, rule) for name, rules in violations_of_django().items() for rule in rules}


def violations_of_django() -> dict[str, list[str]]:
    """By page, what axe-core finds in the markup of this version of Django."""
    major, minor, *_ = django.VERSION
    found: dict[str, list[str]] = json.loads((VIOLATIONS / f"django-{major}.{minor}.json").read_text())
    return found


def test_values_are_suggested_while_somebody_types(browser: Browser, served: Served, cookies: Any) -> None:
    with opened(browser, served, cookies, "light", 1280) as context:
        context.route("**/*", guard)
        page = context.new_page()
        page.goto("/admin/mcp_django/tool/")
        page.get_by_role("link", name="Try it get_record", exact=True).click()
        page.get_by_label("model:").select_option("flights.airport")

        page.get_by_label("id:").press_sequentially("new")

        page.wait_for_selector("datalist option[value=EWR]", state="attached")
        page.get_by_label("id:").fill("EWR")
        page.get_by_role("button", name="Run").click()
        page.get_by_role("heading", name="Answer done").wait_for()


@pytest.mark.parametrize(("width", "scripts"), [(1280, True), (390, True), (1280, False)])
def test_the_answer_is_beside_the_form_or_below_it_and_has_the_focus(
    browser: Browser, served: Served, cookies: Any, width: int, scripts: bool
) -> None:
    context = browser.new_context(
        base_url=served.origin, viewport={"width": width, "height": 900}, java_script_enabled=scripts
    )
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto("/admin/mcp_django/tool/")
    page.get_by_role("link", name="Try it find_records", exact=True).click()
    page.get_by_role("link", name="Fill in an example").click()
    page.get_by_role("button", name="Run").click()
    heading = page.get_by_role("heading", name="Answer done")
    heading.wait_for()
    form, answer = page.locator("form[data-suggest]").bounding_box(), heading.bounding_box()
    focused = page.evaluate("document.activeElement.id")
    page.get_by_label("limit:").evaluate("one => { one.type = 'text'; one.value = 'many' }")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Correct what is marked below.").wait_for()
    wrong = page.evaluate("document.activeElement.textContent")
    context.close()

    assert form is not None and answer is not None and focused == "answer"
    assert (answer["x"] > form["x"] + form["width"]) is (width == 1280)
    assert (answer["y"] > form["y"] + form["height"]) is (width == 390)
    assert wrong == "Correct what is marked below."


def test_the_chart_is_chosen_by_keyboard(browser: Browser, served: Served, cookies: Any) -> None:
    with opened(browser, served, cookies, "light", 390) as context:
        page = context.new_page()
        page.goto("/admin/mcp_django/")
        page.get_by_label("Period").focus()
        page.keyboard.press("ArrowDown")
        page.get_by_role("button", name="Show").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/?period=month&tool=&agent=#chart")
        chart = page.get_by_role("img", name="Calls on each of the last 30 days")
        chart.wait_for()
        labels = page.locator(".mcp-chart-ends span")
        sizes = labels.evaluate_all("found => found.map(one => parseFloat(getComputedStyle(one).fontSize))")
        box = chart.bounding_box()

    assert len(sizes) == 3 and min(sizes) >= 12
    assert box is not None and box["width"] > 250 and box["height"] > 100


def test_a_call_becomes_a_tool(browser: Browser, served: Served, cookies: Any) -> None:
    with opened(browser, served, cookies, "light", 1280) as context:
        page = context.new_page()
        show(page, "saving")
        page.get_by_label("Name:").fill("airports_called")
        page.get_by_label("Description:").first.fill("Airports by a part of their name.")
        page.get_by_label("Argument:").first.fill("part")
        page.get_by_role("button", name="Save as a tool").click()
        page.get_by_role("link", name="Try it").click()
        page.get_by_label("part:").fill("Intl")
        page.get_by_role("button", name="Run").click()
        page.get_by_role("heading", name="Answer done").wait_for()
        rows = page.locator(".mcp table tbody tr").all_inner_texts()

    assert rows and all("Intl" in row for row in rows)


def test_a_tool_is_tried_and_its_command_copied(browser: Browser, served: Served, cookies: Any) -> None:
    with opened(browser, served, cookies, "light", 1280) as context:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        show(page, "tools")
        page.get_by_role("link", name="Try it find_records").click()
        ask(page)
        rows = page.locator(".mcp table tbody tr").count()
        page.get_by_text("As a command").click()
        page.get_by_role("button", name="Copy").click()
        page.get_by_role("button", name="Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")

    assert rows == 2
    assert copied.startswith("curl -s ") and "$MCP_TOKEN" in copied
