"""Medians, percentiles, differences and ranges of numbers."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from django.contrib.auth.models import User

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.policy.policy import ModelRights
from tests.bridge.resources.aggregates.conftest import error, rows, scoped
from tests.shop.models import Product, Trip
from tests.support.asking import rights_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


PERCENTILES = [
    ("median:stock", 3.0), ("p50:stock", 3.0), ("p25:stock", 1.5), ("p90:stock", 3.8), ("p1:stock", 0.06),
    ("p99:stock", 3.98), ("median:weight", 3.875), ("p10:weight", 1.175), ("median:price", "15.050000"),
    ("p33:price", "13.367000"), ("median:lead_time", "P0DT13H00M00S"), ("p25:lead_time", "P0DT07H30M00S"),
    ("median:diff:price-stock", "11.550000"),
]  # fmt: skip


def test_percentiles_lie_between_the_two_nearest_values(products: ModelRights) -> None:
    assert {measure: rows(products, measures=[measure]) for measure, _ in PERCENTILES} == {
        measure: [[expected]] for measure, expected in PERCENTILES
    }


def test_percentiles_of_each_group(products: ModelRights) -> None:
    measures = ["median:stock", "p25:price", "p75:lead_time"]

    assert rows(products, group_by=["active"], measures=measures) == [
        [False, 0.0, None, None], [True, 3.5, "12.575000", "P0DT18H30M00S"],
    ]  # fmt: skip


def test_percentiles_of_no_rows_and_of_nulls(products: ModelRights) -> None:
    Product.objects.update(weight=None)

    assert rows(products, measures=["median:weight"]) == [[None]]
    assert rows(products, measures=["count", "median:stock"], filter={"id__in": []}) == [[0, None]]
    assert rows(products, group_by=["name"], measures=["median:stock"], filter={"id__in": []}) == []


def test_percentiles_beside_other_measures_and_within_a_condition(flights: ModelRights) -> None:
    measures = ["count", "median:number", "p90@early:number", "sum:distance", "share@early", "count_distinct:status"]

    found = rows(flights, group_by=["origin"], measures=measures, conditions={"early": {"number__lt": 1006}})

    assert found == [
        ["EWR", 4, 1005.5, 1003.7, 5622, 0.5, 2],
        ["JFK", 4, 1004.5, 1002.7, 5618, 0.5, 2],
        ["LGA", 4, 1006.5, 1004.7, 5626, 0.5, 1],
    ]


def test_having_and_order_by_a_percentile(flights: ModelRights) -> None:
    found = rows(flights, group_by=["origin"], having={"median:number__gt": 1005}, order_by=["-p50:number"])

    assert found == [["LGA", 4], ["EWR", 4]]


def test_reading_hidden_related_rows_by_a_percentile(flights: ModelRights, declared: Declared) -> None:
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())

    assert rows(rights, measures=["median:plane__seats", "p99:plane__seats"]) == [[None, None]]
    assert rows(rights, group_by=["carrier__name"], measures=["median:plane__seats"]) == [
        ["American", None],
        [None, None],
    ]


WRONG = [
    ("median:status", "median takes no text values."), ("p90:carrier", "p90 takes no keys."),
    ("median:departs_at", "median takes no datetime values."), ("p0:distance", "no measure 'p0:distance'."),
    ("p100:distance", "no measure 'p100:distance'."), ("p09:distance", "no measure 'p09:distance'."),
    ("p5.5:distance", "no measure 'p5.5:distance'."), ("median", "no measure 'median'."),
    ("avg:diff:distance", "a difference is of two fields, as avg:diff:a-b."),
    ("avg:diff:a-b-c", "a difference is of two fields, as avg:diff:a-b."),
    ("avg:diff:-distance", "a difference is of two fields, as avg:diff:a-b."),
    ("avg:diff:distence-number", "no field for diff 'distence'. Did you mean distance?"),
    ("avg:diff:number-status", "diff takes no integer values and text values: both must be numbers, or both dates, "),
    ("avg:diff:departs_at-number", "diff takes no datetime values and integer values: both must be numbers, "),
    ("avg:diff:id-number", "diff takes no keys and integer values: "),
    ("diff:distance-number", "no measure 'diff:distance-number'."),
]  # fmt: skip


def test_percentiles_and_differences_that_cannot_be_asked(flights: ModelRights) -> None:
    for measure, message in WRONG:
        found = error(flights, measures=[measure])
        told = (found["field"], found["message"][: len(message)], found["received"])
        assert told == ("measures", message, measure)


DIFFERENCES = [
    ("sum:diff:stock-price", "-23.10"), ("min:diff:stock-price", "-16.00"), ("max:diff:weight-stock", 3.25),
    ("avg:diff:price-weight", 11.175), ("count:diff:price-stock", 2), ("max:diff:lead_time-lead_time", 0.0),
    ("avg:diff:launched-launched", 0.0), ("sum:diff:stock-stock", 0),
]  # fmt: skip


def test_differences_of_every_kind(products: ModelRights) -> None:
    assert {measure: rows(products, measures=[measure]) for measure, _ in DIFFERENCES} == {
        measure: [[expected]] for measure, expected in DIFFERENCES
    }


def test_differences_of_times_are_seconds(products: ModelRights) -> None:
    root = User.objects.get()
    User.objects.update(last_login=root.date_joined + datetime.timedelta(days=2, microseconds=500_000))

    measures = ["max:diff:last_login-date_joined", "sum:diff:date_joined-last_login"]

    assert rows(rights_on(User, root), measures=measures) == [[172_800.5, -172_800.5]]


def test_differences_of_dates_and_durations_are_seconds(root: User, declared: Declared) -> None:
    declared.model(Trip, fields=["starts", "ends", "planned", "took"])
    first, hour = datetime.date(2013, 1, 31), datetime.timedelta(hours=1)
    Trip.objects.create(starts=first, ends=datetime.date(2013, 2, 2), planned=hour, took=hour / 4)
    Trip.objects.create(starts=first, ends=None, planned=hour, took=hour * 2)
    measures = ["max:diff:ends-starts", "median:diff:took-planned", "count:diff:ends-starts"]

    assert rows(rights_on(Trip, root), measures=measures) == [[172_800.0, 450.0, 1]]


def test_a_difference_of_positive_columns_may_be_negative(flights: ModelRights) -> None:
    found = rows(flights, measures=["min:diff:number-distance", "avg:diff:number-distance"])

    assert found == [[-400, -400.0]]


RANGES = [
    ("stock__bucket_3", [-3, 0, 3]), ("stock__bucket_1", [-2, 0, 4]), ("stock__bucket_999999999", [-999999999, 0]),
    ("weight__bucket_5", [-10, 5, None]), ("price__bucket_5", [-5, 10, None]),
]  # fmt: skip


def test_ranges_of_numbers(products: ModelRights) -> None:
    Product.objects.filter(name="lamp").update(stock=-2, weight=-5.5, price=Decimal("-0.01"))
    Product.objects.filter(name="chair").update(stock=4, price=Decimal("14.99"))

    found = {group: rows(products, group_by=[group]) for group, _ in RANGES}

    assert {group: [row[0] for row in table] for group, table in found.items()} == dict(RANGES)


NO_RANGES = [
    "number__bucket_0", "number__bucket_", "number__bucket_-5", "number__bucket_1.5", "number__bucket_05",
    "number__bucket_1e3", "number__bucket_1000000000", "id__bucket_5", "status__bucket_5", "departs_at__bucket_5",
    "carrier__bucket_5", "number__bucket_5__gt",
]  # fmt: skip


def test_ranges_that_cannot_be_asked(flights: ModelRights) -> None:
    assert [group for group in NO_RANGES if error(flights, group_by=[group])["field"] != "group_by"] == []
    assert error(flights, group_by=["distance__range_5"])["message"] == (
        "no part of distance 'range_5'. Allowed: none. Ranges of numbers are distance__bucket_10."
    )


OF_INTEGERS: list[tuple[list[int], str, float]] = [
    ([1, 2, 2], "avg:stock", 1.6667), ([1, *[0] * 6], "avg:stock", 0.1429), ([1, *[0] * 299], "avg:stock", 0.003333),
    ([10, 12], "avg:stock", 11.0), ([1, 2, 2], "stddev:stock", 0.4714), ([1, 2], "p33:stock", 1.33),
]  # fmt: skip


OF_FLOATS = [
    ([0.1, 0.2, 0.2], 0.166667), ([1e-9, 2e-9, 2e-9], 1.66667e-9), ([12.639070257304708], 12.63907), ([0.0], 0.0),
]  # fmt: skip


def test_a_mean_of_integers_has_four_digits_after_the_point_and_one_of_floats_six(root: User) -> None:
    products = rights_on(Product, root)

    for values, measure, expected in OF_INTEGERS:
        Product.objects.all().delete()
        Product.objects.bulk_create(Product(name="x", stock=value) for value in values)
        assert rows(products, measures=[measure]) == [[expected]]
    for weights, expected in OF_FLOATS:
        Product.objects.all().delete()
        Product.objects.bulk_create(Product(name="x", weight=weight) for weight in weights)
        assert rows(products, measures=["avg:weight"]) == [[expected]]
