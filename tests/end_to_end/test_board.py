"""The boards of the demo in Chromium: they move without a reload, and each shows what its user may see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.end_to_end.browsing import keep
from tests.end_to_end.servers import Served

pytestmark = pytest.mark.more("a page in the browser")

UPDATED = "notifications/resources/updated"


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """The front page, as admin. Whatever Chromium complains of fails the test."""
    context = browser.new_context(base_url=served.origin)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.text} {message.location['url']}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto("/")
    page.get_by_role("button", name="Log in as admin").click()
    # A link that is clicked before the login has answered leads nowhere.
    page.locator("#board-admin tbody tr").first.wait_for()
    yield page
    context.close()
    assert [one for one in complaints if "/favicon.ico" not in one] == []


def rows_from(board: Locator, airport: str) -> Locator:
    return board.locator("tbody tr").filter(has_text=airport).filter(has_not_text="cancelled")


def cancel(board: Locator, airport: str) -> None:
    """Cancel the first flight from there, and wait until the board shows it."""
    open_rows = rows_from(board, airport)
    count = open_rows.count()
    open_rows.first.get_by_role("button").click()
    expect(open_rows).to_have_count(count - 1)


def told(board: Locator) -> Locator:
    return board.locator("li").filter(has_text=UPDATED)


def test_a_cancelled_flight_moves_the_board_without_a_reload(page: Page) -> None:
    board = page.locator("#board-admin")
    expect(board.locator("tbody tr")).to_have_count(12)
    page.evaluate("window.isTheSamePage = true")

    cancel(board, "LGA")

    assert page.evaluate("window.isTheSamePage")
    assert told(board).count() == 1


def test_a_flight_from_newark_reaches_only_the_board_of_admin(page: Page) -> None:
    page.get_by_role("link", name="Two boards side by side").click()
    of_admin, of_ops = page.locator("#board-admin"), page.locator("#board-ops")
    for board in (of_admin, of_ops):
        expect(board.locator("tbody tr")).to_have_count(12)
    assert of_ops.locator("tbody tr").filter(has_text="EWR").count() == 0

    cancel(of_admin, "EWR")
    expect(told(of_admin)).to_have_count(1)
    before = rows_from(of_ops, "JFK").count()
    cancel(of_admin, "JFK")
    expect(told(of_ops)).to_have_count(1)

    expect(rows_from(of_ops, "JFK")).to_have_count(before - 1)
    assert told(of_admin).count() == 2
    themes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        keep(page, f"boards-{theme}-1280")
