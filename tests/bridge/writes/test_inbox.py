"""The list of changes: what agents ask, by the policy of whoever looks, whose turn it is, and what is alike."""

from __future__ import annotations

import re
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import override_settings
from django.urls import reverse

from demo_project.flights.models import Flight
from mcp_django.bridge.changes import summaries
from mcp_django.bridge.changes.summaries import Line
from mcp_django.console.changes import effect_parts
from mcp_django.models import Change
from tests.bridge.writes.approving import APPROVER, FLIGHT, notes_of, propose, staff, text_of
from tests.bridge.writes.clicking import Browser, approve, said, state_of
from tests.bridge.writes.conftest import Writer
from tests.bridge.writes.test_approval_pages import LIST, digests_in, several
from tests.support.data import Users
from tests.support.declared import Declared

pytestmark = [pytest.mark.usefixtures("transactional_db")]

_LINE = re.compile(r'<th class="field-what">.*?>(.*?)</a></th>')


@pytest.fixture(autouse=True)
def policy(flights: Any, declared: Declared) -> SimpleNamespace:
    """What is hidden from whom, by the name of the user. Flights are called by their number and carrier."""
    hidden = SimpleNamespace(fields={}, rows={})

    def get_queryset(self: Any, request: Any) -> Any:
        keys = hidden.rows.get(request.user.username)
        return Flight.objects.exclude(pk__in=keys) if keys else Flight.objects.all()

    def get_exclude(self: Any, request: Any) -> Any:
        return hidden.fields.get(request.user.username, [])

    declared.admin(Flight, type("Flights", (ModelAdmin,), {"list_display": ["number", "carrier"]}))
    consent = dict.fromkeys(("create", "update", "delete"), "approve")
    declared.model(Flight, consent=consent, get_queryset=get_queryset, get_exclude=get_exclude)
    return hidden


def lines(who: Any, query: str = "") -> list[str]:
    """The changes in the list, in words, the newest first."""
    browser = who if isinstance(who, Browser) else Browser(who)
    return [unescape(one) for one in _LINE.findall(text_of(browser.client.get(LIST + query)))]


def cut_in(page: str) -> str:
    """Which rows of a group the page has."""
    found = re.search(r"(\d+) to (\d+) of (\d+)", page)
    return found[0] if found is not None else ""


def bulk(writer: Writer, keys: list[str], **values: Any) -> str:
    found = writer.confirmed("update_records", model=FLIGHT, ids=keys, values=values)
    assert found["status"] == "pending", found
    return str(found["change"])


# In words.


@pytest.mark.every_database
def test_the_list_says_in_words_what_agents_ask(bob: User, root: Writer, users: Users) -> None:
    User.objects.filter(pk=bob.pk).update(is_superuser=True)
    propose(root, "fog")
    propose(root, key="2", notes="x" * 100, status="cancelled", departure_delay=7)
    bulk(root, ["1", "2", "3", "4"], status="cancelled")
    bulk(root, ["1", "2"], notes="same")
    root.confirmed("delete_record", model=FLIGHT, ids=["5", "6"])

    expected = [
        "Delete 2 flights (1004, UA (United), 1005, AA (American))",
        "Change 2 flights (1000, UA (United), 1001, AA (American)): notes",
        "Change 4 flights (1000, UA (United), 1001, AA (American), 1002, UA (United), …): status on time → cancelled",
        f"Flight 1001, AA (American): departure_delay -2 → 7, notes note 1 → {'x' * 59}…, 1 more",
        "Flight 1000, UA (United): notes note 0 → fog",
    ]
    assert lines(users.admin) == lines(bob) == expected


def test_nobody_reads_in_the_list_what_is_hidden_from_that_person(
    bob: User, ops: Writer, users: Users, policy: SimpleNamespace
) -> None:
    """By a hidden field, row or related row, without the right on the model, and as somebody who only views changes."""
    policy.fields["blind"] = ["notes"]
    propose(ops, "sk-hidden", carrier="AA")
    blind, clerk = staff("blind"), staff("clerk", "mcp_django.approve_change")
    auditor = staff("auditor", "mcp_django.view_change")
    lineless = staff("lineless", *(one for one in APPROVER if "airline" not in one))

    told = {who.username: lines(who) for who in (users.ops, bob, blind, clerk, auditor, lineless)}

    assert told == {
        "ops": ["Flight 1000, UA (United): carrier UA (United) → AA (American), notes note 0 → sk-hidden"],
        # Each of them names the same row; a foreign key would have to be asked for.
        "bob": ["Flight 1000, UA (United): carrier, notes note 0 → sk-hidden"],
        "blind": ["Flight 1000, UA (United): carrier, 1 more"],
        "clerk": ["change flights.flight 1"],
        "auditor": ["change flights.flight 1"],
        "lineless": ["Flight 1000: notes note 0 → sk-hidden, 1 more"],
    }


def test_rows_and_new_rows_that_an_approver_does_not_see_are_not_told_in_the_list(
    bob: User, root: Writer, policy: SimpleNamespace
) -> None:
    policy.rows["bob"] = [2, 3]
    key = propose(root, "sk-hidden", key="2")
    bulk(root, ["1", "2", "3", "4"], status="cancelled")
    new = Change.objects.get(pk=key)
    new.pk = new.confirmed_by = "new"
    new.keys, new.operation = "[]", "create"
    new.summary = summaries.kept([Line("create", FLIGHT, column="notes", after="sk-hidden")])
    new.save(force_insert=True)

    assert sorted(lines(bob)) == [
        # The values of a row that is hidden are not held against those of others.
        "Change 4 flights (1000, UA (United), …): status",
        "change flights.flight 2",
        "create flights.flight",
    ]


@pytest.mark.parametrize("way", ["impersonated", "other host"])
def test_an_approver_who_is_impersonated_or_at_another_host_reads_no_words(
    bob: User, ops: Writer, users: Users, way: str
) -> None:
    propose(ops, "sk-hidden")
    browser = Browser(bob)
    if way == "impersonated":
        session = browser.client.session
        session["hijack_history"] = [str(users.admin.pk)]
        session.save()
        found = lines(browser)
    else:
        chosen = "tests.bridge.writes.clicking.impersonating"
        from django.conf import settings

        with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, chosen], ALLOWED_HOSTS=["*"]):
            found = lines(Browser(bob, host="other.example"))

    # At another host nothing of it is found.
    assert found == (["change flights.flight 1"] if way == "impersonated" else [])


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ("", "change flights.flight 1"),
        (summaries.kept([Line("run", name="Refund", column="amount", after="9")]), "Refund: amount 9"),
        (summaries.kept([Line("other", name="odd")]), "change flights.flight 1"),
        (summaries.kept([Line("update", "gone.model", "1", "x", "a", "b", "c")]), "change flights.flight 1"),
    ],
)
def test_whatever_is_stored_of_a_change_is_a_line_of_the_list(bob: User, ops: Writer, stored: str, told: str) -> None:
    Change.objects.filter(pk=propose(ops)).update(summary=stored)

    assert lines(bob) == [told]


# Whose turn it is.


def test_the_filters_tell_whose_turn_it_is(bob: User, ops: Writer, root: Writer, users: Users) -> None:
    mine, other = propose(ops, "one"), propose(root, "two", key="2")
    Browser(bob).decide(other, "reject")

    def found(who: Any, show: str) -> set[str]:
        return set(re.findall(rf"{LIST}(\w+)/change/", text_of(Browser(who).client.get(f"{LIST}?show={show}"))))

    assert [found(bob, show) for show in ("mine", "agents", "decided", "odd")] == [
        {mine}, set(), {other}, {mine, other},
    ]  # fmt: skip
    assert [found(users.ops, show) for show in ("mine", "agents", "decided")] == [set(), {mine}, set()]


def test_equal_changes_of_one_agent_are_one_line_of_what_waits(bob: User, ops: Writer, root: Writer) -> None:
    same = [propose(ops, key=key, notes="", status="cancelled") for key in ("1", "4", "7")]
    Flight.objects.update(notes="")
    other = [propose(ops, "another", key="1"), propose(root, "", key="4", status="cancelled")]
    for key in same:
        summary = Change.objects.get(pk=key).summary
        Change.objects.filter(pk=key).update(summary=re.sub(r"note \d", "note", summary))

    page = text_of(Browser(bob).client.get(f"{LIST}?show=mine"))

    assert [key in page for key in (*same, *other)] == [True, False, False, True, True]
    assert "3 alike ▸" in page and f"?alike={same[0]}" in page
    alike = text_of(Browser(bob).client.get(f"{LIST}?alike={same[0]}"))
    assert [key in alike for key in (*same, *other)] == [True, True, True, False, False]
    assert lines(bob, f"?alike={other[1]}x") == []


def test_equal_values_that_are_hidden_make_no_changes_alike(bob: User, ops: Writer, policy: SimpleNamespace) -> None:
    policy.fields["bob"] = ["notes"]
    Flight.objects.update(notes="same")
    for key in ("1", "4"):
        propose(ops, "sk-hidden", key=key)

    assert "alike ▸" not in text_of(Browser(bob).client.get(f"{LIST}?show=mine"))


# All of one agent.


@pytest.mark.every_database
def test_all_that_waits_of_one_agent_is_rejected_after_one_question(bob: User, ops: Writer, root: Writer) -> None:
    keys, other = [propose(ops, key=key) for key in ("1", "4")], propose(root, key="2")
    browser, url = Browser(bob), reverse("admin:mcp_django_change_reject_all", args=[keys[0]])
    page = text_of(browser.client.get(url))
    late = propose(ops, key="7")
    listed = text_of(browser.client.get(LIST))
    assert [f"{one}/reject-all/" in listed for one in (*keys, other)] == [True, True, False]

    told = said(browser.client.post(url, {"change": re.findall(r'name="change" value="(\w+)"', page), "note": "No."}))

    assert [state_of(one) for one in (*keys, other, late)] == ["rejected", "rejected", "waiting", "waiting"]
    assert told == ["2 changes: The change was rejected. Nothing was changed."]
    assert ops.ask("get_change", change=keys[1])["notes"] == ["No."] and notes_of() == "note 0"


def test_rejecting_all_reaches_only_what_the_person_may_reject(
    bob: User, ops: Writer, root: Writer, users: Users
) -> None:
    """Not those of another agent whose numbers are sent along, nor by a GET, nor as somebody who decides nothing."""
    key, other = propose(ops), propose(root, key="2")
    url = reverse("admin:mcp_django_change_reject_all", args=[key])
    people = [staff("auditor", "mcp_django.view_change"), staff("nobody", "flights.view_flight"), users.admin]
    User.objects.filter(pk=users.admin.pk).update(is_superuser=False)
    Change.objects.filter(pk=key).update(persons={"keys": [str(users.ops.pk), str(bob.pk)], "emails": []})

    Browser(bob).client.get(url)
    statuses = [Browser(one).client.post(url, {"change": [key, other]}).status_code for one in (*people, bob)]

    assert statuses == [302, 404, 404, 302]
    assert [state_of(one) for one in (key, other)] == ["waiting", "waiting"]


def test_the_user_withdraws_all_of_an_own_agent(bob: User, ops: Writer, users: Users) -> None:
    keys = [propose(ops, key=key) for key in ("1", "4")]

    Browser(users.ops).client.post(reverse("admin:mcp_django_change_reject_all", args=[keys[0]]), {"change": keys})

    assert [state_of(one) for one in keys] == ["withdrawn", "withdrawn"]


# Whole.


def test_each_row_is_on_one_page_with_all_its_values_whatever_changes() -> None:
    """Groups of equal changes, of equal fields, deletions and new rows, whichever way they mix."""
    rows = [
        *(Line("update", FLIGHT, str(n), f"name {n}", "status", "open", "gone") for n in range(150)),
        *(Line("update", FLIGHT, str(n), f"name {n}", "notes", f"was {n}", f"is {n}") for n in range(200, 330)),
        *(Line("delete", FLIGHT, str(n), f"name {n}") for n in range(400, 470)),
        *(Line("create", FLIGHT, column="notes", after=f"new {n}", row=n) for n in range(60)),
        Line("deleted", FLIGHT, count=7),
    ]
    pages = [effect_parts.parts_of(rows, page) for page in range(1, 6)]

    told = [
        [*(f"{part.get('title')} {row}" for row in part.get("rows", ())),
         *(str([one["name"], one["cells"][0]["before"], one["cells"][0]["after"]]) for one in part.get("lines", ()))]
        for page in pages for part in page["groups"]
    ]  # fmt: skip
    every = [row for part in told for row in part]
    counts = [sum(len(part.get("rows", part.get("lines", ()))) for part in page["groups"]) for page in pages]
    assert counts == [100, 100, 100, 100, 10] and len(set(every)) == len(every) == 410
    assert "Change 150 flights 149, name 149" in every and "['329, name 329', 'was 329', 'is 329']" in every
    assert "['60', '', 'new 59']" in every and pages[4]["deleted"] == [(FLIGHT, 7)]
    assert pages[0]["groups"][0].get("cut") is None or pages[0]["groups"][0]["cut"]["of"] in (70, 150)
    assert [page["page"] for page in (effect_parts.parts_of(rows, -3), effect_parts.parts_of(rows, 99))] == [1, 5]


def test_a_change_of_many_rows_is_shown_in_pages_and_decided_by_all_of_them(
    bob: User, root: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effect_parts, "ROWS_OF_PAGE", 3)
    key = bulk(root, ["1", "2", "3", "4", "5"], notes="fog")
    browser = Browser(bob)
    url = reverse("admin:mcp_django_change_change", args=[key])
    queries = ("", "?rows=2", "?rows=1x", f"?rows={'9' * 5_000}")
    first, second, odd, _ = (text_of(browser.client.get(url + query)) for query in queries)

    assert "note 2" in first and "note 3" not in first and "note 3 → fog" in second and "note 2" not in second
    assert [cut_in(one) for one in (first, second, odd)] == ["1 to 3 of 5", "4 to 5 of 5", "1 to 3 of 5"]
    page = several(bob, "approve_several", [key])
    assert digests_in(page) == {} and "It is about 5 records" in text_of(page)
    # What is on another page than that which was opened counts too.
    digest = browser.digest(key)
    Flight.objects.filter(pk=5).update(notes="since then")
    told = said(browser.decide(key, "approve", digest=digest))
    assert told == ["The records have changed since you opened this page. Look at the change again."]
    assert approve(bob, key) == ["The change was made."]


# Afterwards.


@pytest.mark.parametrize("end", ["applied", "rejected"])
def test_a_decided_change_names_its_records_also_when_they_are_gone_and_no_values(
    bob: User, ops: Writer, users: Users, end: str
) -> None:
    key = propose(ops, "sk-hidden")
    approve(bob, key) if end == "applied" else Browser(bob).decide(key, "reject")
    Change.objects.filter(pk=key).update(result="")
    Flight.objects.filter(pk=1).delete()
    auditor, blind = staff("auditor", "mcp_django.view_change"), staff("blind", APPROVER[0], *APPROVER[3:])

    told = {who.username: (text_of(Browser(who).page(key)), lines(who)) for who in (users.ops, bob, auditor, blind)}

    name = "1000, UA (United)"
    # bob sees all rows, and reads of each what ops has read of this one.
    assert {who: name in page for who, (page, _) in told.items()} == {
        "ops": True, "bob": True, "auditor": False, "blind": False,
    }  # fmt: skip
    assert {who: found for who, (_, found) in told.items()} == {
        "ops": [f"Change flight ({name})"], "bob": [f"Change flight ({name})"],
        "auditor": ["change flights.flight 1"], "blind": ["change flights.flight 1"],
    }  # fmt: skip
    assert all("sk-hidden" not in page and "note 0" not in page for page, _ in told.values())


def test_a_name_that_tells_a_column_which_an_approver_may_not_read_is_not_kept_for_that_person(
    bob: User, ops: Writer, policy: SimpleNamespace
) -> None:
    key = propose(ops)
    Browser(bob).decide(key, "reject")
    Flight.objects.filter(pk=1).delete()
    assert "1000" in text_of(Browser(bob).page(key))
    policy.fields["bob"] = ["number"]

    assert lines(bob) == ["change flights.flight 1"] and "1000" not in text_of(Browser(bob).page(key))


# What waits for whom.


def test_what_somebody_may_not_make_or_has_approved_waits_for_others(ops: Writer) -> None:
    only, bob = staff("only", "mcp_django.approve_change"), staff("bob")
    staff("carla")
    key = propose(ops)
    needs = {**Change.objects.get(pk=key).needs, "count": 2}
    Change.objects.filter(pk=key).update(needs=needs)

    def counted(who: User) -> bool:
        page = text_of(Browser(who).client.get(LIST))
        return "1 waits for you" in page and "Changes by agents (1)" in unescape(page)

    assert [counted(one) for one in (only, bob)] == [False, True]
    # The list of apps leads nowhere where one is not let in.
    assert "/mcp_django/grant/" not in text_of(Browser(bob).client.get(LIST))
    approve(bob, key)
    assert not counted(bob)
    carla = User.objects.get(username="carla")
    assert counted(carla)
    Change.objects.filter(pk=key).update(needs={**needs, "by": ["group:captains"]})
    assert not counted(carla)


def test_an_undo_says_so_and_what_it_does(root: Writer, users: Users) -> None:
    bob, agent = staff("bob"), users.admin
    key = propose(root)
    approve(bob, key)
    undo = root.confirmed("undo_change", change=key)["change"]

    page = unescape(text_of(Browser(bob).page(undo)))

    assert lines(bob)[0].startswith("Undo: Flight") and "notes fog → note 0" in lines(bob)[0]
    assert "Undo: Flight" in page and "What it would change now" in page
    assert "What it has changed" not in unescape(text_of(Browser(agent).page(undo)))


def test_calls_of_a_function_are_told_apart_by_the_rows_that_they_are_given(
    policy: SimpleNamespace, root: Writer, declared: Declared
) -> None:
    def refund(request: HttpRequest, flight: Flight, amount: float) -> str:
        """Pay back."""
        return "Paid."

    declared.tool(refund, consent="approve", permission="flights.change_flight")
    bob, eve = staff("bob"), staff("eve")
    policy.rows["eve"] = [1, 4]
    keys = [root.confirmed("refund", flight=key, amount=5.0)["change"] for key in (1, 4)]
    names = [str(Flight.objects.get(pk=key).number) for key in (4, 1)]

    waiting = lines(bob)
    approve(bob, keys[0])
    page = unescape(text_of(Browser(bob).page(keys[0])))

    assert all(line.startswith("Refund (") and name in line for line, name in zip(waiting, names, strict=True))
    assert not any(name in line for name in names for line in lines(eve))
    assert "Its records" in page and names[1] in page and "alike" not in text_of(Browser(bob).client.get(LIST))
