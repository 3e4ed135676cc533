"""Unknown values in conditions are refused with the nearest right ones, and never give an empty answer."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django.protocol.errors import TooSlow
from mcp_django.resources import keys, known_values
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


@pytest.mark.parametrize(("asked", "message"), [
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
])  # fmt: skip
def test_a_value_that_is_none_is_refused_with_the_nearest(
    root: DirectPeer, declared: Declared, asked: Any, message: str
) -> None:
    declared.model(Airport, fields="__all__", search_fields=["faa", "name"])

    assert refused(root, asked) == [message]


def test_all_of_a_call_are_reported_together_with_its_other_mistakes(root: DirectPeer) -> None:
    asked = {"carrier": "United", "status": "canceled", "statsu": "x"}

    errors = errors_of(root.call("find_records", model="flights.flight", filter=asked, fields=["nmuber"]))

    assert [error["field"] for error in errors] == ["filter.statsu", "fields", "filter.carrier", "filter.status"]
    assert [error["message"] for error in errors[2:]] == [UNITED, CANCELED]
    assert errors[2]["received"] == "United"


def test_aggregates_refuse_them_too(root: DirectPeer) -> None:
    [error] = errors_of(root.call("aggregate_records", model="flights.flight", filter={"carrier": "United"}))

    assert (error["field"], error["message"]) == ("filter.carrier", UNITED)


def test_conditions_of_measures_refuse_them_too(root: DirectPeer) -> None:
    asked = {"conditions": {"lost": {"status": "canceled"}}, "measures": ["share@lost"]}

    [error] = errors_of(root.call("aggregate_records", model="flights.flight", **asked))

    assert (error["field"], error["message"]) == ("conditions.lost.status", CANCELED)


@pytest.mark.parametrize("query", ["carrier=United", "carrier=United&measures=count"])
def test_the_query_of_a_uri_refuses_them_by_its_parameter(root: DirectPeer, query: str) -> None:
    [error] = root.error(MODERN, "resources/read", {"uri": f"db://flights/flight?{query}"})["data"]["errors"]

    assert (error["field"], error["message"]) == ("carrier", UNITED)


def test_a_row_without_others_that_point_to_it_is_an_empty_answer(root: DirectPeer) -> None:
    Airline.objects.create(carrier="B6", name="JetBlue")

    assert (found_keys(root, filter={"carrier": "B6"}), notes(root, {"carrier": "B6"})) == ([], [])
    assert (found_keys(root, filter={"status": "delayed"}), notes(root, {"status": "delayed"})) == ([], [])


def test_a_value_from_before_the_choices_is_found(root: DirectPeer) -> None:
    Flight.objects.filter(pk=2).update(status="diverted")

    assert found_keys(root, filter={"status": "diverted"}) == [2]
    assert notes(root, {"status__in": ["diverted", "on_time"]}) == []


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


def test_the_empty_text_of_a_column_that_may_be_blank_is_a_value(root: DirectPeer) -> None:
    assert found_keys(root, filter={"tailnum": ""}) != []
    assert refused(root, {"status": ""}) == ["status has no choice ''. Allowed: on_time, delayed, cancelled."]


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


@pytest.mark.parametrize("key", ["Acme", "acme ltd", "Akme"])
def test_a_name_in_the_place_of_a_number_is_answered_with_the_number(
    root: DirectPeer, declared: Declared, key: str
) -> None:
    declared.model(Supplier, fields=["name"], search_fields=["name"])
    declared.model(Part, fields=["name", "supplier"])
    Supplier.objects.create(id=77, name="Acme Ltd")

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


@pytest.mark.parametrize(("key", "suggestion"), [
    ("JF", " Did you mean JFK?"), ("kennedy", " Did you mean JFK, John F Kennedy Intl?"), ("QQ", ""), ("%", ""),
])  # fmt: skip
def test_a_key_without_a_record_is_answered_with_the_nearest(root: DirectPeer, key: str, suggestion: str) -> None:
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
