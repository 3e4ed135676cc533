"""Below django-unfold the pages of the console extend its base, and are readable in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from tests.end_to_end.browsing import keep, log_in
from tests.end_to_end.servers import Served, demo
from tests.end_to_end.test_console_browser import PAGES, show

pytestmark = pytest.mark.more("pages in the browser")

#: Those within unfold; the others are pages of our own.
_WITHIN = [name for name, (url, _) in PAGES.items() if url.startswith("/admin/")]


@pytest.fixture(scope="module")
def served(demo_folder: Path) -> Iterator[Served]:
    with demo(demo_folder, 'INSTALLED_APPS = ["unfold", *INSTALLED_APPS]').served() as running:
        yield running


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_every_page_is_readable(browser: Browser, served: Served, theme: Any, width: int) -> None:
    size: Any = {"width": width, "height": 900}
    context = browser.new_context(base_url=served.origin, color_scheme=theme, viewport=size)
    page = context.new_page()
    page.goto("/admin/login/?next=/admin/mcp_django/")
    log_in(page)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    found: list[tuple[str, str, str]] = []
    for name in _WITHIN:
        show(page, name)
        keep(page, f"unfold-{name.replace(' ', '-')}-{theme}-{width}")
        ours = page.locator(".mcp").first
        if not ours.count():
            continue
        if ours.evaluate("one => one.scrollWidth > one.clientWidth + 1"):
            found.append((name, "too wide", ""))
        results = Axe().run(page, context=".mcp").response
        assert results["passes"]
        found += [(name, one["id"], node["html"][:200]) for one in results["violations"] for node in one["nodes"]]
    context.close()

    assert complaints == []
    assert found == []
