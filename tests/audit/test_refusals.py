"""What was refused, and why: the trail knows what the client is not told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.audit import anonymous
from mcp_django.audit.recorder import recorder
from mcp_django.models import AccessToken, Call, Tool
from tests.audit.conftest import Rows, send_with
from tests.support.base import MODERN
from tests.support.data import make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers, SocketPeer

ACTION = "flights_flight_mark_cancelled"


def test_what_may_not_be_called_or_read_is_refused_with_the_true_reason(
    peers: Peers, users: Any, flights: Any, rows: Rows, declared: Declared, settings: Any
) -> None:
    def work(request: Any) -> str:
        """Work, as a task alone."""
        return "done"

    settings.TASKS = {}
    declared.tool(work, task="required")
    switch_on("work", ACTION)
    looker = make_staff("looker", "flights.view_flight")
    cases = [
        (token_of(users.admin, "read"), ACTION, "NO_SCOPE"), (token_of(looker), ACTION, "NO_PERMISSION"),
        (token_of(users.admin), "no_such_tool", "TOOL_NOT_FOUND"), (token_of(users.admin), "work", "NO_TASKS"),
        (token_of(users.admin), ACTION, "SWITCHED_OFF"),
    ]  # fmt: skip
    for token, name, reason in cases:
        Tool.objects.filter(name=ACTION).update(enabled=reason != "SWITCHED_OFF")
        error = peers(token).error(MODERN, "tools/call", {"name": name, "arguments": {"ids": ["1"]}})
        assert error["data"]["reason"] == "TOOL_NOT_FOUND" and error["message"].startswith(f"Unknown tool: {name}.")
    Tool.objects.update_or_create(site="mcp", name="get_record", defaults={"enabled": False})
    read = peers(token_of(users.admin)).error(MODERN, "resources/read", {"uri": "db://flights/flight/1"})

    assert read["data"]["reason"] == "RESOURCE_NOT_FOUND"
    assert rows("name", "uri", "outcome", "reason") == [
        *({"name": name, "uri": "", "outcome": "refused", "reason": reason} for _, name, reason in cases),
        {"name": "", "uri": "db://flights/flight/1", "outcome": "refused", "reason": "SWITCHED_OFF"},
    ]


@pytest.mark.usefixtures("one_minute")
@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-view-asgi", "http-asgi", "websocket"])
def test_bad_tokens_from_one_address_are_one_row_with_their_number(
    peers: Peers, users: Any, rows: Rows, transport: str
) -> None:
    for number in range(5):
        try:
            peers(f"mcp_{number:043d}").request(MODERN, "tools/list")
        except Exception:  # noqa: BLE001 - a socket is refused in its own way
            continue

    found = rows("kind", "outcome", "reason", "user_id", "count", "transport")
    assert found == [
        {
            "kind": "request", "outcome": "refused", "reason": "UNAUTHENTICATED", "user_id": "", "count": 5,
            "transport": transport.partition("-")[0],
        }
    ]  # fmt: skip


@pytest.mark.parametrize("transport", ["websocket"])
def test_using_a_revoked_token_on_a_socket_that_is_open(
    peers: Peers, users: Any, audited: Callable[..., None], rows: Rows
) -> None:
    # The socket ends by the message, and not by the sweep.
    audited(SWEEP_SECONDS=60)
    peer = peers(token_of(users.ops))
    assert isinstance(peer, SocketPeer)
    socket = peer.socket(MODERN)
    AccessToken.objects.filter(user=users.ops).latest("pk").revoke()

    socket.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": peer.meta()}})

    assert socket.wait_closed() == 1008
    assert rows("kind", "outcome", "reason", "user_name", "transport") == [
        {
            "kind": "request", "outcome": "refused", "reason": "REVOKED", "user_name": "ops",
            "transport": "websocket",
        }
    ]  # fmt: skip


def test_a_full_queue_is_written_down_for_a_known_caller(
    peers: Peers, users: Any, audited: Callable[..., None], rows: Rows
) -> None:
    peer = peers(token_of(users.ops))
    peer.result(MODERN, "tools/list")
    audited(MAX_IN_FLIGHT=32, MAX_SUBSCRIPTIONS=1)

    peer.request(MODERN, "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["db://a/b", "db://a/c"]}})

    [row] = rows("kind", "outcome", "user_name")
    assert row == {"kind": "subscription", "outcome": "refused", "user_name": "ops"}


@pytest.mark.usefixtures("one_minute")
@pytest.mark.every_database
def test_a_flood_from_many_addresses_stays_within_the_rows_of_a_minute(
    transactional_db: None, audited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymous, "MAX_ROWS", 20)

    for number in range(200):
        recorder.anonymous.add("mcp", "request", "refused", "http", "UNAUTHENTICATED", f"10.0.0.{number}")
    recorder.flush()

    found = Call.objects.values_list("reason", "count")
    assert len(found) == 21
    assert sum(count for _, count in found) == 200
    assert dict(found)["TOO_MANY_ADDRESSES"] == 180


@pytest.mark.every_database
def test_counts_of_the_next_minute_are_rows_of_their_own(
    transactional_db: None, audited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in (6_000_000.0, 6_000_001.0, 6_000_060.0):
        monkeypatch.setattr(anonymous.time, "time", lambda at=at: at)
        recorder.anonymous.add("mcp", "request", "refused", "http", "UNAUTHENTICATED", "10.0.0.1")
        recorder.flush()

    assert [(row.at.timestamp(), row.count) for row in Call.objects.order_by("pk")] == [(6e6, 2), (6e6 + 60, 1)]


def test_forging_the_address_of_a_refusal(peers: Peers, users: Any, audited: Callable[..., None], rows: Rows) -> None:
    peer = peers(f"mcp_{'x' * 43}")

    send_with(peer, {"X-Forwarded-For": "6.6.6.6"}, "tools/list")
    audited(TRUSTED_PROXIES=1)
    send_with(peer, {"X-Forwarded-For": "6.6.6.6, 203.0.113.9"}, "tools/list")

    assert [row["address"] for row in rows("address")] == ["127.0.0.1", "203.0.113.9"]
