"""Results that are too long for a message of a stream or a socket: an error says how to ask for less."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest
from django.test import override_settings

from mcp_django.conf import MAX_MESSAGE_BYTES
from mcp_django.protocol.jsonrpc import encode
from tests.axes import DUPLEX, HTTP
from tests.support.asking import text_of
from tests.support.base import LEGACY, MODERN
from tests.support.peers import Peer
from tests.support.talking import call, talk

LETTER = "abcdefghij" * 200_000
TOO_LONG = (
    "The answer would be larger than the 900000 bytes that a message of this connection may have. Ask for less, or ask "
    "over HTTP and without a progress token."
)

pytestmark = pytest.mark.usefixtures("_generous")


@pytest.fixture
def _generous() -> Any:
    with override_settings(MCP={"MAX_RESULT_BYTES": 8_000_000}):
        yield


@pytest.fixture
def _letters(declared: Any) -> None:
    def letter(request: HttpRequest, text: str = LETTER, steps: int = 0) -> str:
        """A letter."""
        for step in range(steps):
            request.mcp.progress(step)
        return text

    def ledger(request: HttpRequest) -> dict[str, list[str]]:
        """A ledger."""
        return {"lines": ["abcdefghij"] * 100_000}

    declared.tool(letter, read_only=True)
    declared.tool(ledger, read_only=True)


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-asgi", "http-view-wsgi", "stdio"])
@pytest.mark.usefixtures("_letters")
def test_a_long_result_is_whole_as_json_over_http_and_on_stdio(admin: Peer) -> None:
    result = call(admin, "letter").answer["result"]

    assert [block["text"] == LETTER for block in result["content"]] == [True]


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
@pytest.mark.usefixtures("_letters")
def test_the_model_is_told_of_a_result_that_is_too_long_for_a_socket(admin: Peer, revision: str) -> None:
    for tool in ("ledger", "letter"):
        result = call(admin, tool, revision).answer["result"]

        assert result["isError"] is True
        assert text_of(result) == TOO_LONG
        assert "structuredContent" not in result


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.usefixtures("_letters")
def test_the_model_is_told_of_a_result_that_is_too_long_for_a_stream_that_has_begun(admin: Peer) -> None:
    params = {"name": "letter", "arguments": {"steps": 2}, "_meta": {"progressToken": 1}}

    talked = talk(admin, MODERN, "tools/call", params)

    assert [progress for progress, *_ in talked.progress] == [0, 1]
    assert talked.answer["result"]["isError"] is True
    assert text_of(talked.answer["result"]) == TOO_LONG


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_resource_that_is_too_long_for_a_socket_is_refused_with_another_way(admin: Peer, declared: Any) -> None:
    declared.resource("shop://novel", lambda request: LETTER, name="novel")

    refused = admin.request(MODERN, "resources/read", {"uri": "shop://novel"})

    assert refused["error"]["message"] == (
        "The answer would be larger than the 900000 bytes that a message of this connection may have. Ask for less, "
        "or ask over HTTP and without a progress token."
    )


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_page_of_rows_fits_into_a_message_however_much_a_result_may_hold(admin: Peer, flights: Any) -> None:
    from demo_project.flights.models import Flight

    Flight.objects.update(notes="z" * 100_000)
    with override_settings(MCP={"MAX_RESULT_BYTES": 8_000_000, "MAX_TEXT": 100_000}):
        arguments = {"model": "flights.flight", "fields": ["notes"], "limit": 20}
        answer = admin.request(MODERN, "tools/call", {"name": "find_records", "arguments": arguments})

    assert len(encode(answer)) <= MAX_MESSAGE_BYTES
    assert answer["result"]["structuredContent"]["next_cursor"]
