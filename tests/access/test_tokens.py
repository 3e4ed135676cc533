"""Tokens: what they let in, until when, and what ends them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django import memory
from mcp_django.access.authentication import principals
from mcp_django.exchange import scopes
from mcp_django.models import AccessToken, digest
from tests.support.challenges import own_part
from tests.support.data import token_of
from tests.support.peers import MODERN, HTTPPeer, Peers, SocketPeer

CACHED = {"TOKEN_CACHE_SECONDS": 300.0, "SWEEP_SECONDS": 0.2}

http_only = pytest.mark.parametrize("transport", ["http-view-wsgi", "http-asgi"])


def status(peer: Any) -> int:
    """What a request is answered with that reads nothing anew, as lists do."""
    return int(peer.send(MODERN, "server/discover").status)


# The model.


def test_only_the_hash_of_a_token_is_stored(users: Any) -> None:
    token, plain = AccessToken.objects.create_token(user=users.ops, name="x", scopes=["read"])

    stored = AccessToken.objects.filter(pk=token.pk).values().get()

    assert stored["hash"] == digest(plain) and len(plain) > 40 and plain.startswith("mcpdj_")
    assert plain not in str(stored) and plain.removeprefix("mcpdj_") not in str(stored)


def test_a_token_reads_by_default(users: Any) -> None:
    token, _ = AccessToken.objects.create_token(user=users.ops)

    assert token.scopes == ["read"]
    assert AccessToken(user=users.ops).scopes == ["read"]


def test_a_token_is_named_by_its_name_or_number(users: Any) -> None:
    named, _ = AccessToken.objects.create_token(user=users.ops, name="laptop")
    unnamed, _ = AccessToken.objects.create_token(user=users.ops)

    assert (str(named), str(unnamed)) == ("laptop", f"token {unnamed.pk}")


@pytest.mark.parametrize("value", [["writing"], "read", 5, None, [1], {"read": 1}])
def test_scopes_that_are_none_are_no_valid_token(users: Any, value: Any) -> None:
    token = AccessToken(user=users.ops, hash="x", scopes=value)

    with pytest.raises(ValidationError):
        token.full_clean()


@pytest.mark.parametrize(("credential", "granted"), [
    (None, {"actions"}),
    (object(), {"actions"}),
    (type("Scoped", (), {"scopes": ["read"]})(), {"read"}),
    (type("OAuth", (), {"scope": "read actions"})(), {"read", "actions"}),
    (type("Empty", (), {"scopes": []})(), set()),
    (type("EmptyOAuth", (), {"scope": ""})(), set()),
], ids=["none", "silent", "scopes", "scope", "no scopes", "no scope"])  # fmt: skip
def test_scopes_that_a_credential_carries(credential: Any, granted: set[str]) -> None:
    assert scopes.granted_by(credential, ["actions"]) == granted


# What a token lets in.


@http_only
@pytest.mark.parametrize("spoil", [
    lambda token: token.revoke(),
    lambda token: AccessToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1)),
    lambda token: token.delete(),
    lambda token: User.objects.filter(pk=token.user_id).update(is_active=False),
    lambda token: token.user.delete(),
], ids=["revoked", "expired", "deleted", "user inactive", "user deleted"])  # fmt: skip
def test_a_token_that_no_longer_holds(peers: Peers, users: Any, spoil: Any) -> None:
    token, plain = AccessToken.objects.create_token(user=users.viewer)
    spoil(token)
    peer = peers(plain)

    answer = peer.send(MODERN, "tools/list")  # type: ignore[attr-defined]

    assert answer.status == 401
    assert own_part(answer.headers["www-authenticate"]) == 'Bearer realm="mcp", error="invalid_token"'
    assert answer.json["error"]["data"] == {"reason": "UNAUTHENTICATED"}
    assert answer.json["error"]["message"] == "The token is unknown, expired or revoked."


@pytest.mark.parametrize("header", [
    "Bearer", "Bearer ", "Bearer x y", "Bearer nonsense", "bearer mcp_x", "Bearer mcp_" + "x" * 5_000, "Bearer \xe9",
    "Basic eDp5", "Token x", "x",
])  # fmt: skip
def test_credentials_that_are_none(peers: Peers, users: Any, header: str) -> None:
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)

    answer = peer.http("POST", b"{}", {"Authorization": header})

    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_token_in_the_url_is_none(peers: Peers, users: Any) -> None:
    plain = token_of(users.admin)

    response = Client().post(f"/mcp?access_token={plain}&token={plain}", b"{}", content_type="application/json")

    assert response.status_code == 401


def test_a_token_expires_while_it_is_remembered(peers: Peers, users: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = timezone.now() + timedelta(seconds=60)
    with override_settings(MCP=CACHED):
        _, plain = AccessToken.objects.create_token(user=users.admin, expires_at=soon)
        assert principals.find(plain.encode(), fresh=False) is not None
        later = time.monotonic() + 61
        monkeypatch.setattr(memory.time, "monotonic", lambda: later)
        monkeypatch.setattr(timezone, "now", lambda: soon)

        assert principals.find(plain.encode(), fresh=False) is None


# What is remembered of a token, and forgotten at once.


@pytest.mark.parametrize("change", [
    lambda users, token: token.revoke(),
    lambda users, token: token.delete(),
    lambda users, token: (setattr(users.viewer, "is_active", False), users.viewer.save()),
    lambda users, token: (users.viewer.set_password("new"), users.viewer.save()),
], ids=["revoke", "delete", "deactivate", "password"])  # fmt: skip
def test_a_token_that_is_ended_is_forgotten_at_once(peers: Peers, users: Any, change: Any) -> None:
    with override_settings(MCP=CACHED):
        token, plain = AccessToken.objects.create_token(user=users.viewer)
        peer = peers(plain)
        before = status(peer)
        change(users, token)

        assert (before, status(peer)) == (200, 401)


def test_rights_that_are_lost_are_lost_at_once(peers: Peers, users: Any, flights: Any) -> None:
    with override_settings(MCP=CACHED):
        peer = peers(token_of(users.viewer))
        before = peer.tools()
        users.viewer.groups.clear()

        assert "find_records" in before
        assert "find_records" not in peer.tools()


def test_scopes_that_are_taken_from_a_token_are_lost_at_once(peers: Peers, users: Any, flights: Any) -> None:
    with override_settings(MCP=CACHED):
        token, plain = AccessToken.objects.create_token(user=users.admin, scopes=["read", "actions"])
        peer = peers(plain)
        before = peer.tools()
        token.scopes = ["read"]
        token.save()

        assert "flights_flight_mark_cancelled" in before
        assert "flights_flight_mark_cancelled" not in peer.tools()


def test_a_token_is_read_once_in_a_while(peers: Peers, users: Any) -> None:
    with override_settings(MCP=CACHED):
        peer = peers(token_of(users.viewer))
        before = status(peer)
        AccessToken.objects.all().delete()  # Signals are sent: forgotten.
        after = status(peer)

        other = peers(token_of(users.viewer))
        status(other)
        AccessToken.objects.update(revoked_at=timezone.now())  # No signal: remembered for TOKEN_CACHE_SECONDS.
        remembered = status(other)
        principals.clear()

        assert (before, after, remembered, status(other)) == (200, 401, 200, 401)


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_nothing_is_remembered_under_wsgi(peers: Peers, users: Any) -> None:
    with override_settings(MCP=CACHED):
        peer = peers(token_of(users.viewer))
        before = status(peer)
        AccessToken.objects.update(revoked_at=timezone.now())

        assert (before, status(peer)) == (200, 401)


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_ends_with_its_token(peers: Peers, users: Any) -> None:
    token, plain = AccessToken.objects.create_token(user=users.viewer)
    peer = peers(plain)
    assert isinstance(peer, SocketPeer)
    socket = peer.socket(MODERN)

    token.revoke()

    assert socket.wait_closed() == 1008


# Passwords.


def test_a_new_password_revokes_the_tokens_of_its_user(users: Any) -> None:
    own, others = token_of(users.viewer), token_of(users.ops)
    users.viewer.set_password("new")
    users.viewer.save()

    assert AccessToken.objects.get(hash=digest(own)).revoked_at is not None
    assert AccessToken.objects.get(hash=digest(others)).revoked_at is None


@override_settings(MCP={"PASSWORD_CHANGE_REVOKES": False})
def test_a_new_password_revokes_nothing_where_the_project_says_so(users: Any) -> None:
    own = token_of(users.viewer)
    users.viewer.set_password("new")
    users.viewer.save()

    assert AccessToken.objects.get(hash=digest(own)).revoked_at is None


@override_settings(PASSWORD_HASHERS=[
    "django.contrib.auth.hashers.PBKDF2PasswordHasher", "django.contrib.auth.hashers.MD5PasswordHasher",
])  # fmt: skip
def test_a_login_that_strengthens_the_hash_revokes_nothing(users: Any) -> None:
    own = token_of(users.viewer)
    User.objects.filter(pk=users.viewer.pk).update(password=make_password("viewer", hasher="md5"))

    assert Client().login(username="viewer", password="viewer")

    assert User.objects.get(pk=users.viewer.pk).password.startswith("pbkdf2")
    assert AccessToken.objects.get(hash=digest(own)).revoked_at is None


@pytest.mark.parametrize("change", [
    lambda user: (setattr(user, "email", "a@b.c"), user.save()),
    lambda user: Client().login(username="viewer", password="viewer"),
], ids=["other field", "login"])  # fmt: skip
def test_what_is_no_new_password_revokes_nothing(users: Any, change: Any) -> None:
    own = token_of(users.viewer)

    change(users.viewer)

    assert AccessToken.objects.get(hash=digest(own)).is_current()


# Last used.


def updates(peer: Any, times: int) -> int:
    """How many UPDATEs of tokens so many calls cause."""
    with CaptureQueriesContext(connection) as captured:
        for _ in range(times):
            assert status(peer) == 200
    return sum("UPDATE" in query["sql"] and "accesstoken" in query["sql"] for query in captured)


@pytest.mark.every_database
@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_last_use_is_written_once_a_minute_at_most(peers: Peers, users: Any) -> None:
    token, plain = AccessToken.objects.create_token(user=users.viewer)
    peer = peers(plain)

    first = updates(peer, 3)
    AccessToken.objects.update(last_used_at=timezone.now() - timedelta(seconds=50))
    soon = updates(peer, 3)
    AccessToken.objects.update(last_used_at=timezone.now() - timedelta(seconds=70))
    later = updates(peer, 3)
    token.refresh_from_db()

    assert (first, soon, later) == (1, 0, 1)
    assert token.last_used_at is not None and timezone.now() - token.last_used_at < timedelta(seconds=30)
