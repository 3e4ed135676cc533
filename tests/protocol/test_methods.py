"""The method table agrees with docs/protocol.md and with every transport."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mcp_django.management.commands.mcp_protocol import TRANSPORTS, letters, table
from mcp_django.server.methods import METHODS
from tests.support.declared import Declared
from tests.support.peers import REVISIONS, Peer

pytestmark = pytest.mark.every_transport

DOCUMENT = Path(__file__).parents[2] / "docs" / "protocol.md"
LETTERS = {"http-view-wsgi": "W", "http-view-asgi": "A", "http-asgi": "A", "websocket": "S", "stdio": "I"}


def test_the_document_is_of_today() -> None:
    call_command("mcp_protocol", check=DOCUMENT)


def test_the_command_prints_the_table() -> None:
    printed = StringIO()
    call_command("mcp_protocol", stdout=printed)
    assert printed.getvalue().strip() == table().strip()


def test_an_old_table_is_found(tmp_path: Path) -> None:
    copy = tmp_path / "protocol.md"
    copy.write_text(DOCUMENT.read_text().replace("| `ping`", "| `pong`"))
    with pytest.raises(CommandError, match="mcp_protocol --write"):
        call_command("mcp_protocol", check=copy)
    call_command("mcp_protocol", write=copy)
    assert copy.read_text() == DOCUMENT.read_text()
    copy.write_text("nothing")
    with pytest.raises(CommandError, match="needs the two lines"):
        call_command("mcp_protocol", write=copy)


def test_every_letter_is_one_transport() -> None:
    assert len({transport.letter for transport in TRANSPORTS}) == len(TRANSPORTS)


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_transport_serves_the_methods_of_the_table(
    admin: Peer, transport: str, revision: str, declared: Declared
) -> None:
    """A method that is not supported is unknown. A supported one may still refuse the params."""

    def lasting(request: Any) -> None:
        """Takes long."""

    declared.tool(lasting, task=True)
    served = {method for method in METHODS if LETTERS[transport] in letters(method, revision)}
    found = set()
    for method in METHODS:
        if method in ("initialize", "subscriptions/listen") and method in served:
            found.add(method)  # Each has its own tests, because it changes the connection.
            continue
        answer: Any = admin.request(revision, method, {})
        if answer.get("error", {}).get("code") != -32601:
            found.add(method)
    assert found == served
