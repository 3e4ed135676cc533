"""The project of a server process that ends in the middle of a change, as by ``kill -9``: where ``DIES_IN`` says."""

import os
import signal
from typing import Any

from django.contrib import admin
from django.db import transaction

from demo_project.flights.models import Flight
from mcp_django import site


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _FlightAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    fields = ["notes", "status"]

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        if os.environ["DIES_IN"] == "on_commit":
            transaction.on_commit(_die)
        super().save_model(request, obj, form, change)

    def response_change(self, request: Any, obj: Any) -> Any:
        if os.environ["DIES_IN"] == "response_change":
            _die()
        return super().response_change(request, obj)


admin.site._registry[Flight] = _FlightAdmin(Flight, admin.site)
site._forget()
