"""A token and its successors are one credential line: what a client began with one it goes on with by the next."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from mcp_django.access import tickets
from mcp_django.access.authentication import principals
from mcp_django.conf import get_conf
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import from_settings
from mcp_django.models import AccessToken, Session, Ticket, digest
from mcp_django.models.tokens import NEVER
from mcp_django.protocol.errors import Unauthenticated
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, HTTPPeer, Peer, Peers
from tests.support.talking import call, talk

REVISION = "2025-11-25"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def rolled(peer: Peer) -> str:
    """The successor of the peer's token."""
    return AccessToken.objects.get(hash=digest(str(peer.token))).roll()[1]


def principal_of(plain: str) -> Principal | None:
    return principals.find_hash(digest(plain), fresh=True)


# Making tokens.


def test_a_token_expires_by_default_and_never_where_that_is_said(users: Users) -> None:
    token, plain = AccessToken.objects.create_token(user=users.ops)

    assert token.expires_at == token.created_at + timedelta(days=get_conf().TOKEN_DAYS)
    assert token.last_chars == plain[-4:]
    assert AccessToken.objects.create_token(user=users.ops, expires_at=NEVER)[0].expires_at is None


def test_no_token_is_made_that_has_expired_already(users: Users) -> None:
    with pytest.raises(ValidationError, match="in the past"):
        AccessToken.objects.create_token(user=users.ops, expires_at=timezone.now())
    assert not AccessToken.objects.exists()


# Rolling.


def test_the_successor_lets_in_and_the_old_token_does_not(users: Users) -> None:
    token, plain = AccessToken.objects.create_token(user=users.viewer, scopes=["actions"], addresses=[])

    made, successor = token.roll()

    found = principal_of(successor)
    assert principal_of(plain) is None and token.revoked_at is not None
    assert found is not None and (found.user, found.scopes, found.lineage) == (
        users.viewer,
        {"actions"},
        str(token.line),
    )
    assert made.expires_at is not None and made.expires_at > timezone.now() + timedelta(days=89)


def test_both_tokens_let_in_during_the_grace_which_prolongs_none(users: Users) -> None:
    end = timezone.now() + timedelta(minutes=1)
    token, plain = AccessToken.objects.create_token(user=users.viewer, expires_at=end)

    _, successor = token.roll(grace=timedelta(days=1))
    token.refresh_from_db()

    assert principal_of(plain) is not None and principal_of(successor) is not None
    assert token.expires_at == end


@pytest.mark.every_database
def test_reviving_an_ended_token_by_rolling_it(users: Users) -> None:
    made = {end: AccessToken.objects.create_token(user=users.viewer)[0] for end in ("revoked", "expired", "rolled")}
    past = timezone.now() - timedelta(seconds=1)
    AccessToken.objects.filter(pk=made["revoked"].pk).update(revoked_at=past)
    AccessToken.objects.filter(pk=made["expired"].pk).update(expires_at=past)
    made["rolled"].roll(grace=timedelta(hours=1))

    for token in made.values():
        with pytest.raises(ValidationError, match="has ended or was replaced already"):
            token.roll()
    assert AccessToken.objects.count() == len(made) + 1


# What belongs to a line.


def ping(peer: HTTPPeer, key: str) -> int:
    return peer.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Mcp-Session-Id": key}).status


def test_hijacking_the_session_of_another_token_of_the_same_user_which_goes_on_with_the_successor_of_its_own(
    peers: Peers, users: Users
) -> None:
    owner, thief = peers(token_of(users.admin)), peers(token_of(users.admin))
    assert isinstance(owner, HTTPPeer) and isinstance(thief, HTTPPeer)
    key = owner.session(REVISION)

    assert ping(thief, key) == 404
    assert thief.http("DELETE", headers={"Mcp-Session-Id": key}).status == 404
    assert ping(owner, key) == 200

    successor = peers(rolled(owner))
    assert isinstance(successor, HTTPPeer)
    assert (ping(owner, key), ping(successor, key)) == (401, 200)
    assert Session.objects.get().principal_key == f"user:{users.admin.pk}"


def test_the_cursors_of_rows_and_lists_of_another_token_of_the_same_user(
    peers: Peers, users: Users, flights: Any, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "LIST_PAGE": 1}
    asked = {"model": "flights.flight", "limit": 1, "fields": ["id"]}
    owner, thief = peers(token_of(users.admin)), peers(token_of(users.admin))
    cursor = owner.call("find_records", **asked)["structuredContent"]["next_cursor"]
    of_tools = {"cursor": owner.result(MODERN, "tools/list")["nextCursor"]}

    stolen = thief.call("find_records", **asked, cursor=cursor)
    stolen_list = thief.error(MODERN, "tools/list", of_tools)
    successor = peers(rolled(owner))

    assert stolen["isError"] is True and stolen_list["data"]["reason"] == "INVALID_CURSOR"
    assert successor.call("find_records", **asked, cursor=cursor)["structuredContent"]["rows"] == [[2]]
    assert len(successor.result(MODERN, "tools/list", of_tools)["tools"]) == 1


def test_the_request_state_of_another_token_of_the_same_user(peers: Peers, users: Users, declared: Declared) -> None:
    def greet(request: Any) -> str:
        """Greets its user by name."""
        return f"Hello {request.mcp.elicit('Your name?', NAME, key='who').content['name']}"

    declared.tool(greet, read_only=True)
    owner = peers(token_of(users.admin))
    owner.capabilities = {"elicitation": {}}
    result = call(owner, "greet").answer["result"]
    answered = {
        "name": "greet", "arguments": {}, "requestState": result["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"name": "Ada"}} for key in result["inputRequests"]},
    }  # fmt: skip

    def answer_of(token: str) -> Any:
        peer = peers(token)
        peer.capabilities = {"elicitation": {}}
        return talk(peer, MODERN, "tools/call", answered).answer

    assert answer_of(token_of(users.admin))["error"]["data"]["reason"] == "INVALID_REQUEST_STATE"
    assert answer_of(rolled(owner))["result"]["content"][0]["text"] == "Hello Ada"


def test_the_confirmation_of_another_token_of_the_same_user(peers: Peers, users: Users, flights: Any) -> None:
    cancel, owner = "flights_flight_mark_cancelled", peers(token_of(users.admin))
    shown = owner.call(cancel, filter={"id": 1})["content"][0]["text"]
    confirm = shown.rpartition('"confirm": "')[2].partition('"')[0]

    stolen = peers(token_of(users.admin)).call(cancel, filter={"id": 1}, confirm=confirm)
    kept = peers(rolled(owner)).call(cancel, filter={"id": 1}, confirm=confirm)

    assert stolen["isError"] is True and kept["isError"] is False


def test_a_ticket_is_redeemed_by_the_successor_of_its_token_until_the_line_is_revoked(users: Users) -> None:
    token, plain = AccessToken.objects.create_token(user=users.admin)
    principal = principal_of(plain)
    assert principal is not None
    first, second = tickets.issue(principal), tickets.issue(principal)
    successor, _ = token.roll()

    assert tickets.redeem(first, from_settings()).token_id == successor.pk
    successor.revoke()
    token_of(users.admin)
    with pytest.raises(Unauthenticated):
        tickets.redeem(second, from_settings())


@pytest.mark.every_database
def test_clearing_tokens_deletes_no_ticket_and_no_session(users: Users) -> None:
    token, plain = AccessToken.objects.create_token(user=users.admin)
    principal = principal_of(plain)
    assert principal is not None
    tickets.issue(principal)
    Session.objects.create(
        key="k", site="mcp", principal_key=principal.key, line=principal.lineage, revision=REVISION,
        expires_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip

    token.delete()

    assert (Ticket.objects.count(), Session.objects.count()) == (1, 1)


def test_the_line_of_a_caller_without_a_token_is_the_user(users: Users) -> None:
    principal = Principal(users.admin, frozenset({"read"}))

    assert principal.lineage == principal.key == f"user:{users.admin.pk}"
