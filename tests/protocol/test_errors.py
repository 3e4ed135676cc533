"""Methods that do not exist, and the shape of every error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpRequest

from mcp_django import resource, site
from tests.axes import HTTP
from tests.support.peers import MODERN, REVISIONS, HTTPPeer, Peer
from tests.support.raw import error, send_modern, send_raw

pytestmark = pytest.mark.http_and_duplex

UNSERVED = [
    "prompts", "prompts/call", "completion/list", "tasks/result", "tasks/list", "roots/list", "unheard/of", "tools",
    "TOOLS/LIST", "",
]  # fmt: skip


def send(peer: Peer, revision: str, method: str, params: dict[str, Any] | None = None) -> tuple[int | None, Any]:
    """The HTTP status and the answer, whose id is 1."""
    if revision == MODERN:
        raw = send_modern(peer, method, params)
    else:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        raw = send_raw(peer, json.dumps(message), revision)
    return raw.status, raw.message


@pytest.mark.every_transport
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_method_that_is_not_served_is_not_found(admin: Peer, revision: str) -> None:
    answers = [send(admin, revision, method) for method in UNSERVED]

    status = None if not isinstance(admin, HTTPPeer) else 404 if revision == MODERN else 200
    assert answers == [
        (status, error(-32601, "METHOD_NOT_FOUND", f"Method not found: {method}.", 1)) for method in UNSERVED
    ]


def test_the_name_of_a_method_is_not_echoed_at_length(admin: Peer) -> None:
    _, message = send(admin, "2025-11-25", "x" * 10_000)

    assert message["error"]["message"] == f"Method not found: {'x' * 100}."


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_resource_that_is_not_there_names_its_uri(admin: Peer, revision: str) -> None:
    uris = ["db://flights/flight/999999", "db://flights/nothing", "db://auth/user/1?x", "x:y", "x", ""]

    answers = [send(admin, revision, "resources/read", {"uri": uri}) for uri in uris]

    code = -32602 if revision == MODERN else -32002
    status = 200 if isinstance(admin, HTTPPeer) else None
    for uri, (answered, message) in zip(uris, answers, strict=True):
        assert (answered, message["id"], message["error"]["code"]) == (status, 1, code)
        assert message["error"]["data"]["reason"] == "RESOURCE_NOT_FOUND"
        assert message["error"]["data"]["uri"] == uri


NOT_A_STRING = "Input should be a valid string"
NO_TOOL = "not a tool; tools/list names the tools"

INVALID: list[tuple[str, dict[str, Any], tuple[str, str, Any]]] = [
    ("resources/read", {}, ("uri", "Field required", None)),
    ("resources/read", {"uri": 7}, ("uri", NOT_A_STRING, 7)),
    ("tools/call", {}, ("name", "Field required", None)),
    (
        "tools/call",
        {"name": "find_records", "arguments": [1]},
        ("arguments", "Input should be a valid dictionary", "array"),
    ),
    ("tools/call", {"name": "no_tool"}, ("name", NO_TOOL, "no_tool")),
    ("tools/list", {"cursor": 7}, ("cursor", NOT_A_STRING, 7)),
    ("tools/list", {"cursor": "x"}, ("cursor", "not a cursor of this list", "x")),
]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_invalid_params_name_the_field(admin: Peer, revision: str) -> None:
    answers = [send(admin, revision, method, params) for method, params, _ in INVALID]

    for (status, message), (_, _, (field, text, received)) in zip(answers, INVALID, strict=True):
        assert (message["id"], message["error"]["code"]) == (1, -32602)
        assert message["error"]["data"]["errors"] == [{"field": field, "message": text, "received": received}]
        assert status in (200, None)


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"])
def test_a_method_of_sessions_says_how_to_get_one(admin: HTTPPeer, method: str) -> None:
    answer = admin.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"uri": "db://flights/flight"}})

    message = f"{method} needs a session: send initialize first, then its Mcp-Session-Id on every request."
    assert (answer.status, answer.json) == (400, error(-32600, "SESSION_REQUIRED", message, 1))


@pytest.fixture
def broken_resource() -> Iterator[str]:
    @resource("broken://resource")
    def broken(request: HttpRequest) -> str:
        raise RuntimeError("password=hunter2")

    yield "broken://resource"
    del site.resources["broken://resource"]


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_an_exception_is_logged_and_not_shown_to_the_client(
    admin: Peer, revision: str, broken_resource: str, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    settings.DEBUG = True

    status, message = send(admin, revision, "resources/read", {"uri": broken_resource})

    assert message == error(-32603, "INTERNAL_ERROR", "Internal error. The server's log has the details.", 1)
    assert status in (200, None)
    assert "hunter2" in caplog.text
