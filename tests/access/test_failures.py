"""Failed authentication: how often an address may fail, and who gets in all the same."""

from __future__ import annotations

import secrets
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django.access import authentication, tickets
from mcp_django.access.authentication import authenticate, authenticate_again, principals
from mcp_django.access.throttling import failures, throttles
from mcp_django.access.throttling.failures import known_callers
from mcp_django.core.secret import Secret
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest, from_settings
from mcp_django.models import AccessToken, Throttle, digest
from mcp_django.protocol.errors import FailuresThrottled, Throttled, Unauthenticated
from mcp_django.transports.websocket.handshake import denial
from tests.access.test_grants import make_grant, token_by
from tests.access.throttling import TILL_END, Clock, limits
from tests.support.data import Users, token_of
from tests.support.peers import LEGACY, MODERN, HTTPPeer, Peers, SocketPeer

ADDRESS = "192.0.2.1"
PROJECT = "tests.access.test_authentication.ProjectAuthentication"


def request_with(credentials: str, address: str = ADDRESS, **meta: str) -> MCPRequest:
    request = from_settings()
    request.META.update(REMOTE_ADDR=address, **meta)
    if credentials:
        request.authorization = Secret(credentials if " " in credentials else f"Bearer {credentials}")
    return request


def bad_token() -> str:
    """A token that has the form of one."""
    return f"mcp_{secrets.token_urlsafe(32)}"


def attempt(credentials: str, address: str = ADDRESS, **meta: str) -> str:
    """What comes of it: "in", "refused" or "throttled"."""
    try:
        authenticate(request_with(credentials, address, **meta), fresh=True)
    except Throttled:
        return "throttled"
    except Unauthenticated:
        return "refused"
    return "in"


def attempts(count: int, *args: Any, **meta: str) -> list[str]:
    return [attempt(bad_token(), *args, **meta) for _ in range(count)]


@pytest.mark.every_database
def test_a_thousand_bad_tokens_from_one_address(db: None, clock: Clock) -> None:
    found = attempts(30)
    with CaptureQueriesContext(connection) as captured:
        found += attempts(1)
    with CaptureQueriesContext(connection) as later:
        found += attempts(969)

    assert found == ["refused"] * 30 + ["throttled"] * 970
    assert captured
    assert len(later) == 0
    assert Throttle.objects.get().count == 30


def test_a_token_that_is_known_gets_in_from_a_throttled_address_for_an_hour_after_its_last_use(
    users: Users, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, before = token_of(users.ops), time.monotonic()
    assert attempt(token) == "in"
    assert attempts(40)[-1] == "throttled"
    principals.clear()
    assert [attempt(token) for _ in range(3)] == ["in"] * 3
    assert known_callers[digest(token)].until - before >= 3_600

    for seconds, expected in ((-1, "in"), (0, "throttled")):
        moment = known_callers[digest(token)].until + seconds
        monkeypatch.setattr(authentication, "time", SimpleNamespace(monotonic=lambda moment=moment: moment))
        assert attempt(token) == expected


def test_a_token_that_is_revoked_is_known_no_longer(users: Users, clock: Clock) -> None:
    token = token_of(users.ops)
    attempt(token)
    attempts(31)
    AccessToken.objects.get().revoke()
    with CaptureQueriesContext(connection) as first:
        assert attempt(token) == "throttled"
    with CaptureQueriesContext(connection) as second:
        assert attempt(token) == "throttled"

    assert first
    assert len(second) == 0


def test_being_known_lets_nobody_in(db: None, clock: Clock) -> None:
    token = bad_token()
    known_callers.note(digest(token), "user:1")

    assert attempt(token) == "refused"


def test_a_caller_without_credentials_is_not_locked_out_by_a_neighbour_who_guesses(db: None, clock: Clock) -> None:
    attempts(31)

    with override_settings(MCP={**settings.MCP, "ANONYMOUS_SCOPES": ["read"]}):
        assert attempt("") == "in"


def test_which_addresses_are_one(db: None, clock: Clock) -> None:
    """What comes of bad tokens from these addresses, with as many proxies before the server, where three may fail."""
    refused, throttled = ["refused"], ["throttled"]
    via: list[tuple[int, str | None, list[str], list[str]]] = [
        (0, None, ["192.0.2.1"] * 5, refused * 3 + throttled * 2),
        (0, None, ["192.0.2.1"] * 3 + ["192.0.2.2"], refused * 4),
        (0, None, [f"2001:db8::{number:x}" for number in range(5)], refused * 3 + throttled * 2),
        (0, None, [""] * 5, refused * 5),
        # Without a trusted proxy the header is not read.
        (0, ADDRESS, [f"198.51.100.{number}" for number in range(5)], refused * 3 + throttled * 2),
        # With one, its last entry is the proxy's own and no forgery, and what stands before it is.
        (1, ADDRESS, [f"198.51.100.{number}" for number in range(5)], refused * 5),
        (1, ADDRESS, [f"10.0.0.{number}, 198.51.100.1" for number in range(5)], refused * 3 + throttled * 2),
    ]  # fmt: skip
    for trusted, proxy, addresses, expected in via:
        with limits(address={"failures": "3/min"}, TRUSTED_PROXIES=trusted):
            found = [
                attempt(bad_token(), address) if proxy is None
                else attempt(bad_token(), proxy, HTTP_X_FORWARDED_FOR=address)
                for address in addresses
            ]  # fmt: skip
        assert found == expected, (trusted, addresses)
        Throttle.objects.all().delete()
        failures.throttled.clear()


def test_the_address_is_free_again_when_the_period_ends(db: None, clock: Clock) -> None:
    attempts(31)
    clock.now += TILL_END

    assert attempts(31) == ["refused"] * 30 + ["throttled"]


def test_what_has_not_the_form_of_a_token_is_no_failure_and_costs_no_write(db: None, clock: Clock) -> None:
    for credentials in ("", "nonsense", "mcp_short", "Basic eDp5", "Bearer a b"):
        assert {attempt(credentials) for _ in range(40)} == {"refused"}, credentials
    assert not Throttle.objects.exists()


def test_credentials_of_a_class_of_the_project_count(users: Users, clock: Clock) -> None:
    with limits(address={"failures": "3/min"}, AUTHENTICATION_CLASSES=[PROJECT]):
        assert attempt("Project viewer read") == "in"
        found = [attempt(f"Project nobody{number}") for number in range(5)]

        assert found == ["refused"] * 3 + ["throttled"] * 2
        assert attempt("Project viewer read") == "in"
        assert attempt("Project ops read") == "throttled"


def test_an_inactive_user_who_tries_again_and_again(users: Users, clock: Clock) -> None:
    token = token_of(users.ops)
    type(users.ops).objects.filter(pk=users.ops.pk).update(is_active=False)

    assert [attempt(token) for _ in range(32)] == ["refused"] * 30 + ["throttled"] * 2


def test_the_limit_can_be_switched_off(db: None, clock: Clock) -> None:
    with limits(address={"failures": None}), CaptureQueriesContext(connection) as captured:
        assert attempts(40) == ["refused"] * 40

    assert not any("throttle" in query["sql"] for query in captured)


def test_an_open_connection_that_is_tried_again_is_no_failure(users: Users, clock: Clock) -> None:
    principal = Principal(users.ops, frozenset({"read"}), AccessToken(user=users.ops), token_id=1)
    for _ in range(40):
        with pytest.raises(Unauthenticated):
            authenticate_again(principal, request_with(bad_token()), fresh=True)

    assert not Throttle.objects.exists()


def test_a_failure_that_cannot_be_counted_is_a_failure(
    db: None, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away() -> Any:
        raise DatabaseError("away")

    monkeypatch.setattr(throttles, "counters", away)

    assert attempts(1) == ["refused"]
    assert "A failed authentication could not be counted" in caplog.text


def test_an_address_that_is_not_known_to_be_throttled_costs_nothing_more(users: Users, clock: Clock) -> None:
    token = token_of(users.ops)
    attempt(token)
    with CaptureQueriesContext(connection) as captured:
        attempt(token)

    assert [query["sql"].split()[0] for query in captured] == ["SELECT"]


def test_the_memory_of_addresses_is_bounded(db: None, clock: Clock) -> None:
    remembered = failures.ThrottledNetworks(size=3)
    for number in range(5):
        remembered.add(str(number), clock.now + 1, "1/min")

    assert [remembered.find(str(number)) is not None for number in range(5)] == [False, False, True, True, True]


# Over the network.


@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_a_throttled_address_is_told_when_to_try_again(peers: Peers, clock: Clock, revision: str) -> None:
    peer = peers(None)
    assert isinstance(peer, HTTPPeer)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": peer.meta()}}
    headers = peer.modern_headers("tools/list", message["params"]) if revision == MODERN else {}  # type: ignore[arg-type]
    with limits(address={"failures": "2/min"}):
        answers = [peer.post(message, {**headers, "Authorization": f"Bearer {bad_token()}"}) for _ in range(4)]

    assert [answer.status for answer in answers] == [401, 401, 429, 429]
    assert answers[-1].headers["retry-after"] == "12"
    assert answers[-1].json["error"]["message"] == (
        "Too many credentials from your network address were wrong. The limit is 2/min. Try again in 12 seconds, at "
        "2026-12-02T00:00:00Z."
    )
    assert answers[-1].json["error"]["data"] == {
        "reason": "THROTTLED", "retryAfter": 12, "limit": "2/min", "kind": "failures",
    }  # fmt: skip


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_thousand_sockets_with_bad_tokens(users: Users, peers: Peers, clock: Clock) -> None:
    peer = peers(None)
    assert isinstance(peer, SocketPeer)
    with limits(address={"failures": "2/min"}):
        sockets = [peer.connect({"Authorization": f"Bearer {bad_token()}"}) for _ in range(4)]

    assert not any(socket.accepted for socket in sockets)
    assert Throttle.objects.get().count == 2


def test_guessing_tickets(users: Users, clock: Clock) -> None:
    def guess(ticket: str) -> type[BaseException] | None:
        try:
            tickets.redeem(ticket, request_with("", HTTP_HOST="localhost"))
        except (Unauthenticated, Throttled) as error:
            return type(error)
        return None

    token, _ = AccessToken.objects.create_token(user=users.ops)
    with limits(address={"failures": "3/min"}):
        found = [guess(secrets.token_urlsafe(32)) for _ in range(5)]
        ticket = tickets.issue(Principal(users.ops, frozenset({"read"}), token, token.pk))

        assert found == [Unauthenticated] * 3 + [FailuresThrottled] * 2
        # Another process does not know that the ticket was issued.
        tickets._issued.clear()
        assert guess(ticket) is FailuresThrottled
        clock.now += TILL_END
        assert guess(ticket) is None


def test_a_refused_upgrade_carries_the_time() -> None:
    error = FailuresThrottled("Too many.", 12, "2/min", "failures")

    start, _ = denial({"extensions": {"websocket.http.response": {}}}, error)

    assert start["status"] == 429
    assert (b"retry-after", b"12") in start["headers"]


def test_other_pages_of_the_project_are_never_throttled(db: None, clock: Clock, client: Any) -> None:
    with override_settings(MCP={"THROTTLES": {"address": {"failures": "1/min"}}}):
        found = [client.post("/mcp", b"{}", "application/json", headers={"Authorization": f"Bearer {bad_token()}"})
                 for _ in range(3)]  # fmt: skip
        page = client.get("/admin/login/")

    assert [answer.status_code for answer in found] == [401, 429, 429]
    assert page.status_code == 200


def test_tokens_of_oauth_clients_that_are_over_are_no_guesses(users: Users, clock: Clock) -> None:
    grant = make_grant(users.ops)
    over: list[dict[str, Any]] = [{"expires_at": timezone.now() - timedelta(days=1)}, {"revoked_at": timezone.now()}]
    for ended in over:
        tokens = [token_by(grant)[1] for _ in range(40)]
        AccessToken.objects.update(**ended)
        assert [attempt(token) for token in tokens] == ["refused"] * 40, ended
    assert not Throttle.objects.exists()
