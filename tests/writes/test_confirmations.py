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
from django.utils import timezone

from demo_project.flights.models import Airline, Disruption, Flight
from mcp_django.models import AccessToken, Change
from mcp_django.tools import confirmations
from mcp_django.writes import store
from tests.shop.models import Making, Part, Supplier, Tag
from tests.support.data import Users, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Message, Peers
from tests.writes.conftest import Writer

LATE = {"model": "flights.flight", "id": "1", "values": {"status": "delayed"}}
PLANE = {
    "model": "flights.plane",
    "values": {
        "tailnum": "N1", "type": "Rotorcraft", "manufacturer": "A", "model": "B", "engines": 1, "seats": 2,
        "engine": "Turbo-jet",
    },
}  # fmt: skip

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
    Change.objects.filter(pk=made["change"]).update(key="abcdef")

    assert root.ask("get_change", change="abcdef")["status"] == "applied"
    assert "no such change" in root.refused("get_change", change="ABCDEF")


def test_a_token_of_a_user_who_may_not_do_it_any_more_confirms_nothing(writer: Callable[..., Writer]) -> None:
    staff = make_staff("staff", "flights.view_flight", "flights.change_flight")
    token = token_for(writer(staff))
    staff.user_permissions.remove(Permission.objects.get(codename="change_flight"))
    again = type(staff).objects.get(pk=staff.pk)

    result = writer(again).request("2026-07-28", "tools/call", {
        "name": "update_record", "arguments": {**LATE, "confirm": token},
    })  # fmt: skip

    assert "error" in result or result["result"]["isError"]
    assert status_of() == "on_time" and not Change.objects.exists()


# What.


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "another row": ("update_record", {**LATE, "id": "4"}),
    "another value": ("update_record", {**LATE, "values": {"status": "cancelled"}}),
    "one more value": ("update_record", {**LATE, "values": {**LATE["values"], "notes": "x"}}),  # type: ignore[dict-item]
    "another model": ("update_record", {**LATE, "model": "flights.disruption", "id": "901", "values": {"note": "x"}}),
    "a new row": ("create_record", PLANE),
    "a delete": ("delete_record", {"model": "flights.flight", "ids": ["1"]}),
    "a delete of others": ("delete_record", {"model": "flights.flight", "ids": ["1", "4"]}),
}


@pytest.mark.parametrize("used_for", OTHERS.values(), ids=OTHERS)
def test_a_token_for_one_change_confirms_no_other(
    root: Writer, declared: Declared, used_for: tuple[str, dict[str, Any]]
) -> None:
    declared.model(Flight, consent={"delete": "preview"})
    tool, arguments = used_for

    told = root.refused(tool, **arguments, confirm=token_for(root))

    assert NO_TOKEN in told
    assert not Change.objects.exists() and not LogEntry.objects.exists()
    assert [status_of(1), status_of(4)] == ["on_time", "on_time"]


def test_a_token_for_a_preview_of_another_operation_confirms_nothing(root: Writer) -> None:
    shown = root.ask("preview_change", operation="delete", model="flights.disruption", ids=["901"])
    arguments = {"model": "flights.disruption", "id": "901", "values": {"note": "x"}}

    assert NO_TOKEN in root.refused("update_record", **arguments, confirm=shown["confirm"])


def test_the_same_change_in_other_words_is_the_one_that_was_shown(root: Writer) -> None:
    token = root.ask("preview_change", operation="update", **LATE)["confirm"]

    made = root.ask("update_record", model="Flights.Flight", id=1, values={"status": "delayed"}, confirm=token)

    assert made["status"] == "applied"


def test_a_reason_may_be_given_that_was_not_there_when_the_change_was_shown(root: Writer) -> None:
    made = root.ask("update_record", **LATE, confirm=token_for(root), reason="Fog.")

    assert Change.objects.get(pk=made["change"]).reason == "Fog."


# The token itself.


@pytest.mark.parametrize("place", range(0, 50, 7))
def test_a_token_that_is_altered_by_one_character_confirms_nothing(root: Writer, place: int) -> None:
    token = token_for(root)
    altered = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]

    assert NO_TOKEN in root.refused("update_record", **LATE, confirm=altered)
    assert status_of() == "on_time"


@pytest.mark.parametrize("beside", ["{}A", "{}=", "{} ", " {}", "{}\n", "{}\x00", "{}ä"])
def test_a_token_with_anything_beside_it_confirms_nothing(root: Writer, beside: str) -> None:
    told = root.refused("update_record", **LATE, confirm=beside.format(token_for(root)))

    assert '"field":"confirm"' in told.replace(" ", "")
    assert status_of() == "on_time"


def test_an_empty_token_is_none(root: Writer) -> None:
    assert root.ask("update_record", **LATE, confirm="")["status"] == "preview"
    assert status_of() == "on_time"


@pytest.mark.parametrize("token", ["A", "A" * 50, "A" * 60, "ä" * 50, "\x00" * 50, "=" * 50])
def test_what_is_no_token_is_refused(root: Writer, token: str) -> None:
    told = root.refused("update_record", **LATE, confirm=token)

    assert "confirm" in told
    assert status_of() == "on_time" and not Change.objects.exists()


@pytest.mark.parametrize("token", ["A" * 61, "A" * 100_000])
def test_a_token_that_is_too_long_is_refused_and_not_repeated(root: Writer, token: str) -> None:
    told = root.refused("update_record", **LATE, confirm=token)

    assert "60" in told and len(told) < 1_000


@pytest.mark.parametrize("token", [1, True, ["A"], {"a": 1}])
def test_a_token_that_is_no_text_is_refused(root: Writer, token: Any) -> None:
    assert "confirm" in root.refused("update_record", **LATE, confirm=token)


def test_a_token_of_another_secret_key_confirms_nothing(root: Writer, settings: Any) -> None:
    token = token_for(root)
    settings.SECRET_KEY = "another"

    assert NO_TOKEN in root.refused("update_record", **LATE, confirm=token)


def test_a_token_of_the_secret_key_before_is_still_one(root: Writer, settings: Any) -> None:
    token = token_for(root)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", [settings.SECRET_KEY]

    assert root.ask("update_record", **LATE, confirm=token)["status"] == "applied"


def test_yesterdays_token_confirms_nothing(root: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    yesterday = time.time() - 86_400
    with monkeypatch.context() as then:
        then.setattr(confirmations.time, "time", lambda: yesterday)
        token = token_for(root)

    told = root.refused("update_record", **LATE, confirm=token)

    assert "This token has expired." in told
    assert status_of() == "on_time" and not Change.objects.exists()


def test_a_date_that_is_put_off_makes_a_token_no_longer_valid(root: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    yesterday = time.time() - 86_400
    with monkeypatch.context() as then:
        then.setattr(confirmations.time, "time", lambda: yesterday)
        old = token_for(root)
    fresh = token_for(root)

    # The first characters hold the date, and the next ones the nonce.
    assert NO_TOKEN in root.refused("update_record", **LATE, confirm=fresh[:5] + old[5:])
    assert NO_TOKEN in root.refused("update_record", **LATE, confirm=old[:5] + fresh[5:])


# Once.


@pytest.mark.every_database
def test_a_row_is_created_once_by_a_call_that_is_sent_again(root: Writer) -> None:
    values = {"flight": "1", "kind": "crew", "severity": "minor"}
    token = token_for(root, "create_record", model="flights.disruption", values=values)

    answers = [root.ask("create_record", model="flights.disruption", values=values, confirm=token) for _ in "abc"]

    assert Disruption.objects.filter(kind="crew").count() == 1
    assert len({answer["id"] for answer in answers}) == 1
    assert [answer.get("replayed", False) for answer in answers] == [False, True, True]


@pytest.mark.parametrize(
    "others", [{"values": {"status": "cancelled"}}, {"id": "4"}, {"rows": {}}, {"model": "flights.airline", "id": "UA"}]
)
def test_a_replay_with_other_arguments_gives_no_answer_and_writes_nothing(root: Writer, others: Message) -> None:
    token = token_for(root)
    root.ask("update_record", **LATE, confirm=token)

    told = root.refused("update_record", **{**LATE, **others}, confirm=token)

    assert NO_TOKEN in told
    assert status_of() == "delayed" and Change.objects.count() == 1


def test_a_replay_with_another_reason_is_the_same_call(root: Writer) -> None:
    token = token_for(root)
    root.ask("update_record", **LATE, confirm=token, reason="Fog.")

    again = root.ask("update_record", **LATE, confirm=token, reason="Snow.")

    assert again["replayed"] is True
    assert Change.objects.get().reason == "Fog."


def test_after_a_day_a_replay_says_what_was_done_without_the_values(
    root: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = token_for(root)
    made = root.ask("update_record", **LATE, confirm=token)
    tomorrow = timezone.now() + timedelta(days=1, minutes=1)
    monkeypatch.setattr(store.timezone, "now", lambda: tomorrow)
    other = {**LATE, "id": "4"}
    root.ask("update_record", **other, confirm=token_for(root, **other))

    again = root.ask("update_record", **LATE, confirm=token)

    assert again == {
        "status": "applied", "change": made["change"], "model": "flights.flight", "ids": ["1"], "replayed": True,
    }  # fmt: skip
    assert "delayed" not in str(Change.objects.filter(pk=made["change"]).values())


# What has changed between.


@pytest.mark.every_database
def test_a_column_that_has_changed_since_the_preview_makes_the_token_void(root: Writer) -> None:
    token = token_for(root)
    Flight.objects.filter(pk=1).update(notes="somebody else was here")

    told = root.refused("update_record", **LATE, confirm=token)

    assert CHANGED in told
    assert status_of() == "on_time" and not Change.objects.exists()


@pytest.mark.every_database
def test_a_column_that_is_not_in_the_form_has_changed_and_makes_the_token_void(
    root: Writer, declared: Declared
) -> None:
    declared.admin(Flight, type("Admin", (ModelAdmin,), {"fields": ["status"]}))
    token = token_for(root)
    Flight.objects.filter(pk=1).update(air_time=77)

    assert CHANGED in root.refused("update_record", **LATE, confirm=token)


def test_another_row_that_has_changed_leaves_the_token_valid(root: Writer) -> None:
    token = token_for(root)
    Flight.objects.filter(pk=4).update(notes="x")
    Airline.objects.update(name="x")

    assert root.ask("update_record", **LATE, confirm=token)["status"] == "applied"


@pytest.mark.every_database
def test_the_row_that_is_put_back_as_it_was_shown_is_the_row_that_was_shown(root: Writer) -> None:
    token = token_for(root)
    Flight.objects.filter(pk=1).update(notes="x")
    root.refused("update_record", **LATE, confirm=token)
    Flight.objects.filter(pk=1).update(notes="note 0")

    assert root.ask("update_record", **LATE, confirm=token)["status"] == "applied"


@pytest.fixture
def part(declared: Declared) -> Part:
    class Inline(TabularInline[Making, Part]):
        model = Making
        extra = 0

    declared.admin(Supplier, ModelAdmin)
    declared.admin(Part, type("Admin", (ModelAdmin,), {"fields": ["name", "weight", "tags"], "inlines": [Inline]}))
    part = Part.objects.create(name="bolt", weight=1)
    part.tags.set([Tag.objects.create(name="red"), Tag.objects.create(name="blue")])
    Making.objects.create(part=part, maker=Supplier.objects.create(name="Ann", code="A"))
    return part


def of_part(part: Part, **values: Any) -> Message:
    return {"model": "shop.part", "id": str(part.pk), "values": {"name": "nut", "weight": 2, **values}}


@pytest.mark.every_database
def test_a_link_that_has_changed_since_the_preview_makes_the_token_void(root: Writer, part: Part) -> None:
    token = token_for(root, **of_part(part, tags=["red"]))
    part.tags.add(Tag.objects.create(name="green"))

    told = root.refused("update_record", **of_part(part, tags=["red"]), confirm=token)

    assert CHANGED in told
    assert part.tags.count() == 3


@pytest.mark.every_database
@pytest.mark.parametrize("change", ["edit", "add", "delete"])
def test_a_row_of_an_inline_that_has_changed_since_the_preview_makes_the_token_void(
    root: Writer, part: Part, change: str
) -> None:
    arguments = of_part(part, tags=["red"])
    token = token_for(root, **arguments)
    match change:
        case "edit":
            Making.objects.update(open=False)
        case "add":
            Making.objects.create(part=part, maker=Supplier.objects.get())
        case "delete":
            Making.objects.all().delete()

    told = root.refused("update_record", **arguments, confirm=token)

    part.refresh_from_db()
    assert CHANGED in told
    assert part.name == "bolt" and part.tags.count() == 2


def test_a_row_that_goes_with_a_delete_and_was_not_there_makes_the_token_void(root: Writer, declared: Declared) -> None:
    declared.model(Flight, consent={"delete": "preview"})
    token = token_for(root, "delete_record", model="flights.flight", ids=["1"])
    Disruption.objects.create(flight_id=1, kind="crew")

    told = root.refused("delete_record", model="flights.flight", ids=["1"], confirm=token)

    assert CHANGED in told
    assert Flight.objects.filter(pk=1).exists()


def test_a_row_that_is_gone_since_the_preview_is_not_made_anew(root: Writer) -> None:
    arguments = {"model": "flights.disruption", "id": "901", "values": {"note": "x"}}
    token = token_for(root, **arguments)
    Disruption.objects.all().delete()

    told = root.refused("update_record", **arguments, confirm=token)

    assert "no flights.disruption with the primary key 901" in told
    assert not Disruption.objects.exists() and not Change.objects.exists()
