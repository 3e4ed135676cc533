"""What our own server offers: the tool and the rows that the other servers offer too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest

from bench.peers import TOKENS
from bench.peers.work import PERMISSION, greeting
from demo_project.flights.models import Airline, Airport, Flight, Plane
from mcp_django import MCPSite, ModelMCP, register, site, tool


@tool(permission=PERMISSION if TOKENS else "", read_only=True)
def greet(request: HttpRequest, name: str) -> str:
    """Greet somebody."""
    return greeting(name)


@tool(permission=PERMISSION if TOKENS else "", read_only=True)
async def greet_async(request: HttpRequest, name: str) -> str:
    """Greet somebody."""
    return greeting(name)


@tool(permission=PERMISSION if TOKENS else "")
def note_delay(request: HttpRequest, minutes: int) -> str:
    """Write how late the last flight is, which is not among the rows that are compared."""
    Flight.objects.filter(pk=Flight.objects.order_by("-pk").values("pk")[:1]).update(notes=f"{minutes} minutes late")
    return "Written."


class PlainMCP(ModelMCP):
    """By the permissions alone: the demo's admin looks for the user's groups too, and the other servers do not."""

    use_admin = False


@register(Flight)
class FlightMCP(PlainMCP):
    fields = (
        "departs_at", "carrier", "number", "origin", "destination", "status", "departure_delay", "arrival_delay",
        "tailnum", "notes", "plane", "air_time", "distance",
    )  # fmt: skip


# The keys of rows that may not be seen are not shown.
register(Airline, Airport, Plane)(PlainMCP)


class ContextSite(MCPSite):
    """A site whose project does the work of a middleware of its own."""

    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        yield


if os.environ.get("BENCH_CALL_CONTEXT"):
    # The one that all is registered with, under the demo's URL.
    site.__class__ = ContextSite
