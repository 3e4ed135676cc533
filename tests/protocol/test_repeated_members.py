"""Objects that have a member twice: a proxy in front of the server may read the one, and the server the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_django.exceptions import MCPError
from mcp_django.protocol import jsonrpc
from tests.axes import TEXT
from tests.support.peers import Peer
from tests.support.raw import send_raw

CALL = (
    '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", '
    '"params": {"name": "find_records", "arguments": {"model": "flights.flight", %s}}}'
)

TWICE = {
    "of the message": '{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "method": "ping"}',
    "of the params": '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "name": "b"}}',
    "of the arguments": CALL % '"limit": 1, "limit": 2',
    "of a filter": CALL % '"filter": {"origin": "JFK", "origin": "EWR"}',
    "of an object in a list": CALL % '"filter": {"any": [{"id": 1}, {"id": 2, "id": 3}]}',
    "spelt with an escape": CALL % '"filter": {"origin": "JFK", "\\u006frigin": "EWR"}',
    "of equal values": CALL % '"limit": 1, "limit": 1',
    "with colons in its texts": CALL % '"search": "a:b:c", "limit": 1, "search": "::"',
    "beside an escaped colon": CALL % '"limit": 1, "limit": 2, "search": "\\u003a"',
    "beside a colon escaped in capitals": CALL % '"limit": 1, "limit": 2, "search": "\\u003A"',
}


@pytest.mark.parametrize("transport", TEXT)
def test_showing_another_argument_to_a_proxy_than_to_the_server(admin: Peer) -> None:
    answers = {case: send_raw(admin, text) for case, text in TWICE.items()}

    errors = {case: raw.message["error"] for case, raw in answers.items()}
    assert {case: (error["code"], error["message"][-6:]) for case, error in errors.items()} == dict.fromkeys(
        TWICE, (-32700, "twice.")
    )
    assert all("id" not in raw.message for raw in answers.values())
    assert {raw.status for raw in answers.values()} in ({400}, {None})


@pytest.mark.parametrize("transport", TEXT)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_showing_another_argument_to_a_proxy_in_a_batch(admin: Peer, revision: str) -> None:
    ping = '{"jsonrpc": "2.0", "id": 2, "method": "ping"}'

    raw = send_raw(admin, f"[{ping}, {TWICE['of a filter']}]", revision)

    assert raw.message["error"]["message"] == "Parse error: an object has the member 'origin' twice."


def test_filling_the_error_with_a_long_name() -> None:
    name = "x" * 10_000

    with pytest.raises(MCPError) as refused:
        jsonrpc.decode(f'{{"{name}": 1, "{name}": 2}}')

    assert len(refused.value.message) < 200


DIFFERENT: list[Any] = [
    {"id": 1, "params": {"id": 2, "x": [{"id": 3}, {"id": 4}]}},
    {"a": "::", "b:": {"c:d": [":"]}},
    {"a": "{\"b\": 1, \"b\": 2}"},
    [{"a": 1}, {"a": 2}],
    {"a": 1e300, "b": -0.5, "c": "\u00e4\u2028:"},
    ":", 7, None, [],
]  # fmt: skip


def test_equal_names_in_different_objects_are_read() -> None:
    for separators in ((",", ":"), (", ", ": ")):
        for ensure_ascii in (True, False):
            texts = [json.dumps(value, separators=separators, ensure_ascii=ensure_ascii) for value in DIFFERENT]

            assert [jsonrpc.decode(text) for text in texts] == DIFFERENT


def test_a_usual_message_is_not_read_by_the_slow_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    monkeypatch.setattr(jsonrpc.json, "loads", lambda *args, **kwargs: read.append(args))
    text = CALL % '"filter": {"departs_at__gte": "2013-01-01T10:00:00Z", "notes": "M\\u00fcnchen: late"}'

    jsonrpc.decode(text)

    assert read == []
