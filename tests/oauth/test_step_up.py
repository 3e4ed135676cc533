"""What a client is answered that has not all scopes that its user could give it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application as get_django_application
from django.http import HttpRequest
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone

from demo_project.flights.models import Airport
from mcp_django import ModelMCP
from mcp_django.audit.recorder import recorder
from mcp_django.exchange.exchange import Exchange
from mcp_django.models import AccessToken, Call, Grant
from mcp_django.oauth.models import RefreshToken
from mcp_django.routing import get_asgi_application
from tests.axes import HTTP
from tests.oauth.flow import CHATGPT, CLAUDE, ISSUER, Program, error_in
from tests.shop.models import Tag
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, HTTPPeer, Message, Peer, Peers, meta
from tests.support.sse import SSEPeer, sse_peers

AIRPORTS = "model:flights.airport:read"


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
    users: Users, peers: Peers, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
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


def test_a_refresh_long_after_the_challenge_or_at_the_end_of_the_hour_is_one_like_any_other(users: Users) -> None:
    for challenged, issued in ((timedelta(seconds=31), timedelta()), (timedelta(), timedelta(minutes=59))):
        program = Program()
        tokens = program.log_in(users.ops)
        Grant.objects.update(challenged_at=timezone.now() - challenged)
        RefreshToken.objects.update(created_at=timezone.now() - issued)

        assert program.refresh(tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize("transport", HTTP)
@override_settings(MCP={"AUDIT": "on"})
def test_a_call_is_challenged_with_all_scopes_at_once_and_written_down_as_a_refusal(users: Users, peers: Peers) -> None:
    peer = peers(token_with(users.ops, "read"))

    answer = post(peer, call(action_of(peer)))

    recorder.flush()
    assert answer.status == 403
    challenge = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge
    assert 'scope="read actions"' in challenge
    assert 'resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp"' in challenge
    assert answer.json["error"]["data"] == {"reason": "INSUFFICIENT_SCOPE", "scopes": ["actions"]}
    line = Call.objects.filter(method="tools/call").latest("pk")
    assert (line.outcome, line.reason, line.client_id) == ("refused", "NO_SCOPE", CLAUDE)


def test_a_client_is_challenged_for_the_rows_that_a_tool_returns_before_it_runs(
    users: Users, peers: Peers, flights: Any, declared: Declared
) -> None:
    runs: list[str] = []

    def rename(request: HttpRequest) -> Airport:
        """Rename."""
        runs.append("rename")
        return Airport.objects.get(pk="JFK")

    declared.tool(rename)

    answer = post(peers(token_with(users.ops, "actions")), call("rename"))

    assert answer.status == 403
    assert 'scope="actions model:flights.airport:read"' in answer.headers["www-authenticate"]
    assert runs == []


def test_a_client_is_challenged_for_what_it_needs_beside_what_it_has(users: Users, peers: Peers, flights: Any) -> None:
    read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read",
            "params": {"uri": "db://flights/flight/1", "_meta": meta()}}  # fmt: skip
    find = call("find_records", model="flights.flight")
    cases = [
        ("actions", find, "read actions"), ("actions", read, "actions model:flights.flight:read"),
        (AIRPORTS, find, f"{AIRPORTS} model:flights.flight:read"),
    ]  # fmt: skip
    for held, message, needed in cases:
        answer = post(peers(token_with(users.ops, held)), message)
        assert answer.status == 403
        assert f'scope="{needed}"' in answer.headers["www-authenticate"]


def test_what_the_user_may_not_do_no_client_gets_or_a_token_made_by_hand_lacks_stays_absent(
    users: Users, peers: Peers
) -> None:
    def assert_absent(token: str) -> None:
        peer = peers(token)
        answer = post(peer, call(name))
        assert name not in {tool["name"] for tool in peer.result(MODERN, "tools/list")["tools"]}
        assert (answer.status, answer.json["error"]["data"]["reason"]) == (200, "TOOL_NOT_FOUND")
        assert answer.json["error"]["code"] == post(peer, call("no_such_tool")).json["error"]["code"]

    name = action_of(peers(token_of(users.ops)))

    assert_absent(token_with(users.viewer, "read"))
    assert_absent(token_of(users.ops, "read"))
    with override_settings(MCP={"OAUTH_SCOPES": ["read"]}):
        assert_absent(token_with(users.ops, "read"))


def test_neither_what_the_user_has_declined_nor_a_part_of_it_or_more_for_the_same_tool_is_asked_for_again(
    users: Users, peers: Peers, flights: Any, settings: Any
) -> None:
    groups = {"sales": ["model:flights.flight:read", "actions"]}
    settings.MCP = {**settings.MCP, "SCOPE_GROUPS": groups, "OAUTH_SCOPES": ["read", "actions"]}
    action = action_of(peers(token_of(users.ops)))
    find = call("find_records", model="flights.flight")

    for held, declined, message in (
        ("read", "actions", call(action)), (AIRPORTS, "read", find), (AIRPORTS, "sales", find),
        ("read", "sales", call(action)), ("read", f"tool:{action}", call(action)),
    ):  # fmt: skip
        answer = post(peers(token_with(users.ops, held, declined=(declined,))), message)
        text = answer.json["result"]["content"][0]["text"]
        assert (answer.status, answer.json["result"]["isError"]) == (200, True)
        assert "declined" in text, (held, declined)
        assert f"'My agent' (http://localhost{reverse('mcp_django:connected')})" in text
        assert declined != "actions" or "scope actions" in text


def result_without_the_scope(peer: Peer, revision: str) -> None:
    """What a client gets whom no status can tell."""
    result = peer.result(revision, "tools/call", {"name": action_of(peer), "arguments": {}})

    assert result["isError"] is True
    assert "scope actions" in result["content"][0]["text"]


def test_an_older_client_gets_a_result_that_names_the_scope(users: Users, peers: Peers) -> None:
    result_without_the_scope(peers(token_with(users.ops, "read")), "2025-06-18")


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
    result_without_the_scope(peers(token_with(users.ops, "read")), MODERN)


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


# Where no status can ask: the answer has begun, or has none of its own.


class TellingTags(ModelMCP):
    """Tells the client how far it is before it is known what the client lacks."""

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        # Nobody is told anything where no request is being answered.
        if isinstance(request.mcp, Exchange):
            request.mcp.progress(1)
        return True


@pytest.mark.parametrize("transport", HTTP)
def test_a_stream_that_has_begun_ends_with_a_result_that_names_the_scope(
    users: Users, peers: Peers, declared: Declared
) -> None:
    declared.model(Tag, TellingTags)
    message = call("find_records", model="shop.tag")
    message["params"]["_meta"]["progressToken"] = "p"

    answer = post(peers(token_with(users.ops, "model:flights.airport:read")), message)

    assert answer.status == 200
    progress, last = answer.messages
    assert progress["method"] == "notifications/progress"
    assert last["result"]["isError"] is True
    assert "scope model:shop.tag:read" in last["result"]["content"][0]["text"]
    assert Grant.objects.get().challenged_at is None


@override_settings(MCP={"ANONYMOUS_SCOPES": ["read"]})
def test_an_anonymous_caller_is_not_asked_to_log_in_by_a_member_of_a_batch(users: Users, peers: Peers) -> None:
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)
    params = {"name": "no_such_tool", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}

    answer = peer.post([message], {"Mcp-Session-Id": peer.session("2025-03-26")})

    assert answer.status == 200
    [member] = answer.json
    assert member["error"]["data"]["reason"] == "TOOL_NOT_FOUND"


@pytest.mark.parametrize("transport", ["websocket"])
@override_settings(MCP={"ANONYMOUS_SCOPES": ["read"]})
def test_nor_is_one_on_a_socket(users: Users, peers: Peers) -> None:
    error = peers(None).error(MODERN, "tools/call", {"name": "no_such_tool", "arguments": {}})

    assert error["data"]["reason"] == "TOOL_NOT_FOUND"


# HTTP+SSE of 2024-11-05, where the answer of a call comes by another connection than its POST.


REVISION = "2024-11-05"


@pytest.fixture
def client_of(serving_loop: LoopThread, transactional_db: None, settings: Any) -> Iterator[Callable[[str], SSEPeer]]:
    """``client_of(token)``: a client."""
    settings.MCP = {**settings.MCP, "SSE_TRANSPORT": True}
    with sse_peers(get_asgi_application(get_django_application()), serving_loop) as make:
        yield make


@pytest.mark.parametrize(("declined", "status"), [((), 403), (("actions",), 202)])
def test_a_call_that_needs_more_is_refused_when_it_is_posted_unless_that_was_declined(
    users: Users, client_of: Callable[[str], SSEPeer], declined: tuple[str, ...], status: int
) -> None:
    peer = client_of(token_with(users.ops, "read", declined=declined))
    name = action_of(peer, REVISION)
    stream: Any = peer.connection(REVISION)
    call = {"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {"name": name, "arguments": {}}}

    posted = stream.post(json.dumps(call))

    assert posted.status == status
    if status == 202:
        result = stream.answer()["result"]
        assert (result["isError"], "declined" in result["content"][0]["text"]) == (True, True)
    else:
        assert 'scope="read actions"' in posted.headers["www-authenticate"]
        assert posted.json["error"]["data"]["reason"] == "INSUFFICIENT_SCOPE"
