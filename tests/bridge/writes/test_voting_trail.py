"""What people decide about changes stands in the audit trail, as other acts of theirs do, and without values."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from demo_project.flights.models import Flight
from mcp_django.audit.recorder import recorder
from mcp_django.models import Call
from tests.bridge.writes.approving import FLIGHT, propose, staff
from tests.bridge.writes.clicking import Browser, approve
from tests.bridge.writes.conftest import Writer
from tests.support.data import Users
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db", "trail")


def decided() -> list[tuple[str, ...]]:
    """Who has decided what about which change, as the trail says it."""
    recorder.flush()
    found = Call.objects.filter(kind="decision").order_by("pk")
    return [(one.user_name, one.reason, one.uri, one.model, one.transport, one.outcome) for one in found]


@pytest.mark.every_database
def test_an_approval_a_rejection_and_a_withdrawal_are_lines_of_the_trail(
    flights: Any, declared: Declared, users: Users, ops: Writer
) -> None:
    consent: Any = {"update": "approve"}
    declared.model(Flight, consent=consent)
    bob = staff("bob")
    made, rejected, withdrawn = (propose(ops, notes="secret fog", key=key) for key in ("1", "4", "7"))
    consent["update"] = "ask"
    own = propose(ops, notes="another secret fog", key="1")

    approve(bob, made)
    Browser(bob).reject(rejected, note="a secret comment")
    Browser(users.ops).reject(withdrawn)
    Browser(users.ops).reject(own)

    named = [("bob", "approved", made), ("bob", "rejected", rejected), ("ops", "withdrawn", withdrawn),
             ("ops", "rejected", own)]  # fmt: skip
    assert decided() == [(who, what, f"mcp-change://{key}", FLIGHT, "admin", "done") for who, what, key in named]
    told = StringIO()
    call_command("mcp_audit", kind="decision", stdout=told)
    assert f"mcp-change://{made}" in told.getvalue() and "done: approved" in told.getvalue()
    stored = [json.dumps(list(map(str, row))) for row in Call.objects.values_list()]
    assert not [row for row in stored if "secret" in row]


def test_votes_that_are_refused_or_come_too_late_are_no_lines(
    flights: Any, declared: Declared, users: Users, ops: Writer
) -> None:
    """Nobody fills the trail with votes that were none, and none is told of a change that was over."""
    declared.model(Flight, consent={"update": "approve"})
    bob, eve = staff("bob"), staff("eve")
    key = propose(ops)
    digest = Browser(bob).digest(key)
    Browser(bob).decide(key, "approve", digest="0" * 64)
    Browser(staff("young", date_joined="2999-01-01T00:00:00Z")).decide(key, "approve", digest=digest)
    Browser(users.ops).decide(key, "approve", digest=digest)
    Browser(eve).reject(key)

    Browser(bob).decide(key, "approve", digest=digest)
    Browser(bob).reject(key)
    Browser(users.ops).reject(key)

    assert [(who, what) for who, what, *_ in decided()] == [("eve", "rejected")]


def test_the_line_of_a_call_that_a_vote_lets_run_is_that_of_its_agent(
    flights: Any, declared: Declared, users: Users, ops: Writer
) -> None:
    declared.model(Flight, consent={"update": "approve"})

    approve(staff("bob"), propose(ops))

    recorder.flush()
    lines = Call.objects.filter(transport="admin").order_by("pk").values_list("kind", "user_name")
    assert list(lines) == [("decision", "bob"), ("call", "ops")]
