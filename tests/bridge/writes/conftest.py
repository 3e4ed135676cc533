from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from demo_project.flights.models import Flight
from mcp_django import MCPSite, site
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from tests.bridge.writes.approving import propose, staff
from tests.support.asking import DirectPeer, words_of
from tests.support.data import Users, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Message, Peer, Peers

ALL_SCOPES = ("read", "actions", "write")


def errors_of(told: str) -> list[tuple[str, str]]:
    """The fields and the words of a refusal; none of an answer."""
    found = json.loads(told) if told.startswith("{") else {}
    return [(error["field"], error["message"]) for error in found.get("errors", [])]


class Writer(DirectPeer):
    """A user whose agent may write. It cannot be asked."""

    def __init__(self, user: Any, *scopes: str, site: MCPSite = site) -> None:
        super().__init__(user, *(scopes or ALL_SCOPES), site=site)

    def ask(self, name: str, **arguments: Any) -> Message:
        """The structured content of a call that succeeds."""
        result = self.call(name, **arguments)
        assert not result.get("isError"), result["content"]
        content: Message = result["structuredContent"]
        return content

    def told(self, name: str, **arguments: Any) -> str:
        """The text of the result, whether the call succeeds or is refused: for tables, which tell all that fails."""
        return words_of(self.call(name, **arguments)["content"][0]["text"])

    def refused(self, name: str, **arguments: Any) -> str:
        """The text of a call that is refused."""
        result = self.call(name, **arguments)
        assert result.get("isError"), result
        return words_of(result["content"][0]["text"])

    def confirmed(self, name: str, **arguments: Any) -> Message:
        """The answer to a call that is previewed and then confirmed."""
        shown = self.ask(name, **arguments)
        return self.ask(name, **arguments, confirm=shown["confirm"])


@pytest.fixture
def writer(users: Users) -> Callable[..., Writer]:
    """An agent of a user, on the site whose tools that write are switched on."""
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    return Writer


@pytest.fixture
def mute(users: Users, peers: Peers) -> Peer:
    """The client of an administrator, which may write and cannot ask."""
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    return peers(token_of(users.admin, *ALL_SCOPES))


@pytest.fixture
def root(writer: Callable[..., Writer], users: Users) -> Writer:
    return writer(users.admin)


@pytest.fixture
def ops(writer: Callable[..., Writer], users: Users) -> Writer:
    """The agent of somebody who sees the flights from JFK, and may change them."""
    return writer(users.ops)


def save_with(declared: Declared, save_model: Callable[[Any, Any], object]) -> None:
    """Declares an admin of flights that calls a function with the request and the flight before it saves."""

    class FlightAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ["notes", "status"]

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            save_model(request, obj)
            super().save_model(request, obj, form, change)

    declared.admin(Flight, FlightAdmin)


# Changes that other people approve.


@pytest.fixture
def bob(users: Users) -> User:
    return staff("bob")


@pytest.fixture
def approved(flights: list[Flight], declared: Declared) -> None:
    declared.model(Flight, consent={"update": "approve"})


@pytest.fixture
def key(approved: None, bob: User, ops: Writer) -> str:
    """A change of ops' agent that waits for somebody else."""
    return propose(ops)
