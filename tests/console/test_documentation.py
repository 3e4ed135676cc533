"""The pages of the console lead to their description, if the project says where the documentation is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.test import RequestFactory
from django.urls import reverse

from mcp_django.console.admin.documentation import SECTIONS, SUBJECTS
from mcp_django.console.admin.tools import ToolAdmin
from mcp_django.models import Tool
from tests.console.visiting import client_of
from tests.support.data import Users
from tests.support.pages import PAGES, anchors

pytestmark = pytest.mark.django_db

OVERVIEW = "/admin/mcp_django/"


def links_on(users: Users, url: str) -> list[str]:
    page = client_of(users.admin).get(url).content.decode()
    return re.findall(r'href="(https://docs\.example\.com[^"]*)"', page)


def test_each_list_leads_to_its_section(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "DOCS_URL": "https://docs.example.com/mcp"}
    found, wanted = {}, {}
    for name in [name for name in SECTIONS if name.endswith("/change_list")]:
        model = name.partition("/")[0]
        app = "mcp_django_oauth" if model == "client" else "mcp_django"
        found[name] = links_on(users, reverse(f"admin:{app}_{model}_changelist"))
        wanted[name] = [f"https://docs.example.com/mcp/{SECTIONS[name]}"]

    assert found == wanted


def try_page() -> str:
    return f"/admin/mcp_django/tool/{Tool.objects.get(name='find_records').pk}/try/"


def test_the_first_page_and_pages_of_ours_lead_there(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "DOCS_URL": "https://docs.example.com/mcp/"}

    assert links_on(users, OVERVIEW) == [f"https://docs.example.com/mcp/{section}" for _, section in SUBJECTS]
    assert links_on(users, try_page()) == ["https://docs.example.com/mcp/admin/#try-it"]


def test_a_page_that_a_project_adds_leads_to_that_on_the_admin(users: Users, settings: Any, rf: RequestFactory) -> None:
    settings.MCP = {**settings.MCP, "DOCS_URL": "https://docs.example.com/mcp"}
    request = rf.get(OVERVIEW)
    request.user, request.resolver_match = users.admin, None

    page = ToolAdmin(Tool, admin.site).page(request, "of_a_project")

    assert page.context_data is not None and page.context_data["help_url"] == "https://docs.example.com/mcp/admin/"


def test_without_the_setting_nothing_is_shown(users: Users) -> None:
    for url in (OVERVIEW, try_page()):
        page = client_of(users.admin).get(url).content.decode()
        assert "documentation" not in page.lower().replace("documentation</a> is", ""), url


def test_each_section_exists() -> None:
    for section in {*SECTIONS.values(), *(section for _, section in SUBJECTS)}:
        page, _, anchor = section.partition("/#")
        page = f"docs/{page.rstrip('/')}.md"
        assert page in PAGES, section
        assert not anchor or anchor in anchors(page), section
