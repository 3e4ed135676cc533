"""A small year of flights: those of the first eight days of January, spread over all months."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

from demo_project.flights import data
from demo_project.flights.models import Airline, Airport, Flight, Plane, Weather

#: Those of eight days.
_FLIGHTS = 7_000
#: A month, so that the days around 4 July and the storm in March are among them.
_DAYS = 30
_MONTHS = 12
#: Months whose weather is asked for.
_WEATHER = (1, 3)


def load_sample() -> None:
    """Load the flights, each a month later than the one before it, and every twelfth as it was published."""
    Airline.objects.bulk_create(data.airlines())
    Airport.objects.bulk_create(data.airports())
    planes = Plane.objects.bulk_create(data.planes())
    Weather.objects.bulk_create(row for row in data.weather() if row.time_hour.month in _WEATHER)
    flights = list(islice(data.flights({plane.pk for plane in planes}), _FLIGHTS))
    for index, flight in enumerate(flights):
        flight.departs_at += timedelta(days=_DAYS * (index % _MONTHS))
    Flight.objects.bulk_create(flights)
