"""Tools of a test project whose server has several processes: registered where it is started with this module."""

from __future__ import annotations

import os
from typing import Any

from demo_project.flights.models import Flight
from mcp_django import tool


@tool(read_only=True)
def process(request: Any) -> int:
    """Which process of the server answers."""
    return os.getpid()


@tool(read_only=True)
def parent(request: Any) -> int:
    """Which process has started it."""
    return os.getppid()


@tool
def touch(request: Any, flight: Flight) -> int:
    """Saves a flight; returns which process did."""
    flight.save()
    return os.getpid()
