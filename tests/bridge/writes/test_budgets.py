"""Budgets of writing: rows that are written, and attempts that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from demo_project.flights.models import Airline
from mcp_django.access.throttling import throttles
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.rates import throttles as of_calls
from mcp_django.exchange.requests import from_settings
from mcp_django.models import AccessToken, Change
from tests.bridge.writes.conftest import Writer
from tests.support.asking import request_of
from tests.support.peers import MODERN


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A period does not end during a test."""
    monkeypatch.setattr("mcp_django.exchange.rates.now", lambda: 1_800_000_000)


def limit(settings: Any, **limits: Any) -> None:
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": limits}}


def airline(agent: Writer, code: str) -> str:
    """The token for a new airline."""
    values = {"carrier": code, "name": code}
    return str(agent.ask("create_record", model="flights.airline", values=values)["confirm"])


def throttled(agent: Writer, tool: str, **arguments: Any) -> Any:
    return agent.error(MODERN, "tools/call", {"name": tool, "arguments": arguments})["data"]


def test_each_row_that_is_written_or_deleted_is_counted_and_previews_are_not(
    root: Writer, settings: Any, declared: Any
) -> None:
    declared.model(Airline, fields=["carrier", "name"], consent={"delete": "preview"})
    limit(settings, writes="3/day")
    tokens = {code: airline(root, code) for code in ("A1", "A2", "A3", "A4")}
    calls: Any = {
        code: {"model": "flights.airline", "values": {"carrier": code, "name": code}, "confirm": tokens[code]}
        for code in tokens
    }
    both = {"model": "flights.airline", "ids": ["A1", "A2"]}

    root.ask("create_record", **calls["A1"])
    root.ask("create_record", **calls["A2"])
    of_delete = throttled(root, "delete_record", **both, confirm=root.ask("delete_record", **both)["confirm"])
    root.ask("create_record", **calls["A3"])
    data = throttled(root, "create_record", **calls["A4"])

    assert of_delete["kind"] == "writes"
    assert (data["reason"], data["kind"], data["limit"]) == ("THROTTLED", "writes", "3/day")
    assert set(Airline.objects.values_list("pk", flat=True)) == {"A1", "A2", "A3"}
    # Its token can be used again, when there is a budget.
    assert Change.objects.count() == 3


def test_refused_attempts_use_up_a_budget_of_their_own(root: Writer, settings: Any) -> None:
    limit(settings, refusals="2/hour")
    for _ in range(2):
        root.refused("create_record", model="flights.airline", values={"carrier": "too long a code"})

    data = throttled(root, "describe_form", model="flights.airline")

    assert (data["kind"], data["limit"]) == ("refusals", "2/hour")
    assert root.call("find_records", model="flights.airline")["isError"] is False


def test_by_default_refusals_and_guesses_are_limited_and_no_other_call_asks_for_a_budget(root: Writer) -> None:
    request = request_of(root.user)

    budget = throttles.write_budget_of(request.mcp.principal, request)

    assert [(one.kind, str(one.rate)) for one in budget] == [("refusals", "100/hour"), ("unique", "60/hour")]
    assert of_calls() == {}


def test_a_token_has_writes_of_its_own(root: Writer, users: Any) -> None:
    token, _ = AccessToken.objects.create_token(user=users.admin, scopes=["read", "write"])
    token.limits = {"writes": "5/day", "calls": "9/min"}
    principal = Principal(users.admin, frozenset(["read"]), token, token.pk)

    budget = throttles.write_budget_of(principal, from_settings().for_principal(principal))

    assert {one.kind for one in budget} == {"writes", "refusals", "unique"}
