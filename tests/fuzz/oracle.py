"""What a right answer to anything is: read from what was sent, without the code under test."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from tests.fuzz.entry_points import Got, Sending
from tests.fuzz.reading import Sent, member, read
from tests.support import schemas
from tests.support.base import LEGACY, MODERN

#: What tells of the inside of the server, or is a page.
_LEAKS = re.compile(
    r"Traceback|File \"|\.py\b|sqlite|psycopg|\bSELECT \"|\bSELECT \w+\.|INSERT INTO|<html|<!doctype| object at 0x"
    r"|(Operational|Integrity|Data|Programming)Error|errors\.pydantic\.dev|django\.(db|core|http)|mcp_django\.|Exception\b",
    re.IGNORECASE,
)
_SAME_STATUS = {401: -32600, 403: -32600, 405: -32600, 406: -32600, 413: -32600, 415: -32600}
_ENVELOPE_CODES = {-32700, -32600, -32020, -32021, -32022}
_BATCHING = ("2024-11-05", "2025-03-26")


def check_text(text: str, said: str) -> None:
    """Nothing of the server's inside is told, but for what the client has said itself."""
    for found in _LEAKS.finditer(text):
        assert found.group().lower() in said.lower(), text[max(0, found.start() - 200) : found.end() + 200]


def check_answer(sent: Sent, answer: Any, revision: str) -> None:
    """One answer, or the array of a batch, is right for what was sent, in the revision that it was sent in."""
    if isinstance(answer, list):
        assert sent.kind == "batch" and revision in _BATCHING, (sent, answer)
        _check_batch(sent.value, answer, revision)
        return
    assert isinstance(answer, dict) and answer.get("jsonrpc") == "2.0", answer
    assert ("result" in answer) != ("error" in answer), answer
    assert "id" not in answer or answer["id"] is not None, answer
    if "error" in answer:
        _check_error(sent, answer, revision)
        return
    assert sent.kind == "request" and sent.method is not None, (sent, answer)
    assert same(answer["id"], sent.id), (sent, answer)
    if sent.method == "initialize" and not sent.is_modern:
        revision = answer["result"]["protocolVersion"]
        assert revision in LEGACY
    _check_result(json.dumps(answer["result"], sort_keys=True), revision, sent.method)


@lru_cache(maxsize=20_000)
def _check_result(result: str, revision: str, method: str) -> None:
    schemas.check({"jsonrpc": "2.0", "id": 1, "result": json.loads(result)}, revision, method)


def _check_error(sent: Sent, answer: Any, revision: str) -> None:
    schemas.check(answer, revision)
    error = answer["error"]
    assert set(error) <= {"code", "message", "data"}, answer
    assert isinstance(error["code"], int) and 0 < len(error["message"]) < 1000, answer
    assert error["code"] != -32603 or error["data"]["reason"] in ("LIMIT_EXCEEDED", "OVERLOADED"), answer
    assert (error["code"] == -32002) <= (revision in LEGACY), answer
    if error["code"] == -32700:
        assert "id" not in answer, answer
        assert sent.kind == "no json" or sent.doubtful, (sent, answer)
        return
    if "id" in answer:
        assert same(answer["id"], sent.id), (sent, answer)
    else:
        assert sent.kind != "request" or error["data"]["reason"] in _BEFORE_READING, (sent, answer)


#: Reasons that may be given before the body was read, so without its id.
_BEFORE_READING = {
    "UNAUTHENTICATED", "FORBIDDEN", "METHOD_NOT_ALLOWED", "REQUEST_ENTITY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE",
    "NOT_ACCEPTABLE", "SESSION_NOT_FOUND", "OVERLOADED", "UNSUPPORTED_PROTOCOL_VERSION",
}  # fmt: skip


def _check_batch(members: list[Any], answers: list[Any], revision: str) -> None:
    """One answer for each request and for each member that is no message, in any order."""
    assert answers, members
    sent = [member(one) for one in members]
    due = [one for one in sent if one.kind in ("request", "malformed")]
    assert len(answers) == len(due), (members, answers)
    for answer in answers:
        fitting = [one for one in due if same(one.id, answer.get("id"))]
        assert fitting, (answer, members)
        due.remove(_best(fitting, answer))
        check_answer(_best(fitting, answer), answer, revision)


def _best(fitting: list[Sent], answer: Any) -> Sent:
    wanted = "request" if "result" in answer else fitting[0].kind
    return next((one for one in fitting if one.kind == wanted), fitting[0])


def same(one: Any, other: Any) -> bool:
    """Whether two ids are one: ``1`` and ``"1"`` are not."""
    return type(one) is type(other) and one == other


def check_http(sending: Sending, got: Got, sessions: dict[str, str]) -> None:
    """An HTTP answer: its status, its headers, and what it says. ``sessions``: the revision of each live one."""
    sent = read(got.heard) if sending.method.upper() == "POST" else Sent("malformed")
    _check_headers(got)
    if got.status in (202, 204):
        assert got.body == b"" and "content-type" not in got.headers, got
        assert got.status == 202 or sending.method.upper() in ("DELETE", "OPTIONS"), got
        assert got.status == 204 or sent.kind in ("notification", "response", "batch"), (sent, got)
        return
    check_text(got.body.decode(), sending.said)
    if got.streamed:
        assert got.status == 200, got
        _check_stream(sending, sent, got, sessions)
        return
    assert got.headers["content-type"] == "application/json", got
    [message] = got.messages()
    revision = revision_of(sending, sent, sessions)
    check_answer(sent, message, revision)
    _check_status(got, message, modern=sent.is_modern or sending.header("MCP-Protocol-Version") == MODERN)


def revision_of(sending: Sending, sent: Sent, sessions: dict[str, str]) -> str:
    """The revision that an HTTP request is made in."""
    if sent.is_modern:
        return MODERN
    key = (sending.header("Mcp-Session-Id") or "").strip(" \t")
    version = (sending.header("MCP-Protocol-Version") or "").strip(" \t")
    return sessions.get(key) or (version if version in LEGACY else "2025-03-26")


def _check_headers(got: Got) -> None:
    for name, value in got.headers.items():
        assert re.fullmatch(r"[a-z-]+", name), got.headers
        assert "\r" not in value and "\n" not in value and "\x00" not in value, got.headers
    assert "set-cookie" not in got.headers
    if "content-length" in got.headers:
        assert int(got.headers["content-length"]) == len(got.body), got


def _check_status(got: Got, message: Any, *, modern: bool) -> None:
    """The status and the code go together as SPEC A.4 has it."""
    if isinstance(message, list) or "result" in message:
        assert got.status == 200, got
        return
    code, reason = message["error"]["code"], message["error"]["data"]["reason"]
    match got.status:
        case 200:
            assert code not in _ENVELOPE_CODES and not (modern and code == -32601), got
        case 400:
            assert code in _ENVELOPE_CODES or reason in ("INVALID_ENVELOPE", "LIMIT_EXCEEDED"), got
        case 404:
            assert (code == -32601 and modern) or reason == "SESSION_NOT_FOUND", got
        case 503:
            assert reason == "OVERLOADED", got
        case status:
            assert _SAME_STATUS[status] == code, got
    assert (got.status == 401) <= ("www-authenticate" in got.headers), got
    assert (got.status == 405) <= ("allow" in got.headers), got


def _check_stream(sending: Sending, sent: Sent, got: Got, sessions: dict[str, str]) -> None:
    revision = revision_of(sending, sent, sessions)
    if sending.method.upper() == "GET":
        assert sessions.get((sending.header("Mcp-Session-Id") or "").strip(" \t")), sending
    for message in got.messages():
        if "method" in message:
            schemas.check(message, revision)
        else:
            check_answer(sent, message, revision)
