"""What values look like outside: the same in a page, in a record and in a resource, and as the schema says."""

from __future__ import annotations

import datetime
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.postgres import fields as postgres
from django.contrib.postgres.search import SearchVectorField
from django.db import connection, models
from django.db.backends.postgresql.psycopg_any import NumericRange
from jsonschema import Draft202012Validator

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.fields.field_kinds import kind_of
from mcp_django.bridge.resources.fields.kinds import KINDS, TEXT
from tests.shop.models import Product
from tests.support.asking import DirectPeer
from tests.support.pages import cells

pytestmark = pytest.mark.every_database

SKU = uuid.UUID("12345678-1234-4234-8234-123456789abc")


def value_of(root: DirectPeer, name: str, value: Any) -> Any:
    """The value as all three ways of reading give it."""
    product = Product.objects.create(**{"name": "x", name: value})
    page = root.call("find_records", model="shop.product", fields=[name], filter={"id": product.pk})
    record = root.call("get_record", model="shop.product", id=product.pk)["structuredContent"]
    resource = root.read(f"db://shop/product/{product.pk}")
    text = json.loads(page["content"][0]["text"])
    schema = root.read("db://shop/product.schema")

    assert page["structuredContent"] == text
    assert record == resource
    Draft202012Validator(schema).validate(resource)
    [[_, in_page]] = page["structuredContent"]["rows"]
    assert in_page == record[name] or schema["properties"][name].get("type") is None
    return record[name]


WRITTEN = [
    ("name", "é ü 😀", "é ü 😀"),
    ("name", "", ""),
    ("sku", SKU, "12345678-1234-4234-8234-123456789abc"),
    ("price", Decimal("10.10"), "10.10"),
    ("price", Decimal("-0.05"), "-0.05"),
    ("price", Decimal("123456789012.34"), "123456789012.34"),
    ("price", None, None),
    ("weight", 0.1, 0.1),
    ("weight", 1e300, 1e300),
    ("weight", -5.0, -5.0),
    ("weight", None, None),
    ("stock", 0, 0),
    ("stock", 2**53 - 1, 2**53 - 1),
    ("stock", 2**53, str(2**53)),
    ("stock", -(2**53), str(-(2**53))),
    ("stock", 2**63 - 1, "9223372036854775807"),
    ("launched", datetime.date(2013, 1, 31), "2013-01-31"),
    ("launched", datetime.date(1000, 1, 1), "1000-01-01"),
    ("opens", datetime.time(8, 30), "08:30:00"),
    ("opens", datetime.time(8, 30, 5, 7), "08:30:05.000007"),
    ("lead_time", datetime.timedelta(days=1, hours=2), "P1DT02H00M00S"),
    ("lead_time", datetime.timedelta(seconds=-1), "-P0DT00H00M01S"),
    ("lead_time", datetime.timedelta(microseconds=1), "P0DT00H00M00.000001S"),
    ("active", True, True),
    ("active", False, False),
    ("details", {"a": [1, None, "x"], "b": {"c": True}}, {"a": [1, None, "x"], "b": {"c": True}}),
    ("details", [], []),
    ("details", "text", "text"),
    ("details", 5, 5),
    ("details", {"a": [2**53, True, 1.5]}, {"a": [str(2**53), True, 1.5]}),
    ("details", [[[2**53]], {"a": 2**53}], [[[str(2**53)]], {"a": str(2**53)}]),
    ("manual", "", None),
]


def test_a_value_is_written(root: DirectPeer) -> None:
    found = [(name, value_of(root, name, value)) for name, value, _ in WRITTEN]

    assert found == [(name, written) for name, _, written in WRITTEN]
    assert [type(value) for _, value in found] == [type(written) for *_, written in WRITTEN]


def test_json_deeper_than_the_encoder_goes_says_where_it_was_cut(root: DirectPeer) -> None:
    if connection.vendor == "mysql":
        return  # MariaDB takes no JSON of such a depth.
    value: Any = "bottom"
    for _ in range(300):
        value = [value]
    product = Product.objects.create(name="x", details=value)

    found = root.read(f"db://shop/product/{product.pk}")["details"]

    depth = 0
    while isinstance(found, list):
        [found], depth = found, depth + 1
    assert (depth, found) == (100, "… (deeper than 100 levels)")


@pytest.mark.skipif(connection.vendor == "mysql", reason="MariaDB takes no such number")
def test_numbers_that_json_lacks_are_null(root: DirectPeer) -> None:
    assert [value_of(root, "weight", value) for value in (math.nan, math.inf, -math.inf)] == [None] * 3


def test_binary_that_no_form_shows_is_hidden(root: DirectPeer) -> None:
    product = Product.objects.create(name="x", blob=b"\x00\xff")

    assert "blob" not in root.read(f"db://shop/product/{product.pk}")
    assert "blob" not in root.read("db://shop/product.schema")["properties"]


EXAMPLES: dict[str, tuple[models.Field[Any, Any], Any]] = {
    "IntegerField": (models.IntegerField(), 12),
    "FloatField": (models.FloatField(), 0.5),
    "DecimalField": (models.DecimalField(), Decimal("10.10")),
    "BooleanField": (models.BooleanField(), True),
    "CharField": (models.CharField(), "JFK"),
    "DateTimeField": (models.DateTimeField(), datetime.datetime(2013, 1, 31, 8, 30, tzinfo=datetime.UTC)),
    "DateField": (models.DateField(), datetime.date(2013, 1, 31)),
    "TimeField": (models.TimeField(), datetime.time(8, 30)),
    "DurationField": (models.DurationField(), datetime.timedelta(days=1, hours=2)),
    "UUIDField": (models.UUIDField(), SKU),
    "GenericIPAddressField": (models.GenericIPAddressField(), "10.0.0.1"),
    "JSONField": (models.JSONField(), {"color": "red"}),
    "ForeignKey": (Flight._meta.get_field("id"), 7),
    "GeneratedField": (
        models.GeneratedField(expression=models.F("x"), output_field=models.IntegerField(), db_persist=True), 12,
    ),
    "ArrayField": (postgres.ArrayField(models.TextField()), ["red", "old"]),
    "HStoreField": (postgres.HStoreField(), {"color": "red"}),
    "IntegerRangeField": (postgres.IntegerRangeField(), NumericRange(1, 5)),
}  # fmt: skip


def test_values_look_as_the_documentation_says() -> None:
    lines = cells("docs/models.md", "## What values look like")
    said = {line[0].split("`")[1]: json.loads(line[2].strip("`")) for line in lines}

    written = {
        name: kind.write(value) for name, (field, value) in EXAMPLES.items() if (kind := kind_of(field, named=False))
    }

    assert said.pop("FileField") == "db://shop/order/1/receipt"
    assert written == said


def test_integers_of_a_column_are_written_each_by_its_own_size(root: DirectPeer) -> None:
    values = [5, 2**53 - 1, 0, -(2**53), 2**53, 1 - 2**53]
    for number, stock in enumerate(values):
        Product.objects.create(name=str(number), stock=stock)

    found = root.call("find_records", model="shop.product", fields=["stock"], order_by=["name"])

    expected = [5, 2**53 - 1, 0, str(-(2**53)), str(2**53), 1 - 2**53]
    assert [row[1] for row in found["structuredContent"]["rows"]] == expected


class _EncryptedField(models.CharField):
    """A stranger's field: its values come out decrypted."""


class _Point(models.Field):
    """A stranger's field that is made from nothing known."""


def test_a_field_or_an_array_of_a_strange_class_is_hidden_until_it_is_named() -> None:
    field = _EncryptedField(max_length=10)
    array = postgres.ArrayField(_EncryptedField(max_length=10))

    assert (kind_of(field, named=False), kind_of(field, named=True)) == (None, TEXT)
    assert kind_of(array, named=False) is None
    assert kind_of(array, named=True) is kind_of(postgres.ArrayField(models.TextField()), named=False)


def test_what_nobody_reads_is_hidden_even_where_it_is_named() -> None:
    for field in (SearchVectorField(), postgres.ArrayField(SearchVectorField()), postgres.ArrayField(_Point())):
        assert kind_of(field, named=True) is None


def test_every_field_class_of_django_has_a_kind_but_removed_ones() -> None:
    classes = [
        cls
        for cls in vars(models).values()
        if isinstance(cls, type) and issubclass(cls, models.Field) and not issubclass(cls, models.ForeignObject)
    ]

    without = {cls.__name__ for cls in classes if cls not in KINDS}

    assert without == {
        "Field", "CommaSeparatedIntegerField", "IPAddressField", "NullBooleanField", "ManyToManyField",
        "CompositePrimaryKey", "GeneratedField", "OrderWrt",
    }  # fmt: skip
