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


@pytest.mark.parametrize(("given", "name"), [
    ("Claude", "Claude"), ("  Two \t\n words ", "Two words"), ("Ünïcødé 中文", "Ünïcødé 中文"), ("x" * 500, "x" * 100),
    ("a\u202eb\u2066c\u200bd\u00ade\x00f\x1b[31m", "abcdef[31m"), ("\ud800\ue000\u2028x", "x"), ("\u200b", ""),
    ("", ""), (None, ""), (7, ""), (["Claude"], ""),
], ids=ascii)  # fmt: skip
def test_a_name_is_one_line_of_visible_text(given: Any, name: str) -> None:
    assert name_in({"client_name": given}) == name


@pytest.mark.parametrize("useless", [None, 7, "", [LOCAL], {"uri": LOCAL}, "\ud800", "http://evil.example/", "x:y"])
def test_one_redirect_that_cannot_be_used_does_not_kill_the_others(useless: Any) -> None:
    assert redirects_in({"redirect_uris": [useless, LOCAL, useless, LOCAL]}) == (LOCAL,)


@pytest.mark.parametrize("member", ["grant_types", "response_types", "client_name", "scope", "jwks", "contacts"])
def test_a_member_that_is_null_counts_as_left_out(member: str) -> None:
    assert id_of(LOCAL, **{member: None}) == id_of(LOCAL)


@pytest.mark.parametrize("given", [
    {"grant_types": []}, {"grant_types": "authorization_code"}, {"grant_types": ["implicit"]}, {"grant_types": 7},
    {"response_types": ["token"]}, {"response_types": {"code": 1}},
], ids=str)  # fmt: skip
def test_a_client_that_cannot_use_codes(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadata) as refused:
        id_of(LOCAL, **given)

    assert refused.value.code == "invalid_client_metadata"


# What its id says.


def test_the_same_registration_has_the_same_id_however_it_is_written() -> None:
    one = id_of(LOCAL, HOSTED, client_name="x", scope="read")

    assert id_of(HOSTED, "http://localhost:6/callback", LOCAL, client_name=" x ", logo_uri="https://l.example/") == one
    assert id_of(LOCAL, client_name="x") != one


@pytest.mark.parametrize("name", recorded.REGISTRATIONS)
def test_an_id_is_read_back_and_is_no_url(name: str) -> None:
    payload, redirect = recorded.REGISTRATIONS[name]

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


@pytest.mark.parametrize(
    "text", ["", "x", "x:y", ":", "a:b:c", "é:ü", "\x00", "." * 2_999, ".:" + "A" * 43, "x" * 3_001]
)
def test_a_text_that_is_no_id(text: str) -> None:
    assert registration.read(text, "open") is None


# Who may register.


@pytest.mark.parametrize("redirect", [
    HOSTED, "https://claude.ai/api/mcp/auth_callback/", "https://claude.ai:443/api/mcp/auth_callback",
    "https://claude.ai.evil.example/api/mcp/auth_callback", "https://chatgpt.com/connector/oauth/",
    "https://chatgpt.com/connector/oauth/a/b", "https://chatgpt.com/connector/oauth/..", "https://chatgpt.com/other",
    "https://chatgpt.com/connector/oauth/a?next=x", "https://localhost/callback", "https://vscode.dev/redirect?x",
])  # fmt: skip
def test_only_known_redirects_are_admitted_where_it_says_so(redirect: str) -> None:
    with pytest.raises(InvalidMetadata, match="may not register here"):
        id_of(redirect, mode="known")

    client_id = id_of(redirect, LOCAL)
    found = registration.read(client_id, "known")
    assert found is not None and found.redirect_uris == ("http://localhost/callback",)
    assert registration.read(client_id, "off") is None
