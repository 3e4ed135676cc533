"""What a client has begun goes on when the hour of its access token is over: a question, and a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from mcp_django.access.authentication import principals
from mcp_django.models import AccessToken, Grant
from tests.access.test_grants import make_grant, token_by
from tests.axes import PUSHING
from tests.support import tasks
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.duplex import DuplexPeer
from tests.support.peers import MODERN, Message, Peer, Peers
from tests.support.talking import call

#: A token for an endpoint opens no server on stdio.
over_each = pytest.mark.parametrize("transport", [name for name in PUSHING if name != "stdio"])

NAME: Message = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture
def grant(users: Users) -> Grant:
    return make_grant(users.admin, scopes=["read", "actions"])


@pytest.fixture
def peer(grant: Grant, peers: Peers) -> Peer:
    made = peers(token_by(grant, "read", "actions")[1])
    made.capabilities = {**tasks.TASKS, "elicitation": {}}
    return made


def end_hour() -> None:
    AccessToken.objects.update(expires_at=timezone.now())
    principals.clear()


def refresh(peer: Peer, grant: Grant) -> None:
    """Take the next token of the grant, which a socket that is open has no use for."""
    if not isinstance(peer, DuplexPeer):
        peer.token = token_by(grant, "read", "actions")[1]


def late(peer: Peer, grant: Grant) -> Callable[[str, Message], Message]:
    """Answers after the hour, as a client does: with a token that it has just got."""

    def answer(method: str, params: Message) -> Message:
        end_hour()
        refresh(peer, grant)
        return {"action": "accept", "content": {"name": "Ada"}}

    return answer


@over_each
@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
def test_a_question_waits_for_its_answer(declared: Declared, peer: Peer, grant: Grant, revision: str) -> None:
    def greet(request: Any) -> str:
        """Greets its user by name."""
        return f"Hello {request.mcp.elicit('Your name?', NAME, key='who').content['name']}"

    declared.tool(greet, read_only=True)

    assert call(peer, "greet", revision, late(peer, grant)).text == "Hello Ada"


def test_a_task_that_waits_for_a_worker_is_done(declared: Declared, peer: Peer, grant: Grant) -> None:
    def greet(request: Any) -> str:
        """Greets the user whom it acts for."""
        return f"Hello {request.user.username}"

    declared.tool(greet, read_only=True, task=True)
    with override_settings(MCP={**settings.MCP, "TASK_BACKEND": "database"}):
        started = tasks.start(peer, "greet")
        end_hour()
        refresh(peer, grant)

        tasks.work()

        assert tasks.text_of(tasks.get(peer, started)) == "Hello admin"


def test_a_task_ends_with_the_grant(declared: Declared, peer: Peer, grant: Grant, users: Users) -> None:
    ran = []

    def note(request: Any) -> str:
        """Notes that it was run."""
        ran.append(True)
        return "done"

    declared.tool(note, read_only=True, task=True)
    with override_settings(MCP={**settings.MCP, "TASK_BACKEND": "database"}):
        tasks.start(peer, "note")
        token_by(make_grant(users.admin, line=grant.line, scopes=["read"]))
        grant.end(Grant.Ended.REVOKED)

        tasks.work()

    assert not ran
