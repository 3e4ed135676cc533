"""Pictures of pages. SCREENSHOTS names a folder that keeps them, as ``make screenshots`` does."""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page


def keep(page: Page, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
