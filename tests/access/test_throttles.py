"""The budgets of callers: each kind, whose it is, what refuses, and what a caller is told."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Flight
from mcp_django.access.throttling import throttles
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
def test_calls_are_refused_beyond_their_number_and_then_counted_by_no_limit(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": ["3/min", "100/day"]}):
        assert [ops.is_admitted() for _ in range(5)] == [True, True, True, False, False]

    assert sorted(Throttle.objects.values_list("count", flat=True)) == [3, 3]


def test_every_request_is_a_call_though_it_fails_and_a_ping_is_none(ops: Caller, clock: Clock) -> None:
    with limits(user={"calls": "6/min", "bytes": "9999999/day"}):
        assert ops.call("no_such_tool")["error"]["data"]["reason"] == "TOOL_NOT_FOUND"
        assert ops.ask("tools/call", {"name": 5})["error"]["data"]["reason"] == "INVALID_PARAMS"
        asked = ("server/discover", "tools/list", "resources/list", "prompts/list", "resources/templates/list")
        assert [ops.is_admitted(method) for method in asked] == [True] * 4 + [False]

        with CaptureQueriesContext(connection) as captured:
            assert [ops.ask("ping", revision=LEGACY[-1])["result"] for _ in range(3)] == [{}] * 3
    assert len(captured) == 0


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


def test_rows_and_bytes_that_were_read_refuse_the_next_call_also_beyond_the_budget(ops: Caller, clock: Clock) -> None:
    size = len(ops.reply("prompts/list").body)
    with limits(user={"bytes": f"{2 * size}/day"}):
        assert ops.admitted(5) == 2
    with limits(user={"rows": "6/day"}):
        assert [is_admitted(ops.ask("tools/call", FIND)) for _ in range(3)] == [True, True, False]
    Throttle.objects.all().delete()
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


def test_whose_budget_is_whose(users: Users, clock: Clock) -> None:
    """How many of three calls are answered, of each caller in turn, where two are allowed."""
    one, other, by_hand = Caller(users.ops, token(users.ops)), Caller(users.ops, token(users.ops)), Caller(users.ops)
    little = Caller(users.ops, token(users.ops, calls="2/min"))
    greedy = [Caller(users.ops, token(users.ops, calls=own)) for own in ("1000/min", "1000/s", "100000/day")]

    def at(*addresses: str) -> list[Caller]:
        return [Caller(users.ops, address=address) for address in addresses]

    def nobody(*addresses: str) -> list[Caller]:
        return [Caller(AnonymousUser(), address=address, scopes=("read",)) for address in addresses]

    two = {"calls": "2/min"}
    cases: list[tuple[str, dict[str, Any], list[Caller], list[int]]] = [
        ("tokens share that of their user", {"user": two}, [one, other], [2, 0]),
        ("users have their own", {"user": two}, [by_hand, Caller(users.viewer)], [2, 2]),
        ("tokens have their own", {"token": two}, [one, other, by_hand], [2, 2, 3]),
        ("a token may have less", {"token": {"calls": "3/min"}, "user": {"calls": "9/min"}}, [little, one], [2, 3]),
        ("a token is limited by itself alone", {}, [little, one], [2, 3]),
        ("a token that gives itself more has no more", {"token": two}, greedy, [2, 2, 2]),
        ("one address is one", {"address": two}, at("192.0.2.1", "192.0.2.1", "192.0.2.2"), [2, 0, 2]),
        ("a network of IPv6 is one", {"address": two}, at("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"), [2, 0, 2]),
        ("no address is none in common", {"address": two}, at("", ""), [3, 3]),
        ("who has no user counts by the address", {"user": two}, nobody("192.0.2.1", "192.0.2.2"), [2, 2]),
    ]  # fmt: skip
    found = {}
    for name, subjects, callers, _ in cases:
        with limits(ANONYMOUS_SCOPES=["read"], **subjects):
            found[name] = [caller.admitted(3) for caller in callers]
        Throttle.objects.all().delete()

    assert found == {name: expected for name, _, _, expected in cases}


def test_a_token_with_wrong_limits_is_not_made(users: Users) -> None:
    with pytest.raises(ValidationError, match="'many' is not a rate"):
        token(users.ops, calls="many")
    assert not AccessToken.objects.exists()


# Time.


def test_a_budget_is_there_again_when_the_period_ends_and_a_longer_one_holds_beyond_it(
    ops: Caller, clock: Clock
) -> None:
    with limits(user={"calls": ["5/min", "12/hour"]}):
        clock.now += TILL_END
        found = []
        for seconds in (59, 1, 59, 1):
            found.append(ops.admitted(20))
            clock.now += seconds

        assert (found, ops.admitted(20)) == ([5, 0, 5, 0], 2)


# What is asked and written.


def test_a_caller_without_limits_costs_no_statement(ops: Caller, clock: Clock) -> None:
    settings: list[Any] = [{}, {"user": {"calls": None}}, {"token": {"calls": "1/min"}}]
    ops.address = "192.0.2.1"
    for setting in settings:
        with limits(**setting):
            ops.ask("tools/call", FIND)
            with CaptureQueriesContext(connection) as captured:
                ops.ask("tools/call", FIND)
        assert tables_of(captured) == [], setting
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
        clock.now += TILL_END - 1
        later = ops.ask()["error"]

    assert error["message"] == (
        "Your budget of 1 call a minute is used up. Try again in 12 seconds, at 2026-12-02T00:00:00Z."
    )
    assert error["data"] == {"reason": "THROTTLED", "retryAfter": 12, "limit": "1/min", "kind": "calls"}
    assert later["data"]["retryAfter"] == 1
    assert "Try again in 1 second, at" in later["message"]


def test_a_refusal_says_whether_the_token_or_the_address_has_the_budget(users: Users, clock: Clock) -> None:
    own = Caller(users.ops, token(users.ops, rows="1/day"), address="192.0.2.1")
    make_flights(12)
    own.ask("tools/call", FIND)
    assert own.ask()["error"]["message"].startswith("Your token's budget of 1 row a day is used up.")
    with limits(address={"bytes": "1/hour"}):
        other = Caller(users.viewer, address="192.0.2.1")
        other.ask()
        assert other.ask()["error"]["message"].startswith("Your network address's budget of 1 byte an hour is used up.")


def test_a_caller_is_told_its_budget_in_the_instructions_and_with_the_models(users: Users, clock: Clock) -> None:
    told = "You may make 60 calls a minute, make 5 changes an hour, read 100,000 rows a day and read 1 byte a second."
    caller = Caller(users.ops, token(users.ops, calls="60/min", changes="5/hour"), address="192.0.2.1")
    with limits(user={"calls": "600/min", "rows": "100000/day"}, address={"bytes": "1/s", "failures": "5/min"}):
        instructions = caller.ask("server/discover")["result"]["instructions"]
    with limits(user={"calls": "9/min"}):
        notes = Caller(users.ops).call("describe_models")["result"]["structuredContent"]["notes"]

    assert told in instructions
    assert len(instructions.encode()) <= 1_200
    assert "You may make 9 calls a minute." in notes
    assert "You may make" not in Caller(users.ops).ask("server/discover")["result"]["instructions"]


# Transports.


def client_of(users: Users, peers: Peers) -> HTTPPeer:
    peer = peers(AccessToken.objects.create_token(user=users.ops)[1])
    assert isinstance(peer, HTTPPeer)
    return peer


@pytest.mark.every_transport
def test_every_transport_refuses_a_call_beyond_the_budget(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "2/min"}):
        peer = peers(AccessToken.objects.create_token(user=users.ops)[1])
        answers = [peer.request(MODERN, "prompts/list") for _ in range(4)]

    assert [is_admitted(answer) for answer in answers] == [True, True, False, False]


@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-view-asgi", "http-asgi"])
def test_a_modern_client_is_told_by_status_and_header(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "1/min"}):
        peer = client_of(users, peers)
        first, second = peer.send(MODERN, "prompts/list"), peer.send(MODERN, "prompts/list")

    assert (first.status, second.status) == (200, 429)
    assert second.headers["retry-after"] == "12"
    assert "retry-after" not in first.headers


def test_a_legacy_client_survives_a_refusal(users: Users, peers: Peers, clock: Clock) -> None:
    with limits(user={"calls": "2/min"}):
        peer = client_of(users, peers)
        answers = [peer.send(LEGACY[-1], "prompts/list") for _ in range(2)]  # initialize is the first call.

    assert [answer.status for answer in answers] == [200, 200]
    assert answers[1].json["error"]["data"]["reason"] == "THROTTLED"


def test_tickets_streams_of_sessions_and_members_of_batches_are_calls(users: Users, peers: Peers, clock: Clock) -> None:
    old, new = "2025-03-26", LEGACY[-1]
    peer = client_of(users, peers)
    batch = [{"jsonrpc": "2.0", "id": number, "method": "prompts/list"} for number in range(5)]
    sessions = {revision: {"Mcp-Session-Id": peer.session(revision)} for revision in (old, new)}
    with limits(user={"calls": "4/min"}):
        members = peer.post(batch, {**sessions[old], "MCP-Protocol-Version": old}).json
        stream = peer.http("GET", headers={**sessions[new], "Accept": "text/event-stream"})
        clock.now += TILL_END
        peer.path = "/mcp/ticket"
        tickets = [peer.http("POST") for _ in range(5)]

    assert sorted(is_admitted(message) for message in members) == [False, True, True, True, True]
    assert (stream.status, stream.json["error"]["data"]["reason"]) == (429, "THROTTLED")
    assert [answer.status for answer in tickets] == [200] * 4 + [429]
    assert tickets[-1].headers["retry-after"] == "60"
    assert Ticket.objects.count() == 4


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
