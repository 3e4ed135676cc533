"""How a client of either era begins, and that the eras do not affect each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY as CAPABILITIES
from mcp_types import CLIENT_INFO_META_KEY as INFO
from mcp_types import PROTOCOL_VERSION_META_KEY as VERSION

from mcp_django import __version__
from tests.axes import DUPLEX, HTTP, PUSHING
from tests.push.conftest import assert_nothing_but
from tests.support import schemas
from tests.support.base import offered
from tests.support.peers import LEGACY, MODERN, REVISIONS, DuplexPeer, HTTPPeer, Peer, meta
from tests.support.raw import error, send_modern, send_raw

pytestmark = pytest.mark.every_transport

CLIENT = {"capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


def initialize(**params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})


# initialize.


@pytest.mark.parametrize("revision", LEGACY)
def test_initialize_agrees_on_the_requested_legacy_revision(admin: Peer, revision: str) -> None:
    raw = send_raw(admin, initialize(protocolVersion=revision, **CLIENT))

    assert raw.message == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "protocolVersion": revision,
            "capabilities": offered(revision, push=admin.push),
            "serverInfo": {"name": "django", "version": __version__},
            "instructions": raw.message["result"]["instructions"],
        },
    }
    schemas.check(raw.message, revision, "initialize")
    assert raw.status in (200, None)


def test_initialize_offers_the_newest_legacy_revision_for_any_other(admin: Peer) -> None:
    for asked in (MODERN, "2099-01-01", "2024-10-07", "1.0", ""):
        raw = send_raw(admin, initialize(protocolVersion=asked, **CLIENT))

        assert raw.message["result"]["protocolVersion"] == "2025-11-25", asked
        assert raw.status in (200, None)


def test_initialize_names_the_params_that_it_lacks(admin: Peer) -> None:
    bad: list[tuple[dict[str, Any], set[str]]] = [
        (CLIENT, {"protocolVersion"}),
        ({"protocolVersion": 20250326, **CLIENT}, {"protocolVersion"}),
        ({"protocolVersion": None, **CLIENT}, {"protocolVersion"}),
        ({"protocolVersion": "2025-11-25"}, {"capabilities", "clientInfo"}),
        (
            {"protocolVersion": "2025-11-25", "capabilities": [], "clientInfo": {"name": "x"}},
            {"capabilities", "clientInfo.version"},
        ),
    ]

    answers = [send_raw(admin, initialize(**params)) for params, _ in bad]

    for raw, (_, fields) in zip(answers, bad, strict=True):
        assert (raw.message["id"], raw.message["error"]["code"]) == (1, -32602)
        assert {wrong["field"] for wrong in raw.message["error"]["data"]["errors"]} == fields
        assert raw.status in (200, None)


@pytest.mark.parametrize("transport", HTTP)
def test_initialize_with_a_session_is_refused(admin: HTTPPeer) -> None:
    key = admin.session("2025-11-25")

    answer = admin.http("POST", initialize(protocolVersion="2025-11-25", **CLIENT).encode(), {"Mcp-Session-Id": key})

    message = "initialize starts a session: send it without Mcp-Session-Id."
    assert (answer.status, answer.json) == (400, error(-32600, "INVALID_REQUEST", message, 1))


@pytest.mark.parametrize("transport", HTTP)
def test_initialize_with_the_id_of_a_session_that_is_gone_begins_anew(admin: HTTPPeer) -> None:
    for key in ("", "gone", "0" * 64):
        answer = admin.http(
            "POST", initialize(protocolVersion="2025-11-25", **CLIENT).encode(), {"Mcp-Session-Id": key}
        )

        assert answer.status == 200
        assert answer.headers["mcp-session-id"] not in ("", key)


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_second_initialize_on_a_connection_is_refused(admin: DuplexPeer) -> None:
    raw = send_raw(admin, initialize(protocolVersion="2025-11-25", **CLIENT), "2025-11-25")

    assert raw.message == error(-32600, "INVALID_REQUEST", "This connection has its session already.", 1)
    assert admin.result("2025-11-25", "ping") == {}


@pytest.mark.parametrize("transport", DUPLEX)
def test_an_initialize_that_was_refused_is_sent_again_on_its_connection(admin: DuplexPeer) -> None:
    connection = admin.connect()

    refused = connection.ask(json.loads(initialize(protocolVersion="2025-11-25")))
    taken = connection.ask(json.loads(initialize(protocolVersion="2025-11-25", **CLIENT)))

    assert refused["error"]["code"] == -32602
    assert taken["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("transport", HTTP)
def test_initialize_ignores_a_legacy_version_header_and_is_refused_under_a_modern_one(admin: HTTPPeer) -> None:
    for version in ("2025-06-18", "1999-01-01"):
        body = initialize(protocolVersion="2025-03-26", **CLIENT).encode()
        answer = admin.http("POST", body, {"MCP-Protocol-Version": version})
        assert answer.json["result"]["protocolVersion"] == "2025-03-26"

    answer = admin.http("POST", initialize(protocolVersion=MODERN, **CLIENT).encode(), {"MCP-Protocol-Version": MODERN})

    assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (400, 1, -32020)
    assert answer.json["error"]["data"] == {"reason": "HEADER_MISMATCH", "header": "MCP-Protocol-Version"}


@pytest.mark.parametrize("transport", HTTP)
def test_initialize_must_be_a_request(admin: HTTPPeer) -> None:
    answer = admin.post({"jsonrpc": "2.0", "method": "initialize", "params": {"protocolVersion": "2025-11-25"}})

    assert (answer.status, answer.json) == (400, error(-32600, "INVALID_REQUEST", "initialize must be a request."))
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_request_of_no_era_gets_an_error_that_names_both_ways(admin: DuplexPeer) -> None:
    for method in ("tools/list", "resources/read", "unheard/of"):
        raw = send_raw(admin, json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}))

        assert raw.message == error(
            -32600, "NOT_INITIALIZED",
            "This connection has no session: send initialize first, or put io.modelcontextprotocol/protocolVersion and "
            "io.modelcontextprotocol/clientCapabilities into params._meta of each request.", 1,
        )  # fmt: skip


# The modern _meta.


@pytest.mark.parametrize("info", [{"name": "x", "version": "1"}, None])
def test_a_modern_client_need_not_name_itself(admin: Peer, info: Any) -> None:
    envelope = {key: value for key, value in meta(**{INFO: info}).items() if value is not None}

    raw = send_modern(admin, "server/discover", {"_meta": envelope})

    assert raw.message["result"]["resultType"] == "complete"
    assert raw.status in (200, None)


def test_a_modern_envelope_that_lacks_something_is_refused(admin: Peer) -> None:
    bad: list[tuple[dict[str, Any], set[str]]] = [
        ({VERSION: MODERN}, {f"_meta.{CAPABILITIES}"}),
        ({VERSION: MODERN, CAPABILITIES: None}, {f"_meta.{CAPABILITIES}"}),
        ({VERSION: MODERN, CAPABILITIES: []}, {f"_meta.{CAPABILITIES}"}),
        ({VERSION: MODERN, CAPABILITIES: "elicitation"}, {f"_meta.{CAPABILITIES}"}),
        ({VERSION: 20260728, CAPABILITIES: {}}, {f"_meta.{VERSION}"}),
        ({VERSION: None, CAPABILITIES: {}}, {f"_meta.{VERSION}"}),
        ({VERSION: [MODERN]}, {f"_meta.{VERSION}", f"_meta.{CAPABILITIES}"}),
    ]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}

    answers = [
        send_raw(admin, json.dumps({**message, "params": {"_meta": envelope}}), headers=headers) for envelope, _ in bad
    ]

    for raw, (_, fields) in zip(answers, bad, strict=True):
        assert (raw.message["id"], raw.message["error"]["code"]) == (1, -32602)
        assert raw.message["error"]["data"]["reason"] == "INVALID_ENVELOPE"
        assert {wrong["field"] for wrong in raw.message["error"]["data"]["errors"]} == fields
        assert raw.status in (400, None)


@pytest.mark.parametrize("transport", HTTP)
def test_a_modern_version_header_asks_for_the_envelope(admin: HTTPPeer) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    for params in ({}, {"params": {}}, {"params": {"_meta": {}}}, {"params": {"_meta": {CAPABILITIES: {}}}}):
        answer = admin.post({**message, **params}, {"MCP-Protocol-Version": MODERN})

        assert (answer.status, answer.json["error"]["code"]) == (400, -32602)
        assert f"_meta.{VERSION}" in [wrong["field"] for wrong in answer.json["error"]["data"]["errors"]]


def test_a_version_that_is_not_served_without_a_session_is_refused(admin: Peer) -> None:
    for version in (*LEGACY, "2099-01-01", "v999", ""):
        raw = send_modern(admin, "server/discover", {"_meta": meta(version)})

        message = "Unsupported protocol version."
        data = {"supported": [MODERN], "requested": version}
        assert raw.message == error(-32022, "UNSUPPORTED_PROTOCOL_VERSION", message, 1, **data)
        assert raw.status in (400, None)


def test_a_modern_initialize_does_not_exist_and_the_error_names_the_versions(admin: Peer) -> None:
    raw = send_modern(admin, "initialize", {"protocolVersion": "2025-11-25", **CLIENT})

    message = "Method not found: initialize. A request with _meta needs no initialize."
    assert raw.message == error(-32601, "METHOD_NOT_FOUND", message, 1, supported=[MODERN])
    assert raw.status in (404, None)


# Both at once.


def test_discover_is_answered_before_and_after_initialize(admin: Peer) -> None:
    before = admin.result(MODERN, "server/discover")
    admin.result("2025-11-25", "ping")
    after = admin.result(MODERN, "server/discover")

    assert before == after


@pytest.mark.parametrize("transport", DUPLEX)
def test_both_eras_are_served_on_one_connection(admin: DuplexPeer) -> None:
    connection = admin.connect()
    modern = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}

    connection.ask(modern)
    connection.ask(json.loads(initialize(protocolVersion="2025-03-26", **CLIENT)))
    legacy_tools = connection.ask({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    modern_tools = connection.ask(modern)

    schemas.check(legacy_tools, "2025-03-26", "tools/list")
    schemas.check(modern_tools, MODERN, "tools/list")


@pytest.mark.parametrize("transport", PUSHING)
def test_revisions_do_not_share_subscriptions(admin: Peer, flights: Any) -> None:
    uris = {revision: f"db://flights/flight/{number}" for number, revision in enumerate(REVISIONS, 1)}
    streams = {revision: admin.watch(revision, [uri]) for revision, uri in uris.items()}

    for flight in flights[: len(REVISIONS)]:
        flight.save()

    assert {revision: stream.uris(1) for revision, stream in streams.items()} == {
        revision: [uri] for revision, uri in uris.items()
    }
    for (revision, stream), flight in zip(streams.items(), flights, strict=False):
        assert_nothing_but(stream, uris[revision], flight.save)


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize("session", ["no-such-session", "live"])
def test_a_modern_request_ignores_the_headers_of_sessions(admin: HTTPPeer, session: str) -> None:
    key = admin.session("2025-11-25") if session == "live" else session
    headers = {"Mcp-Session-Id": key, "Last-Event-ID": "7"}
    params = {"_meta": meta()}

    answer = admin.post(
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": params},
        {**admin.modern_headers("server/discover", params), **headers},
    )

    assert answer.status == 200
    assert answer.json["result"]["resultType"] == "complete"
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("transport", HTTP)
def test_the_modern_era_knows_post_only(admin: HTTPPeer) -> None:
    key = admin.session("2025-11-25")

    for method in ("GET", "DELETE"):
        answer = admin.http(method, headers={"MCP-Protocol-Version": MODERN, "Mcp-Session-Id": key})

        assert answer.status == 405
        assert "POST" in answer.headers["allow"]
    assert admin.result("2025-11-25", "ping") == {}


@pytest.mark.parametrize("transport", HTTP)
def test_a_modern_notification_needs_no_more_than_to_be_one(admin: HTTPPeer) -> None:
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    with_meta = admin.post({**cancelled, "params": {"requestId": 1, "_meta": meta()}})
    with_header = admin.post(cancelled, {"MCP-Protocol-Version": MODERN})

    assert [(answer.status, answer.body) for answer in (with_meta, with_header)] == [(202, b""), (202, b"")]


@pytest.mark.parametrize("transport", HTTP)
def test_a_response_is_nothing_that_a_modern_client_sends(admin: HTTPPeer) -> None:
    answer = admin.post({"jsonrpc": "2.0", "id": 1, "result": {}}, {"MCP-Protocol-Version": MODERN})

    message = "A client sends requests and notifications, and no responses."
    assert (answer.status, answer.json) == (400, error(-32600, "INVALID_REQUEST", message))
