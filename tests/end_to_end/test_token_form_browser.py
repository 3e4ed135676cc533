"""Making a token in Chromium: by keyboard and without a script, on a desk and a phone, also below unfold."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.browsing import choose_user, keep, log_in
from tests.end_to_end.servers import Served, demo
from tests.end_to_end.test_console_browser import guard

pytestmark = pytest.mark.more("pages in the browser")

ADMINS = {"stock": "", "unfold": 'INSTALLED_APPS = ["unfold", *INSTALLED_APPS]'}
LOOKS = [("light", 1280), ("dark", 390)]
ADD = "/admin/mcp_django/accesstoken/add/"
#: What is long in a list: names, scopes, hosts.
_ROWS = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from mcp_django.models import AccessToken, Grant, TokenTemplate
from mcp_django.oauth.models import Client
admin, later = User.objects.get(username="admin"), timezone.now() + timedelta(days=30)
scopes = ["read", "model:flights.disruption:write", "tool:flights_flight_mark_cancelled"]
AccessToken.objects.create_token(user=admin, name="x" * 100, scopes=scopes)
TokenTemplate.objects.create(name="y" * 100, scopes=scopes, limits={"calls": ["60/min", "1000/day"]}, days=7)
for key, name in (("https://" + "long." * 20 + "example/client.json", "z" * 100), ("0" * 64, "Claude Code")):
    Client.objects.create(key=key, name=name, registered_by="document", redirect_uris=[key])
    Grant.objects.create(user=admin, client=key, client_name=name, resource=key, scopes=scopes, expires_at=later)
"""
LISTS = {
    "tokens": "/admin/mcp_django/accesstoken/", "grants": "/admin/mcp_django/grant/",
    "clients": "/admin/mcp_django_oauth/client/", "templates": "/admin/mcp_django/tokentemplate/",
}  # fmt: skip
#: Pages of one row, by where they are.
ROWS = {
    "grant": "/admin/mcp_django/grant/1/change/", "revoke": "/admin/mcp_django/grant/1/revoke/",
    "client": "/admin/mcp_django_oauth/client/1/change/", "block": "/admin/mcp_django_oauth/client/1/block/",
    "template": "/admin/mcp_django/tokentemplate/1/change/", "token": "/admin/mcp_django/accesstoken/2/change/",
    "form": f"{ADD}?template=one-tool",
}  # fmt: skip


@pytest.fixture(scope="module", params=ADMINS)
def served(request: Any, demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copytree(demo_data, folder, dirs_exist_ok=True)
    project = demo(folder, ADMINS[request.param])
    project.run(_ROWS)
    with project.served() as running:
        yield running


@contextmanager
def opened(browser: Browser, served: Served, theme: str, width: int, **more: Any) -> Iterator[tuple[Page, list[str]]]:
    """A page of somebody who is logged in, and what Chromium has complained of."""
    size: Any = {"width": width, "height": 900}
    context = browser.new_context(base_url=served.origin, color_scheme=theme, viewport=size, **more)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto("/admin/login/?next=/admin/mcp_django/")
    log_in(page)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page, complaints
    context.unroute_all(behavior="ignoreErrors")
    context.close()


def is_unfold(served: Served) -> bool:
    return "unfold" in (served.project.variables.get("DJANGO_SETTINGS_MODULE") or "")


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_a_token_is_made_by_keyboard(browser: Browser, served: Served, theme: str, width: int) -> None:
    with opened(browser, served, theme, width) as (page, complaints):
        if not is_unfold(served):
            # unfold's own scripts evaluate texts, which a strict policy forbids.
            page.context.route("**/*", guard)
            page.on("console", lambda one: complaints.append(one.text) if "Content Security" in one.text else None)
        page.goto(ADD)
        page.get_by_role("link", name="One tool").press("Enter")
        page.wait_for_url("**/add/?template=one-tool")

        choose_user(page, "ops")
        page.locator("#id_name").fill("by keyboard")
        tools, find = page.locator("#id_scopes_tools li"), page.get_by_label("Find a tool")
        find.press_sequentially("RECORDS find")
        find.press("Enter")
        expect(tools.filter(visible=True)).to_have_count(1)
        find.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        expect(page.get_by_label("find_records")).to_be_checked()
        page.get_by_text("Single models").press("Enter")
        page.get_by_label("Find a model").fill("airport")
        page.get_by_label("Read flights.airport").press("Space")
        page.get_by_role("button", name="Say what it may do").press("Enter")
        words = page.locator("#id_scopes_words")
        expect(words).to_contain_text("As ops, an agent may now:")
        expect(words).to_contain_text("Read 6 models")
        page.get_by_label("Write flights.airport").press("Space")
        page.get_by_label("Calls", exact=True).fill("many")
        keep(page, f"token-form-{theme}-{width}")
        page.get_by_role("button", name="Save", exact=True).press("Enter")
        expect(page.get_by_text("Calls: write a whole number")).to_be_visible()
        page.get_by_label("Calls", exact=True).fill("60")
        page.get_by_role("button", name="Save", exact=True).press("Enter")
        page.locator(".mcp-secret").wait_for()

    assert complaints == []
    made = served.project.run(
        "from mcp_django.models import AccessToken as A; a = A.objects.latest('pk'); print(a.user, a.scopes, a.limits)"
    )
    assert made.strip() == (
        "ops ['model:flights.airport:read', 'model:flights.airport:write', 'tool:find_records'] {'calls': '60/min'}"
    )


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_the_form_works_without_a_script(browser: Browser, served: Served, theme: str, width: int) -> None:
    if is_unfold(served):
        pytest.skip("unfold shows nothing without its scripts")
    with opened(browser, served, theme, width, java_script_enabled=False) as (page, _):
        page.goto(ADD)
        page.get_by_role("link", name="Read-only analyst").click()
        page.get_by_text("Single tools").click()
        expect(page.get_by_label("Find a tool")).to_be_hidden()
        page.get_by_label("find_records").check()
        with page.context.expect_page() as asked:
            page.get_by_role("button", name="Say what it may do").click()
        expect(asked.value.get_by_text("Choose a user first")).to_be_visible()
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("This field is required.")).to_have_count(2)
        expect(page.get_by_label("find_records")).to_be_checked()


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_lists_and_pages_fit_and_are_for_everybody(browser: Browser, served: Served, theme: str, width: int) -> None:
    wide: list[str] = []
    found: list[tuple[str, str, str]] = []
    with opened(browser, served, theme, width) as (page, complaints):
        for name, url in {**LISTS, **ROWS}.items():
            page.goto(url)
            page.wait_for_load_state()
            keep(page, f"{name}-{'unfold' if is_unfold(served) else 'stock'}-{theme}-{width}")
            if page.evaluate(_IS_WIDE):
                wide.append(name)
            if page.locator(".mcp").count():
                results = Axe().run(page, context=".mcp").response
                assert results["passes"] or results["inapplicable"]
                found += [
                    (name, one["id"], node["html"][:200]) for one in results["violations"] for node in one["nodes"]
                ]

    assert (wide, found, complaints) == ([], [], [])


_IS_WIDE = """() => [document.documentElement, ...document.querySelectorAll('#changelist .results, .mcp, .mcp-scroll')]
    .some((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1)"""
