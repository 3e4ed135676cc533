from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_django import MCPSite, site
from mcp_django.writes.tools import WRITE_TOOLS
from tests.support.asking import DirectPeer
from tests.support.data import Users, switch_on
from tests.support.peers import Message

ALL_SCOPES = ("read", "actions", "write")


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

    def refused(self, name: str, **arguments: Any) -> str:
        """The text of a call that is refused."""
        result = self.call(name, **arguments)
        assert result.get("isError"), result
        return str(result["content"][0]["text"])

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
def root(writer: Callable[..., Writer], users: Users) -> Writer:
    return writer(users.admin)


@pytest.fixture
def ops(writer: Callable[..., Writer], users: Users) -> Writer:
    """The agent of somebody who sees the flights from JFK, and may change them."""
    return writer(users.ops)
