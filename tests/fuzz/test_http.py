"""Bad input over HTTP, through every entry point: bodies, headers, methods, and bytes that are nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.axes import OVER_HTTP, PUSHING
from tests.fuzz import oracle
from tests.fuzz.entry_points import ASGIEntry, Header, Sending, authorization
from tests.fuzz.jsontext import encode, write
from tests.fuzz.mutations import STRINGS, wild
from tests.fuzz.profile import fuzz
from tests.fuzz.seeds import http_headers, messages, replies, requests
from tests.fuzz.served import Served
from tests.support.base import REVISIONS

pytestmark = pytest.mark.slow

Draw = Callable[[st.SearchStrategy[Any]], Any]

TYPES = [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")]
NAMES = [
    "Content-Type", "Accept", "Origin", "Host", "Authorization", "MCP-Protocol-Version", "Mcp-Session-Id",
    "Mcp-Method", "Mcp-Name", "Mcp-Param-Region", "Last-Event-ID", "Cookie", "Content-Length", "Content-Encoding",
    "Transfer-Encoding", "X-Forwarded-Host", "X-Forwarded-Proto", "Accept-Language", "Accept-Encoding",
    "If-None-Match", "Range", "Expect", "X-HTTP-Method-Override", "Upgrade",
]  # fmt: skip
HEADER_VALUES = [
    "", " ", ",", ";", "*/*", "application/*", "application/json;q=0", "text/event-stream", "text/html",
    "application/json, text/html;q=x", "application/json; charset=utf-16", "application/json;",
    "application/json,application/json", "multipart/form-data", "text/plain", "null", "http://localhost",
    "https://evil.example", "http://[", "http://localhost:99999", "http://localhost:x", "localhost", "[::1]:x",
    "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "2026-07-28, 2026-07-28", "v999",
    "=?base64?", "=?base64??=", "=?base64?eA==?=", "=?BASE64?eA==?=", "=?base64?eA=?=", "=?base64?/w==?=",
    "=?base64?\xff?=", "=?base64?=", "tools/list", "ping", "TOOLS/LIST", "Bearer", "Bearer ", "Bearer a b", "Basic",
    "Basic =", "Basic dXNlcjpwYXNz", "bearer \xff", "Digest x", "\xff", "\x80\x81", "é", "x" * 300, "x" * 9000,
    "9" * 400, "-1", "0", "1e3", "deadbeef", "0-0", "gzip", "chunked", "sessionid=x; sessionid=y", "a=b; c", "1",
    "en;q=", "bytes=0-",
]  # fmt: skip
LATIN = st.text(st.characters(min_codepoint=1, max_codepoint=255, exclude_characters="\r\n"), max_size=20)
VALUES = st.one_of(st.sampled_from(HEADER_VALUES), LATIN)
HTTP_METHODS = ["POST"] * 8 + [
    "GET",
    "GET",
    "DELETE",
    "PUT",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "post",
    "FOO",
    "CONNECT",
    "PROPFIND",
]
ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "utf-7", "cp037"]
BEFORE = [b"\xef\xbb\xbf", b"\xff\xfe", b" \r\n\t", b"\x00", b"\x1f\x8b", b")]}',\n", b"--x\r\n"]
PIECES = [*STRINGS, "{", "}", "[", "]", ":", ",", '"', "null", "1", '"id"', '"jsonrpc"', '"2.0"', '"method"']
QUERIES = ["", "", "", "access_token=x", "%ff", "a=%00&b", "&&&===", "x" * 2000, "next=//evil.example"]


@st.composite
def spoilt_bytes(draw: Draw, body: bytes) -> bytes:
    """The body as it is, as a rule; or cut short, in another encoding, with something put before, in or after it."""
    match draw(st.sampled_from(["as it is"] * 10 + ["cut", "inside", "before", "after", "encoding", "long", "double"])):
        case "cut":
            return body[: draw(st.integers(0, len(body)))]
        case "inside":
            place = draw(st.integers(0, len(body)))
            return body[:place] + draw(st.binary(max_size=4)) + body[place + draw(st.integers(0, 4)) :]
        case "before":
            return draw(st.sampled_from(BEFORE)) + body
        case "after":
            return body + draw(st.sampled_from([b"\x00", b"\n\n", b"{}", b"]", b",", b"\xff", b" " * 20_000]))
        case "encoding":
            return body.decode("utf-8", "replace").encode(draw(st.sampled_from(ENCODINGS)), "replace")
        case "long":
            return body + b" " * draw(st.sampled_from([17_000, 99_000, 100_000, 101_000]))
        case "double":
            return body + body
    return body


@st.composite
def spoilt_headers(draw: Draw, headers: list[Header], most: int) -> list[Header]:
    """Headers of which some are missing, doubled, or say something else."""
    for _ in range(draw(st.integers(0, most))):
        index = draw(st.integers(0, len(headers)))
        name = draw(st.sampled_from(NAMES))
        match draw(st.sampled_from(["drop", "double", "change", "add", "add"])):
            case "drop" if index < len(headers):
                headers = headers[:index] + headers[index + 1 :]
            case "double" if index < len(headers):
                again = (headers[index][0], draw(st.one_of(st.just(headers[index][1]), VALUES)))
                headers = [*headers, again]
            case "change" if index < len(headers):
                headers = [*headers[:index], (headers[index][0], draw(VALUES)), *headers[index + 1 :]]
            case _:
                headers = [*headers, (name, draw(VALUES))]
    return headers


def is_djangos(transport: str, headers: list[Header]) -> bool:
    """Whether Django's own middleware refuses the request with a page, before any view of ours is asked."""
    return transport.startswith("http-view") and any(
        name.lower() in ("host", "x-forwarded-host", "accept-language") for name, _ in headers
    )


@st.composite
def spoilt_messages(draw: Draw, headers: list[Header], body: bytes) -> Sending:
    """What is said is spoilt, and one of the headers perhaps."""
    return Sending(headers=draw(spoilt_headers(headers, most=1)), body=draw(spoilt_bytes(body)), reply=draw(replies))


@st.composite
def spoilt_requests(draw: Draw, headers: list[Header], body: bytes) -> Sending:
    """How it is sent is spoilt: the method, the headers, the query, the pieces."""
    return Sending(
        draw(st.sampled_from(HTTP_METHODS)),
        draw(spoilt_headers(headers, most=5)),
        body,
        pieces=draw(st.lists(st.integers(0, len(body)), max_size=3)),
        cut=draw(st.sampled_from([False, False, False, True])),
        query=draw(st.sampled_from(QUERIES)),
    )


@pytest.mark.parametrize("transport", OVER_HTTP)
def test_any_message_and_any_headers_are_answered_as_the_protocol_has_it(served: Served) -> None:
    world = served.world

    @fuzz(160)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        served.open_sessions()
        made, spoilt = data.draw(st.sampled_from([(messages, spoilt_messages), (requests, spoilt_requests)]))
        revision = data.draw(st.sampled_from(REVISIONS))
        message = data.draw(made(world, revision))
        token = world.tokens[data.draw(st.sampled_from(["admin"] * 6 + ["viewer", "ops", "unknown", "none"]))]
        headers = [*authorization(token), *TYPES, *http_headers(message, revision, world).items()]
        sending = data.draw(spoilt(headers, encode(write(message, escaped=data.draw(st.booleans())))))
        if is_djangos(served.transport, sending.headers):
            return

        served.send(sending)

        served.assert_unharmed()

    run()


@pytest.mark.parametrize("transport", [name for name in OVER_HTTP if name in PUSHING])
def test_requests_that_come_all_at_once_and_clients_that_leave_do_no_harm(served: Served) -> None:
    world = served.world
    entry = served.entry
    assert isinstance(entry, ASGIEntry)

    @st.composite
    def sendings(draw: Draw) -> Sending:
        revision = draw(st.sampled_from(REVISIONS))
        message = draw(requests(world, revision))
        token = world.tokens[draw(st.sampled_from(["admin", "admin", "viewer", "none"]))]
        headers = [*authorization(token), *TYPES, *http_headers(message, revision, world).items()]
        method = draw(st.sampled_from(["POST"] * 8 + ["GET", "GET"]))
        return Sending(method, headers, encode(write(message)), leaves=draw(st.booleans()))

    @fuzz(40)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        served.open_sessions()
        sent = data.draw(st.lists(sendings(), min_size=2, max_size=10))

        answers = entry.send_all(sent)

        for sending, got in zip(sent, answers, strict=True):
            if got is not None:
                oracle.check_http(sending, got, served.sessions)
        served.assert_unharmed()

    run()


@pytest.mark.parametrize("transport", OVER_HTTP)
def test_any_bytes_are_answered_as_the_protocol_has_it(served: Served) -> None:
    @fuzz(40)
    @given(
        st.one_of(
            st.binary(max_size=200),
            wild.map(write).map(encode),
            st.lists(st.sampled_from(PIECES)).map("".join).map(encode),
        ),
        st.sampled_from(["admin", "none"]),
        st.sampled_from([None, *REVISIONS]),
    )
    def run(body: bytes, who: str, version: str | None) -> None:
        headers = [
            *authorization(served.world.tokens[who]),
            *TYPES,
            *([("MCP-Protocol-Version", version)] if version else []),
        ]

        served.send(Sending(headers=headers, body=body))

        served.assert_unharmed()

    run()
