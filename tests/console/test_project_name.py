"""What a project is called: never by its host, and in lines by a name that every client accepts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin

from mcp_django import MCPSite, site
from mcp_django.console.pages.project_name import server_name, title_of
from tests.support.declared import Declared

#: The URLconf, the settings and the folder of a project → what people read, and what a client calls the server.
PROJECTS = {
    ("my_shop.urls", "my_shop.settings", "/srv/code"): ("My shop", "my-shop"),
    ("config.urls", "config.settings.production", "/srv/web_shop"): ("Web shop", "web-shop"),
    ("urls", "bakery.settings", ""): ("Bakery", "bakery"),
    ("project.urls", "project.settings", "/app"): ("This site", "django"),
    ("config.urls", "config.settings", ""): ("This site", "django"),
    ("école.urls", "x", ""): ("École", "ecole"),
    ("航班.urls", "config.settings", ""): ("航班", "django"),
    ("the_flights_that_leave_new_york_city.urls", "x", ""): (
        "The flights that leave new york city", "the-flights-that-leave",
    ),
    ("x" * 30 + ".urls", "x", ""): ("X" + "x" * 29, "x" * 24),
}  # fmt: skip


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch, declared: Declared) -> None:
    """The project declares no name."""
    monkeypatch.setattr(MCPSite, "_title", "")


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project[0])
def test_a_project_that_declares_no_name_is_called_like_its_package_or_its_folder(
    unnamed: None, project: tuple[str, str, str], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls, module, folder = project
    # Nothing is imported from it.
    monkeypatch.setattr("mcp_django.console.pages.project_name.settings", type("", (), {"ROOT_URLCONF": urls}))
    if folder:
        monkeypatch.setattr("mcp_django.console.pages.project_name.settings.BASE_DIR", folder, raising=False)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", module)

    assert (title_of(site), server_name(site)) == PROJECTS[project]
    assert re.fullmatch(r"[a-z0-9-]{1,24}", server_name(site))


def test_a_declared_name_comes_first(declared: Declared, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin.site, "site_header", "Flights of Ann")
    declared.forget()
    by_header = title_of(site), server_name(site)
    settings.MCP = {**settings.MCP, "SERVER_NAME": "flights.example"}
    by_setting = title_of(site), server_name(site)
    monkeypatch.setattr(site, "title", "Departures")
    declared.forget()

    assert by_header == ("Flights of Ann", "flights-of-ann")
    assert by_setting == ("Flights of Ann", "flights-example")
    assert (title_of(site), server_name(site)) == ("Departures", "flights-example")


def test_a_second_site_is_told_from_the_first(unnamed: None) -> None:
    second = MCPSite("support")

    assert title_of(second) == f"{title_of(site)} support"
    assert server_name(second) == f"{server_name(site)}-support"
