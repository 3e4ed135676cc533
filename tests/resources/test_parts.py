"""Results that are too long for a message of a stream or a socket: cut, with the rest as resources."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import override_settings
from django.utils import timezone

from mcp_django.conf import MAX_MESSAGE_BYTES
from mcp_django.models import ResultPart
from mcp_django.protocol.jsonrpc import encode
from tests.conftest import DUPLEX, HTTP
from tests.support.base import MODERN, REVISIONS
from tests.support.data import token_of
from tests.support.peers import Peer, Peers
from tests.support.talking import call, talk

LETTER = "abcdefghij" * 200_000

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("_generous")]


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


def links(result: Any) -> list[str]:
    return [block["uri"] for block in result["content"] if block["type"] == "resource_link"]


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.usefixtures("_letters")
def test_a_long_result_is_whole_as_json_over_http(admin: Peer) -> None:
    result = call(admin, "letter").answer["result"]

    assert [block["text"] == LETTER for block in result["content"]] == [True]
    assert not ResultPart.objects.exists()


@pytest.mark.parametrize("transport", ["stdio"])
@pytest.mark.usefixtures("_letters")
def test_a_long_result_is_whole_on_stdio(admin: Peer) -> None:
    result = call(admin, "letter", steps=1).answer["result"]

    assert [block["text"] == LETTER for block in result["content"]] == [True]


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.parametrize("revision", [revision for revision in REVISIONS if revision >= "2025-06-18"])
@pytest.mark.usefixtures("_letters")
def test_a_long_result_is_cut_on_a_socket_and_its_parts_are_the_whole(admin: Peer, revision: str) -> None:
    answer = call(admin, "letter", revision).answer

    first, notice, *_ = answer["result"]["content"]
    uris = links(answer["result"])
    rest = [admin.result(revision, "resources/read", {"uri": uri})["contents"] for uri in uris]
    assert answer["result"]["isError"] is False
    assert notice["text"] == (
        "The result is too long for one message, and this is part 1 of 3. The tool has done its work: do not call it "
        f"again. Read the resources {uris[0]} to {uris[1]} within 600 seconds."
    )
    assert [(contents["uri"], contents["mimeType"]) for [contents] in rest] == [(uri, "text/plain") for uri in uris]
    assert first["text"] + "".join(contents["text"] for [contents] in rest) == LETTER
    assert len(encode(answer)) <= MAX_MESSAGE_BYTES


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.usefixtures("_letters")
def test_a_long_result_is_cut_where_progress_went_before_it_in_the_stream(admin: Peer) -> None:
    params = {"name": "letter", "arguments": {"steps": 2}, "_meta": {"progressToken": 1}}

    talked = talk(admin, MODERN, "tools/call", params)

    answer = talked.answer
    assert [progress for progress, *_ in talked.progress] == [0, 1]
    assert len(links(answer["result"])) == 2
    assert len(encode(answer)) <= MAX_MESSAGE_BYTES


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.usefixtures("_letters")
def test_structured_content_that_is_too_long_is_an_error_whose_parts_are_its_json(admin: Peer) -> None:
    result = call(admin, "ledger").answer["result"]

    first = result["content"][0]["text"]
    rest = [admin.result(MODERN, "resources/read", {"uri": uri})["contents"][0] for uri in links(result)]
    assert result["isError"] is True and "structuredContent" not in result
    assert {contents["mimeType"] for contents in rest} == {"application/json"}
    whole = first + "".join(contents["text"] for contents in rest)
    assert json.loads(whole) == {"lines": ["abcdefghij"] * 100_000}


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.parametrize("character", ["\x00", '"', "\\", "é", "😀"])
@pytest.mark.usefixtures("_letters")
def test_no_frame_is_too_long_whatever_the_characters_weigh(admin: Peer, character: str) -> None:
    written = len(encode(character)) - 2
    text = character * (1_200_000 // written)

    with override_settings(MCP={"MAX_RESULT_BYTES": 8_000_000, "MAX_BODY_BYTES": 8_000_000}):
        answer = call(admin, "letter", text=text).answer
        parts = [admin.request(MODERN, "resources/read", {"uri": uri}) for uri in links(answer["result"])]

    assert max(len(encode(message)) for message in (answer, *parts)) <= MAX_MESSAGE_BYTES
    found = [part["result"]["contents"][0]["text"] for part in parts]
    assert answer["result"]["content"][0]["text"] + "".join(found) == text


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.usefixtures("_letters")
def test_reading_anothers_result_is_answered_as_reading_one_that_does_not_exist(admin: Peer, ops: Peer) -> None:
    [uri, _] = links(call(admin, "letter").answer["result"])
    absent = f"result://{'0' * 32}/2"

    hidden, missing = (ops.request(MODERN, "resources/read", {"uri": asked})["error"] for asked in (uri, absent))

    assert json.loads(json.dumps(hidden).replace(uri, absent)) == missing


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.usefixtures("_letters")
def test_a_part_whose_time_is_over_is_gone(admin: Peer) -> None:
    [uri, _] = links(call(admin, "letter").answer["result"])
    ResultPart.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    refused = admin.request(MODERN, "resources/read", {"uri": uri})
    call(admin, "letter")

    assert refused["error"]["code"] == -32602
    assert ResultPart.objects.count() == 2


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.usefixtures("_letters")
def test_a_caller_has_twenty_results_kept_at_most(admin: Peer, users: Any, peers: Peers) -> None:
    somebody_else = peers(token_of(users.ops))
    call(somebody_else, "letter")

    for _ in range(22):
        call(admin, "letter")

    kept = ResultPart.objects.filter(number=2)
    assert kept.filter(principal_key=f"user:{users.admin.pk}").count() == 20
    assert kept.filter(principal_key=f"user:{users.ops.pk}").count() == 1


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
