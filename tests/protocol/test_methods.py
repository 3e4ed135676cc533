"""The method table agrees with docs/protocol.md and with every transport."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_django.server.methods import METHODS
from tests.documentation.generated import letters
from tests.support.declared import Declared
from tests.support.peers import REVISIONS, Peer

pytestmark = pytest.mark.every_transport

LETTERS = {
    "http-view-wsgi": "W", "http-view-asgi": "A", "http-asgi": "A", "http-protobuf": "A",
    "websocket": "S", "stdio": "I", "grpc": "G",
}  # fmt: skip


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
