"""What tests do with pages in Chromium."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page

from tests.end_to_end import pictures

#: How long a page may take on a busy machine.
PATIENCE_MS = 180_000


def log_in(page: Page, name: str = "admin") -> None:
    """Fill in the login page that is open for a user of the demo, and wait until it is left."""
    page.locator("input[name=username]").fill(name)
    password = page.locator("input[name=password]")
    password.fill(name)
    password.press("Enter")
    password.wait_for(state="detached")


def keep(page: Page, name: str) -> None:
    """Keep a picture of the page in the folder SCREENSHOTS, where that is set, as ``make screenshots`` does.

    Fails where the documentation shows the page as it was before.
    """
    pictures.hold(page, name)
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def choose_user(page: Page, name: str) -> None:
    """Choose the user of a token by the search of its form."""
    page.locator(".field-user .select2-selection, [name=user] + .select2 .select2-selection").first.press("Enter")
    page.locator(".select2-search__field").press_sequentially(name)
    page.locator(".select2-results__option--highlighted", has_text=name).wait_for()
    page.keyboard.press("Enter")


def made_token(page: Page) -> str:
    """The token that a page shows once."""
    return page.locator(".mcp-secret").first.inner_text().strip()
