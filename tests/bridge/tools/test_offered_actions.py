"""Actions that a project's own get_actions offers, to everybody or to some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import OperationalError
from django.http import HttpRequest

from mcp_django import site
from mcp_django.console.review import inventory
from mcp_django.models import Tool
from tests.shop.models import Tag
from tests.support.asking import DirectPeer, text_of
from tests.support.data import make_staff, switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.usefixtures("db")

Admin: Any = admin.ModelAdmin
#: Django 6.1 knows actions of forms.
LOCATION: Any = getattr(admin, "ActionLocation", None)


@admin.action(permissions=["view"], description="Count")
def count(modeladmin: Any, request: HttpRequest, queryset: Any) -> None:
    modeladmin.message_user(request, f"{queryset.count()} for {request.user.get_username()}")


class Adding(Admin):
    """Offers an action to everybody, and one to the user chief."""

    def get_actions(self, request: HttpRequest, *where: Any, **named: Any) -> Any:
        actions = super().get_actions(request, *where, **named)
        actions["count"] = (count, "count", "Count")
        if request.user.get_username() == "chief":
            actions["check"] = (count, "check", "Check")
        return actions


@pytest.fixture
def tag(declared: Declared) -> Iterator[Tag]:
    declared.admin(Tag, Adding)
    yield Tag.objects.create(name="a")


def peer(username: str) -> DirectPeer:
    return DirectPeer(make_staff(username, "shop.view_tag"))


def test_an_action_that_get_actions_adds_is_a_tool(tag: Tag) -> None:
    switch_on("shop_tag_count")
    ada = peer("ada")

    assert "shop_tag_count" in ada.tools()
    assert text_of(ada.call("shop_tag_count", ids=["a"])) == "1 for ada"
    assert site.tools["shop_tag_count"].get_title() == "Count"
    assert "shop_tag_count" in inventory.build(site)["tools"]


def test_what_is_offered_to_some_is_found_with_their_request_and_starts_switched_off(
    tag: Tag, declared: Declared
) -> None:
    chief, other = peer("chief"), peer("other")
    assert "shop_tag_check" not in site.tools

    first = chief.tools()
    row = Tool.objects.get(name="shop_tag_check")
    was_on = row.enabled
    row.enabled = True
    row.save()

    assert ("shop_tag_check" in first, was_on) == (False, False)
    assert "shop_tag_check" in chief.tools() and "shop_tag_check" not in other.tools()
    refused = other.error(MODERN, "tools/call", {"name": "shop_tag_check", "arguments": {"ids": ["a"]}})
    assert refused["data"]["reason"] == "TOOL_NOT_FOUND"
    # A call finds it in a process that has not listed it.
    declared.forget()
    assert text_of(chief.call("shop_tag_check", ids=["a"])) == "1 for chief"


def test_a_get_action_that_knows_no_places_is_asked_without_one(tag: Tag, declared: Declared) -> None:
    def get_action(self: Any, action: Any) -> Any:
        return count, "count", "Count"

    def get_actions(self: Any, request: HttpRequest) -> Any:
        return {"count": self.get_action("count")}

    declared.admin(Tag, type("Old", (Admin,), {"actions": ["x"], "get_action": get_action, "get_actions": get_actions}))
    switch_on("shop_tag_count")

    assert text_of(peer("ada").call("shop_tag_count", ids=[tag.pk])) == "1 for ada"


def test_a_get_actions_that_fails_offers_nothing_and_harms_no_list(
    declared: Declared, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def get_actions(self: Any, request: HttpRequest, *where: Any) -> Any:
        raise RuntimeError("no actions today")

    declared.admin(Tag, type("Failing", (Admin,), {"actions": [count], "get_actions": get_actions}))
    switch_on("shop_tag_count")

    tools = peer("ada").tools()

    assert "find_records" in tools and "shop_tag_count" not in tools
    assert "no actions today" in caplog.text


def test_the_tools_are_known_without_a_database(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: Any) -> Any:
        raise OperationalError("away")

    declared.admin(Tag, Adding)
    monkeypatch.setattr("mcp_django.bridge.sites.offered_actions", away)

    assert "find_records" in site.tools and "shop_tag_count" not in site.tools


def test_rows_that_cannot_be_written_harm_no_list(
    tag: Tag, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(using: str) -> int:
        raise OperationalError("readonly")

    monkeypatch.setattr("mcp_django.bridge.override_rows.make_tool_rows", refuse)

    assert "find_records" in peer("chief").tools()
    assert "Administrators do not find the new actions yet" in caplog.text


def test_actions_of_the_whole_site_are_left_out_unless_the_project_has_its_own_of_the_name(
    tag: Tag, declared: Declared
) -> None:
    def get_actions(self: Any, request: HttpRequest, *where: Any) -> Any:
        return {"delete_selected": (count, "delete_selected", "Delete softly")}

    assert "shop_tag_delete_selected" not in site.tools
    assert inventory.build(site)["left_out"]["the action delete_selected"] == (
        "it is one of the whole AdminSite; name it in actions of a ModelAdmin to offer it"
    )
    declared.admin(Tag, type("Soft", (Admin,), {"get_actions": get_actions}))
    assert site.tools["shop_tag_delete_selected"].get_title() == "Delete softly"


@pytest.mark.skipif(LOCATION is None, reason="Django 6.1 has actions of forms")
def test_actions_of_forms_are_tools_too(declared: Declared) -> None:
    @admin.action(permissions=["view"], description="Stamp", location=LOCATION.CHANGE_FORM)
    def stamp(modeladmin: Any, request: HttpRequest, queryset: Any) -> None:
        modeladmin.message_user(request, "stamped")

    declared.admin(Tag, type("Stamping", (Admin,), {"actions": [stamp, count]}))
    switch_on("shop_tag_stamp")
    Tag.objects.create(name="a")

    assert {"shop_tag_stamp", "shop_tag_count"} <= set(site.tools)
    assert text_of(DirectPeer(User.objects.create_superuser("root")).call("shop_tag_stamp", ids=["a"])) == "stamped"


def test_nobody_is_asked_for_who_may_not_see_the_model(declared: Declared) -> None:
    asked: list[str] = []

    def get_actions(self: Any, request: HttpRequest, *where: Any) -> Any:
        asked.append(str(request.user))
        return {}

    declared.admin(Tag, type("Asking", (Admin,), {"get_actions": get_actions}))
    blind = DirectPeer(make_staff("blind", "flights.view_airline"))
    no_scope = DirectPeer(make_staff("ada", "shop.view_tag"), "other")

    for one in (blind, no_scope):
        one.tools()
        one.error(MODERN, "tools/call", {"name": "shop_tag_anything", "arguments": {"ids": ["a"]}})

    assert set(asked) == {"a superuser"}
