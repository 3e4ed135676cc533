"""What an agent changed, taken back: the old values where nobody has changed them since, and nothing else."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.urls import reverse
from django.utils import timezone

from demo_project.flights.models import Airline, Disruption, Flight
from mcp_django.models import Change, ChangedRow, Tool
from tests.bridge.writes.approving import staff, text_of
from tests.bridge.writes.clicking import Browser, approve, said
from tests.bridge.writes.conftest import Writer
from tests.shop.models import Part, Supplier
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import Message

pytestmark = pytest.mark.usefixtures("transactional_db")

FLIGHT = "flights.flight"


@pytest.fixture(autouse=True)
def _flights(flights: list[Flight]) -> None: ...


@pytest.fixture
def bob(users: Users) -> User:
    return staff("bob")


def update(writer: Writer, key: Any = 1, **values: Any) -> str:
    return str(writer.confirmed("update_record", model=FLIGHT, id=str(key), values=values)["change"])


def undo(writer: Writer, **arguments: Any) -> Message:
    return writer.confirmed("undo_change", **arguments)


def flight(key: int = 1) -> tuple[str, str]:
    one = Flight.objects.get(pk=key)
    return one.notes, one.status


# One change.


@pytest.mark.every_database
def test_the_old_values_come_back(root: Writer) -> None:
    before = flight()
    key = update(root, notes="fog", status="cancelled")

    shown = root.ask("undo_change", change=key)
    done = root.ask("undo_change", change=key, confirm=shown["confirm"])

    assert shown["records"] == {"restored": 1, "deleted": 0} and shown["undoes"] == [key]
    diff = {one["field"]: (one["before"], one["after"]) for one in shown["changes"][0]["changes"][0]["diff"]}
    assert diff == {"notes": ("fog", before[0]), "status": ("cancelled", before[1])}
    assert done["status"] == "applied" and flight() == before
    assert Change.objects.get(pk=done["change"]).undoes == [key]


@pytest.mark.every_database
def test_what_somebody_has_changed_since_is_left_alone_field_by_field(root: Writer) -> None:
    key = update(root, notes="fog", status="cancelled")
    Flight.objects.filter(pk=1).update(status="delayed")

    done = undo(root, change=key)

    assert flight() == ("note 0", "delayed")
    assert done["left_alone"] == [{"model": FLIGHT, "id": "1", "field": "status", "why": "changed since"}]


def test_where_nothing_is_left_nothing_is_undone(root: Writer) -> None:
    key = update(root, notes="fog")
    Flight.objects.filter(pk=1).update(notes="moved")

    assert "nothing to undo: changed since" in root.refused("undo_change", change=key) and flight()[0] == "moved"


def test_a_change_between_its_preview_and_its_confirmation_refuses_it(root: Writer) -> None:
    key = update(root, notes="fog", status="cancelled")
    confirm = root.ask("undo_change", change=key)["confirm"]
    Flight.objects.filter(pk=1).update(status="delayed")

    assert "changed since" in root.refused("undo_change", change=key, confirm=confirm)
    assert flight() == ("fog", "delayed")


@pytest.mark.every_database
def test_a_new_record_is_deleted_once_its_user_agrees(root: Writer) -> None:
    key = root.confirmed("create_record", model="flights.airline", values={"carrier": "Q1", "name": "One"})["change"]
    waits = undo(root, change=key)

    assert waits["status"] == "pending" and Airline.objects.filter(carrier="Q1").exists()
    assert Browser(root.user).apply(waits["change"]) == ["The change was made."]
    assert not Airline.objects.filter(carrier="Q1").exists()


def test_a_person_undoes_a_new_record_in_which_code_has_set_what_its_agent_does_not_read(
    ops: Writer, users: Users, declared: Declared
) -> None:
    """The admin writes down who has reported a disruption."""
    values = {"flight": "1", "kind": "weather", "severity": "minor"}
    key = ops.confirmed("create_record", model="flights.disruption", values=values)["change"]

    assert Undoing(users.admin).undo(key) == ["It was undone."] and not Disruption.objects.exists()


def test_a_new_record_that_somebody_has_changed_since_stays(root: Writer) -> None:
    key = root.confirmed("create_record", model="flights.airline", values={"carrier": "Q1", "name": "One"})["change"]
    Airline.objects.filter(carrier="Q1").update(name="Two")

    assert "changed since" in root.refused("undo_change", change=key)


@pytest.mark.every_database
def test_rows_of_inlines_are_added_changed_and_made_again(root: Writer, declared: Declared) -> None:
    inline = type("Inline", (admin.TabularInline,), {"model": Disruption, "fields": ["kind", "severity"]})
    declared.admin(Flight, type("Admin", (admin.ModelAdmin,), {"fields": ["notes"], "inlines": [inline]}))
    kept, gone = (Disruption.objects.create(flight_id=1, kind="weather", severity="minor") for _ in range(2))
    rows = {
        "disruptions": [
            {"pk": str(kept.pk), "severity": "major"},
            {"pk": str(gone.pk), "delete": True},
            {"kind": "crew", "severity": "minor"},
        ]
    }
    waits = root.confirmed("update_record", model=FLIGHT, id="1", values={"notes": "fog"}, rows=rows)
    Browser(root.user).apply(waits["change"])
    assert sorted(Disruption.objects.values_list("kind", "severity")) == [("crew", "minor"), ("weather", "major")]

    undone = undo(root, change=waits["change"])
    Browser(root.user).apply(undone["change"])

    assert sorted(Disruption.objects.values_list("kind", "severity")) == [("weather", "minor")] * 2
    assert Disruption.objects.filter(pk=kept.pk).exists() and flight()[0] == "note 0"


def test_a_row_of_an_inline_that_comes_back_without_some_of_its_values_is_told(
    root: Writer, declared: Declared, users: Users
) -> None:
    """The form has no note, which agents read, and they do not read who reported it."""
    inline = type("Inline", (admin.TabularInline,), {"model": Disruption, "fields": ["kind", "severity"]})
    declared.admin(Flight, type("Admin", (admin.ModelAdmin,), {"fields": ["notes"], "inlines": [inline]}))
    gone = Disruption.objects.create(flight_id=1, kind="weather", note="a cow", reported_by=users.admin)
    rows = {"disruptions": [{"pk": str(gone.pk), "delete": True}]}
    waits = root.confirmed("update_record", model=FLIGHT, id="1", values={}, rows=rows)
    Browser(root.user).apply(waits["change"])

    notes = root.ask("undo_change", change=waits["change"])["notes"]

    assert f"disruptions {gone.pk} comes back without what its form does not have." in notes


def test_an_undo_can_be_undone(root: Writer) -> None:
    key = update(root, notes="fog")
    again = undo(root, change=key)["change"]

    undo(root, change=again)

    assert flight()[0] == "fog"


def test_the_answer_says_until_when_it_can_be_undone_to_whoever_may(root: Writer) -> None:
    def made() -> Message:
        values = {"notes": str(Change.objects.count())}
        return root.confirmed("update_record", model=FLIGHT, id="1", values=values)

    told = made()
    assert told["undo_until"] == Change.objects.get().undo_until.isoformat()
    assert root.ask("get_change", change=told["change"])["undo_until"] == told["undo_until"]
    Tool.objects.filter(name="undo_change").update(enabled=False)
    assert "undo_until" not in made()


def test_what_somebody_wrote_between_two_changes_of_the_agent_comes_back(root: Writer) -> None:
    since = timezone.now().isoformat()
    update(root, notes="agent")
    Flight.objects.filter(pk=1).update(notes="Ann")
    update(root, notes="agent again")

    undo(root, since=since)

    assert flight()[0] == "Ann"


def test_a_new_record_that_somebody_has_filled_in_since_stays(root: Writer, declared: Declared) -> None:
    declared.admin(Supplier, type("Suppliers", (admin.ModelAdmin,), {"fields": ["name", "code", "rating"]}))
    values = {"name": "Bob", "code": "B1", "rating": 1}
    key = root.confirmed("create_record", model="shop.supplier", values=values)["change"]
    assert root.ask("undo_change", change=key)["records"]["deleted"] == 1
    Supplier.objects.filter(code="B1").update(parent_id="B1")

    assert "changed since" in root.refused("undo_change", change=key)


def test_what_the_tools_ask_that_do_the_same_is_asked_of_an_undo(root: Writer, bob: User) -> None:
    key = update(root, notes="fog")
    Tool.objects.filter(name="update_record").update(asks="approve")

    assert undo(root, change=key)["needs"]["approvals"] == 1 and flight()[0] == "fog"


# Many.


@pytest.mark.every_database
def test_all_that_the_credential_changed_since_a_moment_is_one_undo(root: Writer) -> None:
    before = [flight(key) for key in (1, 4)]
    early = update(root, 4, notes="early")
    Change.objects.filter(pk=early).update(decided_at=timezone.now() - timedelta(hours=2))
    for notes in ("one", "two", "three"):
        update(root, 1, notes=notes)
    root.confirmed("update_records", model=FLIGHT, ids=["1", "4"], values={"status": "cancelled"})

    done = undo(root, since=(timezone.now() - timedelta(hours=1)).isoformat())

    assert [flight(key) for key in (1, 4)] == [before[0], ("early", before[1][1])]
    assert (done["count"], len(done["undoes"])) == (2, 4)
    assert "No change since" in root.refused("undo_change", since=timezone.now().isoformat())


def test_what_cannot_be_undone_is_named(root: Writer, declared: Declared) -> None:
    declared.model(Disruption, consent={"delete": "preview"})
    one = Disruption.objects.create(flight_id=1, kind="weather", severity="minor")
    update(root, notes="fog")
    deleted = root.confirmed("delete_record", model="flights.disruption", ids=[str(one.pk)])["change"]

    shown = root.ask("undo_change", since=(timezone.now() - timedelta(hours=1)).isoformat())

    assert (
        f"{deleted} (delete flights.disruption) is not undone: what was deleted is not brought back." in shown["notes"]
    )
    assert "not brought back" in root.refused("undo_change", change=deleted)


@pytest.mark.every_database
def test_many_records_are_undone_together(root: Writer) -> None:
    before = dict(Flight.objects.values_list("pk", "notes"))
    key = root.confirmed("update_records", model=FLIGHT, filter={"origin": "JFK"}, values={"notes": "fog"})["change"]

    undo(root, change=key)

    assert dict(Flight.objects.values_list("pk", "notes")) == before


@pytest.mark.parametrize("actions", [[], None], ids=["together", "one by one"])
def test_new_records_that_hang_on_each_other_are_deleted_the_last_one_first(
    root: Writer, declared: Declared, actions: Any
) -> None:
    declared.admin(Supplier, type("A", (admin.ModelAdmin,), {"fields": ["code", "name"]}))
    declared.admin(Part, type("B", (admin.ModelAdmin,), {"fields": ["name", "supplier"], "actions": actions}))
    for model in (Supplier, Part):
        declared.model(model, consent={"delete": "preview"})
    root.confirmed("create_record", model="shop.supplier", values={"code": "s", "name": "S"})
    one = Supplier.objects.get()
    for name in "abc":
        root.confirmed("create_record", model="shop.part", values={"name": name, "supplier": str(one.pk)})
    since = (timezone.now() - timedelta(hours=1)).isoformat()

    shown = root.ask("undo_change", since=since)
    undo(root, since=since)

    assert [part["deleted"] for part in shown["changes"]] == [
        *([{"shop.part": 3}] if actions is not None else [{"shop.part": 1}] * 3),
        {"shop.supplier": 1},
    ]
    assert not Supplier.objects.exists() and not Part.objects.exists()


def test_a_record_that_held_a_new_one_is_restored_first(root: Writer, declared: Declared) -> None:
    """Django refuses to delete an airline that has flights."""
    declared.model(Airline, consent={"delete": "preview"})
    before = Flight.objects.get(pk=1).carrier_id
    root.confirmed("create_record", model="flights.airline", values={"carrier": "Q1", "name": "One"})
    update(root, carrier="Q1")

    undo(root, since=(timezone.now() - timedelta(hours=1)).isoformat())

    assert Flight.objects.get(pk=1).carrier_id == before and not Airline.objects.filter(carrier="Q1").exists()


def test_what_was_hung_on_a_new_record_since_and_would_go_with_it(root: Writer, declared: Declared) -> None:
    """The part is restored before, and what is restored of it is not its supplier."""
    declared.admin(Supplier, type("A", (admin.ModelAdmin,), {"fields": ["code", "name"]}))
    declared.admin(Part, type("B", (admin.ModelAdmin,), {"fields": ["name"]}))
    declared.model(Supplier, consent={"delete": "preview"})
    part = Part.objects.create(name="old")
    key = root.confirmed("create_record", model="shop.supplier", values={"code": "s", "name": "S"})["change"]
    root.confirmed("update_record", model="shop.part", id=str(part.pk), values={"name": "new"})
    Part.objects.update(supplier=Supplier.objects.get())
    since = (timezone.now() - timedelta(hours=1)).isoformat()

    told = root.refused("undo_change", since=since, confirm=root.ask("undo_change", since=since)["confirm"])

    assert "More would go with the records than was shown" in told and Part.objects.get().name == "new"
    assert root.ask("undo_change", change=key)["changes"][0]["deleted"] == {"shop.part": 1, "shop.supplier": 1}


def test_records_of_a_model_that_is_gone_are_left_alone(root: Writer) -> None:
    root.confirmed("update_record", model="flights.airline", id="UA", values={"name": "One"})
    root.confirmed("update_record", model="flights.airport", id="JFK", values={"name": "Two"})
    update(root, notes="fog")
    ChangedRow.objects.filter(model="flights.airline").update(model="flights.gone")

    undo(root, since=(timezone.now() - timedelta(hours=1)).isoformat())

    assert flight()[0] == "note 0" and Airline.objects.get(pk="UA").name == "One"


@pytest.mark.every_database
def test_records_of_several_models_are_held_while_they_are_undone(root: Writer) -> None:
    if not connection.features.has_select_for_update_skip_locked:
        pytest.skip("this database holds no rows")
    root.confirmed("update_record", model="flights.airline", id="UA", values={"name": "One"})
    update(root, 4, notes="fog")
    since = (timezone.now() - timedelta(hours=1)).isoformat()
    confirm = root.ask("undo_change", since=since)["confirm"]

    def undone() -> str:
        try:
            return root.refused("undo_change", since=since, confirm=confirm)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            Airline.objects.filter(pk="UA").update(name="Ours")
            told = pool.submit(undone)
            # It has read nothing yet that it writes, however long this takes.
            wait([told], 0.5)
        assert "changed since" in told.result()

    assert flight(4)[0] == "fog" and Airline.objects.get(pk="UA").name == "Ours"


# What it needs.


def test_it_never_needs_less_than_what_it_undoes(root: Writer, declared: Declared, bob: User) -> None:
    consent = {"update": "approve"}
    declared.model(Flight, consent=consent)
    key = update(root, notes="fog")
    approve(bob, key)
    consent["update"] = "preview"

    waits = undo(root, change=key)

    assert waits["needs"]["approvals"] == 1 and flight()[0] == "fog"
    assert approve(bob, waits["change"]) == ["The change was made."] and flight()[0] == "note 0"


# Attacks.


def test_undoing_what_another_credential_changed(root: Writer, ops: Writer) -> None:
    key = update(root, notes="fog")

    told = [ops.refused("undo_change", change=one).replace(one, "?") for one in (key, "0" * 22)]

    assert told[0] == told[1]
    assert "No change since" in ops.refused("undo_change", since=(timezone.now() - timedelta(hours=1)).isoformat())


def test_restoring_a_record_or_a_field_that_may_not_be_written_any_more(ops: Writer, declared: Declared) -> None:
    names = ["notes", "status"]
    declared.model(Flight, write_fields=names)
    key = update(ops, notes="fog", status="cancelled")
    names[:] = ["status"]

    done = undo(ops, change=key)

    assert flight()[0] == "fog" and done["left_alone"][0]["why"] == "the form has no such field"
    other = update(ops, status="delayed")
    Flight.objects.filter(pk=1).update(origin_id="LGA")
    assert "there is no such record" in ops.refused("undo_change", change=other)


def test_giving_the_argument_of_a_person(root: Writer, ops: Writer) -> None:
    key = update(root, notes="fog")

    assert "_lineage" in ops.refused("undo_change", change=key, _lineage=Change.objects.get(pk=key).line)


def test_nothing_is_kept_that_the_agent_may_not_read_nor_longer_than_it_can_be_undone(
    root: Writer, declared: Declared, settings: Any
) -> None:
    declared.model(Flight, fields=["number", "notes"])
    key = update(root, notes="fog")
    [kept] = ChangedRow.objects.values_list("kept", flat=True)
    assert kept == '{"values":{"notes":["note 0","fog"]}}'

    Change.objects.update(undo_until=timezone.now())
    assert "its time is over" in root.refused("undo_change", change=key)
    call_command("mcp_due")
    assert not ChangedRow.objects.exists()
    settings.MCP = {**settings.MCP, "UNDO_DAYS": 0}
    assert "nothing was kept of it" in root.refused("undo_change", change=update(root, notes="snow"))


def test_what_is_kept_of_a_record_is_forgotten_by_command(root: Writer) -> None:
    key, other = update(root, notes="fog"), update(root, 4, notes="snow")
    out = StringIO()

    call_command("mcp_audit", forget="flights.flight:1", stdout=out)

    assert out.getvalue() == "1 kept change of flights.flight:1 deleted.\n"
    assert list(ChangedRow.objects.values_list("key", flat=True)) == ["4"]
    forgotten, kept = (Change.objects.get(pk=pk) for pk in (key, other))
    assert (forgotten.arguments, forgotten.result) == ("", "") and "snow" in kept.result
    assert "nothing was kept of it" in root.refused("undo_change", change=key)
    assert undo(root, change=other)["count"] == 1
    with pytest.raises(CommandError, match="takes a record"):
        call_command("mcp_audit", forget="flights.flight")


@pytest.mark.every_database
def test_answers_are_forgotten_by_command_where_nothing_is_kept_for_an_undo(root: Writer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "UNDO_DAYS": 0}
    forgotten, waiting = update(root, notes="fog"), update(root, 4, notes="snow")
    Change.objects.filter(pk=waiting).update(state=Change.State.WAITING, arguments="{}")

    for named in ("flights.flight:1", "FLIGHTS.Flight:4"):
        call_command("mcp_audit", forget=named, stdout=StringIO())

    kept = {key: Change.objects.values_list("arguments", "result").get(pk=key) for key in (forgotten, waiting)}
    assert kept[forgotten] == ("", "")
    assert kept[waiting][0] == "{}" and "snow" in kept[waiting][1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({}, "give change, or since"), ({"change": "x", "since": "y"}, "give change, or since"),
     ({"since": "ten o'clock"}, "must be a date and time"), ({"since": "2026-13-01T10:00"}, "must be a date and time")],
)  # fmt: skip
def test_arguments_that_say_nothing(root: Writer, arguments: Any, words: str) -> None:
    assert words in root.refused("undo_change", **arguments)


def test_a_tool_that_is_off_undoes_nothing(root: Writer) -> None:
    key = update(root, notes="fog")
    Tool.objects.filter(name="undo_change").update(enabled=False)

    assert root.error("2026-07-28", "tools/call", {"name": "undo_change", "arguments": {"change": key}})


# A person, in the admin.


class Undoing(Browser):
    """Somebody who undoes changes in the admin."""

    def look(self, key: str, query: str = "") -> Any:
        return self.client.get(reverse("admin:mcp_django_change_undo", args=[key]) + query)

    def undo(self, key: str, query: str = "") -> list[str]:
        found = re.search(r'name="digest" value="(\w+)"', text_of(self.look(key, query)))
        assert found is not None, text_of(self.look(key, query))
        url = reverse("admin:mcp_django_change_undo", args=[key]) + query
        return said(self.client.post(url, {"digest": found[1]}))


@pytest.mark.every_database
def test_a_person_undoes_it_in_the_own_name_also_where_agents_may_not(ops: Writer, users: Users) -> None:
    key = update(ops, notes="fog", status="cancelled")
    Flight.objects.filter(pk=1).update(status="delayed")
    Tool.objects.filter(name__in=["undo_change", "update_record"]).update(enabled=False)
    seen = text_of(Undoing(users.admin).look(key))
    assert "note 0" in seen and "flights.flight 1 status (changed since)" in seen

    assert Undoing(users.admin).undo(key) == ["It was undone."]

    assert flight() == ("note 0", "delayed")
    made = Change.objects.get(kind="undo")
    assert (made.user, made.undoes, made.state) == (users.admin, [key], "applied")
    entry = LogEntry.objects.get(object_id="1", user=users.admin)
    assert f"by this person, change {made.pk}, undoing {key}" in entry.get_change_message()


def test_a_person_undoes_all_that_an_agent_has_changed_since(ops: Writer, users: Users) -> None:
    first = update(ops, notes="one")
    for key in (1, 4):
        update(ops, key, notes="two")
    update(ops, 4, status="cancelled")

    assert Undoing(users.admin).undo(first, "?since=1") == ["It was undone."]

    assert (flight(1)[0], flight(4)[0], flight(4)[1]) == ("note 0", "note 3", "on_time")


def test_undoing_what_one_may_not_change_or_see(ops: Writer, users: Users, bob: User) -> None:
    key = update(ops, notes="fog")
    viewer = staff("viewer2", "mcp_django.view_change", "flights.view_flight")

    assert "there is no such record" in text_of(Undoing(viewer).look(key))
    assert Undoing(bob).look(key).status_code == 404  # Of a change that nobody had to approve, bob sees nothing.
    assert Undoing(users.viewer).client.post(reverse("admin:mcp_django_change_undo", args=[key])).status_code == 404
    assert flight()[0] == "fog"


def test_a_forged_or_an_old_digest_undoes_nothing(ops: Writer, users: Users) -> None:
    key = update(ops, notes="fog")
    agent = Undoing(users.admin)

    for digest in ("", "0" * 64):
        url = reverse("admin:mcp_django_change_undo", args=[key])
        assert "have changed since" in said(agent.client.post(url, {"digest": digest}))[0]
    assert flight()[0] == "fog" and not Change.objects.filter(kind="undo").exists()


def test_what_others_must_approve_waits_for_them(ops: Writer, users: Users, declared: Declared, bob: User) -> None:
    consent = {"update": "preview"}
    declared.model(Flight, consent=consent)
    key = update(ops, notes="fog")
    consent["update"] = "approve"

    assert Undoing(users.admin).undo(key) == ["Other people must approve this. It waits."]

    waits = Change.objects.get(kind="undo")
    assert flight()[0] == "fog" and approve(bob, waits.pk) == ["The change was made."] and flight()[0] == "note 0"
