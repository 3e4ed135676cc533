"""A delete takes what the admin would take, as far as the user may; of hidden rows it tells a number at most."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.auth.models import User
from django.db.models import PROTECT

from demo_project.flights.models import Airline, Disruption, Flight
from mcp_django.models import Change
from tests.bridge.writes.clicking import Browser
from tests.bridge.writes.conftest import Writer
from tests.bridge.writes.hiding import HIDDEN, declare_hiding
from tests.shop.models import Making, Part, Person, Supplier, Visit, Warranty
from tests.support.data import make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.django_db

VERBS = ("view", "add", "change", "delete")


@pytest.fixture
def deleted_at_once(declared: Declared) -> None:
    """Nobody is asked before a flight or a disruption is deleted."""
    for model in (Flight, Disruption, Airline, Person, Visit):
        declared.model(model, consent={"delete": "preview"})


@pytest.fixture
def supplier(declared: Declared) -> Supplier:
    """With parts and makings, half of them hidden."""
    declare_hiding(declared)
    supplier = Supplier.objects.create(pk=1, name="Ann", code="A")
    for number in range(1, 5):
        part = Part.objects.create(pk=number, name=HIDDEN, supplier=supplier, open=number > 1)
        Making.objects.create(pk=number, part=part, maker=supplier, open=number > 3)
    return supplier


def entries() -> list[tuple[str, str]]:
    return [(entry.object_id, entry.change_message) for entry in LogEntry.objects.filter(action_flag=DELETION)]


# Which rows.


def test_a_hidden_row_is_refused_as_one_that_does_not_exist(root: Writer, supplier: Supplier) -> None:
    def told(key: str) -> str:
        return root.refused("delete_record", model="shop.part", ids=["2", key])

    assert told("1").replace(" 1.", " 99.").replace('"1"', '"99"') == told("99")
    assert Part.objects.count() == 4


@pytest.mark.every_database
def test_another_spelling_of_a_key_and_a_key_that_no_row_can_have_name_no_row(
    root: Writer, flights: list[Flight], deleted_at_once: None
) -> None:
    spellings = ["01", " 1", "1.0", "+1", "1e0", "\u0661", "0x1"]
    keys = [*spellings, str(2**63), str(10**400), "\x00", "", "x" * 100_000, "1; DROP TABLE", "-1"]

    told = {key: root.told("delete_record", model="flights.flight", ids=["1", key]) for key in keys}
    several = root.refused("delete_record", model="flights.flight", ids=["1", "90", "91"])

    no_row = "no flights.flight with the primary key"
    assert [key for key, one in told.items() if no_row not in one or len(one) > 1_000] == []
    assert [error["received"] for error in json.loads(several)["errors"]] == ["90", "91"]
    assert Flight.objects.count() == 12


def test_ids_that_are_no_list_of_at_most_fifty_keys_are_refused(root: Writer, flights: list[Flight]) -> None:
    wrong: list[Any] = [[], None, "1", {"0": "1"}, [["1"]], [None], [{"pk": "1"}], [True]]

    told = [root.refused("delete_record", model="flights.flight", ids=ids) for ids in wrong]
    many = root.refused("delete_record", model="flights.flight", ids=[str(number) for number in range(1, 52)])

    assert all("ids" in one for one in told) and "50" in many
    assert Flight.objects.count() == 12


@pytest.mark.every_database
@pytest.mark.usefixtures("transactional_db")
def test_fifty_ids_are_deleted_and_one_that_is_named_twice_once(root: Writer, declared: Declared) -> None:
    declared.admin(Person, ModelAdmin)
    declared.model(Person, consent={"delete": "preview"})
    people = Person.objects.bulk_create(Person(name="Ann", badge=str(number)) for number in range(51))
    keys = [str(one.pk) for one in people[:49]]

    key = root.confirmed("delete_record", model="shop.person", ids=[*keys, keys[0]])["change"]
    Browser(root.user).apply(key)  # So many are agreed to on the page, which names them all.

    made = root.ask("get_change", change=key)
    assert sorted(made["ids"]) == sorted(keys) and made["deleted"] == {"shop.person": 49}
    assert set(Person.objects.all()) == {*people[49:]}


# What goes with them.


@pytest.mark.every_database
def test_rows_that_go_with_it_are_counted_and_hidden_ones_are_a_number(root: Writer, supplier: Supplier) -> None:
    shown = root.ask("delete_record", model="shop.supplier", ids=["1"])
    made = root.ask("delete_record", model="shop.supplier", ids=["1"], confirm=shown["confirm"])

    expected = {"shop.supplier": 1, "shop.part": 3, "shop.making": 1, "other records": 4}
    assert shown["deleted"] == made["deleted"] == expected
    assert HIDDEN not in str([shown, made])
    assert not Part.objects.exists() and not Making.objects.exists()


def test_a_model_that_nobody_may_read_is_among_the_other_records(root: Writer, supplier: Supplier) -> None:
    Warranty.objects.create(part_id=2, months=1, pin="9876")

    shown = root.ask("delete_record", model="shop.part", ids=["2"])

    assert shown["deleted"] == {"shop.part": 1, "other records": 2}
    assert "arranty" not in str(shown)


@pytest.mark.every_database
def test_rows_that_lose_their_link_are_counted_and_hidden_ones_are_a_number(root: Writer, supplier: Supplier) -> None:
    Supplier.objects.create(name=HIDDEN, parent=supplier)
    Supplier.objects.create(name=HIDDEN, parent=supplier, open=False)

    shown = root.ask("delete_record", model="shop.supplier", ids=["1"])
    root.ask("delete_record", model="shop.supplier", ids=["1"], confirm=shown["confirm"])

    assert shown["unlinked"] == {"shop.supplier": 1, "other records": 1}
    assert HIDDEN not in str(shown)
    assert Supplier.objects.filter(parent=None).count() == 2


def test_more_rows_than_can_be_looked_at_go_or_lose_their_link_with_no_call(
    root: Writer, flights: list[Flight], supplier: Supplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        Supplier.objects.create(name=f"child {number}", parent=supplier)
    Making.objects.all().delete()
    Part.objects.all().delete()
    monkeypatch.setattr("mcp_django.bridge.writes.deletions._MAX_CASCADE", 2)

    going = root.refused("delete_record", model="flights.flight", ids=["1", "2", "3"])
    unlinked = root.refused("delete_record", model="shop.supplier", ids=["1"])

    assert going.startswith("More than 2 records depend on these. Nothing was changed.")
    assert unlinked.startswith("More than 2 records depend on these. Nothing was changed.")


@pytest.mark.every_database
def test_hidden_rows_that_hold_it_are_a_number(
    writer: Callable[..., Writer], flights: list[Flight], deleted_at_once: None
) -> None:
    models = ("airline", "flight", "disruption")
    staff = make_staff("staff", *(f"flights.{verb}_{model}" for verb in VERBS for model in models))
    staff.groups.add(User.objects.get(username="ops").groups.get())

    told = [writer(staff).refused("delete_record", model="flights.airline", ids=ids) for ids in (["UA"], ["UA", "AA"])]

    assert told[0].startswith("These records would have to be deleted first: 2 of flights.flight, 4 of other")
    assert told[1].startswith("These records would have to be deleted first: 4 of flights.flight, 8 of other")
    assert all("note" not in one and "UA 10" not in one for one in told)
    assert Airline.objects.count() == 2


def test_rows_of_a_model_that_nobody_may_read_hold_it_without_a_name(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.admin(Person, ModelAdmin)
    monkeypatch.setattr(Visit._meta.get_field("person").remote_field, "on_delete", PROTECT)
    Visit.objects.create(person=Person.objects.create(pk=1, name="Ann", badge="1"))

    told = root.refused("delete_record", model="shop.person", ids=["1"])

    assert told == "These records would have to be deleted first: 1 of other records. Nothing was changed."


def test_without_the_permission_on_what_goes_with_it_nothing_is_deleted(
    writer: Callable[..., Writer], flights: list[Flight], deleted_at_once: None
) -> None:
    Disruption.objects.create(flight_id=1, kind="weather", note=HIDDEN)
    staff = writer(make_staff("staff", *(f"flights.{verb}_flight" for verb in VERBS)))

    told = [staff.refused("delete_record", model="flights.flight", ids=ids) for ids in (["1"], ["1", "4"])]

    named = [f"{count} of flights.flight, 1 of other records" for count in (1, 2)]
    assert told == [f"You may not delete all of these: {one}. Nothing was changed." for one in named]
    assert Flight.objects.count() == 12 and Disruption.objects.count() == 1


# What the project decides.


def test_several_rows_are_not_deleted_where_the_project_has_taken_that_action_away(
    root: Writer, flights: list[Flight], declared: Declared, deleted_at_once: None
) -> None:
    class Admin(ModelAdmin[Flight]):
        def get_actions(self, request: Any) -> Any:
            return {name: one for name, one in super().get_actions(request).items() if name != "delete_selected"}

    declared.admin(Flight, Admin)

    told = root.refused("delete_record", model="flights.flight", ids=["1", "2"])
    made = root.confirmed("delete_record", model="flights.flight", ids=["1"])

    assert "does not delete several records" in told
    assert made["ids"] == ["1"] and Flight.objects.count() == 11


def test_a_row_that_the_project_keeps_keeps_those_that_were_named_with_it(
    root: Writer, flights: list[Flight], declared: Declared, deleted_at_once: None
) -> None:
    class Admin(ModelAdmin[Flight]):
        def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
            return super().has_delete_permission(request, obj) and (obj is None or obj.pk != 2)

    declared.admin(Flight, Admin)

    told = [root.refused("delete_record", model="flights.flight", ids=ids) for ids in (["2"], ["1", "2"])]

    assert told[0] == "You may not do this. Nothing was changed."
    assert told[1] == "You may not delete all of these: 2 of flights.flight. Nothing was changed."
    assert Flight.objects.count() == 12


def test_a_row_that_the_admin_would_leave_keeps_those_that_were_named_with_it(
    root: Writer, flights: list[Flight], declared: Declared
) -> None:
    """The options show more rows than the admin, whose action would delete the others and say that it is done."""

    class Admin(ModelAdmin[Flight]):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(pk=2)

    declared.admin(Flight, Admin)
    declared.model(
        Flight, consent={"delete": "preview"}, get_queryset=lambda self, request: Flight.objects.get_queryset()
    )

    told = [root.refused("delete_record", model="flights.flight", ids=ids) for ids in (["2"], ["1", "2"])]

    assert all(one.startswith("The admin does not show its form for this.") for one in told)
    assert Flight.objects.count() == 12


@pytest.mark.every_database
def test_a_hook_that_fails_in_the_midst_of_a_delete_leaves_every_row(
    root: Writer, flights: list[Flight], declared: Declared, deleted_at_once: None
) -> None:
    class Admin(ModelAdmin[Flight]):
        def delete_queryset(self, request: Any, queryset: Any) -> None:
            queryset.filter(pk=1).delete()
            raise RuntimeError(HIDDEN)

    declared.admin(Flight, Admin)
    arguments: dict[str, Any] = {"model": "flights.flight", "ids": ["1", "4"]}
    token = root.ask("delete_record", **arguments)["confirm"]

    told = root.refused("delete_record", **arguments, confirm=token)

    assert HIDDEN not in told and "Nothing was changed" in told
    assert Flight.objects.count() == 12
    assert not LogEntry.objects.exists() and not Change.objects.exists()


def test_a_model_whose_rows_may_not_be_deleted_is_no_model_for_it(
    root: Writer, flights: list[Flight], declared: Declared
) -> None:
    declared.model(Flight, writable={"create", "update"})

    told = root.refused("delete_record", model="flights.flight", ids=["1"])

    assert "no model of which you may delete rows 'flights.flight'" in told


# The history.


@pytest.mark.every_database
def test_the_history_says_that_an_agent_has_deleted_it_and_keeps_what_it_said_of_the_same_key(
    root: Writer, flights: list[Flight], deleted_at_once: None
) -> None:
    user = User.objects.get(username="admin")
    LogEntry.objects.log_actions(user.pk, [Flight.objects.get(pk=1)], DELETION, "by a person")

    one = root.confirmed("delete_record", model="flights.flight", ids=["1"])
    several = root.confirmed("delete_record", model="flights.flight", ids=["2", "4"])

    by = [f"By an agent without a name, change {made['change']}." for made in (one, several)]
    assert sorted(entries()) == sorted([("1", "by a person"), ("1", by[0]), ("2", by[1]), ("4", by[1])])
