"""HTTP+SSE of 2024-11-05, where the answer of a call comes by another connection than its POST."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application as get_django_application

from mcp_django.routing import get_asgi_application
from tests.oauth.test_step_up import action_of, token_with
from tests.support.data import Users
from tests.support.loop import LoopThread
from tests.support.sse import SSEPeer

REVISION = "2024-11-05"


@pytest.fixture
def client_of(serving_loop: LoopThread, transactional_db: None, settings: Any) -> Iterator[Callable[[str], SSEPeer]]:
    """``client_of(token)``: a client."""
    settings.MCP = {**settings.MCP, "SSE_TRANSPORT": True}
    application = get_asgi_application(get_django_application())
    made: list[SSEPeer] = []

    def make(token: str) -> SSEPeer:
        made.append(SSEPeer(token, application, serving_loop))
        return made[-1]

    yield make
    for peer in made:
        peer.close()


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
