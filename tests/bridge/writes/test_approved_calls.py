"""Functions and actions to which people must agree: previewed, agreed to, run once, and never again in doubt."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Flight
from mcp_django import Approval, action, tool
from mcp_django.exceptions import MissingCapability, ToolError
from mcp_django.exchange.requests import MCPRequest
from mcp_django.models import Change, Tool
from tests.bridge.writes.approving import APPROVER, LONG_AGO, staff, text_of
from tests.bridge.writes.clicking import Browser, approve, proposed, said
from tests.bridge.writes.conftest import Writer
from tests.bridge.writes.test_consent import MODERN, answer_of, call, choose, confirmed, questions
from tests.support.asking import listed
from tests.support.data import Users, switch_on
from tests.support.declared import Declared
from tests.support.peers import Message, Peer

pytestmark = pytest.mark.usefixtures("transactional_db")

CANCEL = "flights_flight_mark_cancelled"
CHANGE = "flights.change_flight"


@pytest.fixture
def asker(mute: Peer) -> Peer:
    """The client of an administrator, which asks its user."""
    mute.capabilities = {"elicitation": {}}
    return mute


@pytest.fixture
def bob(users: Users) -> User:
    return staff("bob")


@pytest.fixture
def refunds(flights: list[Flight], declared: Declared) -> list[Any]:
    """What the function ``refund`` was called with, each time."""
    return refund_by(declared, consent="approve", permission="flights.change_flight")


def refund_by(declared: Declared, body: Callable[..., Any] | None = None, **options: Any) -> list[Any]:
    """Declares a tool ``refund``, and returns what it is called with. ``body`` is done first."""
    made: list[Any] = []

    def refund(request: MCPRequest, flight: Flight, amount: float, reason: str = "") -> dict[str, float]:
        """Pay back."""
        if body is not None:
            body(request)
        made.append((flight.pk, amount, reason))
        return {"paid": amount}

    declared.tool(refund, **options)
    return made


def refund(writer: Writer, **more: Any) -> Message:
    """The answer to a refund that is previewed and confirmed."""
    return writer.confirmed("refund", **{"flight": 1, "amount": 30.0, "reason": "late", **more})


def act(writer: Writer, *ids: str) -> Message:
    """The answer to an action whose rows are shown and confirmed."""
    shown = writer.call(CANCEL, ids=list(ids))
    [confirm] = re.findall(r'"confirm": "([^"]+)"', shown["content"][0]["text"])
    return writer.ask(CANCEL, ids=list(ids), confirm=confirm)


def approving(user: User) -> User:
    """The user, who may approve changes now, and whose account is old."""
    user.user_permissions.add(Permission.objects.get(codename="approve_change"))
    User.objects.filter(pk=user.pk).update(date_joined=LONG_AGO)
    return User.objects.get(pk=user.pk)


def statuses() -> list[str]:
    return list(Flight.objects.filter(pk__in=[1, 4]).order_by("pk").values_list("status", flat=True))


# Functions.


def test_what_a_preview_writes_is_taken_back(flights: Any, declared: Declared, bob: User, root: Writer) -> None:
    def note(request: MCPRequest, flight: Flight) -> str:
        """Note it."""
        return "noted"

    def look(request: MCPRequest, flight: Flight) -> dict[str, int]:
        return {"written": Flight.objects.update(notes="by its preview")}

    declared.tool(note, consent="approve", preview=look, permission=CHANGE)
    before = set(Flight.objects.values_list("notes", flat=True))

    key = root.confirmed("note", flight=1)["change"]

    assert approve(bob, key) == ["The change was made."]
    assert set(Flight.objects.values_list("notes", flat=True)) == before


@pytest.mark.every_database
def test_a_function_runs_once_others_have_approved_what_its_preview_says(refunds: Any, bob: User, root: Writer) -> None:
    waits = refund(root)
    assert waits["status"] == "pending" and waits["tool"] == "refund" and refunds == []
    shown = text_of(Browser(bob).page(waits["change"]))
    assert "Run Refund" in shown and "30.0" in shown and "late" in shown and "1, " in shown

    assert approve(bob, waits["change"]) == ["The change was made."]

    assert refunds == [(1, 30.0, "late")]
    told = root.ask("get_change", change=waits["change"])
    assert (told["status"], told["tool"], told["result"]) == ("applied", "refund", {"paid": 30.0})


@pytest.mark.parametrize("answer", ["accept", "decline"])
def test_the_user_is_asked_about_a_function_and_the_agent_gets_its_result(
    flights: Any, declared: Declared, asker: Peer, answer: str
) -> None:
    made = refund_by(declared, consent="ask")

    said_ = confirmed(asker, MODERN, "refund", choose(answer), flight=4, amount=5.5)

    [question] = questions(said_)
    assert question.startswith("Run Refund:\n- amount: 5.5\n- flight: 4\n- 1 flight:\n  - 4, ")
    assert made == ([(4, 5.5, "")] if answer == "accept" else [])
    if answer == "accept":
        assert answer_of(said_) == {"paid": 5.5}


def test_a_preview_of_the_project_is_shown_and_a_vote_counts_for_nothing_else(
    flights: Any, declared: Declared, bob: User, root: Writer
) -> None:
    price = [10]

    def preview(request: Any, flight: Flight, amount: float, reason: str) -> dict[str, Any]:
        return {"from": flight.origin_id, "price": price[0]}

    made = refund_by(declared, consent="approve", preview=preview)
    shown = root.ask("refund", flight=1, amount=1)
    assert set(shown["would"]) == {"from", "price"} and shown["would"]["price"] == 10
    key = root.ask("refund", flight=1, amount=1, confirm=shown["confirm"])["change"]
    seen = Browser(bob)
    digest = seen.digest(key)
    price[0] = 11

    stale = said(seen.decide(key, "approve", digest=digest))

    assert "have changed since" in stale[0] and made == []
    assert approve(bob, key) == ["The change was made."] and len(made) == 1


def test_a_preview_that_differs_when_it_is_confirmed_refuses(flights: Any, declared: Declared, root: Writer) -> None:
    prices = iter([10, 11])
    made = refund_by(declared, consent="ask", preview=lambda request, **values: {"price": next(prices)})
    shown = root.ask("refund", flight=1, amount=1)

    assert "changed since" in root.refused("refund", flight=1, amount=1, confirm=shown["confirm"]) and made == []


@pytest.mark.every_database
def test_what_became_of_a_function_whose_process_died_is_not_known_and_nothing_runs_it_again(
    refunds: Any, bob: User, root: Writer
) -> None:
    arguments = {"flight": 1, "amount": 30.0}
    confirm = root.ask("refund", **arguments)["confirm"]
    key = root.ask("refund", **arguments, confirm=confirm)["change"]
    digest = Browser(bob).digest(key)
    Change.objects.filter(pk=key).update(state="writing", run="gone", lease_until=timezone.now())

    clicked = said(Browser(bob).decide(key, "approve", digest=digest))
    call_command("mcp_due")
    again = [root.ask("refund", **arguments, confirm=confirm), root.ask("get_change", change=key)]

    assert clicked == ["This change does not wait any more."] and refunds == []
    assert [one["status"] for one in again] == ["unknown", "unknown"]
    assert "not known" in text_of(Browser(root.user).page(key))


@pytest.mark.parametrize("error", [ValueError("secret"), ToolError("No money.")])
def test_a_function_that_fails_has_failed_for_good(
    flights: Any, declared: Declared, bob: User, root: Writer, error: Exception
) -> None:
    def fail(request: Any) -> None:
        raise error

    made = refund_by(declared, fail, consent="approve")
    key = refund(root)["change"]

    said_ = approve(bob, key)

    told = root.ask("get_change", change=key)
    assert made == [] and told["status"] == "failed" and "secret" not in str([said_, told])
    assert said_ != ["The change was made."]


def test_a_function_that_failed_is_not_run_again_by_its_token(flights: Any, declared: Declared, asker: Peer) -> None:
    calls: list[int] = []

    def fail(request: Any) -> None:
        calls.append(1)
        raise ToolError("No money.")

    refund_by(declared, fail, consent="ask")
    arguments: dict[str, Any] = {"flight": 1, "amount": 1.0}
    confirm = asker.call("refund", **arguments)["structuredContent"]["confirm"]
    first = call(asker, "refund", MODERN, choose("accept"), **arguments, confirm=confirm)
    again = answer_of(call(asker, "refund", MODERN, choose("accept"), **arguments, confirm=confirm))

    assert "No money." in first.text and calls == [1]
    assert (again["status"], again["notes"]) == ("failed", ["No money."])


def test_a_confirmed_function_asks_nothing_and_becomes_no_task(
    flights: Any, declared: Declared, bob: User, root: Writer
) -> None:
    caught: list[Any] = []

    def ask(request: MCPRequest) -> None:
        request.mcp.as_task()
        with pytest.raises(MissingCapability) as raised:
            request.mcp.elicit("Sure?", {"type": "object", "properties": {}})
        caught.append(raised.value.message)

    made = refund_by(declared, ask, consent="approve")

    assert approve(bob, refund(root)["change"]) == ["The change was made."] and len(made) == len(caught) == 1


def test_asynchronous_and_yielding_functions_run_whole(
    flights: Any, declared: Declared, bob: User, root: Writer
) -> None:
    async def later(request: Any, word: str) -> str:
        """Later."""
        return f"later {word}"

    def parts(request: Any, word: str) -> Any:
        """Parts."""
        yield f"first {word}"
        yield "second"

    told = []
    for function in (later, parts):
        declared.tool(function, consent="approve")
        key = root.confirmed(function.__name__, word="x")["change"]
        assert approve(bob, key) == ["The change was made."]
        told.append(root.ask("get_change", change=key)["result"])

    assert told[0] == "later x" and "first x" in told[1] and "second" in told[1]


def test_rows_that_a_function_returns_are_written_for_the_agent_that_asked(
    flights: Any, declared: Declared, bob: User, root: Writer
) -> None:
    def land(request: Any, flight: Flight) -> Flight:
        """Land."""
        Flight.objects.filter(pk=flight.pk).update(notes="landed")
        return flight

    declared.tool(land, consent="approve")
    key = root.confirmed("land", flight=1)["change"]

    assert approve(bob, key) == ["The change was made."]
    told = root.ask("get_change", change=key)["result"]
    assert (told["id"], told["notes"]) == (1, "landed")


def test_a_rule_sees_what_the_function_gets(flights: Any, declared: Declared, bob: User, root: Writer) -> None:
    made = refund_by(declared, consent=Approval(when=lambda change: change.after["amount"] > 100))

    assert refund(root, amount=100) == {"paid": 100} and made == [(1, 100.0, "late")]
    assert refund(root, amount=101)["needs"]["approvals"] == 1


@pytest.mark.parametrize("lacking", ["permission", "row"])
def test_who_may_not_call_the_function_or_see_its_rows_does_not_approve(
    refunds: Any, bob: User, root: Writer, users: Users, lacking: str
) -> None:
    other = approving(users.ops) if lacking == "row" else staff("other", *(one for one in APPROVER if one != CHANGE))
    # Flight 2 does not start in JFK, which is all that ops sees.
    key = refund(root, flight=2)["change"]

    page = text_of(Browser(other).page(key))

    assert 'name="_approve"' not in page
    said_ = said(Browser(other).decide(key, "approve", digest=Browser(bob).digest(key)))
    assert said_ != ["The change was made."] and refunds == []


def test_a_function_to_which_people_agree_is_listed_with_what_confirms_it(
    refunds: Any, declared: Declared, root: Writer
) -> None:
    def plain(request: Any, word: str) -> dict[str, str]:
        """Plain."""
        return {}

    declared.tool(plain, consent="ask")
    own, ours = listed(root, "refund"), listed(root, "plain")

    # An argument of its own that is called as ours stays its own.
    assert list(own["inputSchema"]["properties"]) == ["flight", "amount", "reason", "confirm"]
    assert list(ours["inputSchema"]["properties"]) == ["word", "confirm", "reason"]
    assert "outputSchema" not in own and "outputSchema" not in ours
    assert root.refused("plain", word="x", other=1)


def confirming(request: Any, confirm: str) -> None:
    """Confirm."""


def with_secret(request: Any, password: str) -> None:
    """Set a password."""


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (with_secret, {"consent": "sometimes"}, "consent= of the tool with_secret must be"),
        (with_secret, {"consent": "ask"}, "which nobody may be shown. Declare preview=."),
        (with_secret, {"consent": "ask", "preview": lambda request: {}}, "must take what the tool takes"),
        (confirming, {"consent": "ask"}, "its own argument is called confirm"),
        (confirming, {"consent": "ask", "read_only": True}, "only reads"),
        (confirming, {"consent": "ask", "task": True}, "has a task= and consent="),
    ],
)
def test_what_nobody_can_be_asked_about_is_refused_where_it_is_declared(
    function: Any, options: Any, words: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=re.escape(words)):
        tool(**options)(function)


def test_a_consent_of_an_action_is_checked_where_it_is_declared() -> None:
    for options in ({"consent": "sometimes"}, {"consent": "ask", "read_only": True}):
        with pytest.raises(ImproperlyConfigured, match="consent="):
            action(**options)(confirming)  # type: ignore[arg-type]


# Actions.


@pytest.fixture
def cancelling(flights: Any, declared: Declared) -> Callable[..., None]:
    """Declares what the action that cancels flights needs."""

    def declare(body: Callable[[Any, Any, Any], Any] | None = None, **options: Any) -> None:
        class Admin(FlightAdmin):
            @action(**options)
            def mark_cancelled(self, request: HttpRequest, queryset: Any) -> None:
                queryset.update(status="cancelled")
                if body is not None:
                    body(self, request, queryset)
                self.message_user(request, "All are cancelled.")

            mark_cancelled.allowed_permissions = ("change",)  # type: ignore[attr-defined]

        declared.admin(Flight, Admin)
        switch_on(CANCEL)

    return declare


@pytest.mark.every_database
def test_an_action_acts_on_the_rows_that_others_have_seen(cancelling: Any, bob: User, root: Writer) -> None:
    cancelling(consent="approve")
    waits = act(root, "1", "4")
    assert waits["status"] == "pending" and "cancelled" not in statuses()
    page = text_of(Browser(bob).page(waits["change"]))
    assert "Run " in page and "1, " in page and "4, " in page

    assert approve(bob, waits["change"]) == ["The change was made."]

    assert statuses() == ["cancelled"] * 2
    assert root.ask("get_change", change=waits["change"])["said"] == "All are cancelled."
    logged = LogEntry.objects.filter(object_id__in=["1", "4"])
    assert [f"change {waits['change']}, approved by bob" in one.change_message for one in logged] == [True, True]


def test_a_row_that_is_called_otherwise_by_now_is_looked_at_again(cancelling: Any, bob: User, root: Writer) -> None:
    cancelling(consent="approve")
    key = act(root, "1", "4")["change"]
    digest = Browser(bob).digest(key)
    Flight.objects.filter(pk=4).update(number=4444, origin_id="LGA")

    stale = said(Browser(bob).decide(key, "approve", digest=digest))

    assert "have changed since" in stale[0] and "cancelled" not in statuses()
    assert approve(bob, key) == ["The change was made."] and statuses() == ["cancelled"] * 2


def test_a_rule_of_an_action_sees_each_row(cancelling: Any, bob: User, root: Writer) -> None:
    cancelling(consent=Approval(when=lambda change: change.rows > 1 and change.before["id"] == 4))

    assert act(root, "1", "4")["status"] == "pending"
    shown = root.call(CANCEL, ids=["4"])["content"][0]["text"]
    [confirm] = re.findall(r'"confirm": "([^"]+)"', shown)
    assert root.call(CANCEL, ids=["4"], confirm=confirm)["content"][0]["text"] == "All are cancelled."


def test_an_action_that_takes_its_changes_back_has_failed(cancelling: Any, bob: User, root: Writer) -> None:
    cancelling(lambda *_: transaction.set_rollback(True), consent="approve")
    key = act(root, "1")["change"]

    approve(bob, key)

    assert statuses()[0] != "cancelled"
    told = root.ask("get_change", change=key)
    assert told["status"] == "failed" and "took its own changes back" in told["notes"][0]


@pytest.mark.every_database
def test_an_action_whose_run_died_goes_on_by_a_click_and_not_by_a_clock(
    cancelling: Any, bob: User, root: Writer
) -> None:
    cancelling(consent=Approval(count=1, expires=timedelta(days=1)))
    key = act(root, "1", "4")["change"]
    Change.objects.filter(pk=key).update(state="writing", run="gone", lease_until=timezone.now())

    call_command("mcp_due")
    assert "cancelled" not in statuses()

    assert approve(bob, key) == ["The change was made."] and statuses() == ["cancelled"] * 2


def test_an_action_whose_run_died_after_its_user_agreed_in_the_client_is_proposed_anew(
    cancelling: Any, asker: Peer
) -> None:
    cancelling(consent="ask")
    shown = asker.call(CANCEL, ids=["1", "4"])["content"][0]["text"]
    [confirm] = re.findall(r'"confirm": "([^"]+)"', shown)
    said_ = call(asker, CANCEL, MODERN, choose("accept"), ids=["1", "4"], confirm=confirm)
    assert statuses() == ["cancelled"] * 2 and len(questions(said_)) == 1
    Flight.objects.filter(pk__in=[1, 4]).update(status="on_time")
    Change.objects.update(state="writing", run="gone", lease_until=timezone.now())
    key = Change.objects.get().pk

    again = call(asker, CANCEL, MODERN, choose("accept"), ids=["1", "4"], confirm=confirm)

    assert statuses() == ["on_time"] * 2
    told = asker.call("get_change", change=key)["structuredContent"]
    assert told["status"] == "failed" and "so that people are asked again" in told["notes"][1]
    assert answer_of(again) == told and not questions(again)


@pytest.mark.parametrize("hides", ["row", "action"])
def test_who_may_not_run_the_action_or_see_a_row_does_not_approve_it(
    cancelling: Any, bob: User, root: Writer, users: Users, hides: str
) -> None:
    cancelling(consent="approve")
    other = approving(users.ops) if hides == "row" else staff("other", *(one for one in APPROVER if one != CHANGE))
    key = act(root, "1", "2")["change"]

    assert 'name="_approve"' not in text_of(Browser(other).page(key))
    said(Browser(other).decide(key, "approve", digest=Browser(bob).digest(key)))
    assert "cancelled" not in statuses()


# What administrators decide.


@pytest.mark.parametrize("asks", ["ask", "approve"])
def test_an_administrator_lets_any_tool_that_changes_ask(
    cancelling: Any, declared: Declared, bob: User, root: Writer, asks: str
) -> None:
    cancelling()
    made = refund_by(declared)
    assert root.ask("refund", flight=1, amount=1) == {"paid": 1} and made
    for name in (CANCEL, "refund", "update_record"):
        Tool.objects.update_or_create({"enabled": True, "asks": asks}, site="mcp", name=name)

    told = [
        act(root, "1"),
        refund(root),
        root.confirmed("update_record", model="flights.flight", id="4", values={"notes": "fog"}),
    ]

    assert [one["status"] for one in told] == ["pending"] * 3 and len(made) == 1
    assert ["needs" in one for one in told] == [asks == "approve"] * 3
    if asks == "approve":
        assert [approve(bob, one["change"]) for one in told] == [["The change was made."]] * 3


def test_what_an_administrator_decides_is_never_less_than_what_is_declared(
    refunds: Any, bob: User, root: Writer
) -> None:
    Tool.objects.update_or_create({"enabled": True, "asks": "ask"}, site="mcp", name="refund")

    assert refund(root)["needs"]["approvals"] == 1


def test_what_is_decided_while_a_change_waits_holds_for_it(flights: Any, bob: User, root: Writer, mute: Peer) -> None:
    Tool.objects.filter(name="update_record").update(asks="ask")
    key = proposed(mute, "update_record", model="flights.flight", id="1", values={"notes": "fog"})["change"]
    Tool.objects.filter(name="update_record").update(asks="approve")

    clicked = Browser(root.user).apply(key)

    assert clicked == ["Other people must approve this. Not enough of them have."]
    assert approve(bob, key) == ["The change was made."]


def test_a_tool_about_which_nobody_can_be_asked_says_so(flights: Any, declared: Declared, root: Writer) -> None:
    declared.tool(with_secret)
    Tool.objects.update_or_create({"enabled": True, "asks": "approve"}, site="mcp", name="with_secret")

    assert "nobody may be shown" in root.refused("with_secret", password="x")
