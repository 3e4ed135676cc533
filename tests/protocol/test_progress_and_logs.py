"""Messages before the answer: progress and log lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_django.protocol.jsonrpc import notification_message
from mcp_django.transports.message_buffer import MessageBuffer
from tests.axes import HTTP
from tests.support.data import switch_on
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, REVISIONS, HTTPPeer, Peer
from tests.support.talking import call, talk

pytestmark = pytest.mark.every_transport

LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.fixture
def counting(declared: Declared, users: Any) -> Iterator[None]:
    def count(request: Any) -> str:
        """Counts to three, and says so."""
        for step in (0, 1, 1, 0.5, 2, 3):
            request.mcp.progress(step, 3, f"step {step}")
        return "counted"

    def chat(request: Any) -> str:
        """Says a line of each of four levels."""
        for level in ("debug", "info", "warning", "emergency"):
            request.mcp.log(level, {"said": level}, "chat")
        return "said"

    declared.tool(count, read_only=True)
    declared.tool(chat, read_only=True)
    switch_on("count", "chat")
    yield


@pytest.mark.parametrize("revision", REVISIONS)
def test_progress_goes_up_and_before_the_answer(counting: None, admin: Peer, revision: str) -> None:
    message = [None] * 4 if revision == "2024-11-05" else ["step 0", "step 1", "step 2", "step 3"]
    for token in ("a", "", 0, 7, -1):
        said = talk(admin, revision, "tools/call", {"name": "count", "_meta": {"progressToken": token}})
        assert [told["params"]["progressToken"] for told in said.told] == [token] * 4
        assert all(type(told["params"]["progressToken"]) is type(token) for told in said.told)
        assert said.progress == [(step, 3, message[step]) for step in range(4)]
        assert said.text == "counted"


@pytest.mark.parametrize("revision", ["2025-03-26", MODERN])
def test_no_progress_without_a_token(counting: None, admin: Peer, revision: str) -> None:
    """Nor with one as large as the body: each step would repeat it, and a thousand steps send a thousand megabytes."""
    for meta in ({"progressToken": True}, {"progressToken": 1.5}, {"progressToken": None}):
        assert talk(admin, revision, "tools/call", {"name": "count", "_meta": meta}).told == []
    for meta in ({}, {"progressToken": "a" * 500_000}):
        said = talk(admin, revision, "tools/call", {"name": "count", "_meta": meta})
        assert (said.told, said.text) == ([], "counted")


def test_log_from_the_level_that_a_modern_request_names(counting: None, admin: Peer) -> None:
    lines = [(name, {"said": name}) for name in ("debug", "info", "warning", "emergency")]
    for level, heard in (("debug", 4), ("info", 3), ("notice", 2), ("warning", 2), ("error", 1), ("emergency", 1)):
        said = talk(admin, MODERN, "tools/call", {"name": "chat", "_meta": {LEVEL: level}})
        assert said.logged == lines[-heard:]
        assert {told["params"]["logger"] for told in said.told} == {"chat"}
        assert said.text == "said"
    assert call(admin, "chat").told == []  # It names no level.


@pytest.mark.parametrize("revision", LEGACY)
def test_set_level_holds_for_the_session(counting: None, admin: Peer, revision: str) -> None:
    assert [level for level, _ in call(admin, "chat", revision).logged] == ["info", "warning", "emergency"]
    assert admin.result(revision, "logging/setLevel", {"level": "error"}) == {}
    assert [level for level, _ in call(admin, "chat", revision).logged] == ["emergency"]
    assert admin.result(revision, "logging/setLevel", {"level": "debug"}) == {}
    assert len(call(admin, "chat", revision).logged) == 4


def test_a_level_that_does_not_exist_is_refused(counting: None, admin: Peer) -> None:
    named = talk(admin, MODERN, "tools/call", {"name": "chat", "_meta": {LEVEL: "loud"}}).answer["error"]
    set_for_all = admin.error("2025-11-25", "logging/setLevel", {"level": "loud"})
    assert (named["code"], set_for_all["code"]) == (-32602, -32602)
    assert LEVEL in named["data"]["errors"][0]["field"]
    assert set_for_all["data"]["errors"][0]["field"] == "level"


@pytest.mark.parametrize("level", ["emergency", "info"])
def test_a_flood_of_log_is_cut_and_says_so_on_a_level_that_the_client_wants(
    declared: Declared, users: Any, admin: Peer, level: str
) -> None:
    def flood(request: Any) -> str:
        """Says more than anybody reads."""
        for number in range(5000):
            request.mcp.log(level, number)
        return "done"

    declared.tool(flood, read_only=True)
    switch_on("flood")
    said = talk(admin, MODERN, "tools/call", {"name": "flood", "_meta": {LEVEL: level}})
    numbers = [data for _, data in said.logged if isinstance(data, int)]
    assert numbers == sorted(numbers)
    left_out = [int(data.split()[0]) for _, data in said.logged if isinstance(data, str)]
    assert len(numbers) + sum(left_out) == 5000
    assert {level for level, _ in said.logged} == {level}
    assert said.text == "done"


@pytest.mark.parametrize("transport", HTTP)
def test_messages_are_not_sent_to_a_client_that_accepts_no_stream(counting: None, admin: HTTPPeer) -> None:
    params = {"name": "count", "_meta": admin.meta(progressToken="a")}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = admin.post(message, {**admin.modern_headers("tools/call", params), "Accept": "application/json"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["result"]["content"] == [{"type": "text", "text": "counted"}]


def test_a_log_message_that_is_too_large_is_reported_as_dropped(declared: Declared, users: Any, admin: Peer) -> None:
    def shout(request: Any) -> str:
        """Says too much at once."""
        request.mcp.log("info", "a" * 2_000_000)
        return "done"

    declared.tool(shout, read_only=True)
    switch_on("shout")
    said = talk(admin, MODERN, "tools/call", {"name": "shout", "_meta": {LEVEL: "info"}})
    [(level, text)] = said.logged
    assert (level, text[:24]) == ("info", "1 log messages were left")
    assert said.text == "done"


def test_the_messages_for_a_slow_client_are_bounded_in_bytes() -> None:
    buffer = MessageBuffer()

    for _ in range(50):
        buffer.put(notification_message("notifications/message", {"level": "info", "data": "a" * 100_000}))

    *waited, last = buffer.take()
    assert sum(map(len, waited)) <= 900_000
    assert json.loads(last)["params"]["data"].startswith(f"{50 - len(waited)} log messages")
