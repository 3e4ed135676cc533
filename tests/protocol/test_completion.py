"""completion/complete: suggestions that begin with what was typed, and none that the principal may not read."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from django.contrib import admin as django_admin
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import connection, models
from django.http import HttpRequest
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from demo_project.flights.models import Airline, Airport, Flight
from mcp_django import ModelMCP
from mcp_django.exceptions import ToolError
from mcp_django.models import Prompt
from mcp_django.resources import completers
from tests.shop.models import Apikey, Locker, Person, Product, Tag, Visit
from tests.support.asking import DirectPeer, rights_on
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN, REVISIONS, Message, Peer

FLIGHT = "db://flights/flight/{id}"
QUERY = "db://flights/flight{?origin}"


class Tone(enum.Enum):
    SHORT = "short"
    LONG = "long"


def ask(peer: Peer, ref: str, name: str, typed: str = "", revision: str = MODERN, /, **others: str) -> Message:
    """The answer to a completion; ``ref`` is a URI, or the name of a prompt."""
    kind = {"type": "ref/resource", "uri": ref} if "://" in ref else {"type": "ref/prompt", "name": ref}
    params: Message = {"ref": kind, "argument": {"name": name, "value": typed}}
    if others:
        params["context"] = {"arguments": others}
    return peer.request(revision, "completion/complete", params)


def suggested(peer: Peer, ref: str, name: str, typed: str = "", /, **others: str) -> list[str]:
    values: list[str] = ask(peer, ref, name, typed, **others)["result"]["completion"]["values"]
    return values


def refused(peer: Peer, ref: str, name: str, typed: str = "") -> Any:
    error = ask(peer, ref, name, typed)["error"]
    assert error["code"] == -32602
    return error


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(12)
    return DirectPeer(User.objects.create_superuser("root"))


# In every revision.


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_key_is_completed(admin: Peer, flights: Any, revision: str) -> None:
    result = ask(admin, FLIGHT, "id", "1", revision)["result"]

    completion = {"values": ["1", "10", "11", "12"], "total": 4, "hasMore": False}
    if revision == MODERN:
        assert {**result, "_meta": {}} == {"completion": completion, "resultType": "complete", "_meta": {}}
    else:
        assert result == {"completion": completion}


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_argument_of_a_prompt_is_completed(admin: Peer, flights: Any, revision: str) -> None:
    found = ask(admin, "punctuality_report", "length", "a p", revision)["result"]["completion"]

    assert found == {"values": ["a paragraph", "a page"], "total": 2, "hasMore": False}


@pytest.mark.parametrize("revision", REVISIONS)
def test_unknown_references_and_arguments_are_wrong_parameters(admin: Peer, revision: str) -> None:
    answers = [
        ask(admin, ref, name, "", revision)
        for ref, name in (("nope", "x"), ("punctuality_report", "x"), ("db://nope/nope/{id}", "id"), (FLIGHT, "x"))
    ]

    assert [answer["error"]["code"] for answer in answers] == [-32602] * 4
    assert [answer["error"]["data"]["reason"] for answer in answers] == [
        "PROMPT_NOT_FOUND", "INVALID_PARAMS", "REFERENCE_NOT_FOUND", "INVALID_PARAMS",
    ]  # fmt: skip


def test_what_a_wrong_reference_is_told(root: DirectPeer) -> None:
    assert refused(root, "db://nope/nope/{id}", "id") == {
        "code": -32602,
        "message": "Unknown resource template.",
        "data": {
            "reason": "REFERENCE_NOT_FOUND",
            "errors": [
                {"field": "ref.uri", "received": "db://nope/nope/{id}",
                 "message": "not a template; resources/templates/list names the templates"},
            ],
        },
    }  # fmt: skip
    assert refused(root, FLIGHT, "ident") == {
        "code": -32602,
        "message": "Unknown argument: ident.",
        "data": {
            "reason": "INVALID_PARAMS",
            "errors": [{"field": "argument.name", "message": "no argument 'ident'. Allowed: id.", "received": "ident"}],
        },
    }
    assert refused(root, "nope", "x")["data"]["errors"][0]["field"] == "ref.name"


@pytest.mark.parametrize("params", [
    {}, {"ref": {}}, {"ref": {"type": "ref/nope", "name": "x"}, "argument": {"name": "x", "value": ""}},
    {"ref": {"type": "ref/prompt", "name": "x"}},
    {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x"}},
    {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": 5}},
    {"ref": {"type": "ref/prompt", "name": 5}, "argument": {"name": "x", "value": ""}},
    {"ref": {"type": "ref/resource", "name": "x"}, "argument": {"name": "x", "value": ""}},
    {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": ""},
     "context": {"arguments": {"y": 5}}},
    {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": ""}, "context": []},
])  # fmt: skip
def test_params_of_another_shape(root: DirectPeer, params: Any) -> None:
    assert root.error(MODERN, "completion/complete", params)["code"] == -32602


# Prompts.


def test_every_kind_of_argument(root: DirectPeer, declared: Declared) -> None:
    def report(
        request: HttpRequest, airport: Airport, carrier: Airline | None, tone: Tone, length: Literal["one", "ONE MORE"],
        formal: bool, way: Literal["there"] | int | None, notes: str, seats: int = 1,
    ) -> str:  # fmt: skip
        """Report."""
        return ""

    declared.prompt(report)

    assert suggested(root, "report", "airport") == ["EWR", "IAH", "JFK", "LGA"]
    assert suggested(root, "report", "airport", "j") == ["JFK"]
    assert suggested(root, "report", "carrier", "amer") == ["AA"]  # Found by its name.
    assert suggested(root, "report", "tone") == ["short", "long"]
    assert suggested(root, "report", "tone", "L") == ["long"]
    assert suggested(root, "report", "length", "one") == ["one", "ONE MORE"]
    assert suggested(root, "report", "formal", "t") == ["true"]
    assert suggested(root, "report", "way") == ["there"]
    assert ask(root, "report", "notes", "x")["result"]["completion"] == {"values": [], "total": 0, "hasMore": False}
    assert suggested(root, "report", "seats", "1") == []


def test_a_function_of_the_project_is_given_what_is_known(root: DirectPeer, declared: Declared) -> None:
    seen: list[Any] = []

    def cities(request: HttpRequest, typed: str, arguments: dict[str, str]) -> list[str]:
        seen.append((request.user.get_username(), typed, arguments))
        return ["Paris", "Parma"] if arguments.get("country") == "it" else ["Oslo"]

    def visit(request: HttpRequest, country: str, city: str) -> str:
        """Visit."""
        return ""

    declared.prompt(visit, complete={"city": cities})

    assert suggested(root, "visit", "city", "pa", country="it", city="x", other="y") == ["Paris", "Parma"]
    assert suggested(root, "visit", "city") == ["Oslo"]
    assert seen == [("root", "pa", {"country": "it", "city": "x"}), ("root", "", {})]


def test_a_function_goes_before_what_the_annotation_says(root: DirectPeer, declared: Declared) -> None:
    def report(request: HttpRequest, airport: Airport, tone: Tone) -> str:
        """Report."""
        return ""

    declared.prompt(report, complete={"airport": lambda *given: ["JFK"], "tone": lambda *given: ["loud"]})

    assert suggested(root, "report", "airport", "x") == ["JFK"]
    assert suggested(root, "report", "tone") == ["loud"]


def test_a_function_may_be_asynchronous_or_without_end_or_a_queryset(root: DirectPeer, declared: Declared) -> None:
    async def later(request: HttpRequest, typed: str, arguments: dict[str, str]) -> list[str]:
        return [airport.faa async for airport in Airport.objects.order_by("faa")]

    def endless(request: HttpRequest, typed: str, arguments: dict[str, str]) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    def rows(request: HttpRequest, typed: str, arguments: dict[str, str]) -> Any:
        return Flight.objects.order_by("pk").values_list("pk", flat=True)

    def report(request: HttpRequest, a: str, b: str, c: str) -> str:
        """Report."""
        return ""

    declared.prompt(report, complete={"a": later, "b": endless, "c": rows})

    assert suggested(root, "report", "a") == ["EWR", "IAH", "JFK", "LGA"]
    assert ask(root, "report", "b")["result"]["completion"] == {
        "values": [str(number) for number in range(100)], "hasMore": True,
    }  # fmt: skip
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert suggested(root, "report", "c") == [str(number) for number in range(1, 13)]
    assert "LIMIT 101" in queries[-1]["sql"]


@pytest.mark.parametrize("raised", [ToolError("x"), PermissionDenied("x"), Flight.DoesNotExist("x")])
def test_a_function_that_refuses_suggests_nothing(root: DirectPeer, declared: Declared, raised: Exception) -> None:
    def refuse(*given: Any) -> list[str]:
        raise raised

    def report(request: HttpRequest, a: str) -> str:
        """Report."""
        return ""

    declared.prompt(report, complete={"a": refuse})

    assert suggested(root, "report", "a") == []


@pytest.mark.parametrize("returned", [None, 5, "Paris", ValueError("hunter2"), SystemExit("hunter2")])
def test_a_function_that_fails_says_nothing_of_why(
    root: DirectPeer, declared: Declared, returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*given: Any) -> Any:
        if isinstance(returned, BaseException):
            raise returned
        return returned

    def report(request: HttpRequest, a: str) -> str:
        """Report."""
        return ""

    declared.prompt(report, complete={"a": fail})

    error = ask(root, "report", "a")["error"]

    assert (error["code"], error["data"]) == (-32603, {"reason": "INTERNAL_ERROR"})
    assert "The completion of a of the prompt report failed" in caplog.text


def test_an_argument_of_a_template_has_no_suggestions(root: DirectPeer) -> None:
    Prompt.objects.create(name="greet", text="Greet {{ who }}.")

    assert ask(root, "greet", "who", "a")["result"]["completion"] == {"values": [], "total": 0, "hasMore": False}
    assert (
        refused(root, "greet", "whom")["data"]["errors"][0]["message"]
        == "no argument 'whom'. Did you mean who? Allowed: who."
    )


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


@pytest.mark.parametrize("uri", [FLIGHT, "db://FLIGHTS/Flight/{id}", QUERY, "db://flights/flight{?}",
                                 "db://flights/flight{?nope,id}"])  # fmt: skip
def test_a_template_is_known_by_its_model(root: DirectPeer, uri: str) -> None:
    assert suggested(root, uri, "id", "12") == ["12"]


@pytest.mark.parametrize(
    "uri",
    [
        "db://flights/flight/{pk}",
        "db://flights/flight/{origin}",
        "db://flights/{id}",
        "db://flights/flight/{id}/x",
        "db://flights/flight{id}",
        "DB://flights/flight/{id}",
        "db://flights/flight/{id}\n",
        "db://flights/flight/{+id}",
        "://",
        "db://{model}",
    ],
)
def test_what_is_no_template_of_ours(root: DirectPeer, uri: str) -> None:
    assert refused(root, uri, "id")["data"]["reason"] == "REFERENCE_NOT_FOUND"


# Keys.


@pytest.fixture
def many(root: DirectPeer) -> DirectPeer:
    """Flights with every key from 1 to 2,500."""
    first = Flight.objects.get(pk=1)
    Flight.objects.bulk_create(
        Flight(id=key, carrier=first.carrier, number=10_000 + key, origin=first.origin, destination=first.destination,
               departs_at=first.departs_at, distance=1)
        for key in range(13, 2_501)
    )  # fmt: skip
    return root


def test_integer_keys_begin_with_what_was_typed(many: DirectPeer) -> None:
    for typed in ("", "1", "2", "12", "24", "249", "2500", "2501", "9", "99", "999", "0"):
        expected = [str(key) for key in range(1, 2_501) if str(key).startswith(typed)]

        found = ask(many, FLIGHT, "id", typed)["result"]["completion"]

        assert found["values"] == expected[:100]
        assert found["hasMore"] is (len(expected) > 100)
        assert found.get("total") == (len(expected) if len(expected) <= 100 else None)


@pytest.mark.parametrize("typed", ["-", "-1", "-0", "00", "01", "1.", "1e2", "+1", " 1", "1 ", "x", "\u0661", "1" * 30,
                                   "9" * 18, "-" + "9" * 18, "9" * 19, "\x00", "%", "_", "1%"], ids=ascii)  # fmt: skip
def test_what_no_integer_begins_with(root: DirectPeer, typed: str) -> None:
    assert suggested(root, FLIGHT, "id", typed) == []


def test_negative_keys(root: DirectPeer) -> None:
    first = Flight.objects.get(pk=1)
    for key in (-1, -9, -10, -12, -120, -2):
        Flight.objects.create(id=key, carrier=first.carrier, number=10_000 - key, origin=first.origin,
                              destination=first.destination, departs_at=first.departs_at, distance=1)  # fmt: skip

    assert suggested(root, FLIGHT, "id", "-") == ["-120", "-12", "-10", "-9", "-2", "-1"]
    assert suggested(root, FLIGHT, "id", "-1") == ["-1", "-12", "-10", "-120"]
    assert suggested(root, FLIGHT, "id", "1") == ["1", "10", "11", "12"]


def test_every_question_for_integers_is_a_range_of_the_key(root: DirectPeer) -> None:
    """What an index answers: no row is looked at to be thrown away."""
    with CaptureQueriesContext(connection) as queries:
        completers.complete_key(rights_on(Flight, root.user), "7")

    asked = [query["sql"] for query in queries if "flights_flight" in query["sql"]]
    assert 5 <= len(asked) <= 19
    assert all(" BETWEEN 7" in sql and "LIKE" not in sql and "LIMIT 101" in sql for sql in asked)


@pytest.mark.parametrize(("typed", "expected"), [
    ("", ["Zebra", "a/b c", "lamp", "lamp%shade", "x_y"]), ("la", ["lamp", "lamp%shade"]),
    ("lamp%", ["lamp%shade"]), ("lamp_", []), ("x_", ["x_y"]), ("x%", []), ("a/b", ["a/b c"]), ("ze", ["Zebra"]),
    ("ZEBRA", ["Zebra"]), ("LAMP", ["lamp", "lamp%shade"]), ("amp", []), ("lamp\\", []), ("\x00", []),
    ("x" * 10_001, []),
])  # fmt: skip
def test_text_keys_begin_with_what_was_typed(root: DirectPeer, typed: str, expected: list[str]) -> None:
    for name in ("lamp", "lamp%shade", "x_y", "a/b c", "Zebra"):
        Tag.objects.create(name=name)

    found = suggested(root, "db://shop/tag/{name}", "name", typed)

    if typed in ("ze", "ZEBRA") and connection.vendor != "sqlite":
        # Looked for as typed, in capitals and in small letters, which an index can answer.
        expected = []
    assert sorted(found) == sorted(expected)


def test_more_keys_than_are_given_at_once(root: DirectPeer) -> None:
    Tag.objects.bulk_create(Tag(name=f"tag {number:03}") for number in range(150))

    found = ask(root, "db://shop/tag/{name}", "name", "tag")["result"]["completion"]

    assert found == {"values": [f"tag {number:03}" for number in range(100)], "hasMore": True}


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "5",
        "550e8400",
        "550e8400-",
        "550e8400-e",
        "550e8400e",
        "550E8400-E29B-41D4",
        "550e8400-e29b-41d4-a716-446655440000",
        "550e8400e29b41d4a716446655440000",
        "5" * 33,
        "xyz",
        "550e8400-e29b-41d4-a716-446655440001",
    ],
)
def test_uuids_begin_with_what_was_typed(root: DirectPeer, declared: Declared, typed: str) -> None:
    """On Product.sku, whose rows are as those of a key."""
    keys = ["550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-4466554400ff",
            "550e8400-e30b-41d4-a716-446655440000", "00000000-0000-0000-0000-000000000001",
            "ffffffff-ffff-ffff-ffff-ffffffffffff", "5a000000-0000-4000-8000-000000000000"]  # fmt: skip
    Product.objects.bulk_create(Product(name=key, sku=uuid.UUID(key)) for key in keys)
    declared.model(Product, fields=["name", "sku"])
    rights = rights_on(Product, root.user)

    found = completers.complete_key(rights, typed, column=rights.columns["sku"]).values

    plain = typed.lower().replace("-", "")
    assert sorted(found) == sorted(key for key in keys if key.replace("-", "").startswith(plain))


def test_the_key_of_a_row_that_is_the_key_of_another(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name"], search_fields=["name"])
    declared.model(Locker, fields=["owner", "number"], use_admin=False)
    ann, bob = Person.objects.create(name="Ann", badge="A1"), Person.objects.create(name="Bob", badge="B1")
    for person in (ann, bob):
        Locker.objects.create(owner=person, number=1)

    assert suggested(root, "db://shop/locker/{owner}", "owner", str(bob.pk)) == [str(bob.pk)]
    assert suggested(root, "db://shop/locker/{owner}", "owner") == [str(ann.pk), str(bob.pk)]


# Values of fields.


def test_choices_by_value_and_by_label(root: DirectPeer) -> None:
    assert suggested(root, QUERY, "status") == ["on_time", "delayed", "cancelled"]
    assert suggested(root, QUERY, "status", "ON") == ["on_time"]
    assert suggested(root, QUERY, "status", "on t") == ["on_time"]
    assert suggested(root, QUERY, "status", "x") == []


def test_booleans(root: DirectPeer) -> None:
    query = "db://flights/disruption{?resolved}"

    assert suggested(root, query, "resolved") == ["true", "false"]
    assert suggested(root, query, "resolved", "F") == ["false"]


def test_keys_of_the_rows_that_a_relation_leads_to(root: DirectPeer) -> None:
    Airport.objects.filter(pk="JFK").update(name="John F Kennedy")

    assert suggested(root, QUERY, "origin") == ["EWR", "IAH", "JFK", "LGA"]
    assert suggested(root, QUERY, "origin", "l") == ["LGA"]
    assert suggested(root, QUERY, "origin", "kennedy") == ["JFK"]
    assert suggested(root, QUERY, "plane", "n14") == ["N14228"]
    assert suggested(root, QUERY, "plane", "boeing") == ["N14228"]
    assert suggested(root, QUERY, "origin", "x" * 201) == []  # Too long to be searched for.


def test_what_is_found_by_its_key_comes_before_what_a_search_finds(root: DirectPeer) -> None:
    Airport.objects.filter(pk="EWR").update(name="JFK's neighbour")

    assert suggested(root, QUERY, "origin", "jfk") == ["JFK", "EWR"]


def test_names_to_order_by(root: DirectPeer) -> None:
    assert suggested(root, QUERY, "order_by", "dep") == ["departs_at", "departure_delay"]
    assert suggested(root, QUERY, "order_by", "-dep") == ["-departs_at", "-departure_delay"]
    assert suggested(root, QUERY, "order_by", "-departs_at,ori") == ["-departs_at,origin"]


@pytest.mark.parametrize("name", ["search", "limit", "notes", "number", "departs_at"])
def test_what_nothing_is_suggested_for(root: DirectPeer, name: str) -> None:
    assert ask(root, QUERY, name, "1")["result"]["completion"] == {"values": [], "total": 0, "hasMore": False}


def test_the_key_among_the_fields_of_a_query(root: DirectPeer) -> None:
    assert suggested(root, QUERY, "id", "12") == ["12"]


def test_a_relation_by_another_field_is_completed_by_that_field(root: DirectPeer, declared: Declared) -> None:
    declared.model(Person, fields=["name", "badge"], search_fields=["name"], use_admin=False)
    declared.model(Visit, fields=["person"], use_admin=False)
    Person.objects.create(name="Ann", badge="A1")
    Person.objects.create(name="Bob", badge="B1")

    assert suggested(root, "db://shop/visit{?person}", "person", "b") == ["B1"]
    assert suggested(root, "db://shop/visit{?person}", "person", "ann") == ["A1"]


# Attacks.


def test_keys_of_rows_that_are_hidden(ops: Peer, flights: Any) -> None:
    """The members of the group see the flights from JFK: 1, 4, 7 and 10."""
    assert suggested(ops, FLIGHT, "id") == ["1", "4", "7", "10"]
    assert suggested(ops, FLIGHT, "id", "1") == ["1", "10"]
    assert suggested(ops, FLIGHT, "id", "2") == []
    assert suggested(ops, QUERY, "id", "2") == []


def test_keys_of_hidden_rows_by_a_relation(root: DirectPeer, declared: Declared) -> None:
    class Mine(ModelMCP):
        fields = ["faa", "name"]
        search_fields = ["name"]

        def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
            return super().get_queryset(request).exclude(pk="JFK")

    def report(request: HttpRequest, airport: Airport) -> str:
        """Report."""
        return ""

    declared.model(Airport, Mine)
    declared.prompt(report)
    Airport.objects.update(name="Kennedy")

    for ref, name in ((QUERY, "origin"), ("report", "airport"), ("db://flights/airport/{faa}", "faa")):
        assert suggested(root, ref, name) == ["EWR", "IAH", "LGA"]
        assert suggested(root, ref, name, "JF") == []
    assert suggested(root, QUERY, "origin", "Kennedy") == ["EWR", "IAH", "LGA"]


def test_keys_of_rows_that_are_asked_about_one_by_one(root: DirectPeer, declared: Declared) -> None:
    class OneByOne(ModelMCP):
        fields = ["id", "number"]

        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.pk % 2 == 0

    declared.model(Flight, OneByOne)

    assert suggested(root, FLIGHT, "id") == ["2", "4", "6", "8", "10", "12"]
    assert suggested(root, FLIGHT, "id", "1") == ["10", "12"]


def test_looking_for_one_visible_row_among_many(many: DirectPeer, declared: Declared) -> None:
    class LastOnly(ModelMCP):
        fields = ["id", "number"]

        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.pk == 2_500

    declared.model(Flight, LastOnly)
    with CaptureQueriesContext(connection) as queries:
        found = ask(many, FLIGHT, "id")["result"]["completion"]

    assert found == {"values": [], "hasMore": True}
    assert len(queries) < 15


def test_a_model_that_is_hidden(root: DirectPeer) -> None:
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))

    for uri in (
        "db://flights/airport/{faa}",
        "db://flights/airport{?name}",
        "db://flights/airport",
        "db://auth/user/{id}",
    ):
        hidden = str(refused(viewer, uri, "name"))
        absent = uri.replace("airport", "airpxrt").replace("user", "usxr")
        assert hidden.replace("airport", "airpxrt").replace("user", "usxr") == str(refused(viewer, absent, "name"))
    assert suggested(viewer, "db://{app_label}/{model}.schema", "model") == ["flight"]
    assert suggested(viewer, "db://{app_label}/{model}.schema", "app_label") == ["flights"]


def test_a_user_who_sees_no_model_at_all(root: DirectPeer) -> None:
    nobody = DirectPeer(make_staff("nobody"))

    assert refused(nobody, "db://{app_label}/{model}.schema", "model")["data"]["reason"] == "REFERENCE_NOT_FOUND"
    assert refused(nobody, FLIGHT, "id")["data"]["reason"] == "REFERENCE_NOT_FOUND"


def test_a_relation_to_a_model_that_is_hidden(root: DirectPeer) -> None:
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))

    assert refused(viewer, QUERY, "origin") == refused(viewer, QUERY, "origin")
    assert "origin" not in refused(viewer, QUERY, "nope")["data"]["errors"][0]["message"]


def test_a_prompt_about_rows_of_a_model_that_is_hidden(root: DirectPeer, declared: Declared) -> None:
    def report(request: HttpRequest, airport: Airport) -> str:
        """Report."""
        return ""

    declared.prompt(report)

    assert suggested(DirectPeer(make_staff("viewer", "flights.view_flight")), "report", "airport") == []


def test_a_prompt_that_is_hidden(root: DirectPeer, declared: Declared) -> None:
    def secret(request: HttpRequest, who: Literal["hunter2"]) -> str:
        """Secret."""
        return ""

    declared.prompt(secret, permission="flights.change_flight")
    Prompt.objects.create(name="grouped", text="{{ who }}").groups.add(Group.objects.create(name="g"))
    Prompt.objects.create(name="off", text="{{ who }}", enabled=False)
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))

    for name in ("secret", "grouped", "off"):
        assert str(refused(viewer, name, "who")).replace(name, "?") == str(refused(viewer, "nope", "who")).replace(
            "nope", "?"
        )
    assert suggested(root, "secret", "who") == ["hunter2"]


def test_fields_that_may_not_be_filtered_by(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, fields=["id", "status", "origin"], filter_fields=["origin"])

    assert suggested(root, QUERY, "origin", "j") == ["JFK"]
    for name in ("status", "carrier", "nope"):
        assert refused(root, QUERY, name)["data"]["errors"][0]["message"].endswith(
            "Allowed: origin, search, order_by, limit."
        )


def test_secrets(root: DirectPeer, declared: Declared) -> None:
    product = "db://shop/product{?name}"
    declared.model(Apikey, use_admin=False)
    Apikey.objects.create(token="hunter2")

    for ref, name in ((product, "api_key"), ("db://auth/user{?username}", "password")):
        assert refused(root, ref, name)["data"]["errors"][0]["field"] == "argument.name"
    for uri in ("db://shop/apikey/{token}", "db://shop/apikey{?token}", "db://mcp_django/accesstoken/{id}",
                "db://mcp_django/prompt/{id}", "db://sessions/session/{session_key}"):  # fmt: skip
        assert refused(root, uri, "token")["data"]["reason"] == "REFERENCE_NOT_FOUND"


def test_searching_by_a_field_that_is_hidden(root: DirectPeer, declared: Declared) -> None:
    """Search fields of the admin count as far as the principal may read them."""

    class Shy(django_admin.ModelAdmin[Any]):
        list_display = ["faa"]
        fields = ["faa"]
        search_fields = ["name", "faa"]

    declared.admin(Airport, Shy)
    Airport.objects.filter(pk="JFK").update(name="Kennedy")

    assert suggested(root, QUERY, "origin", "Kennedy") == []
    assert suggested(root, QUERY, "origin", "fk") == ["JFK"]


def test_a_declared_template_that_is_hidden(root: DirectPeer, declared: Declared) -> None:
    declared.resource(
        "shop://{number}", lambda request, number: "", name="x", permission="flights.change_flight",
        complete={"number": lambda *given: ["hunter2"]},
    )  # fmt: skip
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))

    hidden, absent = refused(viewer, "shop://{number}", "number"), refused(viewer, "shop://{nxmber}", "number")
    assert str(hidden).replace("{number}", "{nxmber}") == str(absent)
    assert suggested(root, "shop://{number}", "number") == ["hunter2"]


def test_a_token_without_the_scope_read(root: DirectPeer) -> None:
    writing = DirectPeer(root.user, "actions")

    for ref, name in ((FLIGHT, "id"), (QUERY, "origin"), ("punctuality_report", "origin"), ("flights://about", "x"),
                      ("flights://board/{airport}/{day}", "airport")):  # fmt: skip
        assert refused(writing, ref, name)["data"]["reason"] in ("REFERENCE_NOT_FOUND", "PROMPT_NOT_FOUND")


@settings(max_examples=150)
@given(st.sampled_from([(FLIGHT, "id"), (QUERY, "origin"), (QUERY, "status"), (QUERY, "order_by"), (QUERY, "plane"),
                        ("db://shop/tag/{name}", "name"), ("punctuality_report", "origin")]),
       st.text(st.characters(codec="utf-8"), max_size=40))  # fmt: skip
def test_anything_may_be_typed(root: DirectPeer, asked: tuple[str, str], typed: str) -> None:
    found = ask(root, *asked, typed)["result"]["completion"]

    assert len(found["values"]) <= 100


def test_a_result_larger_than_a_message(root: DirectPeer, declared: Declared) -> None:
    def report(request: HttpRequest, a: str) -> str:
        """Report."""
        return ""

    declared.prompt(report, complete={"a": lambda *given: ["x" * 1_000] * 10})
    with override_settings(MCP={"MAX_RESULT_BYTES": 4_000}):
        error = ask(root, "report", "a")["error"]

    assert error["data"]["reason"] == "LIMIT_EXCEEDED"
