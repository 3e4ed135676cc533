"""Below django-unfold the pages of the console extend its base, fit on the screen, and can be read by everybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.end_to_end.browsing import keep
from tests.end_to_end.servers import Served, demo
from tests.end_to_end.test_console_browser import LOOKS, PAGES, let_go_on, show
from tests.end_to_end.test_deciding_browser import FLIGHT, _proposed
from tests.end_to_end.test_token_form_browser import _ROWS, LISTS, ROWS, opened

pytestmark = pytest.mark.more("pages in the browser")

#: Those within unfold; the others are pages of our own.
_WITHIN = [name for name, (url, _) in PAGES.items() if url.startswith("/admin/")]
#: What is long beside tokens, grants, clients and templates.
_MORE_ROWS = """
from django.contrib.auth.models import User
from django.utils import timezone
from mcp_django.bridge.tools.saved_queries import write
from mcp_django.models import Call, Prompt, Tool
# Who may approve has been there for some time.
User.objects.create_superuser("bob")
User.objects.update(date_joined="2020-01-01T00:00Z")
call = {"model": "flights.flight", "filter": {"notes__icontains": "l" * 300}, "limit": 3}
Tool.objects.create(pk=100, site="mcp", name="s" * 64, enabled=True, description="d" * 300,
                    query=write("find_records", call, []))
for name in ("find_records", "update_record", "update_records"):
    asks = "" if name == "find_records" else "approve"
    Tool.objects.update_or_create(site="mcp", name=name,
                                  defaults={"enabled": True, "asks": asks, "description": "d" * 300})
Prompt.objects.create(pk=100, name="p" * 64, title="t" * 64, description="d" * 300, text="w" * 300)
Call.objects.create(pk=100, at=timezone.now(), kind="call", outcome="failed", reason="R" * 64, detail="d" * 300,
                    user_name="u" * 150, token_name="t" * 100, client_name="c" * 64, name="n" * 64, method="tools/call",
                    model="flights.flight", uri="mcp://" + "q" * 290, arguments='{"filter": "' + "a" * 300 + '"}',
                    values='{"notes": "' + "v" * 300 + '"}', keys="k" * 300, trace_id="0" * 32, session="s" * 16)
"""
_OWN = "/admin/mcp_django"
#: Those that ``show`` does not know: forms and lists of the admin, most with long values.
_MORE = {
    **{f"{name} with long values": url for name, url in {**LISTS, **ROWS}.items()},
    "oauth": f"{_OWN}_oauth/", "new prompt": f"{_OWN}/prompt/add/", "new template": f"{_OWN}/tokentemplate/add/",
    "prompt": f"{_OWN}/prompt/100/change/", "saved tool": f"{_OWN}/tool/100/change/",
    "call": f"{_OWN}/call/100/change/", "history": f"{_OWN}/accesstoken/2/history/",
    "deleting": f"{_OWN}/accesstoken/2/delete/",
}  # fmt: skip
#: A list on a wide screen scrolls by itself, as each list of unfold does: only its cells are measured.
_IS_WIDE = """() => [document.documentElement, ...document.querySelectorAll('.mcp, table#result_list td')]
    .some((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1)"""
#: What stands on a page beside the header and the menu of unfold, but for parts that are not ours: lists to choose from
#: and select2 are Django's, and so are the inputs within a list; the colour of a link to a user is unfold's.
_OURS = {
    "include": [["#content"], [".mcp"]],
    "exclude": [[".selector"], [".select2"], ["table#result_list input"], [".readonly > .text-link"]],
}


@pytest.fixture(scope="module")
def served(demo_folder: Path) -> Iterator[Served]:
    project = demo(demo_folder, 'INSTALLED_APPS = ["unfold", *INSTALLED_APPS]')
    project.run(_ROWS + _MORE_ROWS)
    with project.served() as running:
        yield running


@pytest.fixture(scope="module")
def pages(served: Served) -> Mapping[str, str]:
    """Where pages are, by their names, with those of changes that wait."""
    propose = partial(_proposed, served, served.token("admin", "read", "actions", "write"), model=FLIGHT)
    one = propose("update_record", id="1", reason="r" * 300, values={"notes": "Fog at noon"})
    many = propose("update_records", ids=[str(key) for key in range(2, 12)], values={"departure_delay": 95})
    at = f"{_OWN}/change"
    return {**_MORE, "change": f"{at}/{one}/change/", "change of many": f"{at}/{many}/change/",
            "rejecting all": f"{at}/{one}/reject-all/"}  # fmt: skip


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_every_page_fits_and_is_readable(
    browser: Browser, served: Served, pages: Mapping[str, str], theme: str, width: int
) -> None:
    wide, found = list[str](), list[tuple[str, str, str]]()
    with opened(browser, served, theme, width) as (page, complaints):
        for name in _visited(page, pages):
            keep(page, f"unfold-{name.replace(' ', '-')}-{theme}-{width}")
            if page.evaluate(_IS_WIDE):
                wide.append(name)
            # Colours are those of a theme, and labels those of any look.
            if (theme, width) in LOOKS[:2]:
                found += ((name, *one) for one in _violations(page))
        let_go_on(page)

    assert (wide, found, complaints) == ([], [], [])


def _visited(page: Page, pages: Mapping[str, str]) -> Iterator[str]:
    """The names of pages, each while it is shown."""
    for name, url in pages.items():
        answer = page.goto(url)
        assert answer is not None and answer.ok, name
        page.wait_for_load_state()
        yield name
    for name in _WITHIN:
        show(page, name)
        yield name


def _violations(page: Page) -> Iterator[tuple[str, str]]:
    """What axe-core finds in our part of a page: the rule and the markup."""
    results = Axe().run(page, context=_OURS).response
    assert results["passes"]
    return ((rule["id"], node["html"][:200]) for rule in results["violations"] for node in rule["nodes"])


def test_the_declared_description_of_a_tool_is_used_again(browser: Browser, served: Served) -> None:
    """The buttons of unfold stand outside of the form."""
    with opened(browser, served, "light", 1280) as (page, _):
        show(page, "tool")
        page.get_by_role("button", name="Use the declared description").click()
        page.get_by_text("Agents read the declared description again.").wait_for()
        described = page.locator("#id_description").input_value()

    assert described == ""
