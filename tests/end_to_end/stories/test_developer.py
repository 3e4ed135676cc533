"""A developer with ten minutes: an app of theirs becomes a server, and what is wrong on the way is said at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.end_to_end.browsing import choose_user, made_token
from tests.end_to_end.projects import PASSWORD, serve_endpoint, start_project
from tests.end_to_end.servers import Project, Served
from tests.end_to_end.stories.store import refused, set_up, write_store

#: A tool that returns rows, beside what startmcp writes.
DECLARED = """
import mcp_django
from django.db.models import QuerySet

from .models import Order


@mcp_django.register(Order)
class OrderMCP(mcp_django.ModelMCP):
    fields = ["number"]


@mcp_django.tool(read_only=True)
def late_orders(request) -> QuerySet[Order]:
    \"\"\"Orders that are late.\"\"\"
    return Order.objects.order_by("pk")
"""

_NUMBER = "from store.models import Order; print(Order.objects.get().number)"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return write_store(start_project(tmp_path))


def test_the_file_is_imported_and_changes_nothing_but_who_declares_it(project: Project) -> None:
    serve_endpoint(project)
    read = "from django.core.management import call_command as call; call('mcp_inventory', json=True)"
    before = project.run(read)

    assert "It changes nothing before you edit it." in project.manage("startmcp", "store")

    text = (project.folder / "store/mcp.py").read_text()
    assert "from .models import Order, Refund\n" in text
    assert "# Line is shown by the inline LineInline, and takes its options from it.\n" in text
    assert "# Draft is not shown: " in text
    assert '    # last_modified_field = "changed"\n' in text
    assert project.manage("check") == "System check identified no issues (0 silenced).\n"
    after = project.run(read)
    for name in ("Order", "Refund"):
        after = after.replace(f'"declared_by": "{name}MCP"', f'"declared_by": "{name}Admin"')
    assert after.replace('"RefundAdmin"', '"ModelAdmin"') == before

    assert "exists already, and is left as it is" in refused(project, "startmcp", "store")
    assert (project.folder / "store/mcp.py").read_text() == text


def test_each_mistake_on_the_way_is_said_with_its_remedy(project: Project) -> None:
    project.manage("makemigrations", "store")

    assert "manage.py migrate" in refused(project, "mcp_token", "admin")
    assert 'path("", include("mcp_django.urls"))' in refused(project, "check", "--fail-level", "WARNING")
    serve_endpoint(project)
    project.manage("startmcp", "store")
    declared = project.folder / "store/mcp.py"
    text = declared.read_text()
    for mistake, told in (
        ("    exlude = ['number']\n", "Did you mean exclude?"),
        ("    min_group_row = 5\n", "Did you mean min_group_rows?"),
    ):
        first, _, rest = text.partition("(mcp_django.ModelMCP):\n")
        declared.write_text(f"{first}(mcp_django.ModelMCP):\n{mistake}{rest}")
        said = refused(project, "check")
        assert told in said and "ImproperlyConfigured" in said
    declared.write_text(text)

    assert "no issues" in project.manage("check")


def test_the_app_is_asked_changed_and_connected_from_the_terminal(project: Project) -> None:
    serve_endpoint(project)
    with (project.folder / "store/mcp.py").open("w") as file:
        file.write(DECLARED)
    set_up(project)

    found = project.manage("mcp_call", "find_records", "model=store.order", "fields=number", "--user", "admin")
    project.manage("mcp_tools", "--on", "update_record")
    change = ("mcp_call", "update_record", "model=store.order", "id=1", 'values={"number": "B2"}', "--user", "admin",
              "--scopes", "read,write")  # fmt: skip
    shown = project.manage(*change, "--dry-run")
    kept = project.run(_NUMBER)
    project.manage(*change, "--yes")

    assert '"A1"' in found
    assert '"B2"' in shown and kept == "A1\n" and project.run(_NUMBER) == "B2\n"
    assert json.loads(project.manage("mcp_call", "late_orders", "--user", "admin"))["rows"] == [[1, "B2"]]
    assert "claude mcp add" in project.manage("mcp_connect", "claude-code")


# In the browser.


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    project = write_store(start_project(tmp_path_factory.mktemp("store")))
    serve_endpoint(project)
    set_up(project)
    with project.served("runserver") as served:
        yield served


@pytest.mark.more("pages in the browser")
def test_the_first_page_leads_from_an_empty_install_to_an_agent(browser: Browser, served: Served) -> None:
    context = browser.new_context(base_url=served.origin)
    page = context.new_page()
    page.goto("/admin/mcp_django/")
    page.locator("input[name=username]").fill("admin")
    page.locator("input[name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Getting started").wait_for()
    before = done_of(page)

    page.get_by_role("link", name="Make a token").click()
    page.get_by_label("Name:").fill("laptop")
    choose_user(page, "admin")
    page.get_by_role("button", name="Save", exact=True).click()
    token = made_token(page)
    asked = {"name": "find_records", "arguments": {"model": "store.order"}}
    found = served.ask(token, "tools/call", asked).json()["result"]
    page.goto("/admin/mcp_django/")
    page.get_by_role("link", name="Try a tool").click()
    page.get_by_role("link", name="Try it find_records").click()
    page.get_by_label("model:").select_option("store.order")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("heading", name="Answer done").wait_for()
    page.goto("/admin/mcp_django/")
    after = done_of(page)
    context.close()

    assert before == {"Serve the endpoint"}
    assert "A1" in found["content"][0]["text"]
    assert after == {"Serve the endpoint", "Make a token", "Connect a client", "Try a tool"}


def done_of(page: Page) -> set[str]:
    """The steps that the card says are done."""
    steps = page.locator(".mcp-steps li")
    return {one.locator("strong").inner_text() for one in steps.all() if one.get_by_text("done", exact=True).count()}
