"""The budgets of callers: each kind, whose it is, what refuses, and what a caller is told."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Flight
from mcp_django.access import throttles
from mcp_django.access.budgets import budget_of
from mcp_django.exchange.requests import from_settings
from mcp_django.models import AccessToken, Throttle, Ticket
from mcp_django.test import MCPClient, ProtocolError
from tests.access.throttling import CANCEL, TILL_END, Caller, Clock, is_admitted, limits
from tests.support.data import Users, make_flights, switch_on
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, HTTPPeer, Peers

FIND = {"name": "find_records", "arguments": {"model": "flights.flight", "limit": 4}}


@pytest.fixture
def ops(users: Users) -> Caller:
    make_flights(12)
    return Caller(users.ops)


def token(user: Any, **own: Any) -> AccessToken:
    return AccessToken.objects.create_token(user=user, scopes=["read", "actions"], limits=own)[0]


def tables_of(captured: CaptureQueriesContext) -> list[str]:
    return [query["sql"] for query in captured if "throttle" in query["sql"]]


# Kinds.


@pytest.mark.every_database
def test_calls_are_refused_beyond_their_number(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": "3/min"}):
        assert [ops.is_admitted() for _ in range(5)] == [True, True, True, False, False]


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "resources/list", "prompts/list"])
def test_every_request_is_a_call(ops: Caller, clock: Clock, method: str) -> None:
    with limits(user={"calls": "1/min"}):
        assert ops.is_admitted(method)
        assert not ops.is_admitted("resources/templates/list")


def test_a_ping_is_no_call(ops: Caller, clock: Clock) -> None:
    revision = LEGACY[-1]
    with limits(user={"calls": "1/min", "bytes": "1/day"}), CaptureQueriesContext(connection) as captured:
        assert all(ops.ask("ping", revision=revision)["result"] == {} for _ in range(3))

    assert len(captured) == 0


def test_a_call_that_fails_is_a_call(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": "2/min"}):
        assert ops.call("no_such_tool")["error"]["data"]["reason"] == "TOOL_NOT_FOUND"
        assert ops.ask("tools/call", {"name": 5})["error"]["data"]["reason"] == "INVALID_PARAMS"
        assert not ops.is_admitted()


def test_calls_that_change_data_have_a_number_of_their_own(ops: Caller, clock: Clock) -> None:
    switch_on(CANCEL)
    with limits(user={"changes": "2/min"}):
        answers = [ops.call(CANCEL, ids=[number]) for number in (1, 2, 3)]

        assert [is_admitted(answer) for answer in answers] == [True, True, False]
        assert Flight.objects.get(pk=3).status != "cancelled"
        assert ops.admitted(5) == 5


@pytest.mark.every_database
def test_one_statement_counts_a_call_and_its_change(ops: Caller, clock: Clock) -> None:
    switch_on(CANCEL)
    with limits(user={"calls": "5/min", "changes": "5/min"}, address={"calls": "9/min"}):
        ops.address = "192.0.2.1"
        ops.call(CANCEL, ids=[1])
        with CaptureQueriesContext(connection) as captured:
            ops.call(CANCEL, ids=[2])

    assert [sql.split()[0] for sql in tables_of(captured)] == ["UPDATE"]
    assert sorted(Throttle.objects.values_list("count", flat=True)) == [2, 2, 2]


@pytest.mark.every_database
def test_a_call_that_is_refused_by_one_limit_is_counted_by_none(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": ["2/min", "100/day"]}):
        assert ops.admitted(10) == 2

    assert sorted(Throttle.objects.values_list("count", flat=True)) == [2, 2]


def test_rows_that_were_read_refuse_the_next_call(ops: Caller, clock: Clock) -> None:
    with limits(user={"rows": "6/day"}):
        assert [is_admitted(ops.ask("tools/call", FIND)) for _ in range(3)] == [True, True, False]


def test_bytes_that_were_read_refuse_the_next_call(ops: Caller, clock: Clock) -> None:
    size = len(ops.reply("prompts/list").body)
    with limits(user={"bytes": f"{2 * size}/day"}):
        assert ops.admitted(5) == 2


def test_the_overflow_by_one_giant_answer_refuses_the_next_call(ops: Caller, clock: Clock) -> None:
    with limits(user={"rows": "1/day"}):
        found = ops.call("find_records", model="flights.flight", limit=12)

        assert len(found["result"]["structuredContent"]["rows"]) == 4
        assert not ops.is_admitted()
        assert Throttle.objects.get().count == 4


def test_what_is_read_is_counted_in_the_period_in_which_it_is_answered(
    ops: Caller, clock: Clock, declared: Declared
) -> None:
    def slow(request: Any) -> str:
        """Take until after midnight."""
        clock.now += TILL_END
        request.mcp.usage.read("flights.flight", 5)
        return "done"

    declared.tool(slow, read_only=True)
    with limits(user={"rows": "5/day"}):
        ops.call("slow")

        assert not ops.is_admitted()


def test_a_task_counts_the_rows_that_it_has_read(users: Users, clock: Clock, declared: Declared) -> None:
    def count_all(request: Any) -> str:
        """Count."""
        request.mcp.as_task()
        request.mcp.usage.read("flights.flight", 7)
        return "done"

    declared.tool(count_all, read_only=True, task="later")
    with limits(user={"rows": "100/day"}), MCPClient(users.ops, tasks=True) as client:
        assert client.call("count_all").text == "done"

    assert Throttle.objects.get().count == 7


def test_what_cannot_be_counted_afterwards_does_not_lose_the_answer(
    ops: Caller, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def take(self, charges: Any) -> None:
            return None

        def add(self, charges: Any) -> None:
            raise DatabaseError("away")

    monkeypatch.setattr(throttles, "counters", Broken)
    with limits(user={"rows": "5/day"}):
        assert "result" in ops.ask("tools/call", FIND)

    assert "What a call has read could not be counted" in caplog.text


# Whose they are.


def test_two_tokens_of_one_user_share_the_budget_of_the_user(users: Users, clock: Clock) -> None:
    one, other = Caller(users.ops, token(users.ops)), Caller(users.ops, token(users.ops))
    with limits(user={"calls": "4/min"}):
        assert (one.admitted(3), other.admitted(3)) == (3, 1)


def test_users_have_budgets_of_their_own(users: Users, clock: Clock) -> None:
    with limits(user={"calls": "2/min"}):
        assert (Caller(users.ops).admitted(3), Caller(users.viewer).admitted(3)) == (2, 2)


def test_tokens_have_budgets_of_their_own(users: Users, clock: Clock) -> None:
    one, other = Caller(users.ops, token(users.ops)), Caller(users.ops, token(users.ops))
    with limits(token={"calls": "2/min"}):
        assert (one.admitted(3), other.admitted(3), Caller(users.ops).admitted(3)) == (2, 2, 3)


def test_a_token_may_have_less_than_the_settings(users: Users, clock: Clock) -> None:
    with limits(token={"calls": "5/min"}, user={"calls": "50/min"}):
        assert Caller(users.ops, token(users.ops, calls="2/min")).admitted(9) == 2


@pytest.mark.parametrize("own", ["1000/min", "1000/s", "100000/day"])
def test_a_token_that_gives_itself_more_has_no_more(users: Users, clock: Clock, own: str) -> None:
    with limits(token={"calls": "2/min"}):
        assert Caller(users.ops, token(users.ops, calls=own)).admitted(9) == 2


def test_a_token_is_limited_where_the_settings_limit_nothing(users: Users, clock: Clock) -> None:
    assert Caller(users.ops, token(users.ops, calls="2/min")).admitted(5) == 2


def test_a_token_with_wrong_limits_is_not_made(users: Users) -> None:
    with pytest.raises(ValidationError, match="'many' is not a rate"):
        token(users.ops, calls="many")
    assert not AccessToken.objects.exists()


def test_callers_from_one_address_share_its_budget(users: Users, clock: Clock) -> None:
    one, other = Caller(users.ops, address="192.0.2.1"), Caller(users.viewer, address="192.0.2.1")
    with limits(address={"calls": "3/min"}):
        assert (one.admitted(2), other.admitted(2)) == (2, 1)
        assert Caller(users.ops, address="192.0.2.2").admitted(2) == 2


def test_changing_the_address_within_a_network_of_ipv6_gives_no_other_budget(users: Users, clock: Clock) -> None:
    with limits(address={"calls": "2/min"}):
        found = [Caller(users.ops, address=f"2001:db8:1:2::{number:x}").is_admitted() for number in range(4)]

        assert found == [True, True, False, False]
        assert Caller(users.ops, address="2001:db8:1:3::1").is_admitted()


def test_callers_without_an_address_have_no_budget_in_common(users: Users, clock: Clock) -> None:
    with limits(address={"calls": "1/min"}):
        assert Caller(users.ops).admitted(3) == 3


def test_callers_without_a_user_are_as_many_as_their_addresses(db: None, clock: Clock) -> None:
    one, other = (Caller(AnonymousUser(), address=address, scopes=("read",)) for address in ("192.0.2.1", "192.0.2.2"))
    with limits(user={"calls": "2/min"}, ANONYMOUS_SCOPES=["read"]):
        assert (one.admitted(3), other.admitted(3)) == (2, 2)


# Time.


def test_a_budget_is_there_again_when_the_period_ends(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": "1/min"}):
        assert ops.admitted(2) == 1
        clock.now += TILL_END - 1
        assert ops.admitted(1) == 0
        clock.now += 1
        assert ops.admitted(2) == 1


def test_calling_around_the_end_of_a_period_gives_two_budgets_and_never_more(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": "5/min"}):
        clock.now += TILL_END - 1
        before = ops.admitted(20)
        clock.now += 1
        after = ops.admitted(20)

        assert (before, after) == (5, 5)
        clock.now += 59
        assert ops.admitted(20) == 0


def test_a_longer_period_holds_beyond_the_end_of_a_shorter_one(ops: Caller, clock: Clock) -> None:
    clock.now += TILL_END
    with limits(user={"calls": ["2/min", "3/hour"]}):
        assert ops.admitted(5) == 2
        clock.now += 60
        assert ops.admitted(5) == 1


# What is asked and written.


@pytest.mark.parametrize("setting", [{}, {"user": {"calls": None}}, {"token": {"calls": "1/min"}}])
def test_a_caller_without_limits_costs_no_statement(ops: Caller, clock: Clock, setting: Any) -> None:
    ops.address = "192.0.2.1"
    with limits(**setting):
        ops.ask("tools/call", FIND)
        with CaptureQueriesContext(connection) as captured:
            ops.ask("tools/call", FIND)

    assert tables_of(captured) == []
    assert not Throttle.objects.exists()


def test_a_tool_that_is_hidden_is_not_found_by_the_budget_of_changes(users: Users, clock: Clock) -> None:
    """Only what may be called counts as a change, or the refusal would say that the tool exists."""
    reader = Caller(users.viewer, scopes=("read",))
    with limits(user={"changes": "1/min"}):
        hidden = [reader.call(CANCEL, ids=[1]) for _ in range(3)]
        absent = [reader.call("no_such_tool", ids=[1]) for _ in range(3)]

    reasons = [[answer["error"]["data"]["reason"] for answer in answers] for answers in (hidden, absent)]
    assert reasons[0] == reasons[1] == ["TOOL_NOT_FOUND"] * 3


# What is told.


def test_a_refusal_says_which_budget_and_when_to_try_again(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": "1/min"}):
        ops.ask()
        error = ops.ask()["error"]

    assert error["message"] == (
        "Your budget of 1 call a minute is used up. Try again in 12 seconds, at 2026-12-02T00:00:00Z."
    )
    assert error["data"] == {"reason": "THROTTLED", "retryAfter": 12, "limit": "1/min", "kind": "calls"}


def test_a_refusal_says_whether_the_token_or_the_address_has_the_budget(users: Users, clock: Clock) -> None:
    own = Caller(users.ops, token(users.ops, rows="1/day"), address="192.0.2.1")
    make_flights(12)
    own.ask("tools/call", FIND)
    assert own.ask()["error"]["message"].startswith("Your token's budget of 1 row a day is used up.")
    with limits(address={"bytes": "1/hour"}):
        other = Caller(users.viewer, address="192.0.2.1")
        other.ask()
        assert other.ask()["error"]["message"].startswith("Your network address's budget of 1 byte an hour is used up.")


def test_the_last_second_of_a_period_is_one_second(ops: Caller, clock: Clock) -> None:
    clock.now += TILL_END - 1
    with limits(user={"calls": "1/min"}):
        ops.ask()
        error = ops.ask()["error"]

    assert error["data"]["retryAfter"] == 1
    assert "Try again in 1 second, at" in error["message"]


def test_a_caller_is_told_its_budget_in_the_instructions(users: Users, clock: Clock) -> None:
    told = "You may make 60 calls a minute, make 5 changes an hour, read 100,000 rows a day and read 1 byte a second."
    caller = Caller(users.ops, token(users.ops, calls="60/min", changes="5/hour"), address="192.0.2.1")
    with limits(user={"calls": "600/min", "rows": "100000/day"}, address={"bytes": "1/s", "failures": "5/min"}):
        instructions = caller.ask("server/discover")["result"]["instructions"]

    assert told in instructions
    assert len(instructions.encode()) <= 1_200


def test_a_caller_without_limits_is_told_of_none(ops: Caller) -> None:
    assert "You may make" not in ops.ask("server/discover")["result"]["instructions"]


def test_the_list_of_models_repeats_the_budget(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": "9/min"}):
        notes = ops.call("describe_models")["result"]["structuredContent"]["notes"]

    assert "You may make 9 calls a minute." in notes


# Transports.


@pytest.mark.every_transport
def test_every_transport_refuses_a_call_beyond_the_budget(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "2/min"}):
        peer = peers(AccessToken.objects.create_token(user=users.ops)[1])
        answers = [peer.request(MODERN, "prompts/list") for _ in range(4)]

    assert [is_admitted(answer) for answer in answers] == [True, True, False, False]


@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-view-asgi", "http-asgi"])
def test_a_modern_client_is_told_by_status_and_header(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "1/min"}):
        peer = peers(AccessToken.objects.create_token(user=users.ops)[1])
        assert isinstance(peer, HTTPPeer)
        first, second = peer.send(MODERN, "prompts/list"), peer.send(MODERN, "prompts/list")

    assert (first.status, second.status) == (200, 429)
    assert second.headers["retry-after"] == "12"
    assert "retry-after" not in first.headers


def test_a_legacy_client_survives_a_refusal(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "2/min"}):
        peer = peers(AccessToken.objects.create_token(user=users.ops)[1])
        assert isinstance(peer, HTTPPeer)
        answers = [peer.send(LEGACY[-1], "prompts/list") for _ in range(2)]  # initialize is the first call.

    assert [answer.status for answer in answers] == [200, 200]
    assert answers[1].json["error"]["data"]["reason"] == "THROTTLED"


def test_a_ticket_is_a_call(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "2/min"}):
        peer = peers(AccessToken.objects.create_token(user=users.ops)[1])
        assert isinstance(peer, HTTPPeer)
        peer.path = "/mcp/ticket"
        answers = [peer.http("POST") for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[-1].headers["retry-after"] == "12"
    assert Ticket.objects.count() == 2


def test_a_stream_of_a_session_is_a_call(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "1/min"}):
        peer = peers(AccessToken.objects.create_token(user=users.ops)[1])
        assert isinstance(peer, HTTPPeer)
        session = {"Mcp-Session-Id": peer.session(LEGACY[-1]), "Accept": "text/event-stream"}
        answer = peer.http("GET", headers=session)

    assert (answer.status, answer.json["error"]["data"]["reason"]) == (429, "THROTTLED")


def test_a_batch_counts_each_of_its_requests(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "3/min"}):
        peer = peers(AccessToken.objects.create_token(user=users.ops)[1])
        assert isinstance(peer, HTTPPeer)
        session = peer.session("2025-03-26")
        batch = [{"jsonrpc": "2.0", "id": number, "method": "prompts/list"} for number in range(5)]
        answer = peer.post(batch, {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-03-26"})

    assert sorted(is_admitted(message) for message in answer.json) == [False, False, False, True, True]


def test_the_test_client_of_a_project_meets_the_limits(users: Users, clock: Clock) -> None:
    with limits(user={"calls": "1/min"}), MCPClient(users.ops) as client:
        client.list_tools()
        with pytest.raises(ProtocolError, match="Your budget of 1 call a minute is used up"):
            client.list_tools()


def test_a_question_to_a_legacy_client_is_part_of_its_call(users: Users, clock: Clock, declared: Declared) -> None:
    def greet(request: Any) -> str:
        """Greet."""
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return f"Hello, {request.mcp.elicit('Your name?', schema).content['name']}."

    declared.tool(greet, read_only=True)
    with (
        limits(user={"calls": "9/min"}),
        MCPClient(users.ops, revision=LEGACY[-1], elicit=lambda *asked: {"name": "Ada"}) as client,
    ):
        client.list_prompts()
        before = Throttle.objects.get().count
        assert client.request("tools/call", {"name": "greet"})["content"][0]["text"] == "Hello, Ada."

    assert Throttle.objects.get().count == before + 1


def test_what_forged_proxies_say_changes_no_budget(users: Users, clock: Clock) -> None:
    with limits(address={"calls": "1/min"}):
        found = []
        for forged in ("192.0.2.7", "192.0.2.8", "garbage, 192.0.2.9"):
            request = from_settings()
            request.META.update(REMOTE_ADDR="192.0.2.1", HTTP_X_FORWARDED_FOR=forged)
            found.append([limit.holder for limit in budget_of(Caller(users.ops).principal, request)])

    assert found == [["address:192.0.2.1"]] * 3
