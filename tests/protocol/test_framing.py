"""Malformed messages, ids of every kind, and notifications."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.axes import HTTP, NETWORK
from tests.support.peers import HTTPPeer, Peer, SocketPeer
from tests.support.raw import error, send_raw, send_unanswered

pytestmark = pytest.mark.every_transport

NO_OBJECT = error(-32600, "INVALID_REQUEST", "A message must be a JSON object.")
BAD_ID = error(-32600, "INVALID_REQUEST", "id must be an integer, or a string of at most 1000 characters.")
NO_VERSION = error(-32600, "INVALID_REQUEST", 'A message must carry "jsonrpc": "2.0".', 7)
NO_METHOD = error(-32600, "INVALID_REQUEST", "A message must have a method, a result or an error.", 7)
BAD_METHOD = error(-32600, "INVALID_REQUEST", "method must be a string.", 7)
BAD_PARAMS = error(-32600, "INVALID_REQUEST", "params must be an object.", 7)

PING = '{"jsonrpc": "2.0", "id": %s, "method": "ping"}'
PARAM = '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": %s}}'

MALFORMED = {
    "a number": ("1", NO_OBJECT),
    "a string": ('"ping"', NO_OBJECT),
    "null": ("null", NO_OBJECT),
    "true": ("true", NO_OBJECT),
    "id null": (PING % "null", BAD_ID),
    "id true": (PING % "true", BAD_ID),
    "id false": (PING % "false", BAD_ID),
    "id 1.5": (PING % "1.5", BAD_ID),
    "id 1.0": (PING % "1.0", BAD_ID),
    "id object": (PING % '{"a": 1}', BAD_ID),
    "id array": (PING % "[1]", BAD_ID),
    "id too long": (PING % f'"{"x" * 1001}"', BAD_ID),
    "no method": ('{"jsonrpc": "2.0", "id": 7}', NO_METHOD),
    "result and error": ('{"jsonrpc": "2.0", "id": 7, "result": {}, "error": {}}', NO_METHOD),
    "method null": ('{"jsonrpc": "2.0", "id": 7, "method": null}', BAD_METHOD),
    "method number": ('{"jsonrpc": "2.0", "id": 7, "method": 1}', BAD_METHOD),
    "jsonrpc 1.0": ('{"jsonrpc": "1.0", "id": 7, "method": "ping"}', NO_VERSION),
    "jsonrpc 2": ('{"jsonrpc": 2.0, "id": 7, "method": "ping"}', NO_VERSION),
    "no jsonrpc": ('{"id": 7, "method": "ping"}', NO_VERSION),
    "params array": ('{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}', BAD_PARAMS),
    "params string": ('{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": "x"}', BAD_PARAMS),
}


def test_a_malformed_message_is_refused_with_its_id_where_that_can_be_read(admin: Peer) -> None:
    answers = {case: send_raw(admin, text) for case, (text, _) in MALFORMED.items()}

    assert {case: raw.message for case, raw in answers.items()} == {
        case: expected for case, (_, expected) in MALFORMED.items()
    }
    assert {raw.status for raw in answers.values()} in ({400}, {None})


def test_what_some_clients_write_is_taken_for_what_they_mean(admin: Peer) -> None:
    """A byte order mark before a message, and null for params that are left out."""
    for text in ("\ufeff" + PING % "7", '{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": null}'):
        assert send_raw(admin, text).message == {"jsonrpc": "2.0", "id": 7, "result": {}}, text


NO_JSON = {
    "cut short": "{",
    "no JSON": "ping",
    "trailing": '{"jsonrpc": "2.0", "id": 1, "method": "ping"} {}',
    "single quotes": "{'jsonrpc': '2.0'}",
    "NaN": PARAM % "NaN",
    "-Infinity": PARAM % "-Infinity",
    "1e400": PARAM % "1e400",
    "nested -1e400": PARAM % "[[-1e400]]",
    "lone surrogate": PARAM % '"\\ud800"',
    "lone surrogate as id": PING % '"\\udfff"',
    "deep": PARAM % ("[" * 5000 + "]" * 5000),
    "deep and cut short": '{"a":' * 100_000,
}


@pytest.mark.parametrize("transport", NETWORK)  # Blank lines are skipped.
def test_an_empty_body_is_a_parse_error(admin: Peer) -> None:
    for text in ("", " "):
        raw = send_raw(admin, text)

        assert (raw.status, raw.message["error"]["code"]) in ((400, -32700), (None, -32700))


def test_invalid_json_is_a_parse_error(admin: Peer) -> None:
    answers = {case: send_raw(admin, text) for case, text in NO_JSON.items()}

    for case, raw in answers.items():
        assert "id" not in raw.message, case
        assert raw.message["error"]["code"] == -32700, case
        assert raw.message["error"]["message"].startswith("Parse error: "), case
        assert raw.message["error"]["data"]["reason"] == "PARSE_ERROR", case
        assert raw.status in (400, None), case


@pytest.mark.parametrize("transport", HTTP)
def test_a_body_that_is_not_utf8_is_a_parse_error(admin: HTTPPeer) -> None:
    for body in (b"\xff\xfe{}", '{"jsonrpc": "2.0", "id": 1, "method": "é"}'.encode("latin-1")):
        answer = admin.http("POST", body)

        assert (answer.status, answer.headers["content-type"]) == (400, "application/json")
        assert answer.json["error"]["code"] == -32700


def test_an_id_comes_back_as_it_was_sent(admin: Peer) -> None:
    ids: list[Any] = [0, -1, "", "1", 1, 2**53, -(2**53), 2**63, "ж\n\u0000", "x" * 1000]

    answers = [send_raw(admin, json.dumps({"jsonrpc": "2.0", "id": one, "method": "ping"})) for one in ids]

    assert [raw.message for raw in answers] == [{"jsonrpc": "2.0", "id": one, "result": {}} for one in ids]
    assert [type(raw.message["id"]) for raw in answers] == [type(one) for one in ids]
    assert {raw.status for raw in answers} in ({200}, {None})


def test_an_id_with_more_digits_than_python_reads_does_no_harm(admin: Peer) -> None:
    raw = send_raw(admin, PING % ("9" * 5000))

    assert raw.message["error"]["code"] in (-32700, -32600)
    assert raw.status in (400, None)


def test_a_notification_is_not_answered(admin: Peer) -> None:
    for method in (
        "notifications/unheard",
        "notifications/initialized",
        "notifications/roots/list_changed",
        "ping",
        "",
    ):
        send_unanswered(admin, {"jsonrpc": "2.0", "method": method})


def test_unknown_members_of_a_message_are_ignored(admin: Peer) -> None:
    raw = send_raw(admin, '{"jsonrpc": "2.0", "id": 1, "method": "ping", "extra": [1], "params": {"unknown": true}}')

    assert raw.message == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_text_of_unicode_lines_is_one_message(admin: SocketPeer) -> None:
    raw = send_raw(admin, '{"jsonrpc": "2.0",\n "id": "\u2028",\r\n "method": "ping"}')

    assert raw.message == {"jsonrpc": "2.0", "id": "\u2028", "result": {}}


def test_a_response_to_nothing_is_taken_and_dropped(admin: Peer) -> None:
    failed = {"code": 1, "message": "no"}
    for response in ({"id": 1, "result": {}}, {"id": "x", "error": failed}, {"error": failed}):
        send_unanswered(admin, {"jsonrpc": "2.0", **response})
