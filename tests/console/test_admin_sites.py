"""Every AdminSite that is there once the apps are ready has our pages; a check names one that is made later."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from django.contrib import admin as django_admin
from django.contrib.admin.sites import all_sites
from django.test import Client
from django.urls import clear_url_caches, include, path

from demo_project.flights.models import Airline
from mcp_django import admin, apps
from mcp_django.console.admin import app_list
from mcp_django.models import AccessToken, Call, Tool
from tests.checks.conftest import of
from tests.support.data import Users, make_staff

pytestmark = pytest.mark.django_db


@pytest.fixture
def other() -> Iterator[django_admin.AdminSite]:
    made = django_admin.AdminSite("other")
    made.register(Airline)
    yield made
    all_sites.discard(made)


def serve(settings: Any, monkeypatch: pytest.MonkeyPatch, *admin_sites: django_admin.AdminSite) -> None:
    urls: Any = ModuleType("tests.console_urls")
    pages = [path(f"{one.name}/", one.urls) for one in admin_sites]
    urls.urlpatterns = [*pages, path("", include("mcp_django.urls"))]
    monkeypatch.setitem(sys.modules, urls.__name__, urls)
    settings.ROOT_URLCONF = urls.__name__
    clear_url_caches()


def test_a_site_beside_the_default_one_gets_the_pages_when_the_apps_are_ready_and_keeps_its_own(
    other: django_admin.AdminSite,
) -> None:
    own = type("Own", (django_admin.ModelAdmin,), {})
    other.register(Tool, own)

    apps._register_pages()

    assert type(other.get_model_admin(Tool)) is own
    assert other.is_registered(AccessToken) and other.is_registered(Call)


def test_pages_that_a_project_has_taken_out_of_the_default_site_stay_out(other: django_admin.AdminSite) -> None:
    model_admin = type(django_admin.site.get_model_admin(Tool))
    django_admin.site.unregister(Tool)
    try:
        apps._register_pages()
        assert not django_admin.site.is_registered(Tool)
    finally:
        django_admin.site.register(Tool, model_admin)


def test_the_pages_of_another_site_lead_to_that_site_and_are_no_question_for_anybody(
    other: django_admin.AdminSite, users: Users, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.register(other)
    serve(settings, monkeypatch, django_admin.site, other)
    client = Client()
    client.force_login(users.admin)

    for page in ("mcp_django/tool/", "", "mcp_django/", "mcp_django/accesstoken/add/"):
        response = client.get(f"/other/{page}")
        text = response.content.decode()
        assert response.status_code == 200
        assert "/other/mcp_django/" in text and "/admin/mcp_django/" not in text, page
    assert [found.msg for found in of("W017") if "mcp_django" in found.msg] == []


def test_a_site_that_is_made_too_late_is_named_by_a_check(
    other: django_admin.AdminSite, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(settings, monkeypatch, other)

    [found] = of("W026")
    admin.register(other)

    assert "The AdminSite other has no pages" in found.msg
    assert of("W026") == []


def listed(user: Any, url: str = "/admin/") -> list[dict[str, Any]]:
    """The apps that a page of the admin lists, of those that are ours."""
    client = Client()
    client.force_login(user)
    apps: list[dict[str, Any]] = client.get(url).context["available_apps"]
    return [app for app in apps if app["app_label"].startswith("mcp_django")]


def test_our_apps_are_one_section_of_the_list_on_every_page(users: Users) -> None:
    for url in ("/admin/", "/admin/flights/airline/", "/admin/mcp_django_oauth/client/"):
        [section] = listed(users.admin, url)
        names = [model["object_name"] for model in section["models"]]
        assert section["app_label"] == "mcp_django", url
        assert {"AccessToken", "Call", "Client", "Grant", "Tool"} <= set(names)
        *shown, own = [model["name"] for model in section["models"]]
        assert shown == sorted(shown) and own == "My agent"


def test_the_pages_of_both_apps_show_the_one_section(users: Users) -> None:
    client = Client()
    client.force_login(users.admin)

    for label in ("mcp_django", "mcp_django_oauth"):
        page = client.get(f"/admin/{label}/").content.decode()
        assert "Model Context Protocol administration" in page and 'class="mcp-overview"' in page
        assert "/admin/mcp_django_oauth/client/" in page and "/admin/mcp_django/tool/" in page


def test_who_may_see_the_models_of_one_app_alone_has_one_section_too(users: Users) -> None:
    [section] = listed(make_staff("connecting", "mcp_django_oauth.view_client"))

    assert [model["object_name"] for model in section["models"]] == ["Client", "MyAgent"]


def test_a_list_that_a_project_keeps_is_not_changed(users: Users, rf: Any) -> None:
    kept = [
        {"name": "MCP", "app_label": "mcp_django", "models": [{"name": "B", "model": Tool}, {"name": "A"}]},
        {"name": "MCP", "app_label": "mcp_django_oauth", "models": [{"name": "C"}]},
        {"name": "Own", "app_label": "own"},
    ]
    request = rf.get("/")
    request.user = users.admin

    for _ in range(2):
        section, own = app_list.arranged(lambda request: kept, request)
        # Its own order is left.
        assert [model["name"] for model in section["models"]] == ["B", "A", "C", "My agent"] and own["name"] == "Own"
