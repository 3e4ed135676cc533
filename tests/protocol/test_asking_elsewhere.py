"""Questions from prompts, resources and admin actions, as from tools."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from demo_project.flights.models import Airline, Flight
from mcp_django import action
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Message, Peer, Peers
from tests.support.talking import accept, call, talk

NAME: Message = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

pytestmark = pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])


@pytest.fixture
def peer(users: Any, peers: Peers) -> Peer:
    made = peers(token_of(users.admin))
    made.capabilities = {"elicitation": {}}
    return made


def name_of(request: Any) -> str:
    return str(request.mcp.elicit("Your name?", NAME).content["name"])


def test_a_prompt_asks(declared: Declared, peer: Peer, revision: str) -> None:
    def letter(request: Any) -> str:
        """A letter to somebody."""
        return f"Dear {name_of(request)},"

    declared.prompt(letter)
    said = talk(peer, revision, "prompts/get", {"name": "letter"}, accept(name="Ada"))
    assert said.answer["result"]["messages"] == [{"role": "user", "content": {"type": "text", "text": "Dear Ada,"}}]
    assert [method for method, _ in said.asked] == ["elicitation/create"]


def test_a_resource_asks(declared: Declared, peer: Peer, revision: str) -> None:
    declared.resource("shop://card", name_of, name="card")
    said = talk(peer, revision, "resources/read", {"uri": "shop://card"}, accept(name="Ada"))
    assert [contents["text"] for contents in said.answer["result"]["contents"]] == ["Ada"]


def test_an_action_asks_before_it_does_anything(declared: Declared, peer: Peer, flights: Any, revision: str) -> None:
    class AirlineAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        actions = ["rename"]

        @action(read_only=False)
        @admin.action(description="Give the airlines another name", permissions=["change"])
        def rename(self, request: Any, queryset: Any) -> None:
            name = name_of(request)
            self.message_user(request, f"{queryset.update(name=name)} renamed.")

    declared.admin(Airline, AirlineAdmin)
    switch_on("flights_airline_rename")
    said = call(peer, "flights_airline_rename", revision, accept(name="Ada Air"), ids=["UA"])
    assert "1 renamed." in said.text
    assert Airline.objects.get(pk="UA").name == "Ada Air"
    assert Flight.objects.filter(carrier__name="Ada Air").exists()
