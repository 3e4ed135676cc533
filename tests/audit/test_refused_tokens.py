"""What the holder of a token that lets nobody in is told, and what stands in the trail alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone

from mcp_django.access import refused_tokens
from mcp_django.access.tickets import issue
from mcp_django.audit import anonymous
from mcp_django.audit.recorder import recorder
from mcp_django.exchange.principals import Principal
from mcp_django.models import AccessToken, Call, Grant
from tests.audit.conftest import Rows
from tests.support.challenges import own_part
from tests.support.data import Users, make_staff
from tests.support.peers import MODERN, HTTPPeer, Peers, SocketPeer, meta

UNKNOWN = "The token is unknown, expired or revoked."
END = datetime.fromisoformat("2026-05-01T12:30:00+00:00")
PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}
#: The roads on which a token comes with the request that opens them.
ROADS = ("http-view-wsgi", "http-view-asgi", "http-asgi", "websocket", "grpc")


def changed(**values: Any) -> Callable[[AccessToken], Any]:
    """Changes the token below every signal, as another process would."""
    return lambda token: AccessToken.objects.filter(pk=token.pk).update(**values)


def inactive(token: AccessToken) -> None:
    User.objects.filter(pk=token.user_id).update(is_active=False)


def both(*spoils: Callable[[AccessToken], Any]) -> Callable[[AccessToken], Any]:
    return lambda token: [spoil(token) for spoil in spoils]


#: What is the matter → how it comes about, the true reason, and what the holder is told.
WAYS: dict[str, tuple[Callable[[AccessToken], Any], str, str]] = {
    "expired": (changed(expires_at=END), "EXPIRED", "This token expired on 2026-05-01 at 12:30 UTC; "),
    "revoked": (changed(revoked_at=END), "REVOKED", "This token was revoked on 2026-05-01 at 12:30 UTC; "),
    "revoked and expired": (changed(revoked_at=END, expires_at=END), "REVOKED", "This token was revoked on"),
    "inactive": (inactive, "INACTIVE", UNKNOWN),
    "inactive and expired": (both(inactive, changed(expires_at=END)), "INACTIVE", UNKNOWN),
    "another address": (changed(addresses=["203.0.113.9"]), "WRONG_ADDRESS", UNKNOWN),
    "another address, and expired": (
        changed(addresses=["203.0.113.9"], expires_at=END), "WRONG_ADDRESS", UNKNOWN,
    ),
    "another endpoint": (changed(resource="https://elsewhere.example/mcp"), "WRONG_RESOURCE", UNKNOWN),
    "deleted": (lambda token: AccessToken.objects.filter(pk=token.pk).delete(), "UNAUTHENTICATED", UNKNOWN),
}  # fmt: skip


def told(peers: Peers, plain: str) -> tuple[str, str]:
    """The challenge and the message with which a token is refused."""
    if peers.transport == "grpc":
        from tests.transports.test_grpc import refused

        error = refused(peers(plain), PING)  # type: ignore[arg-type]
        return own_part(dict(error.trailing_metadata())["www-authenticate"]), str(error.details())
    peer = peers(plain)
    if isinstance(peer, SocketPeer):
        start, body = peer.connect({"Authorization": f"Bearer {plain}"}).refused
        message = json.loads(body["body"])["error"]["message"]
        return own_part(dict(start["headers"])[b"www-authenticate"].decode()), message
    assert isinstance(peer, HTTPPeer)
    answer = peer.send(MODERN, "tools/list")
    assert answer.status == 401 and answer.json["error"]["data"] == {"reason": "UNAUTHENTICATED"}
    return own_part(answer.headers["www-authenticate"]), answer.json["error"]["message"]


@pytest.mark.usefixtures("one_minute")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("transport", ROADS)
def test_the_holder_is_told_of_the_end_and_the_trail_of_everything(
    peers: Peers,
    users: Users,
    rows: Rows,
    way: str,
) -> None:
    spoil, reason, text = WAYS[way]
    token, plain = AccessToken.objects.create_token(user=users.viewer, name="laptop")
    spoil(token)

    found = [told(peers, plain) for _ in range(2)]

    challenge, message = found[0]
    assert found[1] == found[0] and message.startswith(text)
    is_told = text != UNKNOWN
    described = f', error_description="{message}"' if is_told else ""
    assert challenge == f'Bearer realm="mcp", error="invalid_token"{described}'
    known = {"user_name": "viewer", "token_id": token.pk, "token_name": "laptop", "lineage": str(token.line)}
    nobody = {"user_name": "", "token_id": None, "token_name": "", "lineage": ""}
    expected = {"reason": reason, "outcome": "refused", "count": 2, **(nobody if way == "deleted" else known)}
    # One line for all of a minute, since anybody may send the token again and again.
    assert rows(*expected) == [expected]


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_where_to_make_a_new_one(peers: Peers, users: Users, settings: Any) -> None:
    maker = make_staff("maker", "mcp_django.add_accesstoken")
    grant = Grant.objects.create(user=maker, client="https://app.example", resource="", expires_at=END)
    cases: list[tuple[User, dict[str, Any], dict[str, Any], str]] = [
        (maker, {}, {}, "make a new one at http://localhost/admin/mcp_django/accesstoken/add/"),
        (users.viewer, {}, {}, "ask an administrator for a new one"),
        (users.viewer, {"SELF_SERVICE": ["read"]}, {}, "make a new one at http://localhost/mcp/connected"),
        (maker, {"SELF_SERVICE": ["read"]}, {"grant": grant}, "log in again"),
    ]  # fmt: skip

    for user, conf, more, text in cases:
        token, plain = AccessToken.objects.create_token(user=user, **more)
        AccessToken.objects.filter(pk=token.pk).update(expires_at=END, resource="")
        with override_settings(MCP={**settings.MCP, **conf}):
            assert told(peers, plain)[1] == f"This token expired on 2026-05-01 at 12:30 UTC; {text}"


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_description_has_no_character_that_ends_it(
    peers: Peers, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        refused_tokens, "_what_then", lambda token, request: 'a "new" one\\ at http://ä.example\r\nX: y'
    )
    token, plain = AccessToken.objects.create_token(user=users.viewer)
    changed(expires_at=END)(token)

    challenge, message = told(peers, plain)

    [value] = re.findall(r'error_description="([^"]*)"', challenge)
    assert re.fullmatch(r"[\x20\x21\x23-\x5b\x5d-\x7e]+", value) and value.startswith("This token expired on")
    assert challenge.count('"') == 6 and '"new"' in message


@pytest.mark.usefixtures("one_minute")
@pytest.mark.parametrize("transport", ["http-asgi"])
def test_guessing_tells_nothing_and_asks_no_more_of_the_database(
    peers: Peers,
    users: Users,
    rows: Rows,
    django_assert_max_num_queries: Any,
) -> None:
    """A text that is close to the secret of a revoked token is unknown."""
    token, plain = AccessToken.objects.create_token(user=users.viewer, name="laptop")
    token.revoke()
    guess = plain[:-1] + ("a" if plain[-1] != "a" else "b")

    assert told(peers, guess)[1] == told(peers, f"mcp_{'x' * 43}")[1] == UNKNOWN
    assert {row["token_name"] for row in rows("token_name")} == {""}


def test_ended_tokens_from_everywhere_stay_within_the_rows_of_a_minute(
    users: Users,
    audited: Any,
    one_minute: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(anonymous, "MAX_ROWS", 5)

    for number in range(50):
        recorder.anonymous.add("mcp", "request", "refused", "http", "EXPIRED", "10.0.0.1", token_id=number)
    recorder.flush()

    found = list(Call.objects.values_list("reason", "count", "token_id"))
    assert len(found) == 6 and sum(count for _, count, _ in found) == 50
    assert ("TOO_MANY_ADDRESSES", 45, None) in found


# What is open already.


@pytest.mark.parametrize("transport", ["websocket", "grpc"])
@pytest.mark.parametrize("way", ["expired", "revoked", "inactive"])
def test_what_a_token_has_opened_ends_with_its_true_reason(
    peers: Peers,
    users: Users,
    audited: Any,
    rows: Rows,
    way: str,
) -> None:
    audited(SWEEP_SECONDS=60, TOKEN_CACHE_SECONDS=0)
    spoil, reason, _ = WAYS[way]
    token, plain = AccessToken.objects.create_token(user=users.viewer, name="laptop")
    peer: Any = peers(plain)
    opened = peer.connection(MODERN)
    assert "result" in opened.ask(PING)

    spoil(token)
    opened.send(PING)

    opened.assert_shut_out()
    expected = {"reason": reason, "user_name": "viewer", "token_name": "laptop"}
    assert rows(*expected) == [expected]


@pytest.mark.parametrize("transport", ["stdio"])
def test_the_client_of_a_command_is_not_told_that_its_user_is_inactive(
    peers: Peers,
    users: Users,
    audited: Any,
    rows: Rows,
    flights: Any,
) -> None:
    audited(SWEEP_SECONDS=60, TOKEN_CACHE_SECONDS=60)
    _, plain = AccessToken.objects.create_token(user=users.admin, scopes=["read", "actions"])
    peer: Any = peers(plain)
    assert "find_records" in peer.tools()
    User.objects.update(is_active=False)
    call = {"name": "flights_flight_mark_cancelled", "arguments": {"ids": ["1"]}, "_meta": meta()}

    answer = peer.connection(MODERN).ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})

    assert answer["error"]["message"] == "The user may no longer connect."
    assert rows("reason", "user_name") == [{"reason": "INACTIVE", "user_name": "admin"}]


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_ticket_of_a_token_that_has_ended_says_which(
    peers: Peers,
    users: Users,
    rows: Rows,
) -> None:
    token, _ = AccessToken.objects.create_token(user=users.viewer, name="laptop")
    ticket = issue(Principal(users.viewer, frozenset(["read"]), token, token.pk))
    changed(expires_at=timezone.now() - timedelta(seconds=5))(token)
    peer = peers(None)
    assert isinstance(peer, SocketPeer)

    _, body = peer.connect(query=f"ticket={ticket.reveal()}").refused

    assert "This token expired on" in json.loads(body["body"])["error"]["message"]
    assert rows("reason", "token_name") == [{"reason": "EXPIRED", "token_name": "laptop"}]
