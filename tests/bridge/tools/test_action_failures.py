"""What is left of an action that fails, and what the agent is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest

from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Flight
from mcp_django.exceptions import ToolError
from mcp_django.test import MCPClient
from tests.support.data import make_flights, switch_on
from tests.support.declared import Declared

CANCEL = "flights_flight_mark_cancelled"
Admin: Any = admin.ModelAdmin


@pytest.fixture
def root(db: None) -> Iterator[MCPClient]:
    make_flights(6)
    switch_on(CANCEL)
    with MCPClient(User.objects.create_superuser("root"), raise_exceptions=False) as client:
        yield client


def statuses() -> list[str]:
    return list(Flight.objects.order_by("id").values_list("status", flat=True))


class _Failing(FlightAdmin):
    actions = ["fail"]
    error: Any = RuntimeError("the password is hunter2")

    @admin.action(permissions=["change"])
    def fail(self, request: HttpRequest, queryset: Any) -> None:
        for flight in queryset:
            flight.status = "cancelled"
            flight.save()
        self.message_user(request, "half done")
        raise self.error


def test_an_action_that_refuses_leaves_nothing_changed(root: MCPClient, declared: Declared) -> None:
    switch_on("flights_flight_fail")
    refusals: dict[Exception, str] = {
        PermissionDenied("secret reason"): "You may not do this. Nothing was changed.",
        ValidationError(["Too late.", "Too far."]): "Too late.; Too far. Nothing was changed.",
        ToolError("Ask the tower first."): "Ask the tower first.",
    }
    for error, text in refusals.items():
        declared.admin(Flight, type("Refusing", (_Failing,), {"error": error}))
        with pytest.raises(ToolError) as refused:
            root.call("flights_flight_fail", ids=[1, 2])
        assert refused.value.message == text
        assert statuses()[:2] == ["on_time", "on_time"]


@pytest.mark.every_database
def test_an_action_that_breaks_leaves_nothing_changed_and_says_nothing_of_why(
    root: MCPClient, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    declared.admin(Flight, _Failing)
    switch_on("flights_flight_fail")

    with pytest.raises(ToolError) as broken:
        root.call("flights_flight_fail", ids=[1, 2])

    text = "flights_flight_fail failed. Nothing was changed. The server's log has the details."
    assert broken.value.message == text
    assert statuses()[:2] == ["on_time", "on_time"]
    assert "hunter2" in caplog.text


class _ReadsElsewhere:
    """A router for a replica: rows are read from it, and written to the default database."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model is Flight else None

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"


@pytest.mark.django_db(databases=["default", "other"], transaction=True)
def test_an_action_that_breaks_leaves_nothing_changed_where_rows_are_read_from_a_replica(
    declared: Declared, settings: Any
) -> None:
    flights = make_flights(2)
    for related in {flight.origin for flight in flights} | {flight.destination for flight in flights}:
        related.save(using="other")
    for flight in flights:
        flight.carrier.save(using="other")
        Flight(**{field.attname: getattr(flight, field.attname) for field in Flight._meta.concrete_fields} | {
            "plane_id": None}).save(using="other", force_insert=True)  # fmt: skip
    root = User.objects.create_superuser("root")

    class Failing(_Failing):
        @admin.action(permissions=["change"])
        def fail(self, request: HttpRequest, queryset: Any) -> None:
            Flight.objects.using("default").update(status="cancelled")
            raise RuntimeError

    declared.admin(Flight, Failing)
    switch_on("flights_flight_fail")
    settings.DATABASE_ROUTERS = [_ReadsElsewhere()]

    with MCPClient(root, raise_exceptions=False) as client, pytest.raises(ToolError, match="failed"):
        client.call("flights_flight_fail", ids=[1])

    assert set(Flight.objects.using("default").values_list("status", flat=True)) == {"on_time"}


def test_an_action_that_get_actions_replaces_is_run_as_replaced(root: MCPClient, declared: Declared) -> None:
    """The project may make a tuple, which Django itself makes up to 6.0, or have Django make the action."""

    @admin.action(permissions=["change"])
    def refuse(modeladmin: Any, request: HttpRequest, queryset: Any) -> None:
        modeladmin.message_user(request, "Not on a Friday.")

    class Careful(FlightAdmin):
        def get_actions(self, request: HttpRequest) -> Any:
            return {**super().get_actions(request), "mark_cancelled": (refuse, "mark_cancelled", "Careful")}

    class Made(FlightAdmin):
        def get_actions(self, request: HttpRequest) -> Any:
            return {**super().get_actions(request), "mark_cancelled": self.get_action(refuse)}

    for careful in (Careful, Made):
        declared.admin(Flight, careful)
        assert root.call(CANCEL, ids=[1]).text == "Not on a Friday."
        assert "cancelled" not in statuses()[:1]
