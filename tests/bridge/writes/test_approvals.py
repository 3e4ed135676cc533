"""Changes that other people must approve: never anybody who stands behind them, and for exactly what a voter saw."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin, TabularInline
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.utils import timezone

from demo_project.flights.models import Disruption, Flight
from mcp_django import Approval
from mcp_django.bridge.changes import approvals
from mcp_django.bridge.declared.consent import Level, Needs, needs_of
from mcp_django.exceptions import ToolError
from mcp_django.exchange.principals import Principal
from mcp_django.models import Change, Decision, Tool
from tests.bridge.writes.approving import APPROVER, FLIGHT, digest_for, notes_of, propose, staff, text_of
from tests.bridge.writes.clicking import Browser, approve, said, state_of
from tests.bridge.writes.conftest import Writer
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import Peer

pytestmark = pytest.mark.usefixtures("transactional_db")


# What it needs.


@pytest.mark.every_database
def test_a_change_waits_for_somebody_else_who_approves_it(key: str, bob: User, ops: Writer) -> None:
    waits = ops.ask("get_change", change=key)
    assert waits["needs"] == {
        "approvals": 1,
        "given": 0,
        "by": "staff who may approve changes, and write these records",
    }
    assert waits["status"] == "pending" and waits["expires_at"] and notes_of() == "note 0"

    assert approve(bob, key) == ["The change was made."]

    assert notes_of() == "fog" and state_of(key) == "applied"
    assert ops.ask("get_change", change=key)["status"] == "applied"
    assert LogEntry.objects.get(object_id="1").get_change_message().endswith(f"change {key}, approved by bob)")


def test_levels_are_ordered_and_an_unknown_one_is_the_strictest() -> None:
    named = {name: needs_of(name, "preview", list).level for name in ("preview", "ask", "approve", "aks", None, 7)}

    assert named == {"preview": Level.PREVIEW, "ask": Level.ASK, "approve": Level.APPROVE, "aks": Level.APPROVE,
                     None: Level.APPROVE, 7: Level.APPROVE}  # fmt: skip
    assert Level.PREVIEW < Level.ASK < Level.APPROVE
    one, other = Needs(Level.ASK, 0, ("a.b",)), Needs(Level.APPROVE, 2, ("group:c",), ("big",), timedelta(1))
    assert one | other == other | one == Needs(Level.APPROVE, 2, ("a.b", "group:c"), ("big",), timedelta(1)) or (
        (other | one).by == ("group:c", "a.b")
    )


@pytest.mark.parametrize(("notes", "level"), [("x", "preview"), ("much longer", "approve"), ("fails", "approve")])
def test_a_rule_sees_the_values_of_before_and_after(
    flights: Any, declared: Declared, bob: User, root: Writer, notes: str, level: str
) -> None:
    seen = []

    def is_long(considered: Any) -> bool:
        seen.append(considered)
        if considered.after["notes"] == "fails":
            raise RuntimeError("no rule today")
        return len(considered.after["notes"]) > len(considered.before["notes"])

    declared.model(Flight, consent={"update": Approval(when=is_long)})

    found = root.confirmed("update_record", model=FLIGHT, id="1", values={"notes": notes})

    assert found["status"] == {"preview": "applied", "approve": "pending"}[level]
    one = seen[-1]
    assert (one.operation, one.rows, one.before["notes"], one.before["carrier"]) == ("update", 1, "note 0", "UA")
    assert one.user.username == "admin" and one.recent(1) == (level == "preview")
    if level == "approve":
        assert Change.objects.get().needs["rules"] == ["is_long"]


def test_a_rule_that_says_yes_only_when_the_change_is_made_stops_it(
    flights: Any, declared: Declared, bob: User, root: Writer
) -> None:
    answers = [False, False, False, True]

    def sometimes(considered: Any) -> bool:
        return answers.pop(0) if answers else True

    declared.model(Flight, consent={"update": Approval(when=sometimes)})
    arguments: dict[str, Any] = {"model": FLIGHT, "id": "1", "values": {"notes": "fog"}}
    confirm = root.ask("update_record", **arguments)["confirm"]
    answers[:] = [False, True]

    assert "It needs more consent by now" in root.refused("update_record", **arguments, confirm=confirm)
    assert notes_of() == "note 0"


def test_a_large_change_in_small_steps_is_noticed(
    flights: Any, declared: Declared, bob: User, root: Writer, users: Users
) -> None:
    """A hundred miles are added again and again; another credential has steps of its own."""

    def is_much(considered: Any) -> bool:
        more = (considered.after["distance"] or 0) - (considered.before["distance"] or 0)
        return more > 500 or considered.recent(1) >= 3

    declared.model(Flight, consent={"update": Approval(when=is_much)})

    def lengthen(writer: Writer) -> str:
        distance = Flight.objects.get(pk=1).distance + 100
        told = writer.confirmed("update_record", model=FLIGHT, id="1", values={"distance": distance})
        return str(told["status"])

    mine, other = [lengthen(root) for _ in range(4)], lengthen(Writer(users.ops))
    Change.objects.filter(state="applied").update(decided_at=timezone.now() - timedelta(hours=2))

    assert (mine, other) == ([*["applied"] * 3, "pending"], "applied")
    assert lengthen(root) == "applied"


def test_lowering_a_value_first_does_not_hide_how_far_it_is_raised(
    flights: Any, declared: Declared, bob: User, root: Writer
) -> None:
    """The rule names a limit, and each change is held against it by itself, as it is written."""
    declared.model(Flight, consent={"update": Approval(when=lambda one: (one.after["distance"] or 0) > 2_000)})
    statuses = [
        root.confirmed("update_record", model=FLIGHT, id="1", values={"distance": distance})["status"]
        for distance in (10, 1_999, 2_001)
    ]
    many = root.confirmed(
        "update_records", model=FLIGHT, each=[{"id": "4", "distance": 1}, {"id": "7", "distance": 3_000}]
    )

    assert [*statuses, many["status"]] == ["applied", "applied", "pending", "pending"]


def test_a_rule_says_for_how_long_its_changes_wait(flights: Any, declared: Declared, bob: User, ops: Writer) -> None:
    declared.model(Flight, consent={"update": Approval(expires=timedelta(hours=5))})

    change = Change.objects.get(pk=propose(ops))

    assert change.expires_at - change.created_at == timedelta(hours=5)


def test_a_change_of_rights_needs_others_among_many_rows_and_in_an_undo(
    users: Users, declared: Declared, root: Writer
) -> None:
    declared.admin(User, type("A", (ModelAdmin,), {"fields": ["first_name", "is_staff"]}))
    declared.model(User, writable={"update"}, write_fields=["first_name", "is_staff"], consent={"update": "preview"})
    chief = staff("chief", "mcp_django.approve_change", "auth.view_user", "auth.change_user")
    keys = [str(one.pk) for one in (users.viewer, users.ops)]

    def rename(first_name: str) -> str:
        told = root.confirmed("update_records", model="auth.user", ids=keys, values={"first_name": first_name})
        return str(told["status"])

    many = root.confirmed("update_records", model="auth.user", ids=keys, values={"is_staff": False})
    assert (rename("Al"), many["status"]) == ("applied", "pending")
    assert approve(chief, many["change"]) == ["The change was made."]
    assert not User.objects.filter(pk__in=keys, is_staff=True).exists()
    assert root.confirmed("undo_change", change=many["change"])["status"] == "pending"


@pytest.mark.every_database
def test_two_people_are_needed_and_each_counts_once(flights: Any, declared: Declared, bob: User, ops: Writer) -> None:
    eve = staff("eve")
    declared.model(Flight, consent={"update": Approval(count=2)})
    key = propose(ops)

    told = [approve(bob, key), approve(bob, key)]
    assert told == [["Your approval was recorded. 2 people must approve · 1 has agreed."]] * 2
    assert notes_of() == "note 0" and ops.ask("get_change", change=key)["needs"]["given"] == 1

    assert approve(eve, key) == ["The change was made."]
    assert notes_of() == "fog"


@pytest.mark.parametrize("by", ["flights.delete_flight", "group:captains", "function"])
def test_a_rule_names_who_may_approve(flights: Any, declared: Declared, bob: User, ops: Writer, by: Any) -> None:
    captain = staff("captain", *APPROVER, "flights.delete_flight")
    captain.groups.add(Group.objects.create(name="captains"))
    named = (lambda user, change: user.username == "captain") if by == "function" else by
    declared.model(Flight, consent={"update": Approval(by=named)})
    key = propose(ops)

    page = text_of(Browser(bob).page(key))
    refused = said(Browser(bob).decide(key, "approve", digest=digest_for(captain, key)))

    assert "Its rule names other people to approve it" in page and 'name="_approve"' not in page
    assert refused[0].startswith("Its rule names other people") and state_of(key) == "waiting"
    assert approve(captain, key) == ["The change was made."]


def test_where_nobody_could_approve_it_is_refused_at_once(approved: None, ops: Writer, users: Users) -> None:
    User.objects.filter(is_superuser=True).update(is_active=False)

    refusal = ops.refused(
        "update_record", model=FLIGHT, id="1", values={"notes": "fog"},
        confirm=ops.ask("update_record", model=FLIGHT, id="1", values={"notes": "fog"})["confirm"],
    )  # fmt: skip

    assert "nobody can: it takes" in refusal and not Change.objects.exists()


def refused_proposal(writer: Writer, **values: str) -> str:
    arguments: Any = {"model": FLIGHT, "id": "1", "values": values}
    return writer.refused("update_record", **arguments, confirm=writer.ask("update_record", **arguments)["confirm"])


def test_where_too_few_people_could_approve_it_is_refused_too(
    flights: Any, declared: Declared, bob: User, ops: Writer, users: Users
) -> None:
    captain = staff("captain")
    captain.groups.add(Group.objects.create(name="captains"))
    declared.model(Flight, consent={"update": Approval(by="group:captains", count=2)})

    told = refused_proposal(ops, notes="fog")

    assert "only 1 of the 2 people that it takes can" in told and "the group captains" in told
    bob.groups.add(Group.objects.get(name="captains"))
    assert propose(ops)


def test_people_of_a_group_are_found_among_any_number_of_others(
    flights: Any, declared: Declared, ops: Writer, users: Users
) -> None:
    crowd = [User(username=f"boss {number}", is_staff=True, is_superuser=True) for number in range(201)]
    User.objects.bulk_create(crowd)
    captain = staff("captain")
    captain.groups.add(Group.objects.create(name="captains"))
    declared.model(Flight, consent={"update": Approval(by="group:captains")})

    assert approve(captain, propose(ops)) == ["The change was made."]


def test_a_permission_that_does_not_exist_is_nobodys(
    flights: Any, declared: Declared, ops: Writer, users: Users
) -> None:
    consent: Any = {"update": Approval(by="flights.aprove_flight")}
    declared.model(Flight, consent=consent)

    assert "nobody can" in refused_proposal(ops, notes="fog")


@pytest.mark.parametrize("decided", ["update_record", "update_records"])
def test_what_the_tool_for_one_record_asks_that_for_many_asks_too(
    flights: Any, bob: User, ops: Writer, decided: str
) -> None:
    Tool.objects.filter(name=decided).update(asks="approve")

    one = ops.confirmed("update_record", model=FLIGHT, id="1", values={"notes": "fog"})
    many = ops.confirmed("update_records", model=FLIGHT, ids=["1", "4"], values={"notes": "rain"})

    assert many["status"] == "pending" and (one["status"] == "pending") == (decided == "update_record")


def test_a_change_of_rights_always_needs_others(users: Users, declared: Declared, root: Writer) -> None:
    declared.admin(User, type("A", (ModelAdmin,), {"fields": ["first_name", "is_staff"]}))
    declared.model(User, writable={"update"}, write_fields=["first_name", "is_staff"], consent={"update": "preview"})
    staff("chief", "mcp_django.approve_change", "auth.view_user", "auth.change_user")
    target = str(users.viewer.pk)

    plain = root.confirmed("update_record", model="auth.user", id=target, values={"first_name": "Vic"})
    rights = root.confirmed("update_record", model="auth.user", id=target, values={"is_staff": False})

    assert (plain["status"], rights["status"]) == ("applied", "pending")


# What others have tried.


def test_a_function_that_a_rule_names_is_asked_though_the_rule_says_no_by_now(
    flights: Any, declared: Declared, bob: User, ops: Writer
) -> None:
    busy = [True]
    eve = staff("eve")

    def only_eve(user: Any, change: Change) -> bool:
        return bool(user.username == "eve")

    declared.model(Flight, consent={"update": Approval(when=lambda considered: busy[0], by=only_eve)})
    key = propose(ops)
    digest = digest_for(eve, key)
    busy[0] = False

    assert "Its rule names other people" in said(Browser(bob).decide(key, "approve", digest=digest))[0]
    assert approve(eve, key) == ["The change was made."]


def test_a_function_that_fails_or_is_declared_no_more_lets_nobody_approve(
    flights: Any, declared: Declared, bob: User, ops: Writer
) -> None:
    def fails(user: Any, change: Change) -> bool:
        if user.username == "bob" and change.pk and Change.objects.filter(pk=change.pk).exists():
            raise RuntimeError("not today")
        return True

    consent: Any = {"update": Approval(by=fails)}
    declared.model(Flight, consent=consent)
    key = propose(ops)

    assert "Its rule names other people" in text_of(Browser(bob).page(key))
    consent["update"] = "approve"
    assert "Its rule names other people" in text_of(Browser(bob).page(key))


def test_a_right_that_a_hook_gives_by_the_row_is_asked_with_the_row(
    bob: User, root: Writer, flights: Any, declared: Declared
) -> None:
    class ByRow(ModelAdmin):  # type: ignore[type-arg]
        fields = ["notes"]

        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or request.user.username != "bob" or obj.pk == 4

    declared.admin(Flight, ByRow)
    declared.model(Flight, consent={"update": "approve"})
    staff("eve")
    keys = [propose(root, key=key) for key in ("1", "4")]

    assert "You may not do this yourself" in text_of(Browser(bob).page(keys[0]))
    assert approve(bob, keys[1]) == ["The change was made."]


class Narrowed(ModelAdmin):  # type: ignore[type-arg]
    """Bob does not see the first disruption's flight, and so not all flights."""

    def get_queryset(self, request: Any) -> Any:
        rows = super().get_queryset(request)
        return rows.exclude(pk=1) if request.user.username == "bob" else rows


class Disruptions(TabularInline):  # type: ignore[type-arg]
    model = Disruption
    extra = 0


def test_new_rows_are_hidden_from_people_who_see_some_rows_only(
    bob: User, root: Writer, flights: Any, declared: Declared
) -> None:
    declared.admin(Flight, type("A", (Narrowed,), {"fields": ["notes"], "inlines": [Disruptions]}))
    declared.admin(Disruption, type("B", (Narrowed,), {}))
    declared.model(Flight, consent={"update": "approve"})
    declared.model(Disruption, consent={"create": "approve"})
    for codename in ("add_disruption", "view_disruption"):
        bob.user_permissions.add(Permission.objects.get(codename=codename))
    staff("eve", *APPROVER, "flights.add_disruption", "flights.view_disruption")
    row = {"kind": "weather", "note": "unseen text"}
    arguments: dict[str, Any] = {"model": FLIGHT, "id": "1", "values": {"notes": "fog"}}
    inline = root.confirmed("update_record", **arguments, rows={"disruptions": [row]})["change"]
    alone = root.confirmed("create_record", model="flights.disruption", values={"flight": "1", **row})["change"]

    for key in (inline, alone):
        page = text_of(Browser(bob).page(key))
        assert "unseen text" not in page and "hidden from you" in page and 'name="_approve"' not in page


def test_rows_that_go_with_others_need_what_their_own_deletion_needs(
    bob: User, root: Writer, flights: Any, declared: Declared
) -> None:
    declared.model(Flight, consent={"delete": "preview"})
    declared.model(Disruption, consent={"delete": "approve"})
    Disruption.objects.create(flight_id=1, kind="weather")
    chief = staff("chief", *APPROVER, "flights.delete_flight", "flights.delete_disruption", "flights.view_disruption")

    alone = root.confirmed("delete_record", model=FLIGHT, ids=["4"])
    key = root.confirmed("delete_record", model=FLIGHT, ids=["1"])["change"]

    assert (alone["status"], state_of(key)) == ("applied", "waiting")
    assert approve(chief, key) == ["The change was made."]


def test_a_credential_that_sees_less_needs_no_less(bob: User, root: Writer, flights: Any, declared: Declared) -> None:
    """It may write flights alone, and their disruptions go with them."""
    declared.model(Flight, consent={"delete": "preview"})
    declared.model(Disruption, consent={"delete": "approve"})
    Disruption.objects.create(flight_id=1, kind="weather")
    narrow = Writer(User.objects.get(username="admin"), "model:flights.flight:read", "model:flights.flight:write")
    arguments: dict[str, Any] = {"model": FLIGHT, "ids": ["1"]}

    told = narrow.refused("delete_record", **arguments, confirm=narrow.ask("delete_record", **arguments)["confirm"])

    assert "more goes with it than you may see" in told and Flight.objects.filter(pk=1).exists()


def test_who_may_not_delete_what_goes_with_a_row_does_not_approve_it(
    root: Writer, flights: Any, declared: Declared
) -> None:
    declared.model(Flight, consent={"delete": "approve"})
    Disruption.objects.create(flight_id=1, kind="weather")
    may = (*APPROVER, "flights.delete_flight", "flights.view_disruption")
    half, whole = staff("half", *may), staff("whole", *may, "flights.delete_disruption")
    key = root.confirmed("delete_record", model=FLIGHT, ids=["1"])["change"]

    refused = text_of(Browser(half).page(key))

    assert "You may not do this yourself" in refused and 'name="_approve"' not in refused
    assert approve(whole, key) == ["The change was made."]


def test_what_nobody_could_see_whole_is_refused_at_once(
    bob: User, ops: Writer, flights: Any, declared: Declared
) -> None:
    declared.admin(Disruption, type("B", (ModelAdmin,), {"has_view_permission": lambda *args: False}))
    declared.model(Flight, consent={"delete": "approve"})
    Disruption.objects.create(flight_id=1, kind="weather")
    users_agent = Writer(staff("agent", *APPROVER[1:], "flights.delete_flight"))
    arguments: dict[str, Any] = {"model": FLIGHT, "ids": ["1"]}

    told = users_agent.told("delete_record", **arguments)
    if "confirm" in told:
        confirm = users_agent.ask("delete_record", **arguments)["confirm"]
        told = users_agent.told("delete_record", **arguments, confirm=confirm)

    assert "more goes with it than you may see" in told or "You may not delete all of these" in told
    assert not Change.objects.exists()


@pytest.mark.every_database
def test_a_call_after_a_crash_keeps_the_change_and_its_votes(key: str, bob: User, mute: Peer, users: Users) -> None:
    """The agent repeats its call with the same token, when a vote has ceased to count."""
    writer = Writer(users.ops)
    arguments: dict[str, Any] = {"model": FLIGHT, "id": "4", "values": {"notes": "fog"}}
    confirm = writer.ask("update_record", **arguments)["confirm"]
    waits = str(writer.ask("update_record", **arguments, confirm=confirm)["change"])
    approvals.vote(Change.objects.get(pk=waits), bob, Decision.Verdict.APPROVE, digest_for(bob, waits), "")
    Change.objects.filter(pk=waits).update(state="writing", run="gone", lease_until=timezone.now())
    bob.user_permissions.clear()

    again = writer.ask("update_record", **arguments, confirm=confirm)

    assert (again["status"], state_of(waits), Decision.objects.count()) == ("pending", "waiting", 1)
    assert Flight.objects.get(pk=4).notes == "note 3"


def test_a_caller_without_a_user_proposes_nothing_that_others_must_approve(users: Users) -> None:
    exchange: Any = SimpleNamespace(principal=Principal(AnonymousUser(), frozenset()), usage=SimpleNamespace(values={}))

    assert approvals.persons_of(exchange) == {"keys": [], "emails": []}
    with pytest.raises(ToolError, match="a caller without a user cannot propose it"):
        approvals.check_candidates(exchange, Change(), exchange)
