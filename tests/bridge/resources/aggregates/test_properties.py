"""Any aggregate is what plain Python computes."""

from __future__ import annotations

import datetime
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable
from functools import cmp_to_key, partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demo_project.flights.models import Airline, Flight, Plane
from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery, Table, aggregate
from mcp_django.bridge.resources.policy.policy import ModelRights
from tests.bridge.resources.aggregates.conftest import JSON, MOMENT, scoped
from tests.support.asking import rights_on
from tests.support.data import make_flights
from tests.support.declared import Declared
from tests.support.examples import examples

pytestmark = pytest.mark.every_database


def bucket(flight: Flight, width: int) -> int:
    return flight.departure_delay // width * width


GROUPS: dict[str, Callable[[Flight], Any]] = {
    "status": lambda flight: flight.status,
    "origin": lambda flight: flight.origin_id,
    "carrier": lambda flight: None if flight.carrier_id == "UA" else flight.carrier_id,
    "carrier__name": lambda flight: None if flight.carrier_id == "UA" else flight.carrier.name,
    "plane__seats": lambda flight: flight.plane.seats if flight.plane_id and flight.plane_id != "N14228" else None,
    "departure_delay": lambda flight: flight.departure_delay,
    "distance__bucket_7": lambda flight: flight.distance // 7 * 7,
    "departure_delay__bucket_2": lambda flight: None if flight.departure_delay is None else bucket(flight, 2),
    "departs_at__month": lambda flight: timezone.localtime(flight.departs_at).month,
    "departs_at__hour": lambda flight: timezone.localtime(flight.departs_at).hour,
    "departs_at__date": lambda flight: timezone.localtime(flight.departs_at).date().isoformat(),
    "departs_at__trunc_month": lambda flight: timezone.localtime(flight.departs_at).replace(day=1).date().isoformat(),
}

NUMBERS = ("departure_delay", "distance", "plane__seats", "number")

DISTANCE: Callable[[Flight], int] = lambda flight: flight.distance  # noqa: E731

VALUES = {
    **GROUPS, "distance": DISTANCE, "number": lambda flight: flight.number,
    "diff:distance-departure_delay":
        lambda flight: None if flight.departure_delay is None else flight.distance - flight.departure_delay,
}  # fmt: skip


def percentile(percent: int, values: list[Any]) -> float | None:
    """By linear interpolation between the two nearest values."""
    if not values:
        return None
    place = percent * (len(values) - 1) / 100
    below, above = sorted(values)[math.floor(place)], sorted(values)[math.ceil(place)]
    interpolated: float = below + (above - below) * (place - math.floor(place))
    return interpolated


FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "count_distinct": lambda values: len(set(values)),
    "sum": lambda values: sum(values) if values else None,
    "avg": lambda values: sum(values) / len(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "stddev": lambda values: statistics.pstdev(values) if values else None,
    "median": lambda values: statistics.median(values) if values else None,
    "p90": partial(percentile, 90),
    "p1": partial(percentile, 1),
}

CONDITIONS: dict[str, tuple[JSON, Callable[[Flight], bool]]] = {
    "late": ({"departure_delay__gte": 2}, lambda flight: (flight.departure_delay or 0) >= 2),
    "other": ({"not": {"departure_delay__gte": 2}}, lambda flight: (flight.departure_delay or 0) < 2),
    "american": ({"carrier__name": "american"}, lambda flight: flight.carrier.name == "american"),
    "nobody": ({"carrier__name": "united"}, lambda flight: False),
    "empty": ({"id__in": []}, lambda flight: False),
    "every": ({"not": {"id__in": []}}, lambda flight: True),
}

MEASURES = [
    "count",
    *(
        f"{function}:{name}"
        for function in ("count", "count_distinct")
        for name in VALUES
        if "departs_at" not in name and "bucket" not in name
    ),
    *(f"{function}:{name}" for function in ("sum", "avg", "min", "max", "stddev") for name in NUMBERS),
    "min:carrier__name", "max:status",
    *(f"{function}:{name}" for function in ("median", "p90", "p1") for name in NUMBERS),
    *(f"{function}:diff:distance-departure_delay" for function in FUNCTIONS),
    *(f"{function}@{name}" for function in ("count", "share") for name in CONDITIONS),
    *(f"{function}@{name}:distance" for function in FUNCTIONS for name in CONDITIONS),
    *(f"{function}@{name}:plane__seats" for function in ("avg", "median") for name in CONDITIONS),
]  # fmt: skip

FILTERS: dict[str, tuple[JSON, Callable[[Flight], bool]]] = {
    "all": ({}, lambda flight: True),
    "some": ({"distance__gte": 30}, lambda flight: flight.distance >= 30),
    "related": ({"carrier__name": "american"}, lambda flight: flight.carrier.name == "american"),
    "hidden": ({"carrier__name": "united"}, lambda flight: False),
    "null": ({"departure_delay": None}, lambda flight: flight.departure_delay is None),
}


def measured(name: str, flights: list[Flight]) -> Any:
    if name == "count":
        return len(flights)
    head, _, field = name.partition(":")
    function, _, condition = head.partition("@")
    every = len(flights)
    if condition:
        flights = [flight for flight in flights if CONDITIONS[condition][1](flight)]
    if not field:
        return len(flights) if function == "count" else len(flights) / every if every else None
    return FUNCTIONS[function]([value for flight in flights if (value := VALUES[field](flight)) is not None])


def by_python(flights: list[Flight], groups: list[str], measures: list[str], order: list[str], least: int) -> Any:
    found: dict[tuple[Any, ...], list[Flight]] = defaultdict(list)
    for flight in flights:
        found[tuple(GROUPS[name](flight) for name in groups)].append(flight)
    if not groups:
        return [[measured(name, flights) for name in measures]]
    names = {name.removeprefix("-") for name in (*measures, *order)} - set(groups)
    table = [
        {**dict(zip(groups, key, strict=True)), **{name: measured(name, members) for name in names}}
        for key, members in found.items()
        if len(members) >= least
    ]

    def compare(one: JSON, other: JSON) -> int:
        for name in (*order, *groups):
            mine, theirs = one[name.removeprefix("-")], other[name.removeprefix("-")]
            if mine == theirs:
                continue
            if mine is None or theirs is None:
                return 1 if mine is None else -1
            return (1 if mine > theirs else -1) * (-1 if name.startswith("-") else 1)
        return 0

    return [[row[name] for name in (*groups, *measures)] for row in sorted(table, key=cmp_to_key(compare))]


def make_world() -> None:
    """Flights of visible and hidden airlines and planes, over a year, with nulls."""
    make_flights(0)
    for airline in Airline.objects.all():
        Airline.objects.filter(pk=airline.pk).update(name=airline.name.lower())
    plane = Plane.objects.get()
    plane.tailnum, plane.seats = "N2", 20
    plane.save()
    chance = random.Random(7)
    Flight.objects.bulk_create(
        Flight(
            id=number + 1, carrier_id=chance.choice(["UA", "AA"]), number=number, distance=chance.randrange(10, 60),
            plane_id=chance.choice([None, "N14228", "N2"]), origin_id=chance.choice(["JFK", "EWR", "LGA"]),
            destination_id="IAH", status=chance.choice(["on_time", "cancelled"]),
            departure_delay=chance.choice([None, -3, 1, 2, 3]),
            departs_at=MOMENT + datetime.timedelta(hours=chance.randrange(2_000)),
        )
        for number in range(40)
    )  # fmt: skip


@given(data=st.data())
@settings(
    max_examples=examples(120), deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
def check_against_python(rights: ModelRights, visible: list[Flight], data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.sampled_from(list(GROUPS)), unique=True, max_size=3))
    measures = data.draw(st.lists(st.sampled_from(MEASURES), unique=True, min_size=1, max_size=4))
    orderable = [*groups, *(name for name in measures if not name.startswith("stddev"))]
    order = (
        [
            data.draw(st.sampled_from(["", "-"])) + name
            for name in data.draw(st.lists(st.sampled_from(orderable), unique=True, max_size=2))
        ]
        if orderable
        else []
    )
    least = data.draw(st.integers(1, 3)) if groups else 1
    asked, holds = FILTERS[data.draw(st.sampled_from(list(FILTERS)))]

    table = aggregate(
        rights,
        AggregateQuery(
            groups,
            measures,
            filter=asked,
            order_by=order,
            having={"count__gte": least} if groups else {},
            limit=200,
            conditions={name: condition for name, (condition, _) in CONDITIONS.items()},
        ),
    )

    expected = by_python([flight for flight in visible if holds(flight)], groups, measures, order, least)
    close = [
        [pytest.approx(value, abs=1e-4) if isinstance(value, float) else value for value in row] for row in expected
    ]
    assert table == Table([*groups, *measures], close, table.notes)
    # That some rows have no value is said elsewhere: test_near_values.
    assert all(note.endswith("have no value, and are left out.") for note in table.notes)


def test_every_question_is_answered_as_by_plain_python(root: User, declared: Declared) -> None:
    make_world()
    scoped(declared)
    visible = list(Flight.objects.exclude(origin="LGA").select_related("carrier", "plane"))

    check_against_python(rights_on(Flight, root), visible)
