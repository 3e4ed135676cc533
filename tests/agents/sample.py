"""A small year of flights: those of the first week of January, spread over all months."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

from demo_project.flights import data
from demo_project.flights.models import Airline, Airport, Flight, Plane, Weather

#: The flights of eight days.
_FLIGHTS = 7_000
_DAYS = 30
#: Months whose weather is asked for.
_WEATHER = (1, 3)


def load_sample() -> None:
    """Load every twelfth flight as it was published, and the others as many months later as their turn is."""
    Airline.objects.bulk_create(data.airlines())
    Airport.objects.bulk_create(data.airports())
    planes = Plane.objects.bulk_create(data.planes())
    Weather.objects.bulk_create(row for row in data.weather() if row.time_hour.month in _WEATHER)
    flights = list(islice(data.flights({plane.pk for plane in planes}), _FLIGHTS))
    for index, flight in enumerate(flights):
        flight.departs_at += timedelta(days=_DAYS * (index % 12))
    Flight.objects.bulk_create(flights)
