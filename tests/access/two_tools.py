"""Declares a tool that reads and one that may write, for a server process."""

from __future__ import annotations

from django.http import HttpRequest

from mcp_django import tool

VIEW = "flights.view_flight"


@tool(permission=VIEW, read_only=True)
def look(request: HttpRequest) -> str:
    """Look."""
    return "seen"


@tool(permission=VIEW)
def book(request: HttpRequest) -> str:
    """Book."""
    return "booked"
