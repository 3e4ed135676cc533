"""ModelMCP: every attribute and its method, with and without a ModelAdmin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import F
from django.http import HttpRequest

from demo_project.flights.models import Airline, Flight
from mcp_django import ModelMCP, site
from tests.shop.models import Parcel, Product, Unwatched
from tests.support.asking import DirectPeer, columns, described, errors_of, keys, text_of
from tests.support.data import make_flights, make_staff, switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

Admin: Any = admin.ModelAdmin


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(4)
    return DirectPeer(User.objects.create_superuser("root"))


# Attributes, each with its method.


def each(declared: Declared, name: str, value: Any, admin_class: Any = None) -> Iterator[None]:
    """Flights with a ModelMCP that sets the attribute, and then with one that overrides the method."""
    for how in ({name: value}, {f"get_{name}": lambda self, request: value}):
        if admin_class is not None:
            declared.admin(Flight, admin_class)
        declared.model(Flight, type("FlightMCP", (ModelMCP,), how))
        yield
        declared.close()


def test_fields(root: DirectPeer, declared: Declared) -> None:
    for _ in each(declared, "fields", ["number", "origin"]):
        assert columns(root) == ["id", "number", "origin"]


def test_all_fields(root: DirectPeer, declared: Declared) -> None:
    declared.model(Product, fields="__all__")

    assert columns(root, "shop.product") == [
        "id", "name", "sku", "price", "weight", "stock", "launched", "opens", "lead_time", "active", "details",
        "manual", "blob",
    ]  # fmt: skip


def test_extra_fields_are_shown_beside_those_of_the_admin(root: DirectPeer, declared: Declared) -> None:
    flights = type("FlightAdmin", (Admin,), {"list_display": ["number", "origin"], "fields": ["number"]})
    for _ in each(declared, "extra_fields", ["carrier", "number"], flights):
        assert columns(root) == ["id", "number", "origin", "carrier"]


def test_a_method_among_extra_fields_is_computed_beside_those_of_the_admin(
    root: DirectPeer, declared: Declared
) -> None:
    class FlightAdmin(Admin):
        list_display = ["number", "shout"]

        def shout(self, flight: Flight) -> str:
            return "shout"

    class FlightMCP(ModelMCP):
        extra_fields = ["whisper"]

        def whisper(self, flight: Flight) -> str:
            return "whisper"

    declared.admin(Flight, FlightAdmin)
    declared.model(Flight, FlightMCP)

    page = root.call("find_records", model="flights.flight", fields=["shout", "whisper"], limit=1)

    assert page["structuredContent"]["rows"][0][1:] == ["shout", "whisper"]


def test_extra_fields_show_what_is_hidden_by_default(root: DirectPeer, declared: Declared) -> None:
    declared.model(Product, extra_fields=["api_key"])
    declared.admin(Parcel, Admin)
    declared.model(Parcel, extra_fields=["seal"])

    assert "api_key" in columns(root, "shop.product")
    assert columns(root, "shop.parcel") == ["id", "code", "seal", "price", "price_currency"]


def test_extra_fields_are_all_that_is_shown_where_no_admin_is_asked_but_what_is_excluded(
    root: DirectPeer, declared: Declared
) -> None:
    declared.model(Flight, extra_fields=["number"], use_admin=False)
    declared.model(Product, extra_fields=["api_key"], exclude=["api_key"])

    assert columns(root) == ["id", "number"]
    assert "api_key" not in columns(root, "shop.product")


def test_exclude(root: DirectPeer, declared: Declared) -> None:
    for _ in each(declared, "exclude", ["number", "id", "nope"]):
        assert "number" not in columns(root) and columns(root)[0] == "id"
        assert errors_of(root.call("find_records", model="flights.flight", filter={"number": 1}))


def test_filter_fields(root: DirectPeer, declared: Declared) -> None:
    for _ in each(declared, "filter_fields", ["origin", "plane"]):
        refused = root.call("find_records", model="flights.flight", filter={"number": 1000})

        assert keys(root, filter={"origin": "JFK"}) == [1, 4]
        assert keys(root, filter={"pk": 2}) == [2]
        assert errors_of(refused)[0]["message"] == "no field 'number'. Allowed: origin, plane."
        assert "lookups" not in described(root)["fields"]["number"]
        assert "number" in columns(root)


def test_search_fields(root: DirectPeer, declared: Declared) -> None:
    found = {"NOTE": [1, 2, 3, 4], "ote": [], "1002": [3], "ON_TIME": [1, 2, 3, 4], "United": [1, 3], "nope": []}
    for _ in each(declared, "search_fields", ["^notes", "=status", "number__exact", "nope", "carrier__name"]):
        assert described(root)["search_fields"] == ["notes", "status", "number", "carrier__name"]
        assert {text: keys(root, search=text) for text in found} == found


def test_search_fields_of_the_admin_are_left_out_where_it_searches_its_own_way(
    root: DirectPeer, declared: Declared
) -> None:
    class Own(Admin):
        search_fields = ["notes"]

        def get_search_results(self, request: HttpRequest, queryset: Any, term: str) -> Any:
            return queryset.none(), False

    declared.admin(Flight, Own)

    assert "search_fields" not in described(root)
    assert errors_of(root.call("find_records", model="flights.flight", search="note"))


def test_ordering(root: DirectPeer, declared: Declared) -> None:
    orders: list[Any] = [
        ["-carrier_id", "-id"], ["-carrier__name", "-number"], ["-number"], ["-pk"], [F("number").desc()], ["?", "-id"],
        ["carrier__nope", "-id"],
    ]  # fmt: skip
    found = [[keys(root) for _ in each(declared, "ordering", ordering)] for ordering in orders]

    assert found == [[[3, 1, 4, 2]] * 2] * 2 + [[[4, 3, 2, 1]] * 2] * 5


def test_ordering_is_the_admins_and_then_the_models(root: DirectPeer, declared: Declared) -> None:
    class Backwards(Admin):
        ordering = ["-name"]

    by_model = keys(root, "flights.airline")
    declared.admin(Airline, Backwards)

    assert by_model == ["AA", "UA"]
    assert keys(root, "flights.airline") == ["UA", "AA"]
    assert keys(root, "flights.airline", order_by=["name"]) == ["AA", "UA"]


def test_description(root: DirectPeer, declared: Declared) -> None:
    for _ in each(declared, "description", "One departure."):
        models_ = root.call("describe_models")["structuredContent"]["models"]
        resources = {item["uri"]: item for item in root.result(MODERN, "resources/list")["resources"]}

        assert models_["flights.flight"] == "flights: One departure."
        assert described(root)["description"] == "One departure."
        assert resources["db://flights/flight"]["description"] == "One departure."


def test_use_admin_false_asks_the_models_own_permissions_and_manager(root: DirectPeer, declared: Declared) -> None:
    class Nothing(Admin):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return False

        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).none()

    declared.admin(Flight, Nothing)
    declared.model(Flight, fields=["number"], use_admin=False)
    customer = User.objects.create_user("customer")
    before = DirectPeer(customer).call("find_records", model="flights.flight") if DirectPeer(customer).tools() else None
    from django.contrib.auth.models import Permission

    customer.user_permissions.add(Permission.objects.get(codename="view_flight"))
    again = DirectPeer(User.objects.get(pk=customer.pk))

    assert before is None
    assert keys(again) == [1, 2, 3, 4]
    assert again.tools() == ["aggregate_records", "delay_statistics", "describe_models", "find_records", "get_record"]


def test_a_model_without_a_model_admin(root: DirectPeer, declared: Declared) -> None:
    Unwatched.objects.create(name="x")
    declared.model(Unwatched, fields=["name"], ordering=["-name"])

    assert keys(root, "shop.unwatched")
    assert "shop.unwatched" not in str(DirectPeer(make_staff("nobody", "flights.view_flight")).call("describe_models"))


def test_options_given_to_register_extend_the_class(declared: Declared) -> None:
    class Base(ModelMCP):
        description = "base"

    declared.model(Flight, Base, fields=["number"])

    model_mcp = site.models["flights.flight"]
    assert isinstance(model_mcp, Base)
    assert model_mcp.description == "base" and model_mcp.fields == ["number"]


def test_a_get_queryset_that_gives_a_manager_works_as_in_the_admin(root: DirectPeer, declared: Declared) -> None:
    class OfManager(Admin):
        list_display = ["number"]
        actions = ["count"]

        def get_queryset(self, request: HttpRequest) -> Any:
            return Flight.objects

        @admin.action(permissions=["view"])
        def count(self, request: HttpRequest, queryset: Any) -> None:
            self.message_user(request, str(queryset.count()))

    declared.admin(Flight, OfManager)
    switch_on("flights_flight_count")

    assert keys(root) == [1, 2, 3, 4]
    assert text_of(root.call("flights_flight_count", ids=[1, 2])) == "2"
    measured = root.call("aggregate_records", model="flights.flight")
    assert measured["structuredContent"]["rows"] == [[4]]
