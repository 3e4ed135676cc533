"""What the right answers are: plain Python over the rows of the tables, with nothing of the package."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from statistics import median
from typing import Any, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

#: The flight that the questions change, and the one that they try to.
CHANGED, UNCHANGED = 1, 2


class FlightRow(NamedTuple):
    pk: int
    carrier: str
    number: int
    tailnum: str
    plane: str | None
    origin: str
    destination: str
    #: In New York.
    departs_at: datetime
    departure_delay: int | None
    arrival_delay: int | None
    distance: int
    status: str


class PlaneRow(NamedTuple):
    year: int | None
    manufacturer: str
    model: str


class WeatherRow(NamedTuple):
    pk: int
    time_hour: datetime
    temperature: float | None
    wind_speed: float | None


@dataclass(frozen=True)
class Facts:
    """All rows of the demo's tables, the flights in the order of departure and the weather by place and hour."""

    flights: list[FlightRow]
    airlines: dict[str, str]
    #: Name and altitude.
    airports: dict[str, tuple[str, int]]
    planes: dict[str, PlaneRow]
    weather: dict[tuple[str, datetime], WeatherRow]

    @classmethod
    def of_database(cls) -> Facts:
        from django.utils.timezone import localtime

        from demo_project.flights.models import Airline, Airport, Flight, Plane, Weather

        columns = (
            "pk", "carrier_id", "number", "tailnum", "plane_id", "origin_id", "destination_id", "departs_at",
            "departure_delay", "arrival_delay", "distance", "status",
        )  # fmt: skip
        rows = (FlightRow(*row) for row in Flight.objects.values_list(*columns).iterator())
        flights = [row._replace(departs_at=localtime(row.departs_at)) for row in rows]
        planes = Plane.objects.values_list("tailnum", "year", "manufacturer", "model")
        weather = Weather.objects.values_list("origin_id", "pk", "time_hour", "temperature", "wind_speed")
        return cls(
            sorted(flights, key=lambda row: (row.departs_at, row.pk)),
            dict(Airline.objects.values_list("carrier", "name")),
            {faa: (name, altitude) for faa, name, altitude in Airport.objects.values_list("faa", "name", "altitude")},
            {row[0]: PlaneRow(*row[1:]) for row in planes},
            {(row[0], row[2]): WeatherRow(*row[1:]) for row in weather},
        )

    def having(self, **values: Any) -> list[FlightRow]:
        """The flights with these values."""
        return [row for row in self.flights if all(getattr(row, name) == value for name, value in values.items())]


def mean(values: Iterable[int | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)


def groups(rows: Iterable[FlightRow], key: Callable[[FlightRow], K]) -> dict[K, list[FlightRow]]:
    found: dict[K, list[FlightRow]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def share(rows: list[FlightRow], status: str) -> float:
    return sum(row.status == status for row in rows) / len(rows)


# The answers, in the order of the questions.


def united_in_march(facts: Facts) -> Any:
    return [[sum(row.departs_at.month == 3 for row in facts.having(carrier="UA"))]]


def frequent_destinations_from_jfk(facts: Facts) -> Any:
    counted = Counter(row.destination for row in facts.having(origin="JFK"))
    most = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:5]
    return [[code, facts.airports[code][0], count] for code, count in most]


def delay_by_carrier(facts: Facts) -> Any:
    delays = {
        facts.airlines[code]: mean(row.arrival_delay for row in rows)
        for code, rows in groups(facts.flights, lambda row: row.carrier).items()
    }
    return sorted(map(list, delays.items()), key=lambda row: -row[1])


def plane_that_flew_most(facts: Facts) -> Any:
    counted = Counter(row.plane for row in facts.flights if row.plane)
    plane, count = min(counted.items(), key=lambda item: (-item[1], item[0]))
    return [[plane, facts.planes[plane].manufacturer, facts.planes[plane].model, count]]


def worst_day(facts: Facts) -> Any:
    days = groups(facts.flights, lambda row: row.departs_at.date())
    day = min(days, key=lambda day: (-share(days[day], "cancelled"), day))
    return [[day.isoformat(), share(days[day], "cancelled"), len(days[day])]]


def lga_to_atl_before_noon(facts: Facts) -> Any:
    return [
        [row.pk, row.departs_at.isoformat(), facts.airlines[row.carrier], row.number]
        for row in facts.having(origin="LGA", destination="ATL")
        if row.departs_at.date() == date(2013, 7, 4) and row.departs_at.hour < 12
    ]


def very_late_by_month(facts: Facts) -> Any:
    late = [row for row in facts.flights if row.arrival_delay is not None and row.arrival_delay > 180]
    return sorted(map(list, Counter(row.departs_at.month for row in late).items()))


def weather_of_a_flight(facts: Facts) -> Any:
    [flight] = facts.having(pk=CHANGED)
    hour = max(hour for origin, hour in facts.weather if origin == flight.origin and hour <= flight.departs_at)
    row = facts.weather[flight.origin, hour]
    return [[row.pk, row.temperature, row.wind_speed]]


def high_destinations(facts: Facts) -> Any:
    flown_to = {row.destination for row in facts.flights}
    high = [[code, *facts.airports[code]] for code in flown_to if facts.airports[code][1] > 5_000]
    return sorted(high, key=lambda row: -row[2])


def never_from_lga(facts: Facts) -> Any:
    leaving = {row.carrier for row in facts.having(origin="LGA")}
    return [[code, facts.airlines[code]] for code in sorted(facts.airlines.keys() - leaving)]


def old_planes(facts: Facts) -> Any:
    flights = groups(sorted(facts.flights), lambda row: row.plane)
    return [
        [
            key,
            plane.year,
            plane.manufacturer,
            [[row.departs_at.isoformat(), row.destination] for row in flights[key]][:20],
        ]
        for key, plane in sorted(facts.planes.items())
        if plane.year is not None and plane.year < 1970
    ]


def longest_routes(facts: Facts) -> Any:
    distances = {(row.origin, row.destination): row.distance for row in facts.flights}
    longest = sorted(distances, key=lambda route: (-distances[route], *route))[:10]
    return [[*route, distances[route]] for route in longest]


def export(facts: Facts) -> Any:
    return [
        [row.carrier, str(row.number), row.origin, row.destination, row.tailnum, row.status]
        for row in facts.having(carrier="DL")[:50]
    ]


def status_kept(facts: Facts) -> Any:
    return facts.having(pk=UNCHANGED)[0].status


def week_days_and_weekends(facts: Facts) -> Any:
    days, ends = ([row for row in facts.flights if (row.departs_at.weekday() >= 5) is end] for end in (False, True))
    return [[len(days), mean(row.arrival_delay for row in days), len(ends), mean(row.arrival_delay for row in ends)]]


def delay_by_wind(facts: Facts) -> Any:
    delays: dict[int, list[int]] = defaultdict(list)
    for row in facts.having(origin="JFK"):
        if date(2013, 3, 6) <= row.departs_at.date() <= date(2013, 3, 8) and row.departure_delay is not None:
            wind = facts.weather["JFK", row.departs_at.replace(minute=0)].wind_speed
            if wind is not None:
                delays[int(wind // 5 * 5)].append(row.departure_delay)
    return {wind: mean(values) for wind, values in delays.items()}


def share_delayed_by_hour(facts: Facts) -> Any:
    hours = groups(facts.flights, lambda row: row.departs_at.hour)
    return [[hour, share(hours[hour], "delayed")] for hour in sorted(hours)]


def delta(facts: Facts) -> Any:
    return [["DL", facts.airlines["DL"], len(facts.having(carrier="DL"))]]


def flights_1545(facts: Facts) -> Any:
    return [[row.pk, row.carrier] for row in sorted(facts.having(number=1545))][:50]


def median_delay_of_united(facts: Facts) -> Any:
    return [[float(median(row.arrival_delay for row in facts.having(carrier="UA") if row.arrival_delay is not None))]]


def never_cancelled(facts: Facts) -> Any:
    cancelled = {row.carrier for row in facts.having(status="cancelled")}
    return [[code, facts.airlines[code]] for code in sorted(facts.airlines.keys() - cancelled)]


def late_in_december(facts: Facts) -> Any:
    late = [row for row in facts.flights if row.departs_at.date() >= date(2013, 12, 20)]
    return [[len(late), sum(row.status == "cancelled" for row in late)]]


# Those of the answers that would mislead.


def planes_of(*manufacturers: str) -> Callable[[Facts], Any]:
    """The number of planes that these have built."""
    return lambda facts: [[sum(plane.manufacturer in manufacturers for plane in facts.planes.values())]]


def since_the_fourth_of_july(facts: Facts) -> Any:
    return [[sum(row.departs_at.date() >= date(2013, 7, 4) for row in facts.flights)]]


def by_week(facts: Facts) -> Any:
    weeks = Counter(tuple(row.departs_at.isocalendar())[:2] for row in facts.flights)
    return [[*week, count] for week, count in sorted(weeks.items())]


def mean_delay(facts: Facts) -> Any:
    return [[mean(row.arrival_delay for row in facts.flights)]]


# Those of the mistakes, where they are none of the above, and of the rows.


def count(**values: Any) -> Callable[[Facts], Any]:
    """The number of flights with these values."""
    return lambda facts: [[len(facts.having(**values))]]


def of_carriers(*codes: str) -> Callable[[Facts], Any]:
    return lambda facts: [[sum(row.carrier in codes for row in facts.flights)]]


def newest_plane(facts: Facts) -> Any:
    known = [(-plane.year, key) for key, plane in facts.planes.items() if plane.year is not None]
    year, key = min(known)
    return [[key, -year]]


def on_the_fourth_of_july(facts: Facts) -> Any:
    return [[sum(row.departs_at.date() == date(2013, 7, 4) for row in facts.flights)]]


def cancelled_or_from_lga(facts: Facts) -> Any:
    return [[sum(row.status == "cancelled" or row.origin == "LGA" for row in facts.flights)]]


def not_from_ewr(facts: Facts) -> Any:
    return [[sum(row.origin in ("JFK", "LGA") for row in facts.flights)]]


def in_march(facts: Facts) -> Any:
    return [[sum(row.departs_at.month == 3 for row in facts.flights)]]


def latest_departure(facts: Facts) -> Any:
    left = [row for row in facts.flights if row.departure_delay is not None]
    row = min(left, key=lambda row: (-(row.departure_delay or 0), row.pk))
    return [[row.pk, row.departure_delay]]


def mean_distance(facts: Facts) -> Any:
    return [[mean(row.distance for row in facts.flights)]]


def rows_from_jfk(facts: Facts) -> Any:
    found = facts.having(origin="JFK")[:2_000]
    return [[row.pk, row.departs_at.isoformat(), row.carrier, row.arrival_delay] for row in found]
