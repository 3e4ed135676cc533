"""A token confirms one call of one caller, for rows as they were shown, once. Whoever tries another use of it fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin, TabularInline
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import transaction
from django.utils import timezone

from demo_project.flights.models import Airline, Disruption, Flight
from mcp_django.bridge.changes import change_rows, confirmations
from mcp_django.models import AccessToken, Change, ChangedRow
from tests.bridge.writes.conftest import Writer
from tests.shop.models import Making, Part, Supplier, Tag
from tests.support.data import Users, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers

LATE: dict[str, Any] = {"model": "flights.flight", "id": "1", "values": {"status": "delayed"}}

NO_TOKEN = "This is no token for this call."
CHANGED = "What is there has changed since."

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def two_airlines(flights: list[Flight]) -> None:
    """Beside the flights, and rows that a test may change."""
    Disruption.objects.create(pk=901, flight_id=1, kind="weather", note="fog")


def token_for(writer: Writer, tool: str = "update_record", **arguments: Any) -> str:
    token: str = writer.ask(tool, **(arguments or LATE))["confirm"]
    return token


def status_of(key: int = 1) -> str:
    return Flight.objects.get(pk=key).status


# Who.


def test_a_token_of_another_user_confirms_nothing_and_tells_nothing_once_it_is_used(root: Writer, ops: Writer) -> None:
    token = token_for(root)
    before = ops.refused("update_record", **LATE, confirm=token)
    left = status_of(), Change.objects.count()
    made = root.ask("update_record", **LATE, confirm=token)

    assert NO_TOKEN in before and left == ("on_time", 0)
    assert NO_TOKEN in ops.refused("update_record", **LATE, confirm=token)
    assert "There is no such change." in ops.refused("get_change", change=made["change"])


def test_a_token_by_another_access_token_of_the_user_confirms_nothing_and_tells_nothing_once_it_is_used(
    peers: Peers, users: Users, flights: list[Flight]
) -> None:
    switch_on("update_record", "get_change")
    laptop, phone = (peers(token_of(users.admin, "read", "write", name=name)) for name in ("laptop", "phone"))
    token = laptop.call("update_record", **LATE)["structuredContent"]["confirm"]

    before = phone.call("update_record", **LATE, confirm=token)
    made = laptop.call("update_record", **LATE, confirm=token)["structuredContent"]
    after = phone.call("update_record", **LATE, confirm=token)
    asked = phone.call("get_change", change=made["change"])

    assert made["status"] == "applied"
    assert all(one["isError"] and NO_TOKEN in one["content"][0]["text"] for one in (before, after))
    assert asked["isError"] and "There is no such change." in asked["content"][0]["text"]


def test_a_successor_of_the_access_token_goes_on_with_what_was_shown_to_it(
    peers: Peers, users: Users, flights: list[Flight]
) -> None:
    switch_on("update_record")
    old, plain = AccessToken.objects.create_token(user=users.admin, scopes=["read", "write"])
    token = peers(plain).call("update_record", **LATE)["structuredContent"]["confirm"]
    _, plain = old.roll()

    made = peers(plain).call("update_record", **LATE, confirm=token)["structuredContent"]

    assert made["status"] == "applied"


@pytest.mark.every_database
def test_the_number_of_a_change_in_other_letters_is_none(root: Writer) -> None:
    made = root.ask("update_record", **LATE, confirm=token_for(root))
    ChangedRow.objects.all().delete()
    Change.objects.filter(pk=made["change"]).update(key="abcdef")

    assert root.ask("get_change", change="abcdef")["status"] == "applied"
    assert "no such change" in root.refused("get_change", change="ABCDEF")


def test_a_token_of_a_user_who_may_not_do_it_any_more_confirms_nothing(writer: Callable[..., Writer]) -> None:
    staff = make_staff("staff", "flights.view_flight", "flights.change_flight")
    token = token_for(writer(staff))
    staff.user_permissions.remove(Permission.objects.get(codename="change_flight"))
    again = writer(type(staff).objects.get(pk=staff.pk))

    call = {"name": "update_record", "arguments": {**LATE, "confirm": token}}
    result = again.request("2026-07-28", "tools/call", call)

    assert "error" in result or result["result"]["isError"]
    assert status_of() == "on_time" and not Change.objects.exists()


# What.

NOTE: dict[str, Any] = {"model": "flights.disruption", "id": "901", "values": {"note": "x"}}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "another row": ("update_record", {**LATE, "id": "4"}),
    "another value": ("update_record", {**LATE, "values": {"status": "cancelled"}}),
    "one more value": ("update_record", {**LATE, "values": {**LATE["values"], "notes": "x"}}),
    "another model": ("update_record", NOTE),
    "a new row": ("create_record", {"model": "flights.airline", "values": {"carrier": "DL", "name": "Delta"}}),
    "a delete": ("delete_record", {"model": "flights.flight", "ids": ["1"]}),
    "a delete of others": ("delete_record", {"model": "flights.flight", "ids": ["1", "4"]}),
}


def test_a_token_for_one_change_confirms_no_other_whether_it_is_used_or_not(root: Writer, declared: Declared) -> None:
    declared.model(Flight, consent={"delete": "preview"})
    token = token_for(root)

    def told() -> dict[str, str]:
        return {what: root.told(tool, **of, confirm=token) for what, (tool, of) in OTHERS.items()}

    before = told()
    left = Change.objects.count(), LogEntry.objects.count(), status_of()
    made = root.ask("update_record", **LATE, confirm=token)
    after = told()
    # Before it is used, this is the same change in other words.
    with_rows = root.told("update_record", **LATE, rows={}, confirm=token)

    assert [what for what in OTHERS if NO_TOKEN not in before[what] or NO_TOKEN not in after[what]] == []
    assert NO_TOKEN in with_rows
    assert left == (0, 0, "on_time")
    assert made["status"] == "applied"
    assert (status_of(1), status_of(4), Change.objects.count()) == ("delayed", "on_time", 1)


def test_a_token_for_a_delete_deletes_no_more_rows_and_changes_nothing(root: Writer) -> None:
    token = root.ask("preview_change", operation="delete", model="flights.disruption", ids=["901"])["confirm"]
    Disruption.objects.create(pk=902, flight_id=1, kind="crew")

    assert NO_TOKEN in root.refused("delete_record", model="flights.disruption", ids=["901", "902"], confirm=token)
    assert NO_TOKEN in root.refused("update_record", **NOTE, confirm=token)
    assert Disruption.objects.count() == 2


def test_the_same_change_in_other_words_is_the_one_that_was_shown(root: Writer) -> None:
    token = root.ask("preview_change", operation="update", **LATE)["confirm"]

    made = root.ask("update_record", model="Flights.Flight", id=1, values={"status": "delayed"}, confirm=token)

    assert made["status"] == "applied"


def test_a_reason_is_no_part_of_the_call_and_the_first_one_is_kept(root: Writer) -> None:
    token = token_for(root)
    made = root.ask("update_record", **LATE, confirm=token, reason="Fog.")

    again = root.ask("update_record", **LATE, confirm=token, reason="Snow.")

    assert again == {**made, "replayed": True}
    assert Change.objects.get().reason == "Fog."


# The token itself.


def test_what_is_not_the_token_itself_confirms_nothing(root: Writer) -> None:
    token, other = token_for(root), token_for(root)
    wrong = {
        **{f"altered at {place}": token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
           for place in range(0, 50, 7)},
        "half of another": token[:34] + other[34:],
        **{repr(beside): beside.format(token) for beside in ("{}A", "{}=", "{} ", " {}", "{}\n", "{}\x00", "{}ä")},
        **{repr(text): text for text in ("A", "A" * 50, "A" * 60, "ä" * 50, "\x00" * 50, "=" * 50)},
        "too long": "A" * 61, "far too long": "A" * 100_000,
        **{repr(value): value for value in (1, True, ["A"], {"a": 1})},
    }  # fmt: skip

    told = {what: root.told("update_record", **LATE, confirm=one) for what, one in wrong.items()}

    assert [what for what, one in told.items() if '"field":"confirm"' not in one.replace(" ", "")] == []
    assert [what for what, one in told.items() if what.startswith(("altered", "half")) and NO_TOKEN not in one] == []
    assert "60" in told["far too long"] and max(map(len, told.values())) < 1_000
    assert status_of() == "on_time" and not Change.objects.exists()
    assert root.ask("update_record", **LATE, confirm="")["status"] == "preview"


def test_a_token_is_one_as_long_as_its_secret_key_is_known(root: Writer, settings: Any) -> None:
    token, before = token_for(root), settings.SECRET_KEY
    settings.SECRET_KEY = "another"
    refused = root.refused("update_record", **LATE, confirm=token)
    settings.SECRET_KEY_FALLBACKS = [before]

    assert NO_TOKEN in refused
    assert root.ask("update_record", **LATE, confirm=token)["status"] == "applied"


def test_yesterdays_token_confirms_nothing_whatever_its_date_is_made(
    root: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    yesterday = time.time() - 86_400
    with monkeypatch.context() as then:
        then.setattr(confirmations.time, "time", lambda: yesterday)
        old = token_for(root)
    fresh = token_for(root)

    told = root.refused("update_record", **LATE, confirm=old)

    assert "This token has expired." in told
    # The first characters hold the date, and the next ones the nonce.
    assert NO_TOKEN in root.refused("update_record", **LATE, confirm=fresh[:5] + old[5:])
    assert NO_TOKEN in root.refused("update_record", **LATE, confirm=old[:5] + fresh[5:])
    assert status_of() == "on_time" and not Change.objects.exists()


# Once.


@pytest.mark.every_database
def test_a_row_is_created_once_by_a_call_that_is_sent_again(root: Writer) -> None:
    values = {"flight": "1", "kind": "crew", "severity": "minor"}
    token = token_for(root, "create_record", model="flights.disruption", values=values)

    answers = [root.ask("create_record", model="flights.disruption", values=values, confirm=token) for _ in "abc"]

    assert Disruption.objects.filter(kind="crew").count() == 1
    assert len({answer["id"] for answer in answers}) == 1
    assert [answer.get("replayed", False) for answer in answers] == [False, True, True]


def test_after_a_day_a_replay_says_what_was_done_without_the_values(
    root: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = token_for(root)
    made = root.ask("update_record", **LATE, confirm=token)
    tomorrow = timezone.now() + timedelta(days=1, minutes=1)
    monkeypatch.setattr(change_rows.timezone, "now", lambda: tomorrow)
    other = {**LATE, "id": "4"}
    root.ask("update_record", **other, confirm=token_for(root, **other))

    again = root.ask("update_record", **LATE, confirm=token)

    assert again == {
        "status": "applied", "change": made["change"], "model": "flights.flight", "ids": ["1"], "replayed": True,
    }  # fmt: skip
    assert "delayed" not in str(Change.objects.filter(pk=made["change"]).values())


# What has changed between.

CHANGES: dict[str, Callable[[Part], object]] = {
    "a column that is not named": lambda part: Part.objects.update(weight=5),
    "a link": lambda part: part.tags.add(Tag.objects.create(name="green")),
    "a row of an inline": lambda part: Making.objects.update(open=False),
    "a new row of an inline": lambda part: Making.objects.create(part=part, maker=Supplier.objects.get()),
    "a row of an inline that is gone": lambda part: Making.objects.all().delete(),
}


@pytest.fixture
def part(declared: Declared) -> Part:
    inline = type("Inline", (TabularInline,), {"model": Making, "extra": 0})
    declared.admin(Supplier, ModelAdmin)
    declared.admin(Part, type("Admin", (ModelAdmin,), {"fields": ["name", "weight", "tags"], "inlines": [inline]}))
    part = Part.objects.create(name="bolt", weight=1)
    part.tags.set([Tag.objects.create(name="red"), Tag.objects.create(name="blue")])
    Making.objects.create(part=part, maker=Supplier.objects.create(name="Ann", code="A"))
    return part


@pytest.mark.every_database
def test_whatever_has_changed_of_the_row_since_the_preview_makes_the_token_void(root: Writer, part: Part) -> None:
    arguments = {"model": "shop.part", "id": str(part.pk), "values": {"name": "nut", "tags": ["red"]}}
    token, told = token_for(root, **arguments), {}

    for what, change in CHANGES.items():
        with transaction.atomic():
            change(part)
            told[what] = root.told("update_record", **arguments, confirm=token)
            transaction.set_rollback(True)

    assert [what for what in CHANGES if CHANGED not in told[what]] == []
    part.refresh_from_db()
    assert part.name == "bolt" and part.tags.count() == 2


@pytest.mark.every_database
def test_a_token_is_void_only_as_long_as_its_own_row_differs(root: Writer) -> None:
    token = token_for(root)
    Flight.objects.filter(pk=4).update(notes="x")
    Airline.objects.update(name="x")
    Flight.objects.filter(pk=1).update(notes="x")
    refused = root.refused("update_record", **LATE, confirm=token)
    left = status_of(), Change.objects.count()
    Flight.objects.filter(pk=1).update(notes="note 0")

    assert CHANGED in refused and left == ("on_time", 0)
    assert root.ask("update_record", **LATE, confirm=token)["status"] == "applied"


def test_a_row_that_goes_with_a_delete_and_was_not_there_makes_the_token_void(root: Writer, declared: Declared) -> None:
    declared.model(Flight, consent={"delete": "preview"})
    token = token_for(root, "delete_record", model="flights.flight", ids=["1"])
    Disruption.objects.create(flight_id=1, kind="crew")

    told = root.refused("delete_record", model="flights.flight", ids=["1"], confirm=token)

    assert CHANGED in told
    assert Flight.objects.filter(pk=1).exists()


def test_a_row_that_is_gone_since_the_preview_is_not_made_anew(root: Writer) -> None:
    token = token_for(root, **NOTE)
    Disruption.objects.all().delete()

    told = root.refused("update_record", **NOTE, confirm=token)

    assert "no flights.disruption with the primary key 901" in told
    assert not Disruption.objects.exists() and not Change.objects.exists()


def test_finding_out_that_a_hidden_column_has_moved(root: Writer, declared: Declared) -> None:
    """A confirmation is bound to what the agent may read, and to what the form would write."""
    editor = {"fields": ["status", "notes"], "list_display": ["number"]}
    declared.admin(Flight, type("A", (ModelAdmin,), editor))
    declared.model(Flight, fields=["number", "status"], consent={"delete": "preview"})
    declared.admin(Disruption, ModelAdmin)
    outcomes = {}
    for key, moved in [("2", "tailnum"), ("3", "number"), ("4", "notes")]:
        for value, tool in enumerate(("update_record", "delete_record"), 4711):
            asked = LATE if tool == "update_record" else {"model": "flights.flight", "ids": [key]}
            token = token_for(root, tool, **asked)
            Flight.objects.update(**{moved: value})
            told = root.told(tool, **asked, confirm=token)
            outcomes[moved, tool] = CHANGED in str(told)
            Flight.objects.filter(pk=1).update(status="on_time")

    assert outcomes == {
        ("tailnum", "update_record"): False, ("tailnum", "delete_record"): False,
        ("number", "update_record"): True, ("number", "delete_record"): True,
        ("notes", "update_record"): True, ("notes", "delete_record"): False,
    }  # fmt: skip
