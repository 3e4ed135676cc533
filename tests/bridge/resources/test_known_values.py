"""Unknown values in conditions are refused with the nearest right ones, and never give an empty answer."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django.bridge.resources.reading import keys, known_values
from mcp_django.protocol.errors import TooSlow
from tests.shop.models import Part, Person, Supplier, Visit
from tests.support.asking import DirectPeer, errors_of
from tests.support.asking import keys as found_keys
from tests.support.data import make_flights
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

UNITED = "no visible flights.airline has the key 'United'. Did you mean UA, United Air Lines Inc.?"
CANCELED = "status has no choice 'canceled'. Did you mean cancelled? Allowed: on_time, delayed, cancelled."


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    Airline.objects.filter(carrier="UA").update(name="United Air Lines Inc.")
    Airport.objects.filter(faa="JFK").update(name="John F Kennedy Intl")
    return DirectPeer(User.objects.create_superuser("root"))


def refused(peer: DirectPeer, asked: Any, model: str = "flights.flight") -> list[str]:
    return [error["message"] for error in errors_of(peer.call("find_records", model=model, filter=asked))]


def notes(peer: DirectPeer, asked: Any, model: str = "flights.flight") -> list[str]:
    answer = peer.call("find_records", model=model, filter=asked)
    assert answer["isError"] is False, answer
    found: list[str] = answer["structuredContent"].get("notes", [])
    return [note for note in found if not note.startswith("Left out")]


REFUSED = [
    ({"status": "canceled"}, CANCELED),
    ({"status__exact": "canceled"}, CANCELED),
    ({"status__in": ["canceled"]}, CANCELED),
    ({"status": "x"}, "status has no choice 'x'. Allowed: on_time, delayed, cancelled."),
    ({"carrier": "United"}, UNITED),
    ({"carrier__in": ["United"]}, UNITED),
    ({"carrier__in": ["United", "United"]}, UNITED),
    ({"carrier__carrier": "United"}, UNITED),
    ({"carrier__pk": "United"}, UNITED),
    ({"carrier": {"pk": "United"}}, UNITED),
    ({"not": {"carrier": "United"}}, UNITED),
    ({"any": [{"carrier": "United"}, {"id": 1}]}, UNITED),
    ({"disruptions": {"not": {"flight__carrier": "United"}}}, UNITED),
    ({"origin": "JF"}, "no visible flights.airport has the key 'JF'. Did you mean JFK?"),
    ({"origin": "kennedy"}, "no visible flights.airport has the key 'kennedy'. Did you mean JFK, John F Kennedy Intl?"),
    ({"origin": "Kenedy"}, "no visible flights.airport has the key 'Kenedy'. Did you mean JFK, John F Kennedy Intl?"),
    ({"origin": "QQ"}, "no visible flights.airport has the key 'QQ'."),
    ({"origin__in": ["QQ", "RR"]}, "no visible flights.airport has the key 'QQ' or 'RR'."),
    ({"origin__daylight_saving": "united states"},
     "daylight_saving has no choice 'united states'. Did you mean A, as in the United States? Allowed: A, N, U."),
]  # fmt: skip


def test_a_value_that_is_none_is_refused_with_the_nearest(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, fields="__all__", search_fields=["faa", "name"])

    assert {str(asked): refused(root, asked) for asked, _ in REFUSED} == {
        str(asked): [message] for asked, message in REFUSED
    }


def test_all_of_a_call_are_reported_together_with_its_other_mistakes(root: DirectPeer) -> None:
    asked = {"carrier": "United", "status": "canceled", "statsu": "x"}

    errors = errors_of(root.call("find_records", model="flights.flight", filter=asked, fields=["nmuber"]))

    assert [error["field"] for error in errors] == ["filter.statsu", "fields", "filter.carrier", "filter.status"]
    assert [error["message"] for error in errors[2:]] == [UNITED, CANCELED]
    assert errors[2]["received"] == "United"


def test_aggregates_and_queries_by_uri_refuse_them_too(root: DirectPeer) -> None:
    def told(errors: Any) -> list[tuple[str, str]]:
        return [(error["field"], error["message"]) for error in errors]

    def of_tool(**asked: Any) -> list[tuple[str, str]]:
        return told(errors_of(root.call("aggregate_records", model="flights.flight", **asked)))

    assert of_tool(filter={"carrier": "United"}) == [("filter.carrier", UNITED)]
    asked = {"conditions": {"lost": {"status": "canceled"}}, "measures": ["share@lost"]}
    assert of_tool(**asked) == [("conditions.lost.status", CANCELED)]
    for query in ("carrier=United", "carrier=United&measures=count"):
        error = root.error(MODERN, "resources/read", {"uri": f"db://flights/flight?{query}"})
        assert told(error["data"]["errors"]) == [("carrier", UNITED)]


def test_a_value_that_there_is_without_rows_or_that_rows_hold_is_no_mistake(root: DirectPeer) -> None:
    Airline.objects.create(carrier="B6", name="JetBlue")
    Flight.objects.filter(pk=2).update(status="diverted")  # From before the choices.

    for asked in ({"carrier": "B6"}, {"status": "delayed"}):
        assert (found_keys(root, filter=asked), notes(root, asked)) == ([], []), asked
    assert found_keys(root, filter={"status": "diverted"}) == [2]
    assert notes(root, {"status__in": ["diverted", "on_time"]}) == []
    assert found_keys(root, filter={"tailnum": ""}) != []  # It may be blank, and status may not.
    assert refused(root, {"status": ""}) == ["status has no choice ''. Allowed: on_time, delayed, cancelled."]


def test_a_key_without_a_row_is_found(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name", "badge"])
    declared.model(Visit, fields=["person"])
    person = Person.objects.create(name="Ann", badge="a")
    visit = Visit.objects.create(person=person)
    with connection.constraint_checks_disabled():
        Visit.objects.update(person_id="gone")

        try:
            assert found_keys(root, "shop.visit", filter={"person": "gone"}) == [visit.pk]
            assert refused(root, {"person": "never"}, "shop.visit") == ["no visible shop.person has the badge 'never'."]
        finally:
            Visit.objects.update(person_id="a")


def test_of_a_list_the_values_that_are_none_are_told_in_a_note(root: DirectPeer) -> None:
    unknown = [f"{letter}{letter}" for letter in "CDEFGHI"]

    assert notes(root, {"carrier__in": ["UA", "AA"]}) == []
    assert notes(root, {"carrier__in": ["UA", "CC"]}) == ["carrier__in: no visible flights.airline has the key 'CC'."]
    assert notes(root, {"carrier__in": ["UA", *unknown]}) == [
        "carrier__in: no visible flights.airline has the key 'CC' or 'DD' or 'EE' or 'FF' or 'GG' and 2 more."
    ]
    assert notes(root, {"status__in": ["canceled", "on_time"]}) == [f"status__in: {CANCELED}"]


def test_the_next_page_is_not_refused(root: DirectPeer) -> None:
    asked = {"model": "flights.flight", "filter": {"carrier": "UA"}, "limit": 2}
    cursor = root.call("find_records", **asked)["structuredContent"]["next_cursor"]
    Flight.objects.update(carrier="AA")
    Airline.objects.filter(carrier="UA").delete()

    page = root.call("find_records", **asked, cursor=cursor)

    assert page["structuredContent"]["rows"] == []


def test_a_name_in_the_place_of_a_number_is_answered_with_the_number(root: DirectPeer, declared: Declared) -> None:
    declared.model(Supplier, fields=["name"], search_fields=["name"])
    declared.model(Part, fields=["name", "supplier"])
    Supplier.objects.create(id=77, name="Acme Ltd")

    for key in ("Acme", "acme ltd", "Akme"):
        assert refused(root, {"supplier": key}, "shop.part") == ["must be an integer. Did you mean 77, Acme Ltd?"]
    assert refused(root, {"supplier": 78}, "shop.part") == ["no visible shop.supplier has the key '78'."]


def test_too_slow_is_a_note_and_no_refusal(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(queryset: Any) -> Any:
        raise TooSlow

    monkeypatch.setattr(keys, "fetch_values", fetch)
    monkeypatch.setattr(known_values, "fetch_values", fetch)

    assert notes(root, {"carrier": "United", "not": {"status": "canceled"}}) == [
        f"{name}: its values could not be looked up in time (STATEMENT_SECONDS)." for name in ("carrier", "not.status")
    ]


def test_a_choice_is_no_question_to_the_database_and_a_key_is_one(root: DirectPeer) -> None:
    def statements(asked: Any) -> int:
        with CaptureQueriesContext(connection) as captured:
            root.call("find_records", model="flights.flight", filter=asked)
        return len([query for query in captured if "flights_" in query["sql"]])

    assert statements({"status": "cancelled", "status__in": ["on_time"]}) == statements({"number__gte": 0})
    assert statements({"carrier": "UA"}) == statements({"number__gte": 0}) + 1


# A single key.


NEAREST = [
    ("JF", " Did you mean JFK?"), ("kennedy", " Did you mean JFK, John F Kennedy Intl?"), ("QQ", ""), ("%", ""),
]  # fmt: skip


def test_a_key_without_a_record_is_answered_with_the_nearest(root: DirectPeer) -> None:
    for key, suggestion in NEAREST:
        [error] = errors_of(root.call("get_record", model="flights.airport", id=key))
        assert error["message"] == f"no flights.airport with the primary key {key}.{suggestion}"


def test_arguments_of_functions_are_answered_alike(root: DirectPeer, declared: Declared) -> None:
    def route(request: HttpRequest, start: Airport, end: Airport) -> str:
        """Find a route."""
        raise AssertionError("was called")

    declared.tool(route)

    errors = errors_of(root.call("route", start="JF", end="Kennedy"))

    assert [(error["field"], error["message"]) for error in errors] == [
        ("start", "no flights.airport with the primary key JF. Did you mean JFK?"),
        ("end", "no flights.airport with the primary key Kennedy. Did you mean JFK, John F Kennedy Intl?"),
    ]


def test_the_nearest_is_found_in_a_large_table(root: DirectPeer) -> None:
    Airport.objects.bulk_create(
        Airport(faa=f"{number:03}", name=f"Field {number}", latitude=1, longitude=1, altitude=1, utc_offset=0)
        for number in range(900)
    )

    assert refused(root, {"origin": "JF"}) == ["no visible flights.airport has the key 'JF'. Did you mean JFK?"]
    assert refused(root, {"origin": "Kenedy"}) == [
        "no visible flights.airport has the key 'Kenedy'. Did you mean JFK, John F Kennedy Intl?"
    ]
    assert refused(root, {"origin": "Jon F Kenedy Intl"}) == [
        "no visible flights.airport has the key 'Jon F Kenedy Intl'. Did you mean JFK, John F Kennedy Intl?"
    ], "the beginning of its longest word finds it; that of a shorter one finds too many others"


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="only SQLite stores bytes in a column of texts")
def test_bytes_in_the_place_of_a_text_are_not_suggested(root: DirectPeer) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE flights_airport SET name = %s WHERE faa = 'EWR'", [b"QQ\xff"])

    assert refused(root, {"origin": "QQ"}) == ["no visible flights.airport has the key 'QQ'."]
    assert refused(root, {"origin": "JF"}) == ["no visible flights.airport has the key 'JF'. Did you mean JFK?"]
