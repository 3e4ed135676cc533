"""A secret that a client sends, or a tool answers, is in no row of the trail, no log record and no signal."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.audit.lines import chosen, keys_of
from mcp_django.audit.signals import call_recorded
from mcp_django.exceptions import ToolError
from mcp_django.models import Call
from tests.audit.conftest import Rows, send_with
from tests.support.base import MODERN
from tests.support.data import token_of
from tests.support.peers import Peers

CANARY = "CANARY-4f9a1c"


@pytest.fixture
def seen(audited: Any, caplog: pytest.LogCaptureFixture) -> Any:
    """Everything that the trail and the logs tell anybody."""
    caplog.set_level(logging.DEBUG, "mcp_django")
    heard: list[str] = []

    def hear(call: Any, **_: Any) -> None:
        heard.append(str(call))

    call_recorded.connect(hear)
    yield lambda: "\n".join(
        [
            *heard,
            *(f"{vars(record)} {record.getMessage()} {record.exc_text}" for record in caplog.records),
            *(str(row) for row in Call.objects.values()),
        ]
    )
    call_recorded.disconnect(hear)


@pytest.mark.http_and_duplex
def test_sending_a_secret_in_every_place_that_a_client_fills(
    peers: Peers, users: Any, flights: Any, rows: Rows, declared: Any, seen: Callable[[], str]
) -> None:
    def whisper(request: Any, word: str) -> str:
        """Answers with what it was told."""
        if word == CANARY:
            raise ToolError(f"No {word}")
        return f"{word} {CANARY}"

    declared.tool(whisper)
    declared.resource("shop://order/{number}", lambda request, number: f"{CANARY} {number}")
    peer = peers(token_of(users.admin))
    find = {"name": "find_records"}
    filters = {"notes": CANARY, f"notes__{CANARY}": 1, CANARY: 1}

    for params in (
        {**find, "arguments": {"model": "flights.flight", "filter": filters}},
        {**find, "arguments": {"model": CANARY}},
        {**find, "arguments": {"model": "flights.flight", CANARY: 1}},
        {**find, "arguments": {"model": "flights.flight", "search": CANARY, "cursor": CANARY, "order_by": [CANARY]}},
        {"name": "get_record", "arguments": {"model": "flights.flight", "id": CANARY}},
        {"name": "whisper", "arguments": {"word": CANARY}},
        {"name": "whisper", "arguments": {"word": "x"}},
        {"name": "flights_flight_mark_cancelled", "arguments": {"ids": [CANARY]}},
    ):
        peer.request(MODERN, "tools/call", params)
    for uri in (
        f"db://flights/flight/{CANARY}",
        f"db://flights/flight?notes={CANARY}",
        f"db://flights/flight?{CANARY}=1",
        f"db://{CANARY}/flight",
        f"db://flights/{CANARY}",
        f"db://flights/flight/3/{CANARY}",
        f"{CANARY}://x",
        f"shop://order/{CANARY}",
        f"?{CANARY}",
    ):
        peer.request(MODERN, "resources/read", {"uri": uri})
    peer.request(MODERN, "prompts/get", {"name": "nothing", "arguments": {CANARY: CANARY}})

    told = rows("outcome")
    assert len(told) == 18
    assert CANARY not in seen()


def test_watching_and_completing_with_a_secret(
    peers: Peers, users: Any, flights: Any, rows: Rows, audited: Callable[..., None], seen: Callable[[], str]
) -> None:
    audited(AUDIT_COMPLETION=True)
    peer = peers(token_of(users.admin))
    reference = {"type": "ref/resource", "uri": "db://flights/flight/{id}"}

    peer.watch(MODERN, [f"db://flights/flight?notes={CANARY}", f"db://flights/flight/{CANARY}", f"x://{CANARY}"])
    for argument in ({"name": "id", "value": CANARY}, {"name": CANARY, "value": "1"}):
        peer.request(MODERN, "completion/complete", {"ref": reference, "argument": argument})
    other = {"type": "ref/prompt", "name": "none"}
    peer.request(MODERN, "completion/complete", {"ref": other, "argument": {"name": "x", "value": CANARY}})

    assert {row["kind"] for row in rows("kind")} == {"subscription", "completion"}
    assert CANARY not in seen()


def test_sending_a_secret_in_headers(peers: Peers, users: Any, rows: Rows, seen: Callable[[], str]) -> None:
    bad, good = peers(f"mcp_{CANARY:x<43}"), peers(token_of(users.ops))
    headers = {"X-Api-Key": CANARY, "Cookie": f"sessionid={CANARY}", "User-Agent": CANARY, "X-Forwarded-For": CANARY}

    send_with(bad, headers, "tools/list")
    send_with(good, headers, "tools/call", name="describe_models", arguments={})

    assert len(rows("id")) == 2
    assert CANARY not in seen()


def test_what_a_client_chose_is_shown_as_text() -> None:
    expected: list[tuple[object, str]] = [
        ("plain", "plain"), ("\ud800", r"\ud800"), ("\x1b[31m", r"\x1b[31m"), ("é ü", "é ü"), (17, "17"),
        ("x" * 99, "x" * 64), ("a\nb\x00\u202ec", r"a\nb\x00\u202ec"),
    ]  # fmt: skip

    assert [(text, chosen(text)) for text, _ in expected] == expected


def test_keys_are_integers_and_uuids() -> None:
    uuid = "6f0c2b1e-7f4e-4f7e-9f5c-0c7f4e5b6a7d"
    expected: list[tuple[Any, str]] = [
        ([17, "18", -3], " 17 18 -3 "), (["ana@example.com", 5], " 5 "), ([uuid], f" {uuid} "),
        (["٣", "1e5", " 4", "9" * 40], ""), ([], ""), (range(50), f" {' '.join(map(str, range(20)))} "),
    ]  # fmt: skip

    assert [(values, keys_of(values)) for values, _ in expected] == expected
