"""Where no status can ask a client to log in or for more scopes: its answer has begun, or has none of its own."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from mcp_django import ModelMCP
from mcp_django.exchange.exchange import Exchange
from mcp_django.models import Grant
from tests.conftest import HTTP
from tests.oauth.test_step_up import call, post, token_with
from tests.shop.models import Tag
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import MODERN, HTTPPeer, Peers


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
