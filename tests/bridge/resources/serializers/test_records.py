"""Records look as the serializer of their model says."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import uuid
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from django.test import override_settings
from django.urls import path
from rest_framework import serializers

from demo_project.flights.models import Airport, Flight
from demo_project.urls import urlpatterns as demo_urls
from mcp_django import ModelMCP
from tests.bridge.resources.serializers.conftest import AirportSerializer, fields_of, get, schema
from tests.shop.models import Document, Product, Tag
from tests.support.asking import DirectPeer, errors_of
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

urlpatterns = [
    path("airports/<str:faa>/", lambda request: None, name="airport-by-code"),  # type: ignore[arg-type, return-value]
    path("flights/<int:pk>/", lambda request: None, name="flight-detail"),  # type: ignore[arg-type, return-value]
    *demo_urls,
]


@dataclasses.dataclass
class Size:
    width: int
    day: datetime.date


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
        "departs_at": "2013-01-01T05:00:00-05:00", "departure_delay": -5, "status": "on_time",
        "name": "UA 1000 for root",
    }  # fmt: skip
    assert schema(root) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "flight",
        "type": "object",
        "properties": {
            "id": {"type": ["integer", "string"]},
            "origin": {
                "type": "object",
                "properties": {
                    "faa": {
                        "type": "string", "title": "FAA code", "description": "Three-character FAA code, e.g. JFK.",
                    },
                    "name": {"type": "string"},
                    "latitude": {"type": "number", "description": "Degrees, north is positive."},
                },
                "required": ["faa", "name", "latitude"], "additionalProperties": False,
            },
            "code": {"type": "string", "description": "Where it goes."},
            "plane": {
                "type": ["string", "null"],
                "description": "Empty where the tail number is missing or not on record. Primary key of a "
                "flights.plane.",
            },
            "departs_at": {"type": "string", "format": "date-time", "title": "Scheduled departure"},
            "departure_delay": {
                "type": ["integer", "string", "null"],
                "description": "Minutes; negative is early, empty where the flight never left.",
            },
            "status": {
                "type": "string",
                "description": "A flight counts as delayed when it leaves more than 15 minutes late. "
                "One of on_time: on time; delayed: delayed; cancelled: cancelled.",
            },
            "name": {"type": "string"},
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
        "unhinted": {"nan": None, "bytes": "AA==", "set": [1], "2": "100", "at": "08:00:00"},
        "wrong_hint": str(product.pk), "local": "31.01.2013", "made": "2013-01-31T18:30:00-05:00",
        "listed": [1, str(2**60)], "by_name": {"a": 0.5},
        "color": "red", "text": str(product.pk),
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


@override_settings(ROOT_URLCONF=__name__)
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
        "carrier": "AA", "plane": "N14228", "plane_id": "N14228", "built": None, "label": "on time",
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

    monkeypatch.setattr("mcp_django.bridge.resources.reading.serializers.MAX_RELATED", 1)
    result = root.call("get_record", model="flights.airport", id="JFK")

    assert result["structuredContent"] == {"faa": "JFK", "departures": [{"id": 1}]}
    assert result["content"][1]["text"] == "departures lists at most 1 rows."
