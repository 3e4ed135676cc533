"""Arrays, ranges and hstore: what their values look like, and how a filter asks of them. Only PostgreSQL has them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.postgres.signals import get_hstore_oids, register_type_handlers
from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateRange, DateTimeTZRange, NumericRange
from jsonschema import Draft202012Validator

from tests.conftest import need
from tests.shop.models import Labelled, Shelf
from tests.support.asking import DirectPeer, described, errors_of, keys
from tests.support.declared import Declared

pytestmark = [
    pytest.mark.every_database,
    pytest.mark.skipif(
        "connection.vendor != 'postgresql'", reason="these fields are PostgreSQL's own: TEST_DATABASE=postgresql"
    ),
]

NOON = datetime.datetime(2013, 1, 31, 12, tzinfo=datetime.UTC)


@pytest.fixture
def root(db: None, declared: Declared) -> DirectPeer:
    declared.model(Shelf, fields="__all__")
    return DirectPeer(User.objects.create_superuser("root"))


WRITTEN = [
    ("labels", ["a", None, ""], ["a", None, ""]),
    ("labels", [], []),
    ("labels", None, None),
    ("counts", [1, -2], [1, -2]),
    ("prices", [Decimal("1.50")], ["1.50"]),
    ("days", [datetime.date(2013, 1, 31)], ["2013-01-31"]),
    ("grid", [[1, 2**53], [3, 4]], [[1, str(2**53)], [3, 4]]),
    ("places", NumericRange(1, 5), {"lower": 1, "upper": 5, "bounds": "[)"}),
    ("places", NumericRange(1, 5, "[]"), {"lower": 1, "upper": 6, "bounds": "[)"}),
    ("places", NumericRange(None, 5), {"lower": None, "upper": 5, "bounds": "()"}),
    ("places", NumericRange(3, 3), {"lower": None, "upper": None, "bounds": "empty"}),
    ("serials", NumericRange(2**53, None), {"lower": str(2**53), "upper": None, "bounds": "[)"}),
    ("weights", NumericRange(Decimal("0.5"), Decimal("1.5"), "(]"), {"lower": "0.5", "upper": "1.5", "bounds": "(]"}),
    ("open_days", DateRange(datetime.date(2013, 1, 1), datetime.date(2014, 1, 1)),
     {"lower": "2013-01-01", "upper": "2014-01-01", "bounds": "[)"}),
    ("open_at", DateTimeTZRange(NOON, None), {"lower": "2013-01-31T07:00:00-05:00", "upper": None, "bounds": "[)"}),
    ("open_at", None, None),
]  # fmt: skip


def test_a_value_is_written(root: DirectPeer) -> None:
    for name, value, written in WRITTEN:
        shelf = Shelf.objects.create(**{name: value})
        page = root.call("find_records", model="shop.shelf", fields=[name], filter={"id": shelf.pk})
        record = root.read(f"db://shop/shelf/{shelf.pk}")
        assert record[name] == written, (name, value)
        assert page["structuredContent"]["rows"] == [[shelf.pk, written]]
        assert json.loads(page["content"][0]["text"]) == page["structuredContent"]
        Draft202012Validator(root.read("db://shop/shelf.schema")).validate(record)


def test_a_long_array_is_cut_in_a_page_and_whole_in_a_record(root: DirectPeer) -> None:
    shelf = Shelf.objects.create(counts=list(range(1_000, 2_000)))

    page = root.call("find_records", model="shop.shelf", fields=["counts"])["structuredContent"]

    [[_, cut]] = page["rows"]
    assert (cut[:11], len(cut), cut[-1]) == ("[1000,1001,", 2_001, "…")
    assert page["notes"] == ["Values of counts ending in … were cut at 2000 characters; get_record gives them whole."]
    assert root.read(f"db://shop/shelf/{shelf.pk}")["counts"] == list(range(1_000, 2_000))


@pytest.fixture
def shelves(root: DirectPeer) -> dict[int, str]:
    """Two shelves that have every value and one that has none."""
    made = {
        "low": Shelf.objects.create(
            labels=["red", "old"], counts=[1, 2], prices=[Decimal("1.50")], days=[datetime.date(2013, 1, 31)],
            grid=[[1]], places=NumericRange(1, 5), serials=NumericRange(1, 2**60),
            weights=NumericRange(Decimal("0.5"), Decimal("1.5")),
            open_days=DateRange(datetime.date(2013, 1, 1), datetime.date(2013, 2, 1)),
            open_at=DateTimeTZRange(NOON, NOON + datetime.timedelta(hours=1)),
        ),
        "high": Shelf.objects.create(
            labels=["red"], counts=[3], places=NumericRange(5, None), weights=NumericRange(Decimal(10), None),
            open_days=DateRange(datetime.date(2014, 1, 1), None), open_at=DateTimeTZRange(None, NOON),
        ),
        "none": Shelf.objects.create(),
    }  # fmt: skip
    return {shelf.pk: name for name, shelf in made.items()}


FOUND = [
    ({"labels": ["red"]}, "high"),
    ({"labels": "red,old"}, "low"),
    ({"labels__contains": ["red"]}, "low high"),
    ({"labels__contains": ["red", "old"]}, "low"),
    ({"labels__contained_by": ["red", "new"]}, "high"),
    ({"labels__overlap": ["old", "new"]}, "low"),
    ({"labels__len": 2}, "low"),
    ({"labels__len": "1"}, "high"),
    ({"labels__len__gte": 1}, "low high"),
    ({"labels": None}, "none"),
    ({"labels__isnull": False}, "low high"),
    ({"not": {"labels__contains": ["old"]}}, "high none"),
    ({"counts__contains": ["2"]}, "low"),
    ({"counts__contains": [2**31 - 1]}, ""),
    ({"counts": []}, "none"),
    ({"counts__len": 0}, "none"),
    ({"prices__contains": ["1.5"]}, "low"),
    ({"days__overlap": ["2013-01-31"]}, "low"),
    ({"grid__len": 1}, "low"),
    ({"places__contains": 5}, "high"),
    ({"places__contains": "1"}, "low"),
    ({"places__contains": {"lower": 2, "upper": 3, "bounds": "[]"}}, "low"),
    ({"places__contained_by": {"lower": 0, "upper": 10}}, "low"),
    ({"places__contained_by": {"lower": 0}}, "low high"),
    ({"places__overlap": {"upper": 5}}, "low"),
    ({"places__overlap": {"lower": 4, "upper": 5, "bounds": "[]"}}, "low high"),
    ({"places__fully_lt": {"lower": 5}}, "low"),
    ({"places__fully_gt": {"upper": 5}}, "high"),
    ({"places": {"lower": 1, "upper": 4, "bounds": "[]"}}, "low"),
    ({"places": None}, "none"),
    ({"serials__contains": str(2**53)}, "low"),
    ({"weights__contains": "1.25"}, "low"),
    ({"weights__contains": 1.5}, ""),
    ({"open_days__contains": "2013-01-31"}, "low"),
    ({"open_days__contains": "2015-01-31"}, "high"),
    ({"open_at__contains": "2013-01-31T12:00:00Z"}, "low"),
    ({"open_at__contains": "2013-01-31T06:30:00-05:00"}, "high"),
    ({"open_at__isnull": True}, "none"),
]


def test_a_filter_finds(root: DirectPeer, shelves: dict[int, str]) -> None:
    found = {str(asked): keys(root, "shop.shelf", filter=asked, fields=["id"], order_by=["id"]) for asked, _ in FOUND}

    assert {asked: " ".join(map(shelves.__getitem__, made)) for asked, made in found.items()} == {
        str(asked): names for asked, names in FOUND
    }


REFUSED = [
    ({"labels__contains": "x" * 11}, "no value is longer than 10 characters."),
    ({"labels__contains": [None]}, "must be a string."),
    ({"labels__contains": ["a\x00"]}, "must not hold null characters."),
    ({"labels__contains": {"a": 1}}, "must be a list."),
    ({"labels__contains": [["a"]]}, "must be a string."),
    ({"labels__overlap": ["x"] * 201}, "at most 200 values."),
    ({"labels__len": "two"}, "must be an integer."),
    ({"counts__contains": [2**31]}, "is out of range."),
    ({"counts__contains": ["1); DROP TABLE shop_shelf; --"]}, "must be an integer."),
    ({"prices__contains": ["1.555"]}, "Ensure that there are no more than 2 decimal places."),
    ({"prices__contains": ["99999"]}, "Ensure that there are no more than 4 digits before the decimal point."),
    ({"places__contains": "[1,5)"}, "must be an integer."),
    ({"places__contains": 2**31 - 1}, "is out of range."),
    ({"places__overlap": 5}, 'must be an object, as {"lower": 1, "upper": 5, "bounds": "[)"}.'),
    (
        {"places__overlap": {"lower": 1, "empty": True}},
        'must be an object, as {"lower": 1, "upper": 5, "bounds": "[)"}.',
    ),
    ({"places__overlap": {"lower": 5, "upper": 1}}, "lower must not be greater than upper."),
    ({"places__overlap": {"lower": 1, "bounds": "[x"}}, "bounds must be one of [), [], (), (]."),
    ({"places__overlap": {"lower": 1, "bounds": ["[)"]}}, "bounds must be one of [), [], (), (]."),
    ({"places__overlap": {"lower": [1]}}, "must be an integer."),
    ({"serials__contains": 2**63 - 1}, "is out of range."),
    ({"open_days__contains": "31.1.2013"}, "must be a date, as 2013-01-31."),
]


def test_a_value_that_is_none_is_refused_in_words(root: DirectPeer) -> None:
    for asked, message in REFUSED:
        [error] = errors_of(root.call("find_records", model="shop.shelf", filter=asked))
        assert error["message"] == message, asked


def test_transforms_that_are_not_offered_are_refused(root: DirectPeer) -> None:
    for name in (
        "labels__0", "labels__0_1", "labels__in", "labels__len__in", "grid__contains", "places__startswith",
        "places__isempty", "places__lower_inc", "places__in",
    ):  # fmt: skip
        [error] = errors_of(root.call("find_records", model="shop.shelf", filter={name: "1"}))
        assert error["message"].startswith(f"no lookup of {name.partition('__')[0]} "), name


def test_they_are_described_by_what_they_hold(root: DirectPeer) -> None:
    fields = described(root, "shop.shelf")["fields"]

    assert {name: field["type"] for name, field in fields.items()} == {
        "id": "integer", "labels": "list of text", "counts": "list of integer", "prices": "list of decimal",
        "days": "list of date", "grid": "list of list of integer", "places": "integer range",
        "serials": "integer range", "weights": "decimal range", "open_days": "date range", "open_at": "datetime range",
    }  # fmt: skip


def test_no_order_goes_by_them(root: DirectPeer) -> None:
    for name in ("labels", "counts", "places", "open_at"):
        result = root.call("find_records", model="shop.shelf", order_by=[name])
        assert [error["field"] for error in errors_of(result)] == ["order_by"], name


# hstore is an extension, which the test makes and its transaction takes back.


@pytest.fixture
def labelled(db: None, declared: Declared) -> Iterator[DirectPeer]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'hstore'")
        need(cursor.fetchone() is not None, "PostgreSQL's extension hstore")
        cursor.execute("CREATE EXTENSION IF NOT EXISTS hstore")
    get_hstore_oids.cache_clear()
    register_type_handlers(connection)
    with connection.schema_editor() as editor:
        editor.create_model(Labelled)
    declared.model(Labelled, fields="__all__")
    Labelled.objects.create(pk=1, labels={"color": "red", "size": None})
    Labelled.objects.create(pk=2, labels={"color": "blue", "é": "ü"})
    Labelled.objects.create(pk=3)
    yield DirectPeer(User.objects.create_superuser("root"))
    get_hstore_oids.cache_clear()


def test_hstore_is_an_object(labelled: DirectPeer) -> None:
    page = labelled.call("find_records", model="shop.labelled")["structuredContent"]

    assert page["rows"] == [[1, {"color": "red", "size": None}], [2, {"color": "blue", "é": "ü"}], [3, None]]


IN_HSTORE = [
    ({"labels__contains": {"color": "red"}}, [1]),
    ({"labels__contains": {}}, [1, 2]),
    ({"labels__has_key": "size"}, [1]),
    ({"labels__has_keys": ["color", "é"]}, [2]),
    ({"labels__has_any_keys": "size,é"}, [1, 2]),
    ({"labels": None}, [3]),
    ({"labels__isnull": False}, [1, 2]),
]  # fmt: skip


def test_a_filter_finds_in_hstore(labelled: DirectPeer) -> None:
    assert {str(asked): keys(labelled, "shop.labelled", filter=asked) for asked, _ in IN_HSTORE} == {
        str(asked): found for asked, found in IN_HSTORE
    }


NOT_IN_HSTORE: list[dict[str, Any]] = [
    {"labels__contains": "color"}, {"labels__contains": {"color": 1}}, {"labels__contains": {"color": None}},
    {"labels__contains": {"a\x00": "b"}}, {"labels__has_key": ["color"]}, {"labels__has_keys": {"color": 1}},
    {"labels": {"color": "red"}}, {"labels__color": "red"}, {"labels__keys": ["color"]},
]  # fmt: skip


def test_what_hstore_cannot_be_asked_is_refused(labelled: DirectPeer) -> None:
    for asked in NOT_IN_HSTORE:
        [error] = errors_of(labelled.call("find_records", model="shop.labelled", filter=asked))
        assert error["field"].startswith("filter.labels"), asked
