"""What tests do with pages in Chromium."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page


def log_in(page: Page, name: str = "admin") -> None:
    """Fill in the login page that is open for a user of the demo, and wait until it is left."""
    page.locator("input[name=username]").fill(name)
    password = page.locator("input[name=password]")
    password.fill(name)
    password.press("Enter")
    password.wait_for(state="detached")


def keep(page: Page, name: str) -> None:
    """Keep a picture of the page in the folder SCREENSHOTS, where that is set, as ``make screenshots`` does."""
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
