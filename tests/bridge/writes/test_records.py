"""Several records in one call: one preview, one confirm, one transaction, and each row through its own form."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from django.db.models.signals import post_save

from demo_project.flights.management.commands.demo import let_others_approve
from demo_project.flights.models import Airline, Flight
from mcp_django import Approval, site
from mcp_django.bridge.uploads import upload_rows
from mcp_django.bridge.writes import records
from mcp_django.exchange.principals import Principal, Source
from mcp_django.protocol.jsonrpc import encode
from tests.bridge.writes.approving import staff, text_of
from tests.bridge.writes.clicking import Browser, approve, said
from tests.bridge.writes.conftest import ALL_SCOPES, Writer
from tests.shop.models import Supplier
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import Message

pytestmark = pytest.mark.usefixtures("transactional_db")

FLIGHT = "flights.flight"
JFK = {"origin": "JFK"}


@pytest.fixture(autouse=True)
def _flights(flights: list[Flight]) -> None: ...


@pytest.fixture
def bob(users: Users) -> User:
    return staff("bob")


def update(writer: Writer, **arguments: Any) -> Message:
    return writer.confirmed("update_records", model=FLIGHT, **arguments)


def notes() -> dict[int, str]:
    return dict(Flight.objects.order_by("pk").values_list("pk", "notes"))


def more_flights(count: int) -> None:
    """More flights from JFK."""
    one = Flight.objects.filter(origin_id="JFK").values()[0]
    Flight.objects.bulk_create([Flight(**{**one, "id": None, "number": 5_000 + number}) for number in range(count)])


# Updates.


@pytest.mark.every_database
def test_the_same_values_for_the_rows_of_a_filter(root: Writer) -> None:
    keys = list(Flight.objects.filter(origin_id="JFK").values_list("pk", flat=True))
    saved: list[Any] = []
    post_save.connect(lambda instance, **_: saved.append(instance.pk), Flight, weak=False, dispatch_uid="seen")
    try:
        shown = root.ask("update_records", model=FLIGHT, filter=JFK, values={"notes": "fog"})
        done = root.ask("update_records", model=FLIGHT, filter=JFK, values={"notes": "fog"}, confirm=shown["confirm"])
    finally:
        post_save.disconnect(sender=Flight, dispatch_uid="seen")

    assert shown["count"] == len(keys) and sum(one["rows"] for one in shown["changes"]) == len(keys)
    assert shown["changes"][0]["diff"][0]["field"] == "notes" and next(iter(shown["sample"])) == str(keys[0])
    told = {name: value for name, value in done.items() if name not in ("change", "undo_until")}
    assert told == {"status": "applied", "model": FLIGHT, "count": len(keys)}
    assert saved == keys and [one for one, note in notes().items() if note == "fog"] == keys
    logged = LogEntry.objects.filter(object_id__in=list(map(str, keys)))
    assert [f"change {done['change']}" in one.get_change_message() for one in logged] == [True] * len(keys)


def test_each_row_with_its_own_values_in_whichever_order_they_come(root: Writer) -> None:
    each = [{"id": "4", "notes": "four"}, {"id": 1, "notes": "one"}]
    shown = root.ask("update_records", model=FLIGHT, each=each)
    done = root.ask("update_records", model=FLIGHT, each=[each[1], each[0]], confirm=shown["confirm"])

    assert len(shown["changes"]) == 2 and done["count"] == 2
    assert (notes()[1], notes()[4]) == ("one", "four")


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.every_database
def test_a_row_that_is_refused_stops_all_or_is_left_out(root: Writer, on_error: str) -> None:
    each = [{"id": "1", "notes": "one"}, {"id": "4", "status": "nothing"}]

    if on_error == "stop":
        assert "does not accept 1 of 2 rows" in root.refused("update_records", model=FLIGHT, each=each)
        assert notes()[1] == "note 0"
        return
    shown = root.ask("update_records", model=FLIGHT, each=each, on_error="skip")
    done = root.ask("update_records", model=FLIGHT, each=each, on_error="skip", confirm=shown["confirm"])

    assert shown["invalid_count"] == 1 and shown["invalid"][0]["row"] == "4"
    assert done["count"] == 1 and done["invalid"][0]["errors"][0]["field"].startswith("4: values.status")
    assert notes()[1] == "one"


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.every_database
def test_a_row_that_fails_when_it_is_written_takes_all_back_or_itself_alone(
    root: Writer, declared: Declared, on_error: str
) -> None:
    class FlightAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ["notes"]

        def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
            super().save_model(request, obj, form, change)
            if obj.pk == 4:
                Airline.objects.bulk_create([Airline(carrier=obj.carrier_id)])

    declared.admin(Flight, FlightAdmin)
    arguments = {"model": FLIGHT, "ids": ["1", "4"], "values": {"notes": "fog"}, "on_error": on_error}
    confirm = root.ask("update_records", **arguments)["confirm"]

    told = root.told("update_records", **arguments, confirm=confirm)

    assert notes()[4] == "note 3" and notes()[1] == ("note 0" if on_error == "stop" else "fog"), told


@pytest.mark.every_database
def test_it_is_bound_to_the_rows_and_to_the_fields_that_are_named(root: Writer) -> None:
    arguments: dict[str, Any] = {"model": FLIGHT, "filter": JFK, "values": {"notes": "fog"}}
    confirm = root.ask("update_records", **arguments)["confirm"]
    Flight.objects.filter(pk=1).update(status="delayed")  # Another field: on a busy table, others move.

    stale = []
    for change in ({"notes": "other"}, {"origin_id": "LGA"}):
        with transaction.atomic():
            Flight.objects.filter(pk=1).update(**change)
            stale.append("has changed since" in root.refused("update_records", **arguments, confirm=confirm))
            transaction.set_rollback(True)

    assert stale == [True, True]
    assert root.ask("update_records", **arguments, confirm=confirm)["status"] == "applied"


def test_many_rows_wait_for_the_page_and_never_fit_into_a_question(root: Writer, bob: User) -> None:
    more_flights(25)
    waits = update(root, filter=JFK, values={"notes": "fog"})

    assert waits["status"] == "pending" and "fog" not in notes().values()
    assert Browser(root.user).apply(waits["change"]) == ["The change was made."]
    assert list(notes().values()).count("fog") > 20


@pytest.mark.every_database
def test_others_approve_what_they_see_of_all_rows(root: Writer, users: Users, declared: Declared, bob: User) -> None:
    declared.model(Flight, consent={"update": Approval(when=lambda change: change.rows > 1)})
    assert update(root, ids=["1"], values={"notes": "fog"})["status"] == "applied"
    key = update(root, ids=["1", "4"], values={"notes": "snow"})["change"]
    page = text_of(Browser(bob).page(key))
    assert "snow" in page and "note 3" in page
    digest = Browser(bob).digest(key)
    Flight.objects.filter(pk=4).update(notes="moved")

    assert "have changed since" in said(Browser(bob).decide(key, "approve", digest=digest))[0]
    assert approve(bob, key) == ["The change was made."] and (notes()[1], notes()[4]) == ("snow", "snow")


def test_a_rule_sees_each_row_and_how_many_there_are(root: Writer, declared: Declared, bob: User) -> None:
    seen: list[Any] = []

    def rule(considered: Any) -> bool:
        seen.append((considered.rows, considered.before["notes"], considered.after["notes"]))
        return False

    declared.model(Flight, consent={"update": Approval(when=rule)})

    assert update(root, ids=["1", "4"], values={"notes": "fog"})["status"] == "applied"
    assert set(seen) == {(2, "note 0", "fog"), (2, "note 3", "fog")}


def test_hiding_a_value_from_a_rule_behind_a_row_that_is_refused_until_another_is_written(
    root: Writer, declared: Declared, bob: User
) -> None:
    first, second = (Supplier.objects.create(name="x", code=code, rating=1) for code in "AB")
    declared.admin(Supplier, type("Suppliers", (admin.ModelAdmin,), {"fields": ["name", "code", "rating"]}))
    declared.model(Supplier, consent={"update": Approval(when=lambda change: change.after["rating"] > 5)})
    each = [{"id": str(first.pk), "code": "C"}, {"id": str(second.pk), "code": "A", "rating": 9}]
    arguments: dict[str, Any] = {"model": "shop.supplier", "each": each, "on_error": "skip"}
    shown = root.ask("update_records", **arguments)

    told = root.told("update_records", **arguments, confirm=shown["confirm"])

    assert "Other people" in str(shown["notes"]) and "approve" in told
    assert not Supplier.objects.filter(rating=9).exists()


# New rows.


@pytest.mark.every_database
def test_rows_are_created_together(root: Writer) -> None:
    rows = [{"carrier": "Q1", "name": "One"}, {"carrier": "Q2", "name": "Two"}]

    done = root.confirmed("create_records", model="flights.airline", rows=rows)

    assert (done["count"], done["ids"]) == (2, ["Q1", "Q2"])
    assert dict(Airline.objects.filter(carrier__startswith="Q").values_list("carrier", "name")) == {
        "Q1": "One",
        "Q2": "Two",
    }


def test_a_row_that_is_taken_stops_all_of_them(root: Writer) -> None:
    taken = Airline.objects.values_list("carrier", flat=True)[0]
    rows = [{"carrier": "Q1", "name": "One"}, {"carrier": taken, "name": "Two"}, {"carrier": "Q1", "name": "Three"}]

    told = root.refused("create_records", model="flights.airline", rows=rows)

    assert "row 2: values.carrier" in told and not Airline.objects.filter(carrier="Q1").exists()


# Attacks.


def test_naming_rows_that_another_user_sees(ops: Writer) -> None:
    hidden = Flight.objects.exclude(origin_id="JFK").values_list("pk", flat=True)[0]
    absent = 999_999

    told = [
        ops.refused("update_records", model=FLIGHT, ids=["1", str(key)], values={"notes": "x"}).replace(str(key), "?")
        for key in (hidden, absent)
    ]

    assert told[0] == told[1] and "x" not in notes().values()
    everything = ops.ask("update_records", model=FLIGHT, filter={"pk__isnull": False}, values={"notes": "x"})
    assert everything["count"] == Flight.objects.filter(origin_id="JFK").count()


def test_finding_out_a_hidden_field_by_a_filter_or_a_value(root: Writer, declared: Declared) -> None:
    declared.model(Flight, fields=["number", "notes"])

    told = [
        root.refused("update_records", model=FLIGHT, filter={"status": "on_time"}, values={"notes": "x"}),
        root.refused("update_records", model=FLIGHT, filter={"nothing": "on_time"}, values={"notes": "x"}),
        root.refused("update_records", model=FLIGHT, ids=["1"], values={"status": "cancelled"}),
    ]

    assert told[0].replace("status", "nothing").split("Fields")[0] == told[1].split("Fields")[0]
    assert "no field 'status'" in told[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"values": {"notes": "x"}}, "give one of ids, filter, each"),
        ({"ids": ["1"], "filter": JFK, "values": {"notes": "x"}}, "give one of ids, filter, each"),
        ({"ids": ["1"]}, "field → value"),
        ({"each": [{"notes": "x"}]}, "each.0.id"),
        ({"each": [{"id": "1", "notes": "x"}, {"id": 1, "notes": "y"}]}, "stands twice"),
        ({"each": [{"id": "1", "notes": "x"}], "values": {"notes": "x"}}, "does not go with each"),
        ({"filter": {"origin": "XXX"}, "values": {"notes": "x"}}, "origin"),
        ({"filter": {"number": 9_999}, "values": {"notes": "x"}}, "No row matches"),
        ({"ids": ["1"], "values": {"nothing": "x"}}, "nothing"),
        ({"ids": ["1"], "values": {"notes": "x"}, "on_error": "retry"}, "on_error"),
    ],
)
def test_arguments_that_do_not_go_together(root: Writer, arguments: Any, words: str) -> None:
    assert words in root.refused("update_records", model=FLIGHT, **arguments)


def test_more_rows_than_a_call_may_write(root: Writer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BULK_ROWS": 2}

    told = [
        root.refused("update_records", model=FLIGHT, ids=["1", "2", "3"], values={"notes": "x"}),
        root.refused("update_records", model=FLIGHT, filter=JFK, values={"notes": "x"}),
        root.refused("delete_record", model=FLIGHT, filter=JFK),
    ]

    assert "at most 2" in told[0] and all("more than 2 rows match" in one for one in told[1:])


def test_rows_that_could_not_be_checked_in_time_are_counted(root: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    more_flights(25)
    monkeypatch.setattr(records, "_PREVIEW_SECONDS", -1)

    shown = root.ask("update_records", model=FLIGHT, filter={"pk__isnull": False}, values={"notes": "fog"})

    assert any("rows are not checked yet: that would take too long." in note for note in shown["notes"])


# Rows that somebody else holds.


@pytest.mark.every_database
def test_rows_that_somebody_is_changing_are_named_and_nobody_waits(root: Writer, users: Users) -> None:
    if not connection.features.has_select_for_update_skip_locked:
        pytest.skip("this database holds no rows")
    keys = list(Flight.objects.order_by("pk").values_list("pk", flat=True))[:2]
    more_flights(25)
    every = {"pk__isnull": False}
    arguments: dict[str, Any] = {"model": FLIGHT, "filter": every, "values": {"notes": "fog"}}
    key = root.confirmed("update_records", **arguments)["change"]
    digest = Browser(root.user).digest(key)

    def click() -> list[str]:
        try:
            return said(Browser(User.objects.get(pk=users.admin.pk)).decide(key, "apply", digest=digest))
        finally:
            connections.close_all()

    with transaction.atomic():
        Flight.objects.select_for_update().filter(pk__in=keys).count()
        list(Flight.objects.select_for_update().filter(pk__in=keys))
        with ThreadPoolExecutor(1) as pool:
            told = pool.submit(click).result()

    assert told[0].startswith(f"Somebody is changing 2 of these rows: {keys[0]}, {keys[1]}.")
    assert "fog" not in notes().values()


# A file.


@pytest.fixture(autouse=True)
def _media(settings: Any, tmp_path: Any) -> None:
    settings.MEDIA_ROOT = str(tmp_path)


def upload(writer: Writer, content: bytes) -> str:
    """The URI of a file that the agent has uploaded."""
    principal = Principal(writer.user, frozenset(ALL_SCOPES), source=Source.REQUEST)
    made = upload_rows.begin(site, principal, "airlines.csv", "text/csv", len(content))
    assert upload_rows.add(made, 0, BytesIO(content), len(content))
    return str(made.uri)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_rows_of_a_file(root: Writer, mark: bytes) -> None:
    uri = upload(root, mark + 'carrier,name\r\nQ1,"Aéro, one"\r\n\r\nQ2,Two\r\n'.encode())

    done = root.confirmed("create_records", model="flights.airline", file=uri)

    assert (done["count"], done["ids"]) == (2, ["Q1", "Q2"])
    assert Airline.objects.get(carrier="Q1").name == "Aéro, one"


def test_numbers_and_dates_of_a_file_are_written_as_in_json_and_an_empty_cell_is_not_named(root: Writer) -> None:
    one = Flight.objects.get(pk=1)
    head = "carrier,number,departs_at,origin,destination,distance,notes"
    line = f"{one.carrier_id},77,2013-05-01T10:00:00Z,{one.origin_id},{one.destination_id},100,"
    made = root.confirmed("create_records", model=FLIGHT, file=upload(root, f"{head}\n{line}\n".encode()))
    wrong = root.refused(
        "create_records", model=FLIGHT, file=upload(root, f"{head}\n{line.replace('77', 'a few')}\n".encode())
    )

    flight = Flight.objects.get(pk=made["ids"][0])
    assert (flight.number, flight.departs_at.isoformat(), flight.notes) == (77, "2013-05-01T10:00:00+00:00", "")
    assert "line 2: number is not written as in JSON" in wrong


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"carrier,name,carrier\n", "line 1: carrier stands twice"),
        (b"carrier,nothing\n", "line 1: nothing is no field. Fields: carrier, name."),
        (b"name\nOne\n", "line 1: carrier is missing and required"),
        (b"carrier,name\nQ1\n", "line 2: has 1 cells, and the first line 2."),
        (b'carrier,name\nQ1,"One\n', "line 2: unexpected end of data."),
        (b"carrier,name\n\xff,One\n", "is not UTF-8"),
        (b"carrier,name\n", "has no rows"),
        (b"carrier,name\nQ1,One\nQ2,Two\nQ3,Three\n", "has more than 2 rows"),
    ],
)
def test_a_file_that_is_refused_whole(root: Writer, settings: Any, content: bytes, words: str) -> None:
    settings.MCP = {**settings.MCP, "MAX_BULK_ROWS": 2}

    assert words in root.refused("create_records", model="flights.airline", file=upload(root, content))
    assert not Airline.objects.filter(carrier__startswith="Q").exists()


def test_a_file_that_would_fill_the_memory(root: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.bridge.writes.given_records._MOST_BYTES", 20)
    uri = upload(root, b"carrier,name\nQ1,One\nQ2,Two\n")

    assert "is larger than 20 bytes" in root.refused("create_records", model="flights.airline", file=uri)


def test_naming_a_file_of_somebody_else(root: Writer, ops: Writer) -> None:
    uri = upload(root, b"carrier,name\nQ1,One\n")

    told = ops.refused("create_records", model="flights.disruption", file=uri)

    assert told == ops.refused("create_records", model="flights.disruption", file=uri[:-5] + "AAAAA").replace(
        uri[:-5] + "AAAAA", uri
    )
    assert "is no upload://" in told


# The demo.


@pytest.mark.every_database
def test_the_flights_of_a_day_are_cancelled_once_admin_approves_and_the_agent_undoes_it(
    ops: Writer, users: Users
) -> None:
    let_others_approve("update_records")
    carrier = Flight.objects.get(pk=1).carrier_id
    day = {"origin": "JFK", "carrier": carrier, "departs_at__date": "2013-01-01"}
    found = Flight.objects.filter(origin_id="JFK", carrier_id=carrier)
    before = set(found.values_list("pk", "status"))
    assert len(before) > 0

    waits = update(ops, filter=day, values={"status": "cancelled"}, reason="snow")
    assert waits["needs"]["approvals"] == 1 and set(found.values_list("pk", "status")) == before
    assert approve(users.admin, waits["change"]) == ["The change was made."]
    assert set(found.values_list("status", flat=True)) == {"cancelled"}

    undone = ops.confirmed("undo_change", change=waits["change"])
    assert approve(users.admin, undone["change"]) == ["The change was made."]
    assert set(found.values_list("pk", "status")) == before


# Deletes.


@pytest.mark.every_database
def test_the_rows_of_a_filter_are_deleted_once_their_user_agrees(root: Writer) -> None:
    shown = root.ask("delete_record", model=FLIGHT, filter=JFK)
    count = Flight.objects.filter(origin_id="JFK").count()
    waits = root.ask("delete_record", model=FLIGHT, filter=JFK, confirm=shown["confirm"])

    assert shown["count"] == count and waits["status"] == "pending"
    assert Browser(root.user).apply(waits["change"]) == ["The change was made."]
    assert not Flight.objects.filter(origin_id="JFK").exists()


def test_rows_that_match_a_filter_later_are_not_deleted(root: Writer) -> None:
    confirm = root.ask("delete_record", model=FLIGHT, filter=JFK)["confirm"]
    more_flights(1)

    assert "has changed since" in root.refused("delete_record", model=FLIGHT, filter=JFK, confirm=confirm)


# What it says.


def test_a_preview_is_short(root: Writer) -> None:
    more_flights(150)

    shown = root.ask("update_records", model=FLIGHT, filter=JFK, values={"status": "cancelled"})

    assert shown["count"] > 150 and len(encode(shown)) <= 700
