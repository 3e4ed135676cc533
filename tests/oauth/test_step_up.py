"""What a client is answered that has not all scopes that its user could give it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone

from mcp_django.audit.recorder import recorder
from mcp_django.models import AccessToken, Call, Grant
from mcp_django.oauth.models import RefreshToken
from tests.conftest import HTTP
from tests.oauth.flow import CHATGPT, CLAUDE, ISSUER, Program, error_in
from tests.support.data import Users, token_of
from tests.support.peers import MODERN, HTTPPeer, Message, Peer, Peers, meta


def token_with(user: User, *held: str, declined: tuple[str, ...] = (), client: str = CLAUDE) -> str:
    end = timezone.now() + timedelta(hours=1)
    grant = Grant.objects.create(
        user=user, client=client, client_name="A client", resource="http://localhost/mcp", scopes=list(held),
        declined=list(declined), expires_at=end,
    )  # fmt: skip
    return AccessToken.objects.create_token(user=user, scopes=held, grant=grant, expires_at=end)[1]


def action_of(peer: Peer, revision: str = MODERN) -> str:
    """The name of an action that is switched on."""
    names = [str(tool["name"]) for tool in peer.result(revision, "tools/list")["tools"]]
    return next(name for name in names if name.endswith("mark_cancelled"))


def call(name: str, **arguments: Any) -> Message:
    return {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments, "_meta": meta()},
    }  # fmt: skip


def post(peer: Peer, message: Message) -> Any:
    assert isinstance(peer, HTTPPeer)
    method, params = message["method"], message["params"]
    name = params.get("name") or params.get("uri")
    named = {"Mcp-Name": name} if name else {}
    return peer.post(message, {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **named})


def test_what_only_the_scope_lacks_is_listed(users: Users, peers: Peers) -> None:
    full, oauth, by_hand = (
        {tool["name"] for tool in peers(token).result(MODERN, "tools/list")["tools"]}
        for token in (token_of(users.ops), token_with(users.ops, "read"), token_of(users.ops, "read"))
    )

    assert oauth == full
    assert by_hand < full


def test_a_client_that_answers_the_challenge_with_a_refresh_is_sent_to_its_person_once(
    users: Users, peers: Peers, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "OAUTH_ORIGIN": ISSUER}
    program = Program()
    tokens = program.log_in(users.ops)
    peer = peers(tokens["access_token"])
    name = action_of(peer)

    before = program.refresh(tokens["refresh_token"]).status_code
    challenged = post(peer, call(name)).status
    after = program.refresh(tokens["refresh_token"])
    again = program.refresh(tokens["refresh_token"]).status_code

    assert (before, challenged, again) == (200, 403, 200)
    assert error_in(after) == (503, "server_error")
    assert Grant.objects.get().is_current()


@pytest.mark.parametrize("since", [timedelta(seconds=31), None])
def test_a_refresh_long_after_the_challenge_or_at_the_end_of_the_hour_is_one_like_any_other(
    users: Users, since: timedelta | None
) -> None:
    program = Program()
    tokens = program.log_in(users.ops)
    Grant.objects.update(challenged_at=timezone.now() - (since or timedelta()))
    if since is None:
        RefreshToken.objects.update(created_at=timezone.now() - timedelta(minutes=59))

    assert program.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize("transport", HTTP)
def test_a_call_is_challenged_with_all_scopes_at_once(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read"))

    answer = post(peer, call(action_of(peer)))

    assert answer.status == 403
    challenge = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="read actions"' in challenge
    assert 'resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"' in challenge
    assert answer.json["error"]["data"] == {"reason": "INSUFFICIENT_SCOPE", "scopes": ["actions"]}


def test_a_client_that_may_only_act_is_challenged_for_reading(users: Users, peers: Peers, flights: Any) -> None:
    peer = peers(token_with(users.ops, "actions"))
    read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read",
            "params": {"uri": "db://flights/flight/1", "_meta": meta()}}  # fmt: skip

    answers = [post(peer, message) for message in (call("find_records", model="flights.flight"), read)]

    assert [answer.status for answer in answers] == [403, 403]
    assert 'scope="read actions"' in answers[0].headers["www-authenticate"]
    assert 'scope="actions model:flights.flight:read"' in answers[1].headers["www-authenticate"]


def test_a_scope_for_one_model_is_challenged_for_another_one(users: Users, peers: Peers, flights: Any) -> None:
    peer = peers(token_with(users.ops, "model:flights.airport:read"))

    answer = post(peer, call("find_records", model="flights.flight"))

    assert answer.status == 403
    assert 'scope="model:flights.airport:read model:flights.flight:read"' in answer.headers["www-authenticate"]


def test_what_the_user_may_not_do_stays_absent(users: Users, peers: Peers) -> None:
    ops, viewer = peers(token_with(users.ops, "read")), peers(token_with(users.viewer, "read"))
    name = action_of(ops)

    answer = post(viewer, call(name))

    assert name not in {tool["name"] for tool in viewer.result(MODERN, "tools/list")["tools"]}
    assert (answer.status, answer.json["error"]["data"]["reason"]) == (200, "TOOL_NOT_FOUND")
    unknown = post(viewer, call("no_such_tool"))
    assert unknown.json["error"]["code"] == answer.json["error"]["code"]


@override_settings(MCP={"OAUTH_SCOPES": ["read"]})
def test_what_no_client_gets_stays_absent(users: Users, peers: Peers) -> None:
    name = action_of(peers(token_of(users.ops)))
    peer = peers(token_with(users.ops, "read"))

    assert post(peer, call(name)).json["error"]["data"]["reason"] == "TOOL_NOT_FOUND"
    assert name not in {tool["name"] for tool in peer.result(MODERN, "tools/list")["tools"]}


def test_what_a_token_made_by_hand_lacks_stays_absent(users: Users, peers: Peers) -> None:
    name = action_of(peers(token_of(users.ops)))

    answer = post(peers(token_of(users.ops, "read")), call(name))

    assert (answer.status, answer.json["error"]["data"]["reason"]) == (200, "TOOL_NOT_FOUND")


def test_what_the_user_has_declined_is_not_asked_for_again(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read", declined=("actions",)))

    answer = post(peer, call(action_of(peer)))

    assert answer.status == 200
    assert answer.json["result"]["isError"] is True
    assert "scope actions" in answer.json["result"]["content"][0]["text"]
    assert "declined" in answer.json["result"]["content"][0]["text"]


AIRPORTS = "model:flights.airport:read"
FLIGHTS = {"model": "flights.flight"}


@pytest.mark.parametrize(("held", "declined", "name", "arguments"), [
    ((AIRPORTS,), "read", "find_records", FLIGHTS),
    ((AIRPORTS,), "sales", "find_records", FLIGHTS),
    (("read",), "sales", "", {}),
    (("read",), "tool:ACTION", "", {}),
], ids=str)  # fmt: skip
def test_nor_is_a_part_of_what_the_user_has_declined_or_more_for_the_same_tool(
    users: Users, peers: Peers, flights: Any, settings: Any, held: tuple[str, ...], declined: str, name: str,
    arguments: dict[str, Any],
) -> None:  # fmt: skip
    groups = {"sales": ["model:flights.flight:read", "actions"]}
    settings.MCP = {**settings.MCP, "SCOPE_GROUPS": groups, "OAUTH_SCOPES": ["read", "actions"]}
    action = action_of(peers(token_of(users.ops)))
    peer = peers(token_with(users.ops, *held, declined=(declined.replace("ACTION", action),)))

    answer = post(peer, call(name or action, **arguments))

    assert answer.status == 200
    assert "declined" in answer.json["result"]["content"][0]["text"]


def test_an_older_client_gets_a_result_that_names_the_scope(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read"))

    result = peer.result("2025-06-18", "tools/call", {"name": action_of(peer), "arguments": {}})

    assert result["isError"] is True
    assert "scope actions" in result["content"][0]["text"]


def test_a_client_of_openai_gets_the_challenge_in_the_result(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read", client=CHATGPT))
    name = action_of(peers(token_of(users.ops)))
    listed = post(peer, {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}})
    tools = {tool["name"]: tool for tool in listed.json["result"]["tools"]}

    answer = post(peer, call(name))

    assert answer.status == 200
    [challenge] = answer.json["result"]["_meta"]["mcp/www_authenticate"]
    assert 'error="insufficient_scope"' in challenge and 'scope="read actions"' in challenge
    assert tools[name]["securitySchemes"] == [{"type": "oauth2", "scopes": ["actions"]}]
    assert tools["find_records"]["securitySchemes"] == [{"type": "oauth2", "scopes": ["read"]}]
    others = peers(token_with(users.ops, "read")).result(MODERN, "tools/list")["tools"]
    assert not any("securitySchemes" in json.dumps(tool) for tool in others)


@override_settings(MCP={"AUDIT": "on"})
def test_a_challenge_is_written_down_as_a_refusal(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read"))

    post(peer, call(action_of(peer)))

    recorder.flush()
    line = Call.objects.filter(method="tools/call").latest("pk")
    assert (line.outcome, line.reason, line.client_id) == ("refused", "NO_SCOPE", CLAUDE)


@pytest.mark.parametrize("transport", HTTP)
@override_settings(MCP={"ANONYMOUS_SCOPES": ["read"]})
def test_an_anonymous_caller_of_any_tool_it_has_not_is_asked_to_log_in(users: Users, peers: Peers) -> None:
    peer = peers(None)

    answers = [post(peer, call(name)) for name in ("no_such_tool", action_of(peers(token_of(users.ops))))]

    assert [answer.status for answer in answers] == [401, 401]
    assert "resource_metadata=" in answers[0].headers["www-authenticate"]
    assert answers[0].json["error"] == answers[1].json["error"]


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_answers_with_a_result_that_names_the_scope(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read"))

    result = peer.result(MODERN, "tools/call", {"name": action_of(peer), "arguments": {}})

    assert result["isError"] is True
    assert "scope actions" in result["content"][0]["text"]


def test_in_a_batch_each_member_has_an_answer_of_its_own(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read"))
    name = action_of(peer)
    assert isinstance(peer, HTTPPeer)
    peer.result("2025-03-26", "ping")
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": {}}}

    answer = peer.post([message], {"Mcp-Session-Id": peer.sessions["2025-03-26"]})

    assert answer.status == 200
    [member] = answer.json
    assert member["result"]["isError"] is True
    assert "scope actions" in member["result"]["content"][0]["text"]


def test_a_session_of_2025_11_25_is_challenged_too(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read"))
    name = action_of(peer, "2025-11-25")
    assert isinstance(peer, HTTPPeer)

    answer = peer.send("2025-11-25", "tools/call", {"name": name, "arguments": {}})

    assert answer.status == 403
    assert 'scope="read actions"' in answer.headers["www-authenticate"]
