"""Tokens that are bound to addresses: from elsewhere they are unknown, also while they are remembered."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import override_settings

from mcp_django.access import tickets
from mcp_django.access.authentication import authenticate, authenticate_again, authenticate_from_memory, principals
from mcp_django.exchange.addresses import is_within, parse_networks
from mcp_django.exchange.requests import MCPRequest
from mcp_django.models import AccessToken
from mcp_django.protocol.errors import Unauthenticated
from tests.support.data import Users, token_of
from tests.support.peers import MODERN, HTTPPeer, Peers

HOME, ELSEWHERE = "192.0.2.7", "198.51.100.1"
CACHED = {"TOKEN_CACHE_SECONDS": 300.0, "SWEEP_SECONDS": 0.2}


def request_from(address: str | None, token: str, **meta: str) -> MCPRequest:
    remote = {} if address is None else {"REMOTE_ADDR": address}
    return MCPRequest(
        path="/mcp", scheme="http", meta={"HTTP_AUTHORIZATION": f"Bearer {token}", **remote, **meta}, attributes={}
    )


# Addresses and networks.


def test_addresses_and_networks_are_kept_in_one_spelling() -> None:
    asked = ["192.0.2.7", " 2001:DB8:0::/32 ", "", "::ffff:10.0.0.0/104", "192.0.2.7/32"]

    assert parse_networks(asked) == ["192.0.2.7/32", "2001:db8::/32", "10.0.0.0/8"]


def test_what_is_no_network_is_refused(users: Users) -> None:
    for text in ("x", "10.0.0.1/8", "10.0.0.0/33", "256.1.1.1", "10.0.0.0/8/8", "::1%eth0/200"):
        with pytest.raises(ValueError, match="is no address and no network"):
            parse_networks([text])
    with pytest.raises(ValidationError):
        AccessToken(user=users.ops, hash="x", addresses=["10.0.0.1/8"]).full_clean()


def test_an_address_is_within_a_network() -> None:
    expected = {"10.1.2.3": True, "11.1.2.3": False, "2001:db8::5": True, "2001:db9::5": False, "": False}

    assert {address: is_within(address, ["10.0.0.0/8", "2001:db8::/32"]) for address in expected} == expected
    assert not is_within("10.1.2.3", ["nonsense"]), "what cannot be read any more lets nobody in"


# Where a principal is found.


def test_using_a_stolen_token_from_elsewhere(users: Users) -> None:
    token, absent = token_of(users.admin, addresses=[HOME]), token_of(users.admin)[:-1]

    for address in (ELSEWHERE, None, "", "unix:/tmp/x"):
        with pytest.raises(Unauthenticated) as refused:
            authenticate(request_from(address, token), fresh=True)
        with pytest.raises(Unauthenticated) as unknown:
            authenticate(request_from(address, absent), fresh=True)
        assert (str(refused.value), refused.value.challenge) == (str(unknown.value), unknown.value.challenge)

    assert AccessToken.objects.earliest("pk").last_used_at is None
    assert authenticate(request_from(HOME, token), fresh=True).user == users.admin


@override_settings(MCP=CACHED)
def test_using_a_stolen_token_while_it_is_remembered(users: Users) -> None:
    token = token_of(users.admin, addresses=["192.0.2.0/24"])
    authenticate(request_from(HOME, token), fresh=False)

    assert authenticate_from_memory(request_from(HOME, token)) is not None
    assert authenticate_from_memory(request_from(ELSEWHERE, token)) is None
    with pytest.raises(Unauthenticated):
        authenticate(request_from(ELSEWHERE, token), fresh=False)


@override_settings(MCP={"TRUSTED_PROXIES": 1})
def test_claiming_an_allowed_address_in_a_header(users: Users) -> None:
    token = token_of(users.admin, addresses=[HOME])

    honest = request_from("10.0.0.1", token, HTTP_X_FORWARDED_FOR=HOME)
    forged = request_from("10.0.0.1", token, HTTP_X_FORWARDED_FOR=f"{HOME}, {ELSEWHERE}")

    assert authenticate(honest, fresh=True).user == users.admin
    with pytest.raises(Unauthenticated):
        authenticate(forged, fresh=True)


def test_using_a_ticket_from_elsewhere(users: Users) -> None:
    token = token_of(users.admin, addresses=[HOME])
    principal = authenticate(request_from(HOME, token), fresh=True)
    stolen, own = tickets.issue(principal), tickets.issue(principal)

    with pytest.raises(Unauthenticated):
        tickets.redeem(stolen, request_from(ELSEWHERE, ""))
    found = tickets.redeem(own, request_from(HOME, ""))

    assert found.user == users.admin
    assert authenticate_again(found, request_from(HOME, "")).user == users.admin
    with pytest.raises(Unauthenticated):
        authenticate_again(found, request_from(ELSEWHERE, ""))


def test_a_refused_address_looks_like_an_unknown_token(peers: Peers, users: Users) -> None:
    answers = [
        peers(token).send(MODERN, "tools/list")  # type: ignore[attr-defined]
        for token in (token_of(users.admin, addresses=[ELSEWHERE]), "mcp_" + "x" * 43)
    ]

    assert [answer.status for answer in answers] == [401, 401]
    assert answers[0].json["error"] == answers[1].json["error"]
    assert answers[0].headers["www-authenticate"] == answers[1].headers["www-authenticate"]


# The form of a token.


def test_flooding_with_texts_that_are_no_tokens_costs_no_query(
    peers: Peers, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> Any:
        raise AssertionError("the database was asked")

    peer = peers(None)
    assert isinstance(peer, HTTPPeer)
    monkeypatch.setattr(type(principals), "_by_hashes", refuse)

    for token in ("nonsense", "mcp_x", "mcpdj_" + "a" * 49, "x" * 5_000):
        assert peer.http("POST", b"{}", {"Authorization": f"Bearer {token}"}).status == 401, token


def test_a_ticket_of_another_form_costs_no_query(users: Users, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0), pytest.raises(Unauthenticated):
        tickets.redeem("x" * 42, request_from(HOME, ""))
