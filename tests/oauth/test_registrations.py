"""A registration is read with patience, and the id that it gets says all of it."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from django.test import override_settings

from mcp_django.oauth import registration
from mcp_django.oauth.client_metadata import InvalidMetadata, name_in, redirects_in
from tests.oauth import recorded

LOCAL = "http://localhost:5/callback"
HOSTED = "https://client.example/callback"


def id_of(*redirect_uris: Any, mode: str = "open", **more: Any) -> str:
    return registration.register({"redirect_uris": list(redirect_uris), **more}, mode)[0]


# What a client says.


def test_a_name_is_one_line_of_visible_text() -> None:
    expected: list[tuple[Any, str]] = [
        ("Claude", "Claude"), ("  Two \t\n words ", "Two words"), ("Ünïcødé 中文", "Ünïcødé 中文"),
        ("x" * 500, "x" * 100),
        ("a\u202eb\u2066c\u200bd\u00ade\x00f\x1b[31m", "abcdef[31m"), ("\ud800\ue000\u2028x", "x"), ("\u200b", ""),
        ("", ""), (None, ""), (7, ""), (["Claude"], ""),
    ]  # fmt: skip

    assert [(given, name_in({"client_name": given})) for given, _ in expected] == expected


def test_one_redirect_that_cannot_be_used_does_not_kill_the_others() -> None:
    for useless in (None, 7, "", [LOCAL], {"uri": LOCAL}, "\ud800", "http://evil.example/", "x:y"):
        assert redirects_in({"redirect_uris": [useless, LOCAL, useless, LOCAL]}) == (LOCAL,), useless


def test_a_member_that_is_null_counts_as_left_out() -> None:
    for member in ("grant_types", "response_types", "client_name", "scope", "jwks", "contacts"):
        assert id_of(LOCAL, **{member: None}) == id_of(LOCAL), member


def test_a_client_that_cannot_use_codes() -> None:
    wrong: list[dict[str, Any]] = [
        {"grant_types": []}, {"grant_types": "authorization_code"}, {"grant_types": ["implicit"]}, {"grant_types": 7},
        {"response_types": ["token"]}, {"response_types": {"code": 1}},
    ]  # fmt: skip
    for given in wrong:
        with pytest.raises(InvalidMetadata) as refused:
            id_of(LOCAL, **given)
        assert refused.value.code == "invalid_client_metadata", given


# What its id says.


def test_the_same_registration_has_the_same_id_however_it_is_written() -> None:
    one = id_of(LOCAL, HOSTED, client_name="x", scope="read")

    assert id_of(HOSTED, "http://localhost:6/callback", LOCAL, client_name=" x ", logo_uri="https://l.example/") == one
    assert id_of(LOCAL, client_name="x") != one


def test_an_id_is_read_back_and_is_no_url() -> None:
    for payload, redirect in recorded.REGISTRATIONS.values():
        client_id, answer = registration.register(payload, "known")
        found = registration.read(client_id, "known")

        assert found is not None and found.allows(redirect)
        assert (found.name, found.host, found.registered_by) == (payload["client_name"], "", "registration")
        assert answer["redirect_uris"] == payload["redirect_uris"]
        assert re.fullmatch(r"[A-Za-z0-9._:-]{1,700}", client_id), client_id


def test_an_id_outlives_a_change_of_the_key_while_the_old_one_is_known() -> None:
    with override_settings(SECRET_KEY="old"):
        client_id = id_of(LOCAL)

    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old"]):
        assert registration.read(client_id, "open") is not None
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=[]):
        assert registration.read(client_id, "open") is None


def test_a_registration_that_is_too_long_for_a_url() -> None:
    dice = random.Random(1)
    many = [f"https://client{number}.example/" + "callback/" * 40 for number in range(20)]
    long = [f"https://client.example/{dice.randbytes(900).hex()}" for _ in range(4)]

    assert len(id_of(*many)) < 3_000, "it is compressed"
    with pytest.raises(InvalidMetadata, match="too long") as refused:
        id_of(*long)
    assert refused.value.code == "invalid_client_metadata"


def test_a_text_that_is_no_id() -> None:
    for text in ("", "x", "x:y", ":", "a:b:c", "é:ü", "\x00", "." * 2_999, ".:" + "A" * 43, "x" * 3_001):
        assert registration.read(text, "open") is None, text


# Who may register.


def test_only_known_redirects_are_admitted_where_it_says_so() -> None:
    for redirect in (
        HOSTED, "https://claude.ai/api/mcp/auth_callback/", "https://claude.ai:443/api/mcp/auth_callback",
        "https://claude.ai.evil.example/api/mcp/auth_callback", "https://chatgpt.com/connector/oauth/",
        "https://chatgpt.com/connector/oauth/a/b", "https://chatgpt.com/connector/oauth/..", "https://chatgpt.com/other",
        "https://chatgpt.com/connector/oauth/a?next=x", "https://localhost/callback", "https://vscode.dev/redirect?x",
    ):  # fmt: skip
        with pytest.raises(InvalidMetadata, match="may not register here"):
            id_of(redirect, mode="known")
        client_id = id_of(redirect, LOCAL)
        found = registration.read(client_id, "known")
        assert found is not None and found.redirect_uris == ("http://localhost/callback",), redirect
        assert registration.read(client_id, "off") is None
