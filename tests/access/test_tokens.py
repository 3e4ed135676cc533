"""Tokens: what they let in, until when, and what ends them."""

from __future__ import annotations

import re
import time
import zlib
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django.access.authentication import principals
from mcp_django.core import memory
from mcp_django.exchange import scopes
from mcp_django.exchange.token_format import is_well_formed, new_token
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
    token, plain = AccessToken.objects.create_token(user=users.ops, name="laptop")

    stored = AccessToken.objects.filter(pk=token.pk).values().get()

    assert stored["hash"] == digest(plain) and len(plain) > 40 and plain.startswith("mcpdj_")
    assert plain not in str(stored) and plain.removeprefix("mcpdj_") not in str(stored)
    assert (str(token), str(AccessToken(pk=7))) == ("laptop", "token 7")
    assert token.scopes == AccessToken(user=users.ops).scopes == ["read"]


def test_scopes_that_are_none_are_no_valid_token(users: Any) -> None:
    for value in (["writing"], "read", 5, None, [1], {"read": 1}):
        with pytest.raises(ValidationError):
            AccessToken(user=users.ops, hash="x", scopes=value).full_clean()


def test_scopes_that_a_credential_carries() -> None:
    for credential, granted in (
        (None, {"actions"}), (object(), {"actions"}), (SimpleNamespace(scopes=["read"]), {"read"}),
        (SimpleNamespace(scope="read actions"), {"read", "actions"}), (SimpleNamespace(scopes=[]), set()),
        (SimpleNamespace(scope=""), set()),
    ):  # fmt: skip
        assert scopes.granted_by(credential, ["actions"]) == granted, credential


# What a token lets in.


@http_only
def test_a_token_that_no_longer_exists(peers: Peers, users: Any) -> None:
    """What has ended in another way: see test_refused_tokens.py."""
    spoils: dict[str, Any] = {
        "deleted": lambda token: token.delete(),
        "user deleted": lambda token: token.user.delete(),
    }
    answers = {}
    for (name, spoil), user in zip(spoils.items(), [users.viewer, users.ops], strict=True):
        token, plain = AccessToken.objects.create_token(user=user)
        spoil(token)
        answers[name] = peers(plain).send(MODERN, "tools/list")  # type: ignore[attr-defined]

    for name, answer in answers.items():
        assert answer.status == 401, name
        assert own_part(answer.headers["www-authenticate"]) == 'Bearer realm="mcp", error="invalid_token"'
        assert answer.json["error"]["data"] == {"reason": "UNAUTHENTICATED"}
        assert answer.json["error"]["message"] == "The token is unknown, expired or revoked."


def test_credentials_that_are_none(peers: Peers, users: Any) -> None:
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)

    for header in (
        "Bearer", "Bearer ", "Bearer x y", "Bearer nonsense", "bearer mcp_x", "Bearer mcp_" + "x" * 5_000,
        "Bearer \xe9", "Basic eDp5", "Token x", "x",
    ):  # fmt: skip
        answer = peer.http("POST", b"{}", {"Authorization": header})
        assert (answer.status, answer.headers["www-authenticate"][:6]) == (401, "Bearer"), header


def test_a_token_in_the_url_is_none(users: Any) -> None:
    plain = token_of(users.admin)

    response = Client().post(f"/mcp?access_token={plain}&token={plain}", b"{}", content_type="application/json")

    assert response.status_code == 401


def test_a_token_expires_while_it_is_remembered(peers: Peers, users: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = timezone.now() + timedelta(seconds=60)
    with override_settings(MCP=CACHED):
        _, plain = AccessToken.objects.create_token(user=users.admin, expires_at=soon)
        assert principals.find_hash(digest(plain), fresh=False) is not None
        later = time.monotonic() + 61
        monkeypatch.setattr(memory.time, "monotonic", lambda: later)
        monkeypatch.setattr(timezone, "now", lambda: soon)

        assert principals.find_hash(digest(plain), fresh=False) is None


# What is remembered of a token, and forgotten at once.


def test_a_token_that_is_ended_is_forgotten_at_once(peers: Peers, users: Any) -> None:
    changes: list[Any] = [
        lambda user, token: token.revoke(),
        lambda user, token: token.delete(),
        lambda user, token: (user.set_password("new"), user.save()),
        lambda user, token: (setattr(user, "is_active", False), user.save()),
    ]
    with override_settings(MCP=CACHED):
        for number, change in enumerate(changes):
            token, plain = AccessToken.objects.create_token(user=users.viewer)
            peer = peers(plain)
            before = status(peer)
            change(users.viewer, token)

            assert (before, status(peer)) == (200, 401), number


def test_rights_and_scopes_that_are_lost_are_lost_at_once(peers: Peers, users: Any, flights: Any) -> None:
    with override_settings(MCP=CACHED):
        token, plain = AccessToken.objects.create_token(user=users.admin, scopes=["read", "actions"])
        viewing, acting = peers(token_of(users.viewer)), peers(plain)
        before = viewing.tools(), acting.tools()
        users.viewer.groups.clear()
        token.scopes = ["read"]
        token.save()

        assert "find_records" in before[0] and "find_records" not in viewing.tools()
        assert "flights_flight_mark_cancelled" in before[1]
        assert "flights_flight_mark_cancelled" not in acting.tools()


@http_only
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


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_ends_with_its_token(peers: Peers, users: Any) -> None:
    token, plain = AccessToken.objects.create_token(user=users.viewer)
    peer = peers(plain)
    assert isinstance(peer, SocketPeer)
    socket = peer.socket(MODERN)

    token.revoke()

    assert socket.wait_closed() == 1008


# Passwords.


def test_a_new_password_revokes_the_tokens_of_its_user_unless_the_project_says_otherwise(users: Any) -> None:
    own, others = token_of(users.viewer), token_of(users.ops)

    with override_settings(MCP={"PASSWORD_CHANGE_REVOKES": False}):
        users.viewer.set_password("new")
        users.viewer.save()
    assert AccessToken.objects.get(hash=digest(own)).revoked_at is None
    users.viewer.set_password("newer")
    users.viewer.save()

    assert AccessToken.objects.get(hash=digest(own)).revoked_at is not None
    assert AccessToken.objects.get(hash=digest(others)).revoked_at is None


@override_settings(PASSWORD_HASHERS=[
    "django.contrib.auth.hashers.PBKDF2PasswordHasher", "django.contrib.auth.hashers.MD5PasswordHasher",
])  # fmt: skip
def test_another_field_and_a_login_that_strengthens_the_hash_revoke_nothing(users: Any) -> None:
    own = token_of(users.viewer)
    User.objects.filter(pk=users.viewer.pk).update(password=make_password("viewer", hasher="md5"))
    user = User.objects.get(pk=users.viewer.pk)
    user.email = "a@b.c"
    user.save()

    assert Client().login(username="viewer", password="viewer")

    assert User.objects.get(pk=users.viewer.pk).password.startswith("pbkdf2")
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
def test_last_use_is_written_once_a_minute_at_most(peers: Peers, users: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    token, plain = AccessToken.objects.create_token(user=users.viewer)
    peer, now = peers(plain), timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)

    with override_settings(MCP={"TOKEN_CACHE_SECONDS": 0}):
        first = updates(peer, 3)
        now += timedelta(seconds=59)
        soon = updates(peer, 3)
        now += timedelta(seconds=2)
        later = updates(peer, 3)
    token.refresh_from_db()

    assert (first, soon, later) == (1, 0, 1)
    assert token.last_used_at == now


# The plain text of a token: its form, and the checksum that secret scanners verify.


#: As the documentation gives it to secret scanners.
DOCUMENTED = r"\bmcpdj_([0-9A-Za-z]{43})([0-9A-Za-z]{6})\b"
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_a_scanner_can_verify_a_token_by_what_is_documented() -> None:
    found = re.search(DOCUMENTED, f"Authorization: Bearer {new_token()}\n")

    assert found is not None
    value = 0
    for digit in found[2]:
        value = value * 62 + DIGITS.index(digit)
    assert value == zlib.crc32(found[1].encode())


def test_tokens_are_different() -> None:
    assert len({new_token() for _ in range(100)}) == 100


def test_a_token_of_ours_is_well_formed_as_text_and_as_bytes() -> None:
    token = new_token()
    before_the_checksum = "mcp_" + "aZ0_-" * 8 + "abc"

    found = [token, token.encode(), "mcpdj_" + "0" * 43 + "2CZclj", before_the_checksum]

    assert [text for text in found if not is_well_formed(text)] == []


def test_a_token_with_one_wrong_character_and_a_text_of_another_form_are_refused() -> None:
    token = new_token()
    one_wrong = [token[:at] + ("b" if token[at] == "a" else "a") + token[at + 1 :] for at in (6, 20, 48, 49, 54)]
    others = [
        token[1:], token[1:].encode(), "", "mcp_", "mcpdj_", "mcp_" + "a" * 42, "mcp_" + "a" * 44, "mcp_" + "ä" * 43,
        "MCP_" + "a" * 43, "mcp_" + "a" * 43 + "\n", " mcp_" + "a" * 43, "ghp_" + "a" * 43,
        "mcp_" + "a" * 42 + "\ud800", "mcp_" + "a" * 42 + "\0",
    ]  # fmt: skip

    assert [text for text in (*one_wrong, *others) if is_well_formed(text)] == []
