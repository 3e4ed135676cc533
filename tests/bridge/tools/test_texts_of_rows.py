"""Attempts to read a hidden column by what a tool says of a row."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.html import format_html

import mcp_django
from tests.shop.models import Person
from tests.support.asking import DirectPeer, text_of
from tests.support.data import switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

NAME = "shop_person_act"
HIDDEN = "sk-hidden"

Act = Callable[[Any, HttpRequest, Any], Any]


@pytest.fixture
def run(db: None, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a function as an action on two people, whose text holds a column that agents may not read."""
    monkeypatch.setattr(Person, "__str__", lambda person: f"{person.name} {person.badge}")
    for key in (7, 8):
        Person.objects.create(pk=key, name="Ann", badge=f"{HIDDEN} {key}")
    switch_on(NAME)
    peer = DirectPeer(User.objects.create_superuser("root"))

    def run(act: Act, *, read_only: bool = False) -> Any:
        @mcp_django.action(read_only=read_only)
        @admin.action(permissions=["view"], description="Act")
        def action(self: Any, request: HttpRequest, queryset: Any) -> Any:
            return act(self, request, queryset)

        declared.close()
        declared.admin(Person, type("Acting", (admin.ModelAdmin,), {"actions": ["act"], "act": action}))
        declared.model(Person, exclude=["badge"])
        return peer.call(NAME, ids=[7, 8])

    return run


def say_each(self: Any, request: HttpRequest, queryset: Any) -> None:
    for person in queryset:
        self.message_user(request, f"{person} was told.")
        self.message_user(request, format_html("<b>{}</b> was warned.", person), "warning")


def change_and_say(self: Any, request: HttpRequest, queryset: Any) -> None:
    for person in queryset:
        before = str(person)
        person.name = "Bob"
        person.save()
        self.message_user(request, f"{before} is {person} now.")


def delete_and_say(self: Any, request: HttpRequest, queryset: Any) -> None:
    named = " and ".join(map(str, queryset))
    queryset.delete()
    self.message_user(request, f"{named} are gone.")


TOLD = [line for key in (7, 8) for line in (f"shop.person {key} was told.", f"warning: shop.person {key} was warned.")]
CHANGED = [f"shop.person {key} is shop.person {key} now." for key in (7, 8)]


@pytest.mark.every_database
def test_the_text_of_a_row_in_a_message_of_an_action(run: Callable[..., Any]) -> None:
    assert text_of(run(say_each)).splitlines() == TOLD
    assert text_of(run(say_each, read_only=True)).splitlines() == TOLD
    assert text_of(run(change_and_say)).splitlines() == CHANGED
    assert text_of(run(delete_and_say)) == "shop.person 7 and shop.person 8 are gone."


def test_the_text_of_a_row_in_the_refusal_of_an_action(run: Callable[..., Any]) -> None:
    def refuse(self: Any, request: HttpRequest, queryset: Any) -> None:
        person = queryset.get(pk=7)
        queryset.delete()
        raise ValidationError(f"{person} has to stay.")

    assert text_of(run(refuse)) == "shop.person 7 has to stay. Nothing was changed."


def test_a_text_that_the_agent_may_read_is_left_as_it_is(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Person, "__str__", lambda person: str(person.pk))

    def act(self: Any, request: HttpRequest, queryset: Any) -> None:
        self.message_user(request, "7 and 8 of Ann.")

    assert text_of(run(act)) == "7 and 8 of Ann."


def test_a_tool_that_returns_a_row(run: Callable[..., Any], declared: Declared) -> None:
    """It fails, and the agent learns nothing of the row."""
    peer = DirectPeer(User.objects.create_superuser("admin"))

    def one(request: HttpRequest) -> Any:
        """A row."""
        return Person.objects.get(pk=7)

    def among(request: HttpRequest) -> dict[str, Any]:
        """A row among others."""
        return {"rows": [Person.objects.get(pk=7)], "queryset": Person.objects.all()}

    for function in (one, among):
        declared.tool(function)
        answer = peer.request(MODERN, "tools/call", {"name": function.__name__, "arguments": {}})
        assert HIDDEN not in json.dumps(answer) and "Ann" not in json.dumps(answer), function
