"""What a serializer shows nobody."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from rest_framework import serializers

from demo_project.flights.models import Airport, Flight
from tests.bridge.resources.conftest import showing
from tests.bridge.resources.serializers.conftest import AirportSerializer, JFKOnly, fields_of, get, schema
from tests.shop.models import Locker, Making, Part, Person, Product, Supplier, Visit
from tests.support.asking import DirectPeer
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


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


@pytest.mark.parametrize(("shown", "order"), [([], ["a", "b"]), (["weight"], ["b", "a"])])
def test_ranking_related_rows_by_a_hidden_column_in_what_a_serializer_writes(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch, shown: list[str], order: list[str]
) -> None:
    monkeypatch.setattr(Part._meta, "ordering", ["weight"])
    supplier = Supplier.objects.create(name="s")
    for name, weight in (("a", 2), ("b", 1)):
        Part.objects.create(name=name, weight=weight, supplier=supplier)
    many: Any = serializers.SlugRelatedField(slug_field="name", many=True, read_only=True)
    declared.model(Supplier, fields="__all__", serializer_class=fields_of(Supplier, "name", parts=many))
    declared.model(Part, fields=["name", "supplier", *shown])

    assert get(root, supplier.pk, "shop.supplier")["parts"] == order


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


def test_a_hidden_related_row_reads_as_null(root: DirectPeer, declared: Declared) -> None:
    cls = fields_of(
        Flight, "number", "origin_id", code=serializers.CharField(source="origin.name"),
        nested=AirportSerializer(source="origin"),
        key=serializers.PrimaryKeyRelatedField(source="origin", read_only=True),
        text=serializers.CharField(source="origin"), default=serializers.CharField(source="origin.name", default="?"),
    )  # fmt: skip
    declared.model(Flight, fields="__all__", serializer_class=cls)
    declared.model(Airport, JFKOnly)

    assert get(root, 1) == {
        "number": 1000, "origin_id": "JFK", "code": "JFK", "nested": {"faa": "JFK", "name": "JFK"}, "key": "JFK",
        "text": "JFK", "default": "JFK",
    }  # fmt: skip
    assert get(root, 2) == {
        "number": 1001, "origin_id": None, "code": None, "nested": None, "key": None, "text": None, "default": "?",
    }  # fmt: skip


def test_hidden_rows_are_in_no_list_and_in_no_count(root: DirectPeer, declared: Declared) -> None:
    cls = fields_of(
        Airport, departures=fields_of(Flight, "id", "number")(many=True),
        keys=serializers.PrimaryKeyRelatedField(source="departures", many=True, read_only=True),
        numbers=serializers.SlugRelatedField(source="departures", slug_field="number", many=True, read_only=True),
        count=serializers.IntegerField(source="departures.count"), weather=serializers.StringRelatedField(many=True),
    )  # fmt: skip
    declared.model(Airport, fields="__all__", serializer_class=cls)
    declared.model(Flight, showing(lambda every: every.filter(pk__lt=4), fields=("id", "origin", "number")))

    assert get(root, "JFK", "flights.airport") == {
        "departures": [{"id": 1, "number": 1000}], "keys": [1], "numbers": [1000], "weather": [],
    }  # fmt: skip


def test_rows_that_a_hidden_row_between_joins_are_in_no_list(root: DirectPeer, declared: Declared) -> None:
    supplier = type("SupplierSerializer", (serializers.ModelSerializer,), {
        "Meta": type("Meta", (), {"model": Supplier, "fields": ["name"]}),
    })  # fmt: skip
    names = serializers.SlugRelatedField(source="makers", slug_field="name", many=True, read_only=True)
    declared.model(Making, showing(lambda every: every.filter(open=True), fields="__all__"))
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
    declared.model(Visit, fields="__all__", serializer_class=fields_of(Visit, "id", "person", "person_id"))
    declared.model(
        Person, showing(lambda every: every.filter(name="Ann"), fields=("name", "badge")), serializer_class=None
    )
    declared.model(Locker, fields="__all__", serializer_class=fields_of(Locker, "owner", "pk", "number"))
    people = [Person.objects.create(name=name, badge=f"b-{name}") for name in ("Ann", "Bob")]
    visits = [Visit.objects.create(person=person) for person in people]
    lockers = [Locker.objects.create(owner=person, number=7) for person in people]

    assert get(root, visits[0].pk, "shop.visit") == {"id": visits[0].pk, "person": "b-Ann", "person_id": "b-Ann"}
    assert get(root, visits[1].pk, "shop.visit") == {"id": visits[1].pk, "person": None, "person_id": None}
    assert get(root, lockers[0].pk, "shop.locker") == {"owner": people[0].pk, "pk": people[0].pk, "number": 7}
    assert root.call("get_record", model="shop.locker", id=lockers[1].pk)["isError"]
