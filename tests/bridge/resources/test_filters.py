"""Filters: every lookup of every kind of field, and how conditions are joined."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.fields import kinds
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import rows
from tests.shop.models import Book, Product
from tests.support.asking import rights_on
from tests.support.data import make_flights

pytestmark = pytest.mark.every_database

LAMP = uuid.UUID("00000000-0000-4000-8000-000000000001")


@pytest.fixture
def superuser(db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def products(superuser: User) -> ModelRights:
    """A lamp and a chair that have every value, and a void that has none."""
    Product.objects.create(
        name="lamp", sku=LAMP, price=Decimal("10.10"), weight=0.5, stock=3, launched=datetime.date(2013, 1, 31),
        opens=datetime.time(8, 30), lead_time=datetime.timedelta(days=1, hours=2), active=True, manual="lamp.pdf",
    )  # fmt: skip
    Product.objects.create(
        name="chair", price=Decimal("20.00"), weight=7.25, stock=2**53 + 1, launched=datetime.date(2014, 6, 1),
        opens=datetime.time(9, 0), lead_time=datetime.timedelta(minutes=90), active=False,
    )  # fmt: skip
    Product.objects.create(name="void")
    return rights_on(Product, superuser)


@pytest.fixture
def flights(superuser: User) -> ModelRights:
    make_flights(6)
    return rights_on(Flight, superuser)


def names(rights: ModelRights, asked: Any) -> str:
    """The names of what a filter finds, in alphabetical order."""
    page = rows.find(rights, rows.RecordQuery(filter=asked, fields=["name"], order_by=["name"]))
    return " ".join(row[1] for row in page.rows)


def keys(rights: ModelRights, asked: Any) -> list[int]:
    page = rows.find(rights, rows.RecordQuery(filter=asked, fields=["id"], order_by=["id"]))
    return [row[0] for row in page.rows]


def errors(rights: ModelRights, asked: Any) -> list[dict[str, Any]]:
    with pytest.raises(InvalidQuery) as raised:
        rows.find(rights, rows.RecordQuery(filter=asked))
    return [dict(error) for error in raised.value.errors]


FOUND = [
    # Text.
    ({"name": "lamp"}, "lamp"),
    ({"name__exact": "lamp"}, "lamp"),
    ({"name__iexact": "LAMP"}, "lamp"),
    ({"name__in": ["lamp", "void"]}, "lamp void"),
    ({"name__in": "lamp,void"}, "lamp void"),
    ({"name__in": []}, ""),
    ({"name__contains": "a"}, "chair lamp"),
    ({"name__icontains": "AM"}, "lamp"),
    ({"name__startswith": "la"}, "lamp"),
    ({"name__istartswith": "LA"}, "lamp"),
    ({"name__endswith": "mp"}, "lamp"),
    ({"name__iendswith": "MP"}, "lamp"),
    ({"name__gt": "chair"}, "lamp void"),
    ({"name__gte": "lamp"}, "lamp void"),
    ({"name__lt": "lamp"}, "chair"),
    ({"name__lte": "lamp"}, "chair lamp"),
    ({"name__contains": "%"}, ""),
    ({"name__contains": "_"}, ""),
    # Integers.
    ({"stock": 3}, "lamp"),
    ({"stock": "3"}, "lamp"),
    ({"stock": 3.0}, "lamp"),
    ({"stock": str(2**53 + 1)}, "chair"),
    ({"stock__in": [0, 3]}, "lamp void"),
    ({"stock__gt": 3}, "chair"),
    ({"stock__gte": 3}, "chair lamp"),
    ({"stock__lt": 3}, "void"),
    ({"stock__lte": 3}, "lamp void"),
    ({"stock__range": [1, 5]}, "lamp"),
    # Decimals and numbers.
    ({"price": "10.10"}, "lamp"),
    ({"price": 10.1}, "lamp"),
    ({"price__gt": 10}, "chair lamp"),
    ({"price__range": ["10.10", "10.10"]}, "lamp"),
    ({"price__isnull": True}, "void"),
    ({"price": None}, "void"),
    ({"weight": 0.5}, "lamp"),
    ({"weight__gte": "0.5"}, "chair lamp"),
    ({"weight__in": [0.5, 7.25]}, "chair lamp"),
    ({"weight__lt": 1}, "lamp"),
    # Dates, times and durations.
    ({"launched": "2013-01-31"}, "lamp"),
    ({"launched__gt": "2013-01-31"}, "chair"),
    ({"launched__range": ["2013-01-01", "2013-12-31"]}, "lamp"),
    ({"launched__year": 2014}, "chair"),
    ({"launched__year": "2013"}, "lamp"),
    ({"launched__month": 6}, "chair"),
    ({"launched__month__lt": 6}, "lamp"),
    ({"launched__year__gte": 2014}, "chair"),
    ({"launched__day": 31}, "lamp"),
    ({"launched__week_day": 5}, "lamp"),
    ({"opens__lte": "08:30:00"}, "lamp"),
    ({"opens__hour": 9}, "chair"),
    ({"opens__hour__lte": 8}, "lamp"),
    ({"opens__minute": 30}, "lamp"),
    ({"lead_time": "P1DT2H"}, "lamp"),
    ({"lead_time__lt": "1 02:00:00"}, "chair"),
    # Truth, keys, files.
    ({"active": True}, "lamp void"),
    ({"active": "false"}, "chair"),
    ({"active__in": [False]}, "chair"),
    ({"sku": str(LAMP)}, "lamp"),
    ({"sku__in": [LAMP.hex.upper()]}, "lamp"),
    ({"manual__isnull": False}, "lamp"),
    ({"manual__isnull": True}, "chair void"),
    ({"details__isnull": False}, "chair lamp void"),
    # Joined.
    ({}, "chair lamp void"),
    ({"active": True, "stock": 3}, "lamp"),
    ({"any": [{"name": "lamp"}, {"name": "void"}]}, "lamp void"),
    ({"any": [{"name": "lamp"}], "active": False}, ""),
    ({"all": [{"active": True}, {"stock__lt": 3}]}, "void"),
    ({"not": {"name": "lamp"}}, "chair void"),
    ({"not": {"price__gt": 10}}, "void"),
    ({"not": {"not": {"name": "lamp"}}}, "lamp"),
    ({"not": {"any": [{"name": "lamp"}, {"price": None}]}}, "chair"),
    ({"not": {"all": [{"active": True}, {"stock": 3}]}}, "chair void"),
    ({"any": [{"active": True, "stock": 3}, {"not": {"active": True}}]}, "chair lamp"),
]


def test_a_filter_finds(products: ModelRights) -> None:
    assert {str(asked): names(products, asked) for asked, _ in FOUND} == {str(asked): wanted for asked, wanted in FOUND}


def test_every_lookup_that_is_described_can_be_asked(products: ModelRights, flights: ModelRights) -> None:
    values = {
        "integer": "1", "boolean": "true", "text": "N", "number": "1.5", "decimal": "1.5", "date": "2013-01-31",
        "datetime": "2013-01-31T08:00:00Z", "time": "08:00:00", "duration": "P1D", "uuid": str(LAMP),
    }  # fmt: skip
    parts = {*kinds.DATE.readers, *kinds.TIME.readers}
    asked = 0

    for rights in (products, flights):
        for name, column in rights.filterable.items():
            for lookup in column.kind.lookups:
                value = values.get(column.kind.name, "")
                value = "true" if lookup == "isnull" else f"{value},{value}" if lookup == "range" else value
                value = {"date": "2013-01-31", "time": "08:00:00"}.get(lookup, value)
                value = "12" if lookup in parts else value
                rows.find(rights, rows.RecordQuery(filter={f"{name}__{lookup}": value}), watched=True)
                asked += 1

    assert asked > 150


FLIGHTS = [
    ({"departs_at": "2013-01-01T10:00:00Z"}, [1]),
    ({"departs_at": "2013-01-01T11:00:00+01:00"}, [1]),
    ({"departs_at": "2013-01-01T05:00:00"}, [1]),
    ({"departs_at__gt": "2013-01-01T13:00:00Z"}, [5, 6]),
    ({"departs_at__range": ["2013-01-01T11:00:00Z", "2013-01-01T12:00:00Z"]}, [2, 3]),
    ({"departs_at__range": "2013-01-01T11:00:00Z,2013-01-01T12:00:00Z"}, [2, 3]),
    ({"departs_at__date": "2013-01-01"}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__year": 2013, "departs_at__month": 1, "departs_at__day": 1}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__hour": 5}, [1]),
    ({"departs_at__minute": 30}, []),
    ({"departs_at__second": 0, "departs_at__time": "05:00:00"}, [1]),
    ({"departs_at__quarter": 1, "departs_at__week": 1, "departs_at__iso_year": 2013}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__iso_week_day": 2}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__iso_week_day": 3}, []),
    ({"departs_at__week_day": 3}, [1, 2, 3, 4, 5, 6]),
    ({"carrier": "AA"}, [2, 4, 6]),
    ({"carrier__in": ["AA"]}, [2, 4, 6]),
    ({"carrier__startswith": "A"}, [2, 4, 6]),
    ({"carrier__gt": "AA"}, [1, 3, 5]),
    ({"plane": None}, [1, 4]),
    ({"plane__isnull": False}, [2, 3, 5, 6]),
    ({"not": {"plane": "N14228"}}, [1, 4]),
    ({"pk": 3}, [3]),
    ({"pk__in": [3, 4]}, [3, 4]),
    # Lookups behind a part of a value, and behind a path.
    ({"departs_at__hour__lt": 7}, [1, 2]),
    ({"departs_at__hour__in": [5, "7"]}, [1, 3]),
    ({"departs_at__hour__in": "5,7"}, [1, 3]),
    ({"departs_at__hour__in": []}, []),
    ({"departs_at__hour__range": [6, 8]}, [2, 3, 4]),
    ({"departs_at__month__in": [2, 3]}, []),
    ({"departs_at__year__in": [2012, 2013]}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__iso_year__range": [2012, 2013]}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__week_day__in": [3]}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__date__in": ["2013-01-01", "2013-07-04"]}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__date__in": "2013-01-02"}, []),
    ({"departs_at__date__range": ["2012-12-31", "2013-01-01"]}, [1, 2, 3, 4, 5, 6]),
    ({"departs_at__time__range": ["06:00", "07:30"]}, [2, 3]),
    ({"not": {"departs_at__hour__in": [5, 6, 7]}}, [4, 5, 6]),
    ({"carrier__carrier__in": ["AA", "DL"]}, [2, 4, 6]),
    ({"carrier__pk__in": "AA,DL"}, [2, 4, 6]),
    ({"carrier": {"carrier__in": ["AA"]}}, [2, 4, 6]),
    ({"carrier__carrier__startswith": "A"}, [2, 4, 6]),
]  # fmt: skip


def test_a_filter_finds_flights(flights: ModelRights) -> None:
    found = {str(asked): keys(flights, asked) for asked, _ in FLIGHTS}

    assert found == {str(asked): wanted for asked, wanted in FLIGHTS}


def test_a_key_that_is_a_relation_is_an_integer(superuser: User) -> None:
    book = Book.objects.create(name="Emma", author="Austen")

    found = rows.find(rights_on(Book, superuser), rows.RecordQuery(filter={"pk__gte": book.pk}, fields=["author"]))

    assert found.rows == [[book.pk, "Austen"]]


# What is wrong, said so that the next try is right.


NAMES = (
    " Allowed: id, departs_at, carrier, number, origin, destination, status, departure_delay, arrival_delay, tailnum, "
    "notes, plane, air_time, distance, disruptions."
)
UNKNOWN = {
    "departure_dealy__gt": f"no field 'departure_dealy'. Did you mean departure_delay?{NAMES}",
    "__status": f"no field '__status'. Did you mean status?{NAMES}",
    "__exact": f"no field '__exact'.{NAMES}",
    "__": f"no field '__'.{NAMES}",
    "number__greater": (
        "no lookup of number 'greater'. Did you mean gte? Allowed: exact, in, isnull, gt, gte, lt, lte, range."
    ),
}


def test_an_unknown_name_is_answered_with_the_nearest_and_all(flights: ModelRights) -> None:
    assert {name: errors(flights, {name: 10}) for name in UNKNOWN} == {
        name: [{"field": f"filter.{name}", "message": message, "received": 10}] for name, message in UNKNOWN.items()
    }


def test_all_errors_come_at_once(flights: ModelRights) -> None:
    found = errors(
        flights,
        {
            "nope": 1,
            "number": "x",
            "any": [{"status__like": "a"}, {"departs_at__gt": "yesterday"}, 5],
            "not": {"distance__range": [1]},
            "all": [],
        },
    )

    assert [(error["field"], error["message"].partition(".")[0]) for error in found] == [
        ("filter.nope", "no field 'nope'"),
        ("filter.number", "must be an integer"),
        ("filter.any.0.status__like", "no lookup of status 'like'"),
        (
            "filter.any.1.departs_at__gt",
            "must be a day, as 2013-01-31 for the whole day, or a date and time, as 2013-01-31T08:30:00Z",
        ),
        ("filter.any.2", 'must be an object, as {"name__icontains": "x"}'),
        ("filter.not.distance__range", "must be a list of two values"),
        ("filter.all", "must be a list of filters"),
    ]


def test_no_filter_has_more_conditions_levels_or_values_than_allowed(flights: ModelRights) -> None:
    def nested(depth: int) -> Any:
        return {"not": nested(depth - 1)} if depth else {"number": 1}

    fine = [{"any": [{"number": number} for number in range(49)]}, nested(4), {"id__in": [*range(200)]}]
    assert [keys(flights, asked) for asked in fine] == [[], [], [1, 2, 3, 4, 5, 6]]
    wrong = [{"any": [{"number": number} for number in range(51)]}, nested(6), {"id__in": [*range(201)]}]
    assert [errors(flights, asked)[0]["message"] for asked in wrong] == [
        "more than 50 conditions.", "nested more than 5 deep.", "at most 200 values.",
    ]  # fmt: skip
    assert [error["message"] for error in errors(flights, {"any": [{}] * 51})] == ["must not be empty"] * 20


WRONG = [
    ({"departs_at__hour__in": 5}, "must be a list."),
    ({"departs_at__hour__in": ["x"]}, "must be an integer."),
    ({"departs_at__hour__range": [5]}, "must be a list of two values."),
    ({"departs_at__date__in": ["31.1.2013"]}, "must be a date, as 2013-01-31."),
    ({"departs_at__year__in": [0]}, "is out of range."),
    ({"departs_at__hour__in": [*range(201)]}, "at most 200 values."),
    ({"not": {}}, "must not be empty"),
    ({"any": [{"number": 1}, {}]}, "must not be empty"),
    ({"all": [{}]}, "must not be empty"),
    ({"not": {"any": [{}]}}, "must not be empty"),
]  # fmt: skip


def test_what_cannot_be_asked_of_a_part_or_in_a_group(flights: ModelRights) -> None:
    found = {str(asked): [error["message"] for error in errors(flights, asked)] for asked, _ in WRONG}
    lookups = ("hour__isnull", "hour__hour", "hour__in__in", "date__year", "number__in")
    unknown = [errors(flights, {f"departs_at__{lookup}": [1]})[0]["message"] for lookup in lookups]

    assert found == {str(asked): [message] for asked, message in WRONG}
    assert [message for message in unknown if not message.startswith("no lookup of departs_at '")] == []
