"""Changes that other people must approve: never anybody who stands behind them, and for exactly what a voter saw."""

from __future__ import annotations

import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin import AdminSite, ModelAdmin, TabularInline
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.core.management import call_command
from django.test import override_settings
from django.urls import reverse
from django.utils import timezone
from pydantic_core import from_json

from demo_project.flights.models import Disruption, Flight
from mcp_django import Approval
from mcp_django.bridge.changes import approvals
from mcp_django.bridge.declared.consent import Level, Needs, needs_of
from mcp_django.exceptions import ToolError
from mcp_django.exchange.principals import Principal
from mcp_django.models import AccessToken, Change, Decision, Tool
from tests.bridge.writes.clicking import Browser, approve, proposed, said, state_of
from tests.bridge.writes.conftest import ALL_SCOPES, Writer
from tests.support.asking import DirectPeer
from tests.support.data import Users, make_staff, token_of
from tests.support.declared import Declared
from tests.support.peers import Peer, Peers

pytestmark = pytest.mark.usefixtures("transactional_db")

FLIGHT = "flights.flight"
APPROVER = ("mcp_django.approve_change", "flights.view_flight", "flights.change_flight", "flights.view_airport",
            "flights.view_airline", "flights.view_plane")  # fmt: skip
NOT_YOU = "You stand behind this change: your agent, your token or your account proposes it."
LONG_AGO = timezone.now() - timedelta(days=30)


def staff(name: str, *permissions: str, **more: Any) -> User:
    """A member of staff who may approve changes of flights, whose account is old."""
    made = make_staff(name, *(permissions or APPROVER))
    User.objects.filter(pk=made.pk).update(**{"date_joined": LONG_AGO, **more})
    return User.objects.get(pk=made.pk)


@pytest.fixture
def bob(users: Users) -> User:
    return staff("bob")


@pytest.fixture
def approved(flights: list[Flight], declared: Declared) -> None:
    declared.model(Flight, consent={"update": "approve"})


def propose(writer: Writer, notes: str = "fog", key: str = "1", **values: Any) -> str:
    """The number of a change that waits for other people."""
    found = writer.confirmed("update_record", model=FLIGHT, id=key, values={"notes": notes, **values})
    assert found["status"] == "pending", found
    return str(found["change"])


def digest_for(who: Any, key: str) -> str:
    """What the change is shown as, to whoever may approve it."""
    return Browser(who).digest(key)


def text_of(response: Any) -> str:
    return str(response.content.decode())


def notes_of(key: int = 1) -> str:
    return Flight.objects.get(pk=key).notes


@pytest.fixture
def key(approved: None, bob: User, ops: Writer) -> str:
    """A change of ops' agent that waits for somebody else."""
    return propose(ops)


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


def test_a_change_of_rights_always_needs_others(users: Users, declared: Declared, root: Writer) -> None:
    declared.admin(User, type("A", (ModelAdmin,), {"fields": ["first_name", "is_staff"]}))
    declared.model(User, writable={"update"}, write_fields=["first_name", "is_staff"], consent={"update": "preview"})
    staff("chief", "mcp_django.approve_change", "auth.view_user", "auth.change_user")
    target = str(users.viewer.pk)

    plain = root.confirmed("update_record", model="auth.user", id=target, values={"first_name": "Vic"})
    rights = root.confirmed("update_record", model="auth.user", id=target, values={"is_staff": False})

    assert (plain["status"], rights["status"]) == ("applied", "pending")


# Never (the numbers are those of the list).


def test_01_the_agents_user_by_a_click(approved: None, bob: User, root: Writer, users: Users) -> None:
    key = propose(root)
    page = text_of(Browser(users.admin).page(key))

    statuses = [Browser(users.admin).decide(key, way, digest=digest_for(bob, key)).status_code
                for way in ("apply", "approve")]  # fmt: skip

    assert statuses == [400, 400] and state_of(key) == "waiting"
    assert 'name="_apply"' not in page and 'name="_approve"' not in page and "Withdraw" in page


def test_02_03_another_token_and_another_client_of_the_user(
    approved: None, bob: User, ops: Writer, users: Users
) -> None:
    """There is no tool that decides, whatever token a client has."""
    propose(ops)

    assert not [name for name in DirectPeer(users.ops, *ALL_SCOPES).tools() if "approve" in name or "decide" in name]


def test_04_who_made_the_token(approved: None, bob: User, mute: Peer, peers: Peers, users: Users) -> None:
    eve = staff("eve")
    token = AccessToken.objects.create_token(user=users.ops, scopes=ALL_SCOPES, made_by=bob)[1]
    key = proposed(peers(token), "update_record", model=FLIGHT, id="1", values={"notes": "fog"})["change"]

    assert NOT_YOU in text_of(Browser(bob).page(key))
    assert said(Browser(bob).decide(key, "approve", digest=digest_for(eve, key))) == [NOT_YOU]
    assert approve(eve, key) == ["The change was made."]


def test_04_who_is_recorded_to_have_made_the_token_while_its_change_waits(
    approved: None, bob: User, mute: Peer, peers: Peers, users: Users
) -> None:
    staff("eve")
    made, token = AccessToken.objects.create_token(user=users.ops, scopes=ALL_SCOPES)
    key = proposed(peers(token), "update_record", model=FLIGHT, id="1", values={"notes": "fog"})["change"]
    digest = digest_for(bob, key)

    call_command("mcp_token", token=made.pk, made_by="bob")

    assert said(Browser(bob).decide(key, "approve", digest=digest)) == [NOT_YOU] and state_of(key) == "waiting"


@pytest.mark.every_database
def test_07_10_another_account_with_the_address_of_now_or_of_then(
    approved: None, bob: User, users: Users, writer: type[Writer]
) -> None:
    now, then = staff("now", email="Ops@New.example"), staff("then", email="OPS@old.example ")
    User.objects.filter(pk=users.ops.pk).update(email="ops@old.example")
    key = propose(writer(User.objects.get(pk=users.ops.pk)))
    User.objects.filter(pk=users.ops.pk).update(email="ops@new.example")

    digest = digest_for(bob, key)
    assert [said(Browser(one).decide(key, "approve", digest=digest)) for one in (now, then)] == [[NOT_YOU]] * 2
    assert approve(bob, key) == ["The change was made."]


def test_08_an_account_that_is_younger_than_the_change(key: str, bob: User) -> None:
    young = staff("young", date_joined=timezone.now() + timedelta(minutes=1))

    told = said(Browser(young).decide(key, "approve", digest=digest_for(bob, key)))

    assert told == ["Your account is younger than this change."] and state_of(key) == "waiting"


@pytest.mark.parametrize("way", ["hijack_history", "_real"])
def test_09_an_impersonated_login(key: str, bob: User, users: Users, way: str) -> None:
    digest = digest_for(bob, key)
    behind: Any = [str(users.admin.pk)] if way == "hijack_history" else users.admin.pk
    with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "tests.bridge.writes.clicking.impersonating"]):
        browser = Browser(bob)
        session = browser.client.session
        session[way] = behind
        session.save()
        told = said(browser.decide(key, "approve", digest=digest))

    assert told == ["You act as another user. Log in as yourself to decide about changes."]
    assert state_of(key) == "waiting"


def test_11_who_may_not_see_a_field_or_a_row(approved: None, bob: User, root: Writer, declared: Declared) -> None:
    no_airlines = staff("narrow", *(one for one in APPROVER if "airline" not in one))
    key = propose(root, notes="fog", carrier="AA")
    page = text_of(Browser(no_airlines).page(key))

    told = said(Browser(no_airlines).decide(key, "approve", digest=digest_for(bob, key)))

    assert "1 value is hidden from you" in page and "American" not in page and "fog" in page
    assert told == ["1 value is hidden from you, so you cannot approve the change."] and state_of(key) == "waiting"


def test_11_a_row_that_the_viewer_may_not_see(bob: User, root: Writer, flights: Any, declared: Declared) -> None:
    class Own(ModelAdmin):  # type: ignore[type-arg]
        fields = ["notes"]

        def get_queryset(self, request: Any) -> Any:
            rows = super().get_queryset(request)
            return rows.exclude(pk=1) if request.user.username == "bob" else rows

    declared.admin(Flight, Own)
    declared.model(Flight, consent={"update": "approve"})
    eve = staff("eve")
    key = propose(root)

    page = text_of(Browser(bob).page(key))

    assert "fog" not in page and "note 0" not in page and "1 value is hidden from you" in page
    assert approve(eve, key) == ["The change was made."]


def test_12_who_lost_the_right_between_page_and_vote(key: str, bob: User) -> None:
    digest = digest_for(bob, key)
    bob.user_permissions.remove(Permission.objects.get(codename="change_flight"))

    told = said(Browser(bob).decide(key, "approve", digest=digest))

    assert told == ["You may not do this yourself, so you may not approve it either."]
    assert state_of(key) == "waiting" and not Decision.objects.exists()


@pytest.mark.every_database
def test_13_who_lost_the_right_between_vote_and_run(flights: Any, declared: Declared, bob: User, ops: Writer) -> None:
    eve = staff("eve")
    declared.model(Flight, consent={"update": Approval(count=2)})
    key = propose(ops)
    approve(bob, key)
    bob.user_permissions.remove(Permission.objects.get(codename="approve_change"))

    assert approve(eve, key) == ["Other people must approve this. Not enough of them have."]
    assert state_of(key) == "waiting" and notes_of() == "note 0"

    assert approve(staff("zoe"), key) == ["The change was made."]


def test_14_for_another_digest(key: str, bob: User, ops: Writer) -> None:
    other = propose(ops, key="4")
    digests = [digest_for(bob, other), "", "0" * 64]

    told = [said(Browser(bob).decide(key, "approve", digest=one)) for one in digests]
    assert told == [["The records have changed since you opened this page. Look at the change again."]] * 3

    digest = digest_for(bob, key)
    Flight.objects.filter(pk=1).update(notes="since then")
    assert said(Browser(bob).decide(key, "approve", digest=digest)) == told[0]
    assert state_of(key) == "waiting" and not Decision.objects.exists()


@pytest.mark.every_database
def test_14_a_vote_for_what_was_shown_before_does_not_count(
    flights: Any, declared: Declared, bob: User, ops: Writer
) -> None:
    eve = staff("eve")
    declared.model(Flight, consent={"update": Approval(count=2)})
    key = propose(ops)
    approve(bob, key)
    Flight.objects.filter(pk=1).update(notes="since then")

    told = approve(eve, key)

    assert told[0].startswith("Your approval was recorded.") and notes_of() == "since then"
    assert approve(bob, key) == ["The change was made."]


@pytest.mark.every_database
@pytest.mark.parametrize("end", ["rejected", "withdrawn", "expired", "applied"])
def test_15_16_17_after_its_end(key: str, bob: User, users: Users, end: str) -> None:
    eve = staff("eve")
    digest = digest_for(bob, key)
    match end:
        case "rejected":
            assert said(Browser(eve).decide(key, "reject", note="No.")) == [
                "The change was rejected. Nothing was changed."
            ]
        case "withdrawn":
            Browser(users.ops).reject(key)
        case "expired":
            Change.objects.filter(pk=key).update(expires_at=timezone.now())
        case _:
            approve(eve, key)
    before = notes_of()

    assert said(Browser(bob).decide(key, "approve", digest=digest)) == ["This change does not wait any more."]
    assert notes_of() == before == ("fog" if end == "applied" else "note 0")
    assert state_of(key) == {"expired": "waiting"}.get(end, end)


@pytest.mark.parametrize("how", ["inactive", "off"])
def test_18_while_the_agents_user_is_inactive_or_the_tool_is_off(key: str, bob: User, users: Users, how: str) -> None:
    digest = digest_for(bob, key)
    if how == "inactive":
        User.objects.filter(pk=users.ops.pk).update(is_active=False)
    else:
        Tool.objects.filter(name="update_record").update(enabled=False)

    told = said(Browser(bob).decide(key, "approve", digest=digest))

    assert "may no longer do this" in told[0] and state_of(key) == "waiting" and not Decision.objects.exists()


# Who is shown what.


def test_people_without_the_permission_find_nothing(key: str, users: Users) -> None:
    clerk = Browser(staff("clerk", "flights.view_flight", "flights.change_flight"))

    assert clerk.page(key).status_code == 302
    assert [clerk.decide(key, way).status_code for way in ("approve", "reject", "apply")] == [404] * 3


def test_whoever_views_all_changes_and_may_approve_none_decides_nothing(key: str) -> None:
    auditor = Browser(make_staff("auditor", "mcp_django.view_change"))

    assert "fog" not in text_of(auditor.page(key))
    assert [auditor.decide(key, way).status_code for way in ("approve", "reject", "apply")] == [403] * 3


def test_what_others_approve_has_no_effect_on_changes_that_wait_for_their_user(
    flights: Any, declared: Declared, bob: User, root: Writer, users: Users
) -> None:
    declared.model(Flight, consent={"update": "ask"})
    key = propose(root)

    assert Browser(bob).page(key).status_code == 302
    assert [Browser(bob).decide(key, way).status_code for way in ("approve", "reject")] == [404] * 2
    assert Browser(users.admin).apply(key) == ["The change was made."]


def test_a_change_that_needs_others_by_now_waits_for_them(
    flights: Any, declared: Declared, bob: User, root: Writer, users: Users
) -> None:
    declared.model(Flight, consent=(consent := {"update": "ask"}))
    key = propose(root)
    digest = Browser(users.admin).digest(key)
    consent["update"] = "approve"

    told = said(Browser(users.admin).decide(key, "apply", digest=digest))

    assert told == ["Other people must approve this. Not enough of them have."] and notes_of() == "note 0"
    assert approve(bob, key) == ["The change was made."]


def test_the_list_says_what_each_change_waits_for(key: str, bob: User, users: Users) -> None:
    for who in (bob, users.ops):
        assert "waits: 1 person must approve · 0 have agreed" in text_of(
            Browser(who).client.get("/admin/mcp_django/change/")
        )


def test_why_a_change_cannot_be_made_is_told_to_its_user_alone(key: str, bob: User, users: Users) -> None:
    Flight.objects.filter(pk=1).update(status="odd value")

    page, own = text_of(Browser(bob).page(key)), text_of(Browser(users.ops).page(key))

    assert "odd value" in own and "odd value" not in page
    assert "The change cannot be made as the records are now." in page and 'name="_approve"' not in page


# The list, for everybody who decides.

LIST = "/admin/mcp_django/change/"


@pytest.mark.every_database
def test_each_page_of_the_admin_says_how_many_changes_wait_for_its_viewer(
    approved: None, bob: User, ops: Writer, users: Users
) -> None:
    keys = [propose(ops, key=key) for key in ("1", "4")]
    eve = staff("eve")
    approve(bob, keys[0])

    shown = {}
    for who in (bob, eve, users.ops, users.viewer):
        client = Browser(who).client
        pages = [text_of(client.get(url)) for url in ("/admin/", "/admin/flights/flight/")]
        shown[who.username] = ["Changes by agents (1)" in page for page in pages]

    assert shown == {"bob": [True] * 2, "eve": [True] * 2, "ops": [False] * 2, "viewer": [False] * 2}
    assert "Changes by agents · 1 waits for you" in text_of(Browser(bob).client.get(LIST))


def several(who: Any, action: str, keys: list[str], **posted: str) -> Any:
    """The response to an action of the list, for these changes."""
    return Browser(who).client.post(LIST, {"action": action, "_selected_action": keys, **posted})


def digests_in(response: Any) -> dict[str, str]:
    """The names and values of the digests that a page brings back."""
    return dict(re.findall(r'name="(digest-\w+)" value="(\w+)"', text_of(response)))


@pytest.mark.every_database
def test_several_are_approved_by_one_click_each_by_itself(approved: None, bob: User, ops: Writer) -> None:
    keys = [propose(ops, key=key) for key in ("1", "4", "7")]
    page = several(bob, "approve_several", keys)
    digests = digests_in(page)
    assert len(digests) == 3 and text_of(page).count("fog") == 3
    Flight.objects.filter(pk=4).update(notes="since then")

    response = several(bob, "approve_several", keys, _decided="1", note="Fine.", **digests)

    assert [str(one) for one in response.wsgi_request._messages._queued_messages] == [
        "The change was made.", "The records have changed since you opened this page. Look at the change again.",
        "The change was made.",
    ]  # fmt: skip
    assert [state_of(key) for key in keys] == ["applied", "waiting", "applied"]
    assert [one.comment for one in Decision.objects.all()] == ["Fine.", "Fine."]


def test_several_hold_what_the_person_may_decide_alone(
    flights: Any, declared: Declared, bob: User, ops: Writer, users: Users
) -> None:
    consent: Any = {"update": "approve"}
    declared.model(Flight, consent=consent)
    others = propose(ops)
    consent["update"] = "ask"
    asked = propose(ops, key="4")
    digests = {f"digest-{key}": Browser(users.ops).digest(key) for key in (others, asked)}

    several(users.ops, "approve_several", [others, asked], _decided="1", **digests)
    assert [state_of(key) for key in (others, asked)] == ["waiting", "applied"]

    several(bob, "reject_several", [others, asked], _decided="1", note="No.")
    assert [state_of(key) for key in (others, asked)] == ["rejected", "applied"]
    assert ops.ask("get_change", change=others)["notes"] == ["No."]


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
    chief = staff("chief", *APPROVER, "flights.delete_flight", "flights.view_disruption")

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


def test_an_admin_site_whose_list_of_apps_knows_no_label(key: str, bob: User, monkeypatch: pytest.MonkeyPatch) -> None:
    from functools import partial

    from django.contrib import admin
    from django.test import Client

    from mcp_django.console.admin import deciding

    def listed(request: Any) -> Any:
        return [
            {"name": "More", "app_label": "more", "app_url": "/more/"},
            *AdminSite.get_app_list(admin.site, request),
        ]

    monkeypatch.setattr(admin.site, "get_app_list", partial(deciding.with_number, listed))

    assert "Changes by agents (1)" in text_of(Browser(bob).client.get("/admin/flights/flight/"))
    assert Client().get("/admin/login/").status_code == 200


@pytest.mark.every_database
@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_two_people_who_approve_at_once_make_it_once(
    flights: Any, declared: Declared, bob: User, ops: Writer, count: int
) -> None:
    from threading import Barrier, Thread

    from django.db import connections

    eve = staff("eve")
    declared.model(Flight, consent={"update": Approval(count=count)})
    for number in range(10):
        key = propose(ops, notes=f"fog {number}")
        browsers = [Browser(one) for one in (bob, eve)]
        digests = [one.digest(key) for one in browsers]
        barrier = Barrier(2)

        def click(browser: Browser, digest: str, key: str = key, barrier: Barrier = barrier) -> None:
            barrier.wait()
            browser.decide(key, "approve", digest=digest)
            connections.close_all()

        threads = [Thread(target=click, args=one) for one in zip(browsers, digests, strict=True)]
        [one.start() for one in threads]
        [one.join() for one in threads]

        assert state_of(key) == "applied" and notes_of() == f"fog {number}"
        assert LogEntry.objects.filter(change_message__contains=key).count() == 1


def test_a_caller_without_a_user_proposes_nothing_that_others_must_approve(users: Users) -> None:
    exchange: Any = SimpleNamespace(principal=Principal(AnonymousUser(), frozenset()), usage=SimpleNamespace(values={}))

    assert approvals.persons_of(exchange) == {"keys": [], "emails": []}
    with pytest.raises(ToolError, match="a caller without a user cannot propose it"):
        approvals.check_candidates(exchange, Change(), exchange)


def passing(get_response: Any) -> Any:
    """Middleware of a project, which nobody knows to choose no tenant."""
    return get_response


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("header", ["HTTP_HOST", "HTTP_X_FORWARDED_HOST"])
def test_where_something_may_choose_a_tenant_people_approve_at_the_agents_host(
    approved: None, bob: User, mute: Peer, peers: Peers, users: Users, header: str, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    agent = peers(token_of(users.ops, *ALL_SCOPES))
    key = proposed(agent, "update_record", model=FLIGHT, id="1", values={"notes": "fog"})["change"]
    host = from_json(Change.objects.get(pk=key).origin)["meta"]["HTTP_HOST"]
    url = reverse("admin:mcp_django_change_change", args=[key])

    def page(**meta: str) -> str:
        return text_of(Browser(bob).client.get(url, **{"HTTP_HOST": host, **meta}))

    assert 'name="_approve"' in page() and 'name="_approve"' in page(**{header: "b.example"})
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.passing"]
    assert 'name="_approve"' in page()
    assert "Open this page at the host at which the agent works." in page(**{header: "b.example"})
