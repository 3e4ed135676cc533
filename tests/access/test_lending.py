"""Rights for a while: there from their start on, gone at their end, and never more than was agreed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from mcp_django import site
from mcp_django.access import lending, tickets
from mcp_django.access.authentication import authenticate, principals
from mcp_django.access.lending import Borrower, NotLendable, lend
from mcp_django.audit.recorder import recorder
from mcp_django.bridge import callers
from mcp_django.exchange.principals import Principal
from mcp_django.models import AccessToken, Call, Change, Lending, Task
from mcp_django.server import due
from tests.access.lent import (
    CREDENTIALS,
    LENT_SECONDS,
    Clock,
    borrower_of,
    by_hand,
    declare_work,
    lent_in,
    lent_to,
    of_app,
    stopped,
    token_in,
)
from tests.access.test_grants import make_grant, request_to, token_by
from tests.axes import OVER_HTTP
from tests.support import tasks
from tests.support.data import Users, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, Peer, Peers
from tests.support.talking import call

#: A server on stdio has a user and scopes of its command line, and no credential that anything could be lent to.
OVER_ALL = (*OVER_HTTP, "websocket", "grpc")
EACH = pytest.mark.parametrize("make", CREDENTIALS.values(), ids=CREDENTIALS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return stopped(monkeypatch)


@pytest.fixture
def work(declared: Declared) -> None:
    declare_work(declared)


#: What the credentials have for good, and what they are lent: to change something, and to read one more model.
OWN, LENT = "model:flights.airport:read", ("actions", "model:flights.airline:read")


def rights_of(peer: Peer, revision: str) -> tuple[bool, bool]:
    """Whether it changes something, for which its credentials are read anew, and whether it reads, from memory."""
    calls = [("work", {}, "done"), ("find_records", {"model": "flights.airline"}, "United")]
    answers = [
        (said, peer.request(revision, "tools/call", {"name": name, "arguments": arguments}))
        for name, arguments, said in calls
    ]
    changes, reads = (said in json.dumps(answer.get("result", {})) for said, answer in answers)
    return changes, reads


BOTH, NEITHER = (True, True), (False, False)


def principal_of(plain: str) -> Principal:
    return authenticate(request_to(plain), fresh=False)


# There at once, and gone at the end.


@pytest.mark.parametrize("transport", OVER_ALL)
def test_a_lent_right_is_there_from_its_start_to_its_end_whatever_is_remembered(
    users: Users, peers: Peers, flights: Any, work: None, clock: Clock, settings: Any
) -> None:
    found = {}
    cases = list(product(CREDENTIALS, (LEGACY[-1], MODERN), (0, 3_600)))
    for case in cases:
        make, revision, seconds = case
        settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": seconds}
        plain = CREDENTIALS[make](users.admin, OWN)
        peer = peers(plain)

        before = rights_of(peer, revision)
        lent_to(plain, *LENT)
        during = rights_of(peer, revision)
        clock.move(LENT_SECONDS - 0.001)
        at_last = rights_of(peer, revision)
        clock.move(0.001)
        after = rights_of(peer, revision)

        found[case] = before, during, at_last, after

    assert found == dict.fromkeys(cases, (NEITHER, BOTH, BOTH, NEITHER))


@EACH
@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_a_right_that_somebody_ends_is_gone_for_the_next_call_though_the_process_remembers(
    users: Users, peers: Peers, flights: Any, work: None, make: Callable[..., str], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 3_600}
    plain = make(users.admin, OWN)
    peer, lent = peers(plain), lent_to(plain, *LENT, seconds=3_600)
    was_there = rights_of(peer, MODERN)

    assert lending.end(lent, "ann")

    assert (was_there, rights_of(peer, MODERN)) == (BOTH, NEITHER)
    assert not lending.end(lent, "eve")
    lent.refresh_from_db()
    assert (lent.ended_by, lent.ended_at is not None) == ("ann", True)


def test_a_call_that_began_with_the_right_is_refused_the_next_step_after_its_end(
    users: Users, clock: Clock, db: None
) -> None:
    plain = by_hand(users.admin)
    lent_to(plain)
    held = principal_of(plain)
    assert held.scopes == {"read", "actions"}

    clock.move(LENT_SECONDS)

    assert held.scopes == {"read"}


def test_a_credential_that_is_lent_nothing_costs_no_further_statement(
    users: Users, db: None, django_assert_num_queries: Any
) -> None:
    plain, lent = by_hand(users.admin), by_hand(users.admin)
    lent_to(lent)
    AccessToken.objects.update(last_used_at=timezone.now())
    for one in (plain, lent):
        principals.clear()
        with django_assert_num_queries(1):
            principal_of(one)


@EACH
def test_overlapping_lendings_last_as_long_as_the_longest_and_each_ends_alone(
    users: Users, db: None, clock: Clock, make: Callable[..., str]
) -> None:
    plain = make(users.admin)
    lent_to(plain, "actions", seconds=100)
    longer = lent_to(plain, "actions", "write", seconds=200)
    held = principal_of(plain).scopes

    lending.end(longer, "ann")

    assert held == {"read", "actions", "write"}
    assert principal_of(plain).scopes == {"read", "actions"}
    clock.move(100)
    assert principal_of(plain).scopes == {"read"}


def test_a_group_of_scopes_is_lent_as_what_it_stands_for(users: Users, db: None, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SCOPE_GROUPS": {"month_end": ["write", "tool:close_month"]}}
    plain = by_hand(users.admin)

    lent_to(plain, "month_end")

    assert principal_of(plain).scopes == {"read", "write", "tool:close_month"}


# What follows a token.


def test_the_successor_of_a_token_has_the_right_until_the_same_moment_and_once(
    users: Users, db: None, clock: Clock
) -> None:
    """A rolled token must not double what was lent."""
    plain = by_hand(users.admin)
    lent_to(plain)

    made, successor = token_in(plain).roll(grace=timedelta(hours=1))

    assert lent_in(made) == lent_in(token_in(plain))
    assert Lending.objects.count() == 1
    clock.move(LENT_SECONDS)
    assert [principal_of(one).scopes for one in (plain, successor)] == [{"read"}, {"read"}]


def test_ending_reaches_the_successor_and_the_token_that_is_used_up(users: Users, db: None) -> None:
    plain = by_hand(users.admin)
    lent = lent_to(plain)
    _, successor = token_in(plain).roll(grace=timedelta(hours=1))

    lending.end(lent, "ann")

    assert [principal_of(one).scopes for one in (plain, successor)] == [{"read"}, {"read"}]


@EACH
def test_revoking_ends_what_was_lent(users: Users, db: None, make: Callable[..., str]) -> None:
    plain = make(users.admin)
    lent = lent_to(plain)

    token_in(plain).revoke()

    lent.refresh_from_db()
    assert (lent.ended_by, lent.ended_at is not None) == ("revoked", True)
    assert not Lending.objects.in_use().exists()


def test_another_token_of_the_user_and_another_grant_of_the_app_have_no_part_in_it(users: Users, db: None) -> None:
    grant = make_grant(users.admin)
    app, other_grant = token_by(grant)[1], token_by(make_grant(users.admin, line=grant.line))[1]
    mine, other = by_hand(users.admin), by_hand(users.admin)

    lent_to(app)
    lent_to(mine)

    assert [principal_of(one).scopes for one in (other, other_grant)] == [{"read"}, {"read"}]


# Attacks.


LENDABLE = override_settings(MCP={"LENDABLE": {"write": 8, "model:flights.airport:read": 2}})


@LENDABLE
@pytest.mark.parametrize(("scopes", "hours", "why"), [
    (["write"], 8.1, "The scope write is lent for 8 hours at most."),
    (["write"], float("inf"), "hours must be more than 0."),
    (["write"], float("nan"), "hours must be more than 0."),
    (["write"], 0, "hours must be more than 0."),
    (["write"], -1, "hours must be more than 0."),
    (["write", "model:flights.airport:read"], 3, "The scope model:flights.airport:read is lent for 2 hours at most."),
    (["actions"], 1, "The scope actions is not lent here."),
    (["read"], 1, "The scope read is not lent here."),
    (["tool:create_record"], 1, "The scope tool:create_record is not lent here."),
    (["everything"], 1, "unknown scope 'everything'"),
    ([], 1, "Name a scope."),
])  # fmt: skip
def test_lending_more_than_is_lendable(users: Users, db: None, scopes: list[str], hours: float, why: str) -> None:
    plain = by_hand(users.admin)

    with pytest.raises(NotLendable) as refused:
        lend(site, borrower_of(plain), scopes, hours, agreed_by="bob")

    assert why in str(refused.value)
    assert lent_in(token_in(plain)) == {} and not Lending.objects.exists()


@LENDABLE
def test_what_is_lendable_is_lent_and_so_is_a_part_of_it(users: Users, db: None, clock: Clock) -> None:
    plain = by_hand(users.admin)

    lent = lend(site, borrower_of(plain), ["model:flights.flight:write"], 8, agreed_by="bob", reason="Month end")

    assert principal_of(plain).scopes == {"read", "model:flights.flight:write"}
    assert (lent.user, lent.scopes, lent.reason, lent.agreed_by, lent.until - lent.starts_at) == (
        users.admin, ["model:flights.flight:write"], "Month end", "bob", timedelta(hours=8),
    )  # fmt: skip


def test_nothing_is_lent_by_default(users: Users, db: None) -> None:
    with pytest.raises(NotLendable, match="The scope write is not lent here"):
        lend(site, borrower_of(by_hand(users.admin)), ["write"], 1, agreed_by="bob")


@override_settings(MCP={"LENDABLE": {"write": 8}, "OAUTH_SCOPES": ["read"]})
def test_lending_to_an_app_what_clients_may_never_get(users: Users, db: None) -> None:
    with pytest.raises(NotLendable, match="The scope write is not lent here"):
        lend(site, borrower_of(of_app(users.admin)), ["write"], 1, agreed_by="bob")


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_a_lent_scope_gives_nobody_a_permission(users: Users, peers: Peers, settings: Any) -> None:
    """The viewer may write nothing in the admin, so an agent of the viewer's that is lent ``write`` may not either."""
    switch_on("create_record")
    plain, permitted = (token_of(user, "read") for user in (users.viewer, users.admin))
    for one in (plain, permitted):
        lent_to(one, "write")

    listed = [{tool["name"] for tool in peers(one).result(MODERN, "tools/list")["tools"]} for one in (plain, permitted)]

    assert ["create_record" in names for names in listed] == [False, True]


def test_lending_to_a_credential_that_has_ended_or_is_none(users: Users, db: None) -> None:
    revoked, of_grant = by_hand(users.admin), of_app(users.admin)
    borrowers = [borrower_of(revoked), borrower_of(of_grant)]
    # What names another user's line, or a line that is none, finds nothing.
    borrowers += [
        Borrower(borrower_of(by_hand(users.admin)).lineage, None, users.viewer),
        Borrower(borrower_of(of_app(users.admin)).lineage, None, users.admin),
        Borrower(f"user:{users.admin.pk}", None, users.admin),
    ]
    token_in(revoked).revoke()
    token_in(of_grant).revoke()

    for borrower in borrowers:
        with pytest.raises(NotLendable):
            lending.begin(borrower, ["write"], timezone.now() + timedelta(hours=1), agreed_by="bob")
    with pytest.raises(NotLendable, match="neither"):
        Borrower.of(Principal(users.admin, frozenset({"read"})))
    assert not Lending.objects.exists()


def test_a_token_that_its_client_has_narrowed_gets_nothing_by_what_its_grant_is_lent(users: Users, db: None) -> None:
    """A client may have handed it on to a part of itself that shall do no more."""
    grant = make_grant(users.admin, scopes=["read", "actions"])
    whole, narrow = token_by(grant, "read", "actions")[1], token_by(grant, "read")[1]
    opened = {name: principal_of(plain) for name, plain in {"whole": whole, "narrow": narrow}.items()}

    lent_to(whole, "write")

    fresh = {name: principal_of(plain).scopes for name, plain in {"whole": whole, "narrow": narrow}.items()}
    on_sockets = {name: found_again(one).scopes for name, one in opened.items()}
    assert fresh == on_sockets == {"whole": {"read", "actions", "write"}, "narrow": {"read"}}


def found_again(opened: Principal) -> Principal:
    found = principals.find_by_grant(opened, request_to(), fresh=True)
    assert found is not None
    return found


def test_a_ticket_and_what_it_opens_have_nothing_that_the_token_was_denied(users: Users, db: None) -> None:
    grant = make_grant(users.admin)
    lent_to(token_by(grant)[1])
    grant.refresh_from_db()
    denied = token_by(grant, lent=dict.fromkeys(grant.lent, 0))[1]
    # A newer token of the grant, by which the ticket is redeemed, has it.
    newest = token_by(grant, lent=grant.lent)[1]

    opened = tickets.redeem(tickets.issue(principal_of(denied)), request_to())

    assert principal_of(newest).scopes == {"read", "actions"}
    assert (principal_of(denied).scopes, opened.scopes, found_again(opened).scopes) == ({"read"}, {"read"}, {"read"})
    assert principal_of(denied).constant != principal_of(newest).constant


def test_a_part_of_a_lent_scope_ends_with_it(users: Users, db: None, clock: Clock) -> None:
    plain = by_hand(users.admin)
    lent_to(plain, "write")

    narrowed = principal_of(plain).within(frozenset({"read", "model:flights.flight:write"}))

    assert narrowed.scopes == {"read", "model:flights.flight:write"}
    clock.move(LENT_SECONDS)
    assert narrowed.scopes == {"read"}


# Tasks, changes and questions.


def test_a_task_does_with_a_lent_scope_what_it_can_before_the_end_and_stays_readable(
    users: Users, peers: Peers, declared: Declared, clock: Clock
) -> None:
    def work(request: Any) -> str:
        """Changes something."""
        return "done"

    declared.tool(work, task=True)
    plain = by_hand(users.admin)
    lent_to(plain)
    peer = peers(plain)
    peer.capabilities = tasks.TASKS
    with override_settings(MCP={"TASK_BACKEND": "database"}):
        in_time = tasks.start(peer, "work")
        tasks.work()
        late = tasks.start(peer, "work")
        clock.move(LENT_SECONDS)
        tasks.work()

        ended = {name: tasks.get(peer, key) for name, key in {"in time": in_time, "late": late}.items()}

    assert tasks.text_of(ended["in time"]) == "done"
    assert "done" not in json.dumps(ended["late"])
    assert ended["late"]["status"] in ("failed", "completed")


def test_a_stranger_to_the_task_reads_it_no_more_than_before(users: Users, peers: Peers, declared: Declared) -> None:
    """Only what was lent may be missing. A token that its client has narrowed lacks what the task had for good."""

    def work(request: Any) -> str:
        """Changes something."""
        return "done"

    declared.tool(work, task=True)
    grant = make_grant(users.admin, scopes=["read", "actions"], resource="http://localhost/mcp")
    whole, narrow = (peers(token_by(grant, *held)[1]) for held in (("read", "actions"), ("read",)))
    whole.capabilities = narrow.capabilities = tasks.TASKS
    with override_settings(MCP={"TASK_BACKEND": "database"}):
        lent_to(str(whole.token), "write", seconds=3_600)
        key = tasks.start(whole, "work")

    assert Task.objects.get().lent == ["write"]
    error = narrow.error(MODERN, "tasks/get", {"taskId": key})
    assert "work" not in json.dumps(error)


def test_what_a_token_began_is_run_with_what_is_left_of_its_rights(users: Users, db: None, clock: Clock) -> None:
    plain = by_hand(users.admin)
    lent_to(plain)
    held = principal_of(plain)
    begun = Change(
        line=held.lineage, principal_key=held.key, user_id=users.admin.pk, scopes=sorted(held.scopes), grant_id=None
    )

    in_time = callers.principal_of(begun, request_to()).scopes
    clock.move(LENT_SECONDS)

    assert (in_time, callers.principal_of(begun, request_to()).scopes) == ({"read", "actions"}, {"read"})


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize("transport", ["http-asgi"])
@pytest.mark.parametrize("first", ["a right begins", "a right ends"])
def test_a_question_is_not_cut_by_a_right_that_begins_or_ends(
    users: Users, peers: Peers, declared: Declared, clock: Clock, first: str
) -> None:
    def greet(request: Any) -> str:
        """Greets its user."""
        return f"Hello {request.mcp.elicit('Your name?', NAME, key='who').content['name']}"

    declared.tool(greet, read_only=True)
    plain = by_hand(users.admin)
    peer = peers(plain)
    peer.capabilities = {"elicitation": {}}
    if first == "a right ends":
        lent_to(plain)

    def answer(method: str, params: Any) -> Any:
        clock.move(LENT_SECONDS)
        if first == "a right begins":
            lent_to(plain)
        return {"action": "accept", "content": {"name": "Ada"}}

    assert call(peer, "greet", MODERN, answer).text == "Hello Ada"


# What is due, what is written down, and the check.


@EACH
def test_what_has_ended_is_marked_and_taken_out_of_its_row(
    users: Users, db: None, clock: Clock, mailoutbox: list[Any], make: Callable[..., str]
) -> None:
    plain = make(users.admin)
    over, running = lent_to(plain), lent_to(plain, "write", seconds=3_600)
    clock.move(LENT_SECONDS + 30)

    counted = [due.run()["rights for a while that have ended"] for _ in range(2)]

    over.refresh_from_db()
    running.refresh_from_db()
    assert counted == [1, 0]
    assert (over.ended_at, over.ended_by, running.ended_at) == (over.until, "", None)
    assert list(lent_in(token_in(plain))) == ["write"]
    assert not mailoutbox


def test_what_was_lent_to_a_credential_that_ended_otherwise_is_marked(users: Users, db: None) -> None:
    plain = by_hand(users.admin)
    lent = lent_to(plain, seconds=3_600)
    AccessToken.objects.update(revoked_at=timezone.now())

    assert lending.mark_over() == 1

    lent.refresh_from_db()
    assert lent.ended_at is not None and lent.ended_at < lent.until


@override_settings(MCP={"AUDIT": "on"})
def test_the_trail_says_what_was_lent_by_whom_and_who_ended_it(users: Users, transactional_db: None) -> None:
    lent = lent_to(by_hand(users.admin))

    lending.end(lent, "ann")

    recorder.flush()
    lines = {one.reason: json.loads(one.values) for one in Call.objects.filter(reason__contains="len")}
    assert set(lines) == {"lent", "lending ended"}
    assert (lines["lent"]["scopes"], lines["lent"]["agreed_by"], lines["lent"]["owner"]) == (
        "actions", "bob", str(users.admin.pk),
    )  # fmt: skip


@pytest.mark.parametrize(("lendable", "problem"), [
    ({"write": 8, "model:flights.airport:read": 0.5}, None),
    ({"writing": 8}, "names 'writing', which is no scope"),
    ({3: 8}, "names 3, which is no scope"),
    ({"write": 0}, "gives 'write' 0 hours"),
    ({"write": -1}, "gives 'write' -1 hours"),
    ({"write": 169}, "gives 'write' 169 hours"),
    ({"write": True}, "gives 'write' True hours"),
    ({"write": "8"}, "gives 'write' '8' hours"),
    ({"write": float("nan")}, "gives 'write' nan hours"),
    (["write"], "is no dictionary"),
])  # fmt: skip
def test_wrong_values_are_found_by_a_check(lendable: Any, problem: str | None) -> None:
    with override_settings(MCP={"LENDABLE": lendable}):
        found = [error.msg for error in run_checks() if error.id == "mcp_django.E033"]

    assert found == ([] if problem is None else [f"MCP['LENDABLE'] {problem}."])


def test_a_refused_lending_leaves_nothing_behind(users: Users, transactional_db: None) -> None:
    """The change that lends may be rolled back by what comes after it."""
    plain = by_hand(users.admin)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        lent_to(plain)
        raise ZeroDivisionError

    assert principal_of(plain).scopes == {"read"}
    assert not Lending.objects.exists()
