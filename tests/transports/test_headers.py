"""The headers of a modern request must say what its body says (2026-07-28 transports/streamable-http)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.axes import HTTP
from tests.support import schemas
from tests.support.peers import MODERN, Answered, ASGIPeer, HTTPPeer, encode_headers, meta
from tests.support.raw import error


def mismatch(title: str, problem: str) -> tuple[int, Any]:
    return 400, error(-32020, "HEADER_MISMATCH", f"The header {title} {problem}.", 1, header=title)


def send(peer: HTTPPeer, method: str, headers: dict[str, str], **params: Any) -> Answered:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta()}}
    answer = peer.http("POST", json.dumps(message).encode(), headers)
    schemas.check(answer.json, MODERN, method)
    return answer


def call(peer: HTTPPeer, name: str, header: str) -> tuple[int, str]:
    """Call a tool that does not exist: its name is looked up only once the header was found to name it."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": header}
    answer = send(peer, "tools/call", headers, name=name, arguments={})
    return answer.status, answer.json["error"]["data"]["reason"]


TAKEN = (200, "TOOL_NOT_FOUND")
REFUSED = (400, "HEADER_MISMATCH")


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize(
    ("headers", "title", "problem"),
    [
        ({"Mcp-Method": "tools/list"}, "MCP-Protocol-Version", "is missing"),
        ({"Mcp-Method": "tools/list", "MCP-Protocol-Version": ""}, "MCP-Protocol-Version", "differs from the body"),
        ({"Mcp-Method": "tools/list", "MCP-Protocol-Version": "2025-11-25"}, "MCP-Protocol-Version",
         "differs from the body"),
        ({"Mcp-Method": "tools/list", "MCP-Protocol-Version": "=?base64?MjAyNi0wNy0yOA==?="}, "MCP-Protocol-Version",
         "differs from the body"),
        ({"MCP-Protocol-Version": MODERN}, "Mcp-Method", "is missing"),
        ({"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}, "Mcp-Method", "differs from the body"),
        ({"MCP-Protocol-Version": MODERN, "Mcp-Method": "Tools/List"}, "Mcp-Method", "differs from the body"),
        ({"MCP-Protocol-Version": MODERN, "Mcp-Method": "=?base64?dG9vbHMvbGlzdA==?="}, "Mcp-Method",
         "differs from the body"),
    ],
    ids=["no version", "empty version", "other version", "encoded version", "no method", "other method",
         "method in another case", "encoded method"],
)  # fmt: skip
def test_a_header_that_is_missing_or_says_otherwise_is_refused(
    admin: HTTPPeer, headers: dict[str, str], title: str, problem: str
) -> None:
    answer = send(admin, "tools/list", headers)

    assert (answer.status, answer.json) == mismatch(title, problem)


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize(
    ("method", "params"),
    [("tools/call", {"name": "find_records", "arguments": {}}), ("resources/read", {"uri": "db://flights/flight"})],
)
def test_what_names_something_needs_the_name_in_a_header(admin: HTTPPeer, method: str, params: dict[str, Any]) -> None:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}

    missing = send(admin, method, headers, **params)
    wrong = send(admin, method, {**headers, "Mcp-Name": "another"}, **params)

    assert (missing.status, missing.json) == mismatch("Mcp-Name", "is missing")
    assert (wrong.status, wrong.json) == mismatch("Mcp-Name", "differs from the body")


@pytest.mark.parametrize("transport", HTTP)
def test_a_name_where_there_is_nothing_to_name_is_ignored(admin: HTTPPeer) -> None:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list", "Mcp-Name": "stray"}

    assert send(admin, "tools/list", headers).status == 200


@pytest.mark.parametrize("transport", HTTP)
def test_the_header_of_a_name_is_decoded_strictly(admin: HTTPPeer) -> None:
    """Its form is that of the headers of arguments (test_param_headers.py)."""
    names = {
        ("us-west1", "us-west1"): TAKEN,
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="): TAKEN,
        ("us-west1", "US-WEST1"): REFUSED,
        ("=?base64?literal?=", "=?base64?literal?="): REFUSED,
        ("\ufffd", "=?base64?/w==?="): REFUSED,
        ("é", "é"): REFUSED,
    }

    assert {(name, header): call(admin, name, header) for name, header in names} == names


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])
@pytest.mark.parametrize("repeated", ["mcp-name", "mcp-method", "mcp-protocol-version"])
def test_a_second_header_cannot_say_something_else_to_a_gateway(admin: ASGIPeer, repeated: str) -> None:
    title = {"mcp-name": "Mcp-Name", "mcp-method": "Mcp-Method"}.get(repeated, "MCP-Protocol-Version")
    params = {"name": "find_records", "arguments": {}, "_meta": meta()}
    headers = {name.lower(): value for name, value in admin.modern_headers("tools/call", params).items()}
    scope = admin.scope("POST", admin.headers(headers))
    scope["headers"] += encode_headers({repeated: headers[repeated]})

    answer = admin.loop.run(admin._exchange(scope, body("tools/call", params)))

    assert (answer.status, answer.json) == mismatch(title, "was sent twice")


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])
def test_a_header_with_underscores_cannot_pose_as_another_and_case_does_not_matter(admin: ASGIPeer) -> None:
    params = {"_meta": meta()}
    for change in (str.upper, str.lower, str.title):
        scope = admin.scope("POST", admin.headers(None))
        for name, value in admin.modern_headers("tools/list", params).items():
            scope["headers"].append((change(name).encode(), value.encode()))
        assert admin.loop.run(admin._exchange(scope, body("tools/list", params))).status == 200
    headers = admin.modern_headers("tools/list", params)
    headers["Mcp_Method"] = headers.pop("Mcp-Method")

    answer = admin.http("POST", body("tools/list", params), headers)

    assert (answer.status, answer.json) == mismatch("Mcp-Method", "is missing")


def body(method: str, params: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
