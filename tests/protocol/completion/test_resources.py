"""Completion of variables of resources: keys, and values of fields."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airport, Flight
from mcp_django.bridge.resources import completers
from tests.protocol.completion.conftest import FLIGHT, QUERY, ask, refused, suggested
from tests.shop.models import Locker, Person, Product, Tag, Visit
from tests.support.asking import DirectPeer, rights_on
from tests.support.declared import Declared

#: Of what the database compares. Python decides the rest.
every_database = pytest.mark.every_database


# Templates of resources.


def test_variables_of_a_declared_template(root: DirectPeer, declared: Declared) -> None:
    def order(request: HttpRequest, country: str, number: str) -> str:
        """Order."""
        return ""

    def numbers(request: HttpRequest, typed: str, arguments: dict[str, str]) -> list[str]:
        return [f"{arguments.get('country', '?')}-{typed}"]

    declared.resource("shop://{country}/{number}", order, complete={"number": numbers})

    assert suggested(root, "shop://{country}/{number}", "number", "1", country="it") == ["it-1"]
    assert suggested(root, "shop://{country}/{number}", "country", "i") == []
    assert refused(root, "shop://{country}/{number}", "nope")["data"]["reason"] == "INVALID_PARAMS"
    assert refused(root, "shop://it/1", "number")["data"]["reason"] == "REFERENCE_NOT_FOUND"


def test_the_template_of_the_demo(root: DirectPeer) -> None:
    assert suggested(root, "flights://board/{airport}/{day}", "airport", "j") == ["JFK"]
    assert suggested(root, "flights://board/{airport}/{day}", "airport", "i") == []  # Nothing leaves from IAH.


def test_a_resource_without_variables_has_no_arguments(root: DirectPeer) -> None:
    for uri in ("flights://about", "db://flights/flight", "db://flights/flight/1", "db://flights/flight.schema"):
        [entry] = refused(root, uri, "id")["data"]["errors"]
        assert entry["message"] == "no argument 'id'. Allowed: none."


def test_apps_and_models_of_a_schema(root: DirectPeer) -> None:
    schema = "db://{app_label}/{model}.schema"

    assert suggested(root, schema, "app_label") == ["auth", "flights", "shop"]
    assert suggested(root, schema, "model", "a") == ["airline", "airport"]
    assert suggested(root, schema, "model", "", app_label="AUTH") == ["group", "user"]
    assert suggested(root, schema, "model", "", app_label="nope") == []


def test_a_template_is_known_by_its_model(root: DirectPeer) -> None:
    uris = [FLIGHT, "db://FLIGHTS/Flight/{id}", QUERY, "db://flights/flight{?}", "db://flights/flight{?nope,id}"]

    assert {uri: suggested(root, uri, "id", "12") for uri in uris} == {uri: ["12"] for uri in uris}


def test_an_unknown_template(root: DirectPeer) -> None:
    for uri in (
        "db://flights/flight/{pk}", "db://flights/flight/{origin}", "db://flights/{id}", "db://flights/flight/{id}/x",
        "db://flights/flight{id}", "DB://flights/flight/{id}", "db://flights/flight/{id}\n", "db://flights/flight/{+id}",
        "://", "db://{model}",
    ):  # fmt: skip
        assert refused(root, uri, "id")["data"]["reason"] == "REFERENCE_NOT_FOUND", uri


@every_database
def test_integer_keys_begin_with_the_typed_text(many: DirectPeer) -> None:
    for typed in ("", "1", "2", "12", "24", "249", "2500", "2501", "9", "99", "999", "0"):
        expected = [str(key) for key in range(1, 2_501) if str(key).startswith(typed)]

        found = ask(many, FLIGHT, "id", typed)["result"]["completion"]

        assert found["values"] == expected[:100]
        assert found["hasMore"] is (len(expected) > 100)
        assert found.get("total") == (len(expected) if len(expected) <= 100 else None)


@every_database
def test_a_text_that_no_integer_begins_with(root: DirectPeer) -> None:
    texts = ["-", "-1", "-0", "00", "01", "1.", "1e2", "+1", " 1", "1 ", "x", "\u0661", "1" * 30, "9" * 18,
             "-" + "9" * 18, "9" * 19, "\x00", "%", "_", "1%"]  # fmt: skip

    assert {typed: suggested(root, FLIGHT, "id", typed) for typed in texts} == {typed: [] for typed in texts}


@every_database
def test_negative_keys(root: DirectPeer) -> None:
    first = Flight.objects.get(pk=1)
    for key in (-1, -9, -10, -12, -120, -2):
        Flight.objects.create(id=key, carrier=first.carrier, number=10_000 - key, origin=first.origin,
                              destination=first.destination, departs_at=first.departs_at, distance=1)  # fmt: skip

    assert suggested(root, FLIGHT, "id", "-") == ["-120", "-12", "-10", "-9", "-2", "-1"]
    assert suggested(root, FLIGHT, "id", "-1") == ["-1", "-12", "-10", "-120"]
    assert suggested(root, FLIGHT, "id", "1") == ["1", "10", "11", "12"]


@every_database
def test_every_question_for_integers_is_a_range_of_the_key(root: DirectPeer) -> None:
    """What an index answers: no row is looked at to be thrown away."""
    with CaptureQueriesContext(connection) as queries:
        completers.complete_key(rights_on(Flight, root.user), "7")

    asked = [query["sql"] for query in queries if "flights_flight" in query["sql"]]
    assert 5 <= len(asked) <= 19
    assert all(" BETWEEN 7" in sql and "LIKE" not in sql and "LIMIT 101" in sql for sql in asked)


@every_database
def test_text_keys_begin_with_the_typed_text(root: DirectPeer) -> None:
    wanted: dict[str, list[str]] = {
        "": ["Zebra", "a/b c", "lamp", "lamp%shade", "x_y"], "la": ["lamp", "lamp%shade"], "lamp%": ["lamp%shade"],
        "lamp_": [], "x_": ["x_y"], "x%": [], "a/b": ["a/b c"], "ze": ["Zebra"], "ZEBRA": ["Zebra"],
        "LAMP": ["lamp", "lamp%shade"], "amp": [], "lamp\\": [], "\x00": [], "x" * 10_001: [],
    }  # fmt: skip
    if connection.vendor != "sqlite":
        # Looked for as typed, in capitals and in small letters, which an index can answer.
        wanted |= {"ze": [], "ZEBRA": []}
    for name in ("lamp", "lamp%shade", "x_y", "a/b c", "Zebra"):
        Tag.objects.create(name=name)

    found = {typed: sorted(suggested(root, "db://shop/tag/{name}", "name", typed)) for typed in wanted}

    assert found == {typed: sorted(names) for typed, names in wanted.items()}


@every_database
def test_more_keys_than_are_given_at_once(root: DirectPeer) -> None:
    Tag.objects.bulk_create(Tag(name=f"tag {number:03}") for number in range(150))

    found = ask(root, "db://shop/tag/{name}", "name", "tag")["result"]["completion"]

    assert found == {"values": [f"tag {number:03}" for number in range(100)], "hasMore": True}


@every_database
def test_uuids_begin_with_the_typed_text(root: DirectPeer, declared: Declared) -> None:
    """On Product.sku, whose rows are as those of a key."""
    keys = ["550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-4466554400ff",
            "550e8400-e30b-41d4-a716-446655440000", "00000000-0000-0000-0000-000000000001",
            "ffffffff-ffff-ffff-ffff-ffffffffffff", "5a000000-0000-4000-8000-000000000000"]  # fmt: skip
    texts = ["", "5", "550e8400", "550e8400-", "550e8400-e", "550e8400e", "550E8400-E29B-41D4", keys[0],
             keys[0].replace("-", ""), "5" * 33, "xyz", "550e8400-e29b-41d4-a716-446655440001"]  # fmt: skip
    Product.objects.bulk_create(Product(name=key, sku=uuid.UUID(key)) for key in keys)
    declared.model(Product, fields=["name", "sku"])
    rights = rights_on(Product, root.user)
    column = rights.columns["sku"]

    found = {typed: sorted(completers.complete_key(rights, typed, column=column).values) for typed in texts}

    plain = {typed: typed.lower().replace("-", "") for typed in texts}
    assert found == {
        typed: sorted(key for key in keys if key.replace("-", "").startswith(plain[typed])) for typed in texts
    }


def test_the_key_of_a_row_that_is_the_key_of_another(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name"], search_fields=["name"])
    declared.model(Locker, fields=["owner", "number"], use_admin=False)
    ann, bob = Person.objects.create(name="Ann", badge="A1"), Person.objects.create(name="Bob", badge="B1")
    for person in (ann, bob):
        Locker.objects.create(owner=person, number=1)

    assert suggested(root, "db://shop/locker/{owner}", "owner", str(bob.pk)) == [str(bob.pk)]
    assert suggested(root, "db://shop/locker/{owner}", "owner") == [str(ann.pk), str(bob.pk)]


# Values of fields.


def test_choices_by_value_and_by_label_and_booleans(root: DirectPeer) -> None:
    booleans = "db://flights/disruption{?resolved}"

    assert suggested(root, QUERY, "status") == ["on_time", "delayed", "cancelled"]
    assert suggested(root, QUERY, "status", "ON") == ["on_time"]
    assert suggested(root, QUERY, "status", "on t") == ["on_time"]
    assert suggested(root, QUERY, "status", "x") == []
    assert suggested(root, booleans, "resolved") == ["true", "false"]
    assert suggested(root, booleans, "resolved", "F") == ["false"]


@every_database
def test_keys_of_the_rows_that_a_relation_leads_to(root: DirectPeer) -> None:
    Airport.objects.filter(pk="JFK").update(name="John F Kennedy")

    assert suggested(root, QUERY, "origin") == ["EWR", "IAH", "JFK", "LGA"]
    assert suggested(root, QUERY, "origin", "l") == ["LGA"]
    assert suggested(root, QUERY, "origin", "kennedy") == ["JFK"]
    assert suggested(root, QUERY, "plane", "n14") == ["N14228"]
    assert suggested(root, QUERY, "plane", "boeing") == ["N14228"]
    assert suggested(root, QUERY, "origin", "x" * 201) == []  # Too long to be searched for.
    # Rows that are found by their key come first.
    Airport.objects.filter(pk="EWR").update(name="JFK's neighbour")
    assert suggested(root, QUERY, "origin", "jfk") == ["JFK", "EWR"]


def test_names_to_order_by(root: DirectPeer) -> None:
    assert suggested(root, QUERY, "order_by", "dep") == ["departs_at", "departure_delay"]
    assert suggested(root, QUERY, "order_by", "-dep") == ["-departs_at", "-departure_delay"]
    assert suggested(root, QUERY, "order_by", "-departs_at,ori") == ["-departs_at,origin"]


def test_variables_without_suggestions(root: DirectPeer) -> None:
    for name in ("search", "limit", "notes", "number", "departs_at"):
        assert ask(root, QUERY, name, "1")["result"]["completion"] == {"values": [], "total": 0, "hasMore": False}


def test_a_relation_by_another_field_is_completed_by_that_field(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name", "badge"], search_fields=["name"], use_admin=False)
    declared.model(Visit, fields=["person"], use_admin=False)
    Person.objects.create(name="Ann", badge="A1")
    Person.objects.create(name="Bob", badge="B1")

    assert suggested(root, "db://shop/visit{?person}", "person", "b") == ["B1"]
    assert suggested(root, "db://shop/visit{?person}", "person", "ann") == ["A1"]
