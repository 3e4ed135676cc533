"""What people read of tools, resources, templates and the server: what the admin calls them, each of them once."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import override_settings
from django.utils.translation import gettext_lazy

from demo_project.flights.models import Airline, Airport
from mcp_django import site
from mcp_django.protocol.names import distinct_titles
from tests.support.asking import DirectPeer, listed
from tests.support.data import switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

Admin: Any = admin.ModelAdmin


@pytest.fixture
def root(db: None) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


def titles(peer: DirectPeer, method: str, key: str) -> dict[str, str]:
    return {item["name"]: item["title"] for item in peer.result(MODERN, method)[key]}


def test_a_function_without_a_title_has_its_name(root: DirectPeer, declared: Declared) -> None:
    def book_a_seat(request: HttpRequest) -> None:
        """Book."""

    declared.tool(book_a_seat, read_only=True)

    assert listed(root, "book_a_seat")["title"] == "Book a seat"


@admin.action(permissions=["view"], description="Export %(verbose_name_plural)s")
def export(modeladmin: Any, request: HttpRequest, queryset: Any) -> None:
    """Exports."""


@admin.action(permissions=["view"], description="Check")
def check(modeladmin: Any, request: HttpRequest, queryset: Any) -> None:
    """Checks."""


def test_equal_labels_are_told_apart_by_the_name(root: DirectPeer, declared: Declared) -> None:
    for model in (Airline, Airport):
        declared.admin(model, type("Checked", (Admin,), {"actions": [export, check]}))
        switch_on(*(f"flights_{model._meta.model_name}_{name}" for name in ("export", "check")))

    found = titles(root, "tools/list", "tools")

    assert found["flights_airline_export"] == "Export airlines"
    assert found["flights_airline_check"] == "Check (flights_airline_check)"
    assert found["flights_airport_check"] == "Check (flights_airport_check)"


@pytest.mark.parametrize(("method", "key"), [
    ("tools/list", "tools"), ("resources/templates/list", "resourceTemplates"), ("resources/list", "resources"),
])  # fmt: skip
def test_each_title_of_a_list_stands_there_once(root: DirectPeer, method: str, key: str) -> None:
    found = titles(root, method, key)

    assert len(set(found.values())) == len(found) > 3


def test_the_templates_of_a_model_are_named_after_it(root: DirectPeer) -> None:
    found = titles(root, "resources/templates/list", "resourceTemplates")

    assert [found[f"flights.airline{end}"] for end in ("", " query", " aggregate")] == [
        "Airline", "Airlines: query", "Airlines: aggregate",
    ]  # fmt: skip


def test_an_untitled_item_counts_by_its_name() -> None:
    items = [{"name": "a"}, {"name": "b", "title": "a"}, {"name": "c", "title": "C"}]

    assert distinct_titles(items) == [
        {"name": "a", "title": "a (a)"}, {"name": "b", "title": "a (b)"}, {"name": "c", "title": "C"},
    ]  # fmt: skip


# The server.


@pytest.fixture
def fresh_title() -> Any:
    site.__dict__.pop("_title", None)
    yield
    site.__dict__.pop("_title", None)


@pytest.mark.parametrize(("header", "title"), [
    (admin.AdminSite.site_header, None), ("Flights of New York", "Flights of New York"),
    (gettext_lazy("Yes"), "Ja"), ("", None),
], ids=["Django's own", "text", "translated", "none"])  # fmt: skip
def test_the_title_of_the_server_is_the_header_of_the_admin(
    fresh_title: Any, monkeypatch: pytest.MonkeyPatch, header: Any, title: str | None
) -> None:
    monkeypatch.setattr(admin.site, "site_header", header)

    with override_settings(LANGUAGE_CODE="de"):
        assert site.implementation().get("title") == title
    assert site.implementation()["name"] == "django"


def test_a_declared_title_goes_before_the_header(fresh_title: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin.site, "site_header", "Flights")
    monkeypatch.setattr(site, "title", "Ours", raising=False)

    assert site.implementation()["title"] == "Ours"
