"""What people read of tools, resources, templates and the server: what the admin calls them, each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from tests.support.asking import DirectPeer
from tests.support.data import switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

Admin: Any = admin.ModelAdmin


@pytest.fixture
def root(db: None) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


def titles(peer: DirectPeer, method: str, key: str) -> dict[str, str]:
    return {item["name"]: item["title"] for item in peer.result(MODERN, method)[key]}


@admin.action(permissions=["view"], description="Export %(verbose_name_plural)s")
def export(modeladmin: Any, request: HttpRequest, queryset: Any) -> None:
    """Exports."""


@admin.action(permissions=["view"], description="Check")
def check(modeladmin: Any, request: HttpRequest, queryset: Any) -> None:
    """Checks."""


def test_equal_labels_are_told_apart_by_the_name(root: DirectPeer, declared: Declared) -> None:
    def book_a_seat(request: HttpRequest) -> None:
        """Book."""

    declared.tool(book_a_seat, read_only=True)
    for model in (Airline, Airport):
        declared.admin(model, type("Checked", (Admin,), {"actions": [export, check]}))
        switch_on(*(f"flights_{model._meta.model_name}_{name}" for name in ("export", "check")))

    found = titles(root, "tools/list", "tools")

    assert found["book_a_seat"] == "Book a seat"
    assert found["flights_airline_export"] == "Export airlines"
    assert found["flights_airline_check"] == "Check (flights_airline_check)"
    assert found["flights_airport_check"] == "Check (flights_airport_check)"


def test_each_title_of_a_list_stands_there_once_and_templates_are_named_after_their_model(root: DirectPeer) -> None:
    tools, resources, templates = (
        titles(root, method, key)
        for method, key in (
            ("tools/list", "tools"), ("resources/list", "resources"), ("resources/templates/list", "resourceTemplates"),
        )
    )  # fmt: skip

    for found in (tools, resources, templates):
        assert len(set(found.values())) == len(found) > 3
    assert [templates[f"flights.airline{end}"] for end in ("", " query", " aggregate")] == [
        "Airline", "Airlines: query", "Airlines: aggregate",
    ]  # fmt: skip


def test_an_untitled_item_counts_by_its_name() -> None:
    items = [{"name": "a"}, {"name": "b", "title": "a"}, {"name": "c", "title": "C"}]

    assert distinct_titles(items) == [
        {"name": "a", "title": "a (a)"}, {"name": "b", "title": "a (b)"}, {"name": "c", "title": "C"},
    ]  # fmt: skip


# The server.


@pytest.fixture
def forget_title() -> Iterator[Callable[[], None]]:
    def forget() -> None:
        site.__dict__.pop("_title", None)

    yield forget
    forget()


def test_the_title_of_the_server_is_the_declared_one_or_the_header_of_the_admin(
    forget_title: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    headers: list[tuple[Any, str | None]] = [
        ("Flights of New York", "Flights of New York"), (admin.AdminSite.site_header, None),
        (gettext_lazy("Yes"), "Ja"), ("", None),
    ]  # fmt: skip
    for header, title in headers:
        forget_title()
        with monkeypatch.context() as patched:
            patched.setattr(admin.site, "site_header", header)
            with override_settings(LANGUAGE_CODE="de"):
                assert site.implementation().get("title") == title
            assert site.implementation()["name"] == "django"
    monkeypatch.setattr(site, "title", "Ours", raising=False)
    forget_title()
    assert site.implementation()["title"] == "Ours"
