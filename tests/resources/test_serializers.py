"""Records as a serializer of the project's says them, and that it shows nothing that the principal may not see."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import uuid
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.test import override_settings
from django.urls import path
from jsonschema import Draft202012Validator
from rest_framework import serializers

from demo_project.flights.models import Airport, Disruption, Flight
from demo_project.urls import urlpatterns as demo_urls
from mcp_django import ModelMCP
from mcp_django.resources import rows
from tests.shop.models import Document, Locker, Making, Part, Person, Product, Supplier, Tag, Visit
from tests.support.asking import DirectPeer, errors_of, rights_on
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

JSON = dict[str, Any]

urlpatterns = [
    path("airports/<str:faa>/", lambda request: None, name="airport-by-code"),  # type: ignore[arg-type, return-value]
    path("flights/<int:pk>/", lambda request: None, name="flight-detail"),  # type: ignore[arg-type, return-value]
    *demo_urls,
]


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def viewer(root: DirectPeer) -> DirectPeer:
    """Sees flights and airports, and neither planes nor airlines."""
    return DirectPeer(make_staff("watcher", "flights.view_flight", "flights.view_airport"))


class JFKOnly(ModelMCP):
    """Airports of which agents see one."""

    fields = ("faa", "name", "altitude")

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(faa="JFK")


class AirportSerializer(serializers.ModelSerializer[Airport]):
    class Meta:
        model = Airport
        fields: ClassVar = ["faa", "name", "latitude"]


@dataclasses.dataclass
class Size:
    width: int
    day: datetime.date


def fields_of(model: Any, *names: str, **declared: Any) -> type[serializers.ModelSerializer[Any]]:
    """A ModelSerializer of these fields; the declared ones come with it."""
    meta = type("Meta", (), {"model": model, "fields": [*names, *declared]})
    return type(f"{model.__name__}Serializer", (serializers.ModelSerializer,), {"Meta": meta, **declared})


def get(peer: DirectPeer, key: Any, model: str = "flights.flight", **more: Any) -> JSON:
    """The record as get_record gives it, which is as the resource is and as its schema says."""
    result = peer.call("get_record", model=model, id=key, **more)
    assert not result["isError"], result
    values: JSON = result["structuredContent"]
    if not more:
        assert peer.read(f"db://{model.replace('.', '/')}/{key}") == values
        Draft202012Validator(schema(peer, model)).validate(values)
    return values


def schema(peer: DirectPeer, model: str = "flights.flight") -> JSON:
    read: JSON = peer.read(f"db://{model.replace('.', '/')}.schema")
    Draft202012Validator.check_schema(read)
    return read


# What a record looks like.


def test_a_record_is_what_its_serializer_says(root: DirectPeer, declared: Declared) -> None:
    class FlightSerializer(serializers.ModelSerializer[Flight]):
        origin = AirportSerializer()
        code = serializers.CharField(source="destination.faa", help_text="Where it goes.")
        name = serializers.SerializerMethodField()

        class Meta:
            model = Flight
            fields: ClassVar = ["id", "origin", "code", "plane", "departs_at", "departure_delay", "status", "name"]

        def get_name(self, flight: Flight) -> str:
            return f"{flight.carrier_id} {flight.number} for {self.context['request'].user}"

    declared.model(Flight, fields="__all__", serializer_class=FlightSerializer)
    declared.model(Airport, fields="__all__")

    assert get(root, 1) == {
        "id": 1, "origin": {"faa": "JFK", "name": "JFK", "latitude": 40.0}, "code": "IAH", "plane": None,
        "departs_at": "2013-01-01T10:00:00Z", "departure_delay": -5, "status": "on_time",
        "name": "UA 1000 for root",
    }  # fmt: skip
    assert schema(root) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "flight",
        "type": "object",
        "properties": {
            "id": {"type": ["integer", "string"], "title": "ID"},
            "origin": {
                "type": "object",
                "properties": {
                    "faa": {
                        "type": "string", "title": "FAA code", "description": "Three-character FAA code, e.g. JFK.",
                    },
                    "name": {"type": "string", "title": "Name"},
                    "latitude": {"type": "number", "title": "Latitude", "description": "Degrees, north is positive."},
                },
                "required": ["faa", "name", "latitude"], "additionalProperties": False, "title": "Origin",
            },
            "code": {"type": "string", "title": "Code", "description": "Where it goes."},
            "plane": {
                "type": ["string", "null"], "title": "Plane",
                "description": "Empty where the tail number is missing or not on record. Primary key of a "
                "flights.plane.",
            },
            "departs_at": {"type": "string", "format": "date-time", "title": "Scheduled departure"},
            "departure_delay": {
                "type": ["integer", "string", "null"], "title": "Departure delay",
                "description": "Minutes; negative is early, empty where the flight never left.",
            },
            "status": {
                "type": "string", "title": "Status",
                "description": "A flight counts as delayed when it leaves more than 15 minutes late. "
                "One of on_time: on time; delayed: delayed; cancelled: cancelled.",
            },
            "name": {"type": "string", "title": "Name"},
        },
        "required": ["id", "origin", "code", "plane", "departs_at", "departure_delay", "status", "name"],
        "additionalProperties": False,
    }  # fmt: skip


def test_pages_and_filters_go_on_through_the_fields(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, fields=["faa", "altitude"], serializer_class=fields_of(Airport, "faa"))

    page = root.call("find_records", model="flights.airport", filter={"altitude": 10}, limit=1)

    assert page["structuredContent"]["columns"] == ["faa", "altitude"]
    assert root.read("db://flights/airport?faa=JFK")["rows"] == [["JFK", 10]]
    assert get(root, "JFK", "flights.airport") == {"faa": "JFK"}


def test_the_class_may_depend_on_the_request(root: DirectPeer, viewer: DirectPeer, declared: Declared) -> None:
    class Mine(ModelMCP):
        fields = ("faa", "name")

        def get_serializer_class(self, request: Any) -> Any:
            return fields_of(Airport, "name") if request.user.is_superuser else None

    declared.model(Airport, Mine)

    assert get(root, "JFK", "flights.airport") == {"name": "JFK"}
    assert get(viewer, "JFK", "flights.airport") == {"faa": "JFK", "name": "JFK"}


def test_fields_are_names_of_the_serializer(root: DirectPeer, declared: Declared) -> None:
    cls = fields_of(Airport, "name", "altitude", "latitude", code=serializers.CharField(source="faa"))
    declared.model(Airport, fields=["faa", "name", "altitude"], serializer_class=cls)

    refused = root.call("get_record", model="flights.airport", id="JFK", fields=["latitude"])

    assert get(root, "JFK", "flights.airport", fields=["code", "altitude"]) == {"code": "JFK", "altitude": 10}
    assert errors_of(refused) == [
        {"field": "fields", "message": "no field 'latitude'. Did you mean altitude? Allowed: name, altitude, code.",
         "received": "latitude"},
    ]  # fmt: skip


def test_every_class_of_field(root: DirectPeer, declared: Declared) -> None:
    class ProductSerializer(serializers.ModelSerializer[Product]):
        hinted = serializers.SerializerMethodField()
        unhinted = serializers.SerializerMethodField()
        wrong_hint = serializers.SerializerMethodField()
        local = serializers.DateTimeField(source="made", format="%d.%m.%Y")
        made = serializers.DateTimeField()
        listed = serializers.ListField(source="numbers", child=serializers.IntegerField())
        by_name = serializers.DictField(source="sizes", child=serializers.FloatField())
        shown = serializers.CharField(source="name", write_only=True)
        color = serializers.CharField(source="details.color", allow_null=True)
        text = serializers.StringRelatedField(source="*")  # type: ignore[var-annotated]

        class Meta:
            model = Product
            fields: ClassVar = [
                "sku", "price", "weight", "stock", "launched", "opens", "lead_time", "active", "details", "manual",
                "tags", "hinted", "unhinted", "wrong_hint", "local", "made", "listed", "by_name", "shown", "color",
                "text",
            ]  # fmt: skip

        def get_hinted(self, product: Product) -> list[Size]:
            return [Size(2**60, datetime.date(2013, 1, 31))]

        def get_unhinted(self, product: Product):  # type: ignore[no-untyped-def]
            return {"nan": float("nan"), "bytes": b"\x00", "set": {1}, 2: Decimal("1E+2"), "at": datetime.time(8)}

        def get_wrong_hint(self, product: Product) -> Product:
            return product

    Product.numbers = [1, 2**60]  # type: ignore[attr-defined]
    Product.sizes = {"a": 0.5}  # type: ignore[attr-defined]
    Product.made = datetime.datetime(2013, 1, 31, 23, 30, tzinfo=datetime.UTC)  # type: ignore[attr-defined]
    try:
        declared.model(Product, fields="__all__", serializer_class=ProductSerializer)
        product = Product.objects.create(
            name="lamp", sku=uuid.UUID(int=1), price=Decimal("10.10"), weight=float("1.5"), stock=2**60,
            launched=datetime.date(2013, 1, 31), opens=datetime.time(8, 30), lead_time=datetime.timedelta(hours=26),
            details={"color": "red"},
        )  # fmt: skip
        product.tags.add(Tag.objects.create(name="a/b"))
        read = get(root, product.pk, "shop.product")
        properties = schema(root, "shop.product")["properties"]
    finally:
        del Product.numbers, Product.sizes, Product.made  # type: ignore[attr-defined]

    assert read == {
        "sku": "00000000-0000-0000-0000-000000000001", "price": "10.10", "weight": 1.5, "stock": str(2**60),
        "launched": "2013-01-31", "opens": "08:30:00", "lead_time": "P1DT02H00M00S", "active": True,
        "details": {"color": "red"}, "manual": None, "tags": ["a/b"],
        "hinted": [{"width": str(2**60), "day": "2013-01-31"}],
        "unhinted": {"nan": None, "bytes": "AA==", "set": [1], "2": "100", "at": "08:00:00"}, "wrong_hint": "lamp",
        "local": "31.01.2013", "made": "2013-01-31T23:30:00Z", "listed": [1, str(2**60)], "by_name": {"a": 0.5},
        "color": "red", "text": "lamp",
    }  # fmt: skip
    types = {name: {key: value for key, value in item.items() if key != "title"} for name, item in properties.items()}
    assert types == {
        "sku": {"type": "string", "format": "uuid"}, "price": {"type": ["string", "null"]},
        "weight": {"type": ["number", "null"]}, "stock": {"type": ["integer", "string"]},
        "launched": {"type": ["string", "null"], "format": "date"},
        "opens": {"type": ["string", "null"], "format": "time"},
        "lead_time": {"type": ["string", "null"], "format": "duration"}, "active": {"type": "boolean"}, "details": {},
        "manual": {"type": ["string", "null"], "format": "uri"}, "tags": {"type": "array", "items": {"type": "string"}},
        "hinted": {"type": "array", "items": {
            "type": "object", "properties": {
                "width": {"type": ["integer", "string"]}, "day": {"type": "string", "format": "date"},
            }, "required": ["width", "day"],
        }},
        "unhinted": {}, "wrong_hint": {}, "local": {"type": ["string", "null"]},
        "made": {"type": ["string", "null"], "format": "date-time"},
        "listed": {"type": ["array", "null"], "items": {"type": ["integer", "string"]}},
        "by_name": {"type": ["object", "null"], "additionalProperties": {"type": "number"}},
        "color": {"type": ["string", "null"]}, "text": {"type": "string"},
    }  # fmt: skip


@override_settings(ROOT_URLCONF="tests.resources.test_serializers")
def test_relations_of_every_kind(root: DirectPeer, declared: Declared) -> None:
    cls = fields_of(
        Flight,
        url=serializers.HyperlinkedIdentityField(view_name="flight-detail"),
        origin=serializers.HyperlinkedRelatedField(view_name="airport-by-code", lookup_field="faa", read_only=True),
        destination=serializers.SlugRelatedField(slug_field="name", read_only=True),
        carrier=serializers.StringRelatedField(),
        plane=serializers.PrimaryKeyRelatedField(read_only=True),
        plane_id=serializers.ReadOnlyField(),
        built=serializers.IntegerField(source="plane.year"),
        label=serializers.ReadOnlyField(source="get_status_display"),
        altitude=serializers.ReadOnlyField(source="origin.altitude"),
    )
    declared.model(Flight, fields="__all__", serializer_class=cls)
    declared.model(Airport, fields="__all__")

    assert get(root, 2) == {
        "url": "http://localhost/flights/2/", "origin": "http://localhost/airports/EWR/", "destination": "IAH",
        "carrier": "American (AA)", "plane": "N14228", "plane_id": "N14228", "built": None, "label": "on time",
        "altitude": 10,
    }  # fmt: skip
    properties = schema(root)["properties"]
    types = {name: {key: value for key, value in item.items() if key != "title"} for name, item in properties.items()}
    assert types == {
        "url": {"type": "string", "format": "uri"}, "origin": {"type": "string", "format": "uri"},
        "destination": {"type": "string"}, "carrier": {"type": "string"},
        "plane": {"type": ["string", "null"], "description": "Primary key of a flights.plane."},
        "plane_id": {"type": ["string", "null"]}, "built": {"type": ["integer", "string", "null"]},
        "label": {"type": "string"}, "altitude": {"type": ["integer", "string"]},
    }  # fmt: skip


def test_bytes_are_a_link_and_bytes_of_the_projects_own_are_text(root: DirectPeer, declared: Declared) -> None:
    cls = fields_of(Document, "name", "scan", digest=serializers.ReadOnlyField(source="scanned"))
    declared.model(Document, fields="__all__", serializer_class=cls)
    Document.scanned = property(lambda self: b"ab")  # type: ignore[attr-defined]
    Document.objects.create(name="full", scan=b"\x00\x01")
    Document.objects.create(name="empty")
    try:
        full, empty = get(root, "full", "shop.document"), get(root, "empty", "shop.document")
    finally:
        del Document.scanned  # type: ignore[attr-defined]

    assert full == {"name": "full", "scan": "db://shop/document/full/scan", "digest": base64.b64encode(b"ab").decode()}
    assert empty["scan"] is None


def test_a_record_that_no_message_could_carry_is_cut(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, fields="__all__", serializer_class=fields_of(Flight, "id", "notes", "number"))
    Flight.objects.update(notes="x" * 9_000)

    whole = root.call("get_record", model="flights.flight", id=1)
    with override_settings(MCP={"MAX_RESULT_BYTES": 24_000}):
        cut = root.call("get_record", model="flights.flight", id=1)

    assert whole["structuredContent"]["notes"] == "x" * 9_000 and len(whole["content"]) == 1
    assert cut["structuredContent"] == {"id": 1, "notes": "x" * 4_000 + "…", "number": 1000}
    assert cut["content"][1]["text"] == (
        "Values of notes ending in … were cut at 4000 characters: no message may carry more."
    )


def test_lists_of_rows_are_bounded(root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    cls = fields_of(Airport, "faa", departures=fields_of(Flight, "id")(many=True))
    declared.model(Airport, fields="__all__", serializer_class=cls)

    monkeypatch.setattr("mcp_django.resources.serializers.MAX_RELATED", 1)
    result = root.call("get_record", model="flights.airport", id="JFK")

    assert result["structuredContent"] == {"faa": "JFK", "departures": [{"id": 1}]}
    assert result["content"][1]["text"] == "departures lists at most 1 rows."


# What nobody is shown.


def test_a_serializer_shows_no_field_that_the_options_hide(root: DirectPeer, declared: Declared) -> None:
    cls = fields_of(
        Flight, "number", "notes", "status", "distance",
        alias=serializers.CharField(source="notes"), label=serializers.ReadOnlyField(source="get_status_display"),
        made_up=serializers.SerializerMethodField(), get_made_up=lambda self, obj: "x",
    )  # fmt: skip
    cls.Meta.fields.remove("get_made_up")  # type: ignore[attr-defined]
    declared.model(
        Flight, fields=["number", "notes", "status"], exclude=["notes", "status", "made_up"], serializer_class=cls
    )

    assert get(root, 1) == {"number": 1000}
    assert list(schema(root)["properties"]) == ["number"]


def test_a_serializer_shows_no_secret_that_nobody_named(root: DirectPeer, declared: Declared) -> None:
    cls = fields_of(
        Product, "name", "api_key", alias=serializers.CharField(source="api_key"),
        reset_token=serializers.SerializerMethodField(),
    )  # fmt: skip
    cls.get_reset_token = lambda self, product: "hunter2"  # type: ignore[attr-defined]
    product = Product.objects.create(name="lamp")
    declared.model(Product, fields="__all__", serializer_class=cls)

    assert get(root, product.pk, "shop.product") == {"name": "lamp"}
    declared.close()
    declared.model(Product, fields=["name", "api_key", "reset_token"], serializer_class=cls)
    assert get(root, product.pk, "shop.product") == {
        "name": "lamp", "api_key": "sk-secret", "alias": "sk-secret", "reset_token": "hunter2",
    }  # fmt: skip


def test_a_write_only_field_never_leaves_though_the_serializer_puts_it_back(
    root: DirectPeer, declared: Declared
) -> None:
    class Leaky(serializers.ModelSerializer[Product]):
        class Meta:
            model = Product
            fields: ClassVar = ["name", "api_key", "stock"]
            extra_kwargs: ClassVar = {"stock": {"write_only": True}}

        def to_representation(self, instance: Product) -> Any:
            given = super().to_representation(instance)
            return {**given, "stock": instance.stock, "api_key": instance.api_key, "more": 1}

    product = Product.objects.create(name="lamp")
    declared.model(Product, fields="__all__", serializer_class=Leaky)

    assert get(root, product.pk, "shop.product") == {"name": "lamp", "more": 1}
    assert "required" not in schema(root, "shop.product")


def test_a_serializer_leads_to_no_model_that_the_user_may_not_view(
    viewer: DirectPeer, root: DirectPeer, declared: Declared
) -> None:
    cls = fields_of(
        Flight, "number", "carrier", "plane_id",
        plane=serializers.StringRelatedField(),
        airline=serializers.CharField(source="carrier.name"),
        origin=AirportSerializer(),
    )  # fmt: skip
    declared.model(Flight, fields="__all__", serializer_class=cls)

    assert set(get(root, 2)) == {"number", "carrier", "plane_id", "plane", "airline", "origin"}
    assert get(viewer, 2) == {"number": 1001, "origin": {"faa": "EWR", "name": "EWR", "latitude": 40.0}}
    assert list(schema(viewer)["properties"]) == ["number", "origin"]


def test_a_nested_serializer_shows_no_field_that_the_options_of_its_model_hide(
    root: DirectPeer, declared: Declared
) -> None:
    cls = fields_of(
        Flight, origin=AirportSerializer(), latitude=serializers.FloatField(source="origin.latitude"),
        slug=serializers.SlugRelatedField(source="origin", slug_field="latitude", read_only=True),
    )  # fmt: skip
    declared.model(Flight, fields="__all__", serializer_class=cls)
    declared.model(Airport, fields=["name"])

    assert get(root, 1) == {"origin": {"faa": "JFK", "name": "JFK"}}


@pytest.mark.parametrize(("key", "name"), [(1, "JFK"), (2, None)])
def test_a_hidden_related_row_reads_as_null(root: DirectPeer, declared: Declared, key: int, name: str | None) -> None:
    cls = fields_of(
        Flight, "number", "origin_id", code=serializers.CharField(source="origin.name"),
        nested=AirportSerializer(source="origin"),
        key=serializers.PrimaryKeyRelatedField(source="origin", read_only=True),
        text=serializers.CharField(source="origin"), default=serializers.CharField(source="origin.name", default="?"),
    )  # fmt: skip
    declared.model(Flight, fields="__all__", serializer_class=cls)
    declared.model(Airport, JFKOnly)

    assert get(root, key) == {
        "number": 999 + key, "origin_id": name, "code": name, "nested": name and {"faa": "JFK", "name": "JFK"},
        "key": name, "text": name and "JFK (JFK)", "default": name or "?",
    }  # fmt: skip


def test_hidden_rows_are_in_no_list_and_in_no_count(root: DirectPeer, declared: Declared) -> None:
    class Early(ModelMCP):
        fields = ("id", "origin", "number")

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(pk__lt=4)

    cls = fields_of(
        Airport, departures=fields_of(Flight, "id", "number")(many=True),
        keys=serializers.PrimaryKeyRelatedField(source="departures", many=True, read_only=True),
        numbers=serializers.SlugRelatedField(source="departures", slug_field="number", many=True, read_only=True),
        count=serializers.IntegerField(source="departures.count"), weather=serializers.StringRelatedField(many=True),
    )  # fmt: skip
    declared.model(Airport, fields="__all__", serializer_class=cls)
    declared.model(Flight, Early)

    assert get(root, "JFK", "flights.airport") == {
        "departures": [{"id": 1, "number": 1000}], "keys": [1], "numbers": [1000], "weather": [],
    }  # fmt: skip


def test_rows_that_a_hidden_row_between_joins_are_in_no_list(root: DirectPeer, declared: Declared) -> None:
    class Open(ModelMCP):
        fields = "__all__"

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(open=True)

    supplier = type("SupplierSerializer", (serializers.ModelSerializer,), {
        "Meta": type("Meta", (), {"model": Supplier, "fields": ["name"]}),
    })  # fmt: skip
    names = serializers.SlugRelatedField(source="makers", slug_field="name", many=True, read_only=True)
    declared.model(Making, Open)
    declared.model(
        Part,
        fields="__all__",
        serializer_class=fields_of(Part, "makers", names=names, whole=supplier(source="makers", many=True)),
    )
    declared.model(Supplier, fields="__all__", serializer_class=fields_of(Supplier, "makes"))
    seen, hidden = (Supplier.objects.create(name=name) for name in ("seen", "hidden"))
    part = Part.objects.create(name="p")
    Making.objects.create(part=part, maker=seen)
    Making.objects.create(part=part, maker=hidden, open=False)

    assert get(root, part.pk, "shop.part") == {"makers": [seen.pk], "names": ["seen"], "whole": [{"name": "seen"}]}
    assert get(root, seen.pk, "shop.supplier") == {"makes": [part.pk]}
    assert get(root, hidden.pk, "shop.supplier") == {"makes": []}


def test_code_of_the_projects_hands_no_hidden_row_to_a_field(root: DirectPeer, declared: Declared) -> None:
    class Asks(serializers.RelatedField[Any, Any, Any]):
        def get_attribute(self, instance: Flight) -> Any:
            return instance.origin

        def to_representation(self, value: Any) -> Any:
            return value.name

    nested = AirportSerializer
    cls = fields_of(
        Flight, asked=Asks(read_only=True), one=nested(source="start"), many=nested(source="both", many=True),
        rows=nested(source="queryset", many=True), each=nested(source="iterator", many=True),
        raw=nested(source="raw_query", many=True), named=serializers.DictField(source="by_name", child=nested()),
        name=serializers.CharField(source="start.name"), latitude=serializers.FloatField(source="start.latitude"),
    )  # fmt: skip
    own: dict[str, Any] = {
        "start": property(lambda self: self.origin),
        "both": property(lambda self: [self.origin, Airport.objects.get(pk="JFK")]),
        "queryset": lambda self: Airport.objects.order_by("faa"),
        "iterator": lambda self: Airport.objects.order_by("faa").iterator(),
        "raw_query": lambda self: Airport.objects.raw("SELECT * FROM flights_airport ORDER BY faa"),
        "by_name": property(lambda self: {"a": self.origin}),
    }
    for name, value in own.items():
        setattr(Flight, name, value)
    declared.model(Flight, fields="__all__", serializer_class=cls)
    declared.model(Airport, JFKOnly)
    try:
        seen, hidden = get(root, 1), get(root, 2)
    finally:
        for name in own:
            delattr(Flight, name)

    jfk = {"faa": "JFK", "name": "JFK"}
    assert seen == {
        "asked": "JFK", "one": jfk, "many": [jfk, jfk], "rows": [jfk], "each": [jfk], "raw": [jfk], "named": {"a": jfk},
        "name": "JFK", "latitude": None,
    }  # fmt: skip
    assert hidden == {
        "asked": None, "one": None, "many": [jfk], "rows": [jfk], "each": [jfk], "raw": [jfk], "named": {},
        "name": None, "latitude": None,
    }  # fmt: skip


def test_a_record_that_the_user_may_not_see_is_not_serialized(root: DirectPeer, declared: Declared) -> None:
    class Picky(JFKOnly):
        serializer_class = fields_of(Airport, "faa")

        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.altitude > 10

    declared.model(Airport, Picky)

    hidden = [root.call("get_record", model="flights.airport", id=key) for key in ("JFK", "EWR", "XXX")]
    Airport.objects.update(altitude=11)

    assert len({json.dumps(result).replace("EWR", "JFK").replace("XXX", "JFK") for result in hidden}) == 1
    assert get(root, "JFK", "flights.airport") == {"faa": "JFK"}
    assert root.call("get_record", model="flights.airport", id="EWR")["isError"]


def test_a_key_that_is_a_relation_by_another_field(root: DirectPeer, declared: Declared) -> None:
    class Some(ModelMCP):
        fields = ("name", "badge")

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(name="Ann")

    declared.model(Visit, fields="__all__", serializer_class=fields_of(Visit, "id", "person", "person_id"))
    declared.model(Person, Some, serializer_class=None)
    declared.model(Locker, fields="__all__", serializer_class=fields_of(Locker, "owner", "pk", "number"))
    people = [Person.objects.create(name=name, badge=f"b-{name}") for name in ("Ann", "Bob")]
    visits = [Visit.objects.create(person=person) for person in people]
    lockers = [Locker.objects.create(owner=person, number=7) for person in people]

    assert get(root, visits[0].pk, "shop.visit") == {"id": visits[0].pk, "person": "b-Ann", "person_id": "b-Ann"}
    assert get(root, visits[1].pk, "shop.visit") == {"id": visits[1].pk, "person": None, "person_id": None}
    assert get(root, lockers[0].pk, "shop.locker") == {"owner": people[0].pk, "pk": people[0].pk, "number": 7}
    assert root.call("get_record", model="shop.locker", id=lockers[1].pk)["isError"]


# What fails.


class Broken(serializers.ModelSerializer[Flight]):
    class Meta:
        model = Flight
        fields: ClassVar = ["number"]

    def to_representation(self, instance: Flight) -> Any:
        raise ValueError("the password is hunter2")


@pytest.mark.parametrize("cls", [Broken, int, Flight, type("NotOne", (), {})])
def test_a_serializer_that_fails_says_nothing_of_why(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture, cls: Any
) -> None:
    declared.model(Flight, fields="__all__", serializer_class=cls)

    result = root.call("get_record", model="flights.flight", id=1)
    error = root.error(MODERN, "resources/read", {"uri": "db://flights/flight/1"})

    assert result["isError"] and result["content"][0]["text"].startswith("get_record failed.")
    assert error["code"] == -32603 and error["data"]["reason"] == "INTERNAL_ERROR"
    assert "hunter2" not in json.dumps([result, error])
    assert caplog.text.count("Traceback") >= 2
    assert not root.call("find_records", model="flights.flight")["isError"]
    assert not root.call("describe_models", model="flights.flight")["isError"]


def test_what_is_missing_from_a_row_is_left_out_as_drf_does(root: DirectPeer, declared: Declared) -> None:
    class Annotated(ModelMCP):
        fields = ("faa",)
        serializer_class = fields_of(
            Airport, "faa", there=serializers.CharField(read_only=True), missing=serializers.CharField(read_only=True)
        )

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).annotate(there=F("name"))

    declared.model(Airport, Annotated)

    assert get(root, "JFK", "flights.airport") == {"faa": "JFK", "there": "JFK"}
    assert schema(root, "flights.airport")["required"] == ["faa"]


def test_depth_goes_no_deeper_than_the_policy(root: DirectPeer, viewer: DirectPeer, declared: Declared) -> None:
    class Deep(serializers.ModelSerializer[Any]):
        class Meta:
            model = Disruption
            fields = "__all__"
            depth = 2

    declared.model(Disruption, fields="__all__", use_admin=False, serializer_class=Deep)
    declared.model(User, fields=["username"])
    key = Disruption.objects.create(flight_id=1, kind="crew", reported_by=root.user).pk

    seen = get(root, key, "flights.disruption")

    assert seen["reported_by"] == {"id": root.user.pk, "username": "root"}
    assert seen["flight"]["carrier"] == {"carrier": "UA", "name": "United"}
    assert "password" not in json.dumps([seen, schema(root, "flights.disruption")])


def test_a_serializer_costs_no_query_for_keys_of_rows_that_all_may_see(
    root: DirectPeer, declared: Declared, django_assert_num_queries: Any
) -> None:
    cls = fields_of(Flight, "id", "origin", "carrier", "plane")
    declared.model(Flight, fields="__all__", use_admin=False, serializer_class=cls)
    rights = rights_on(Flight, root.user)

    with django_assert_num_queries(1):
        record = rows.get(rights, 2)

    assert record is not None
    assert record.values == {"id": 2, "origin": "EWR", "carrier": "AA", "plane": "N14228"}


def test_describe_models_says_what_the_record_holds(root: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, type("AirportMCP", (JFKOnly,), {"serializer_class": AirportSerializer}))

    described = root.call("describe_models", model="flights.airport")["structuredContent"]

    assert described["record"] == ["faa", "name"]
