"""Which HTTP status says what, always with JSON where there is a body."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcp_django.models import AccessToken, digest
from tests.axes import HTTP, PUSHING
from tests.support.challenges import NEEDED, own_part
from tests.support.data import token_of
from tests.support.peers import Answered, ASGIPeer, HTTPPeer, Peers, meta
from tests.support.raw import error

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}


def assert_refused(answer: Answered, status: int, reason: str) -> Any:
    """The answer is a JSON-RPC error and never a page; returns its error object."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["error"]["data"]["reason"] == reason
    return answer.json["error"]


# Bodies and media types.


@pytest.mark.own_form
@pytest.mark.parametrize("transport", HTTP)
def test_a_body_beyond_the_limit_is_refused_with_json(admin: HTTPPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 1000}
    fitting = json.dumps(PING).encode().ljust(1000)

    taken = admin.http("POST", fitting)
    refused = admin.http("POST", fitting + b" ")

    assert taken.json == PONG
    message = "The body is longer than 1000 bytes (MAX_BODY_BYTES)."
    assert (refused.status, refused.json) == (413, error(-32600, "REQUEST_ENTITY_TOO_LARGE", message))
    assert refused.headers["content-type"] == "application/json"


@pytest.mark.parametrize("transport", HTTP)
def test_djangos_own_limit_of_bodies_is_not_ours(admin: HTTPPeer, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10

    assert admin.post(PING).json == PONG


@pytest.mark.parametrize("transport", HTTP)
def test_json_is_taken_in_any_case_and_with_parameters_and_another_content_type_is_refused(admin: HTTPPeer) -> None:
    message = "Send Content-Type: application/json or application/mcp+protobuf."
    others = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", ""]
    wanted = {
        **dict.fromkeys(others, (415, error(-32600, "UNSUPPORTED_MEDIA_TYPE", message, 1))),
        **dict.fromkeys(["application/json; charset=utf-8", "Application/JSON"], (200, PONG)),
    }

    answers = {content_type: admin.post(PING, {"Content-Type": content_type}) for content_type in wanted}

    assert {content_type: (answer.status, answer.json) for content_type, answer in answers.items()} == wanted


@pytest.mark.own_form
@pytest.mark.parametrize("transport", HTTP)
def test_a_client_that_takes_no_json_is_refused_and_one_that_takes_it_among_others_is_served(admin: HTTPPeer) -> None:
    refused = ["text/html", "text/event-stream", "application/json;q=0, */*", "application/json; q=0.0"]
    served: list[Any] = ["*/*", "application/*", "APPLICATION/JSON;q=0.1", "text/html, */*;q=0.5", "", None]

    assert [admin.post(PING, {"Accept": accept}).json for accept in served] == [PONG] * len(served)
    for accept in refused:
        assert_refused(admin.post(PING, {"Accept": accept}), 406, "NOT_ACCEPTABLE")


@pytest.mark.parametrize("transport", [name for name in PUSHING if name in HTTP])
def test_a_listen_needs_a_client_that_takes_a_stream(admin: HTTPPeer) -> None:
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {**admin.modern_headers("subscriptions/listen", params), "Accept": "application/json"}

    assert_refused(admin.post(message, headers), 406, "NOT_ACCEPTABLE")


# Headers of every answer.


@pytest.mark.parametrize("transport", HTTP)
def test_no_answer_is_stored_or_taken_for_another_type(admin: HTTPPeer, peers: Peers) -> None:
    nobody = peers(None)
    assert isinstance(nobody, HTTPPeer)
    elsewhere = peers(admin.token)
    assert isinstance(elsewhere, HTTPPeer)
    elsewhere.path = "/mcp/ticket"
    answers = {
        "a result": admin.post(PING),
        "no message": admin.http("POST", b"{"),
        "a notification": admin.post({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "nobody": nobody.post(PING),
        "another method": admin.http("PUT"),
        "a preflight": admin.http("OPTIONS"),
        "another origin": admin.post(PING, {"Origin": "https://evil.example"}),
        "too long": admin.http("POST", b" " * 1_000_001),
        "a ticket": elsewhere.http("POST"),
    }

    assert {name: answer.headers.get("cache-control") for name, answer in answers.items()} == dict.fromkeys(
        answers, "no-store"
    )
    assert {answer.headers.get("x-content-type-options") for answer in answers.values()} == {"nosniff"}


# Methods and paths.


@pytest.mark.parametrize("transport", HTTP)
def test_other_http_methods_are_refused_with_those_there_are(admin: HTTPPeer) -> None:
    for method in ("PUT", "PATCH", "HEAD", "TRACE"):
        answer = admin.http(method)

        assert answer.status == 405
        assert answer.headers["allow"] == "GET, POST, DELETE"
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("transport", HTTP)
def test_the_endpoint_answers_with_and_without_a_slash(admin: HTTPPeer) -> None:
    for admin.path in ("/mcp", "/mcp/"):
        answer = admin.post(PING)

        assert (answer.status, answer.json) == (200, PONG)


@pytest.mark.parametrize("transport", HTTP)
def test_curl_needs_no_session(admin: HTTPPeer, flights: Any) -> None:
    call = {"name": "find_records", "arguments": {"model": "flights.flight", "limit": 1}}

    listed = admin.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    called = admin.post({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})

    assert "outputSchema" not in listed.json["result"]["tools"][0]  # 2025-03-26 is assumed, which knows none.
    assert set(called.json["result"]) <= {"content", "isError"}
    assert called.json["result"].get("isError") is not True


@pytest.mark.parametrize("transport", HTTP)
def test_an_unserved_version_header_is_refused(admin: HTTPPeer) -> None:
    for version in ("1999-01-01", "latest", "2025-11-25x"):
        answer = admin.post(PING, {"MCP-Protocol-Version": version})

        assert (answer.status, answer.json) == (400, error(
            -32600, "UNSUPPORTED_PROTOCOL_VERSION", f"MCP-Protocol-Version {version!r} is not supported.", 1,
            supported=["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"], requested=version,
        ))  # fmt: skip


# Who may enter.


@pytest.mark.parametrize("transport", HTTP)
def test_credentials_that_do_not_hold_are_challenged(peers: Peers, users: Any) -> None:
    owners = {"expired": users.admin, "revoked": users.admin, "stolen hash": users.admin,
              "inactive user": users.viewer, "deleted user": users.ops}  # fmt: skip
    tokens = {case: token_of(owner) for case, owner in owners.items()}
    stored = {case: AccessToken.objects.get(hash=digest(token)) for case, token in tokens.items()}
    AccessToken.objects.filter(pk=stored["expired"].pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    stored["revoked"].revoke()
    tokens["stolen hash"] = stored["stolen hash"].hash
    users.viewer.is_active = False
    users.viewer.save()
    users.ops.delete()
    peer = peers(None)

    for credential in (*tokens.values(), "mcp_unknown", "", "a b"):
        for method in ("POST", "GET", "DELETE"):
            answer = peer.http(method, json.dumps(PING).encode(), {"Authorization": f"Bearer {credential}".rstrip()})

            assert_refused(answer, 401, "UNAUTHENTICATED")
            challenge = own_part(answer.headers["www-authenticate"])
            told, _, why = challenge.partition(", error_description=")
            assert told == 'Bearer realm="mcp", error="invalid_token"'
            assert bool(why) == (credential in (tokens["expired"], tokens["revoked"]))


@pytest.mark.parametrize("transport", HTTP)
def test_a_caller_without_a_token_is_asked_for_one(peers: Peers, users: Any) -> None:
    stranger = peers(None)

    for credentials in (None, "Basic YWRtaW46YWRtaW4=", "Digest x", "mcp_token"):
        answer = stranger.post(PING, {"Authorization": credentials})

        assert (answer.status, answer.json) == (401, error(-32600, "UNAUTHENTICATED", NEEDED, 1))
        assert own_part(answer.headers["www-authenticate"]) == 'Bearer realm="mcp"'


@pytest.mark.parametrize("transport", HTTP)
def test_a_token_in_the_url_does_not_let_in(peers: Peers, users: Any) -> None:
    peer = peers(None)
    peer.path = f"/mcp?access_token={token_of(users.admin)}"

    assert_refused(query(peer), 401, "UNAUTHENTICATED")


@pytest.mark.parametrize("transport", HTTP)
def test_a_stolen_login_cookie_does_not_let_in(peers: Peers, users: Any) -> None:
    from django.test import Client

    browser = Client()
    browser.force_login(users.admin)
    cookie = f"sessionid={browser.cookies['sessionid'].value}"

    answer = peers(None).post(PING, {"Cookie": cookie, "Origin": "http://localhost"})

    assert_refused(answer, 401, "UNAUTHENTICATED")


def query(peer: HTTPPeer) -> Answered:
    """A POST whose path may hold a query."""
    if not isinstance(peer, ASGIPeer):
        return peer.post(PING)
    path, _, query_string = peer.path.partition("?")
    scope = peer.scope("POST", peer.headers(None))
    scope |= {"path": path, "raw_path": path.encode(), "query_string": query_string.encode()}
    return peer.loop.run(peer._exchange(scope, json.dumps(PING).encode()))
