"""Columns that a project computes, as in the admin's list_display."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Count
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from demo_project.flights.models import Disruption, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import rows
from tests.bridge.resources.relations.conftest import Admin, Scoped, keys, read, refusal
from tests.shop.models import (
    Making,
)  # fmt: skip
from tests.support.asking import rights_on
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


@pytest.fixture
def computed(root: User, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of every kind in the admin's list of flights."""
    monkeypatch.setattr(
        Flight, "route", property(lambda self: f"{self.origin_id}-{self.destination_id}"), raising=False
    )
    monkeypatch.setattr(Flight, "api_token", "hunter2", raising=False)

    @admin.display(description="Miles")
    def miles(flight: Flight) -> int:
        return flight.distance

    class Own(Admin):
        list_display = [
            "number", "route", "description", "late", "link", "fails", "reports", miles, "get_status_display", "long",
            "nothing", "api_token",
        ]  # fmt: skip

        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).annotate(count=Count("disruptions"))

        @admin.display(description="What it is", ordering="-origin__name")
        def description(self, flight: Flight) -> str:
            return f"flight {flight.number}"

        @admin.display(boolean=True)
        def late(self, flight: Flight) -> bool:
            return flight.number % 2 == 1

        def link(self, flight: Flight) -> str:
            return format_html('<a href="/x/{}">{} &amp; &lt;b&gt;</a>', flight.pk, flight.number)

        def fails(self, flight: Flight) -> Any:
            return mark_safe("<" * 10) if flight.pk == 2 else 1 / (flight.pk - 1)

        def reports(self, flight: Any) -> int:
            return int(flight.count)

        def long(self, flight: Flight) -> str:
            return "y" * 5_000

        def nothing(self, flight: Flight) -> None:
            return None

    declared.admin(Flight, Own)
    make_flights(2)
    Disruption.objects.create(flight_id=2, kind="crew")


def test_columns_that_are_computed(computed: None, root: User, caplog: pytest.LogCaptureFixture) -> None:
    names = ["route", "description", "late", "link", "reports", "miles", "get_status_display", "nothing"]
    rights = rights_on(Flight, root)

    record = rows.get(rights, 2, ["route", "long"])
    page = rows.find(rights, rows.RecordQuery(fields=["long"], limit=1))

    assert read(Flight, root, *names) == [
        [1, "JFK-IAH", "flight 1000", False, "1000 & <b>", 0, 1400, "on time", None],
        [2, "EWR-IAH", "flight 1001", True, "1001 & <b>", 1, 1401, "on time", None],
    ]
    assert {name: column.title for name, column in rights.computed.items()} == {
        "route": "Route", "description": "What it is", "late": "Late", "link": "Link", "fails": "Fails",
        "reports": "Reports", "miles": "Miles", "get_status_display": "Status",
        "long": "Long", "nothing": "Nothing",
    }  # fmt: skip
    assert record is not None and record.values == {"id": 2, "route": "EWR-IAH", "long": "y" * 5_000}
    assert page.rows == [[1, "y" * 2_000 + "…"]]
    assert page.notes == ["Values of long ending in … were cut at 2000 characters; get_record gives them whole."]
    assert read(Flight, root, "fails")[0] == [1, None]
    assert "flights.flight.fails failed" in caplog.text


def test_a_computed_column_is_ordered_as_it_says_and_not_filtered(computed: None, root: User) -> None:
    assert keys(Flight, root, order_by=["description"], limit=1) == [1, 2]
    assert keys(Flight, root, order_by=["-description"], limit=1) == [2, 1]
    for name in ("route", "late", "miles"):
        assert refusal(Flight, root, order_by=[name]).startswith(f"no field to order by '{name}'.")
    for name in ("route", "description", "count", "reports"):
        assert refusal(Flight, root, filter={name: "x"}).startswith(f"no field '{name}'.")


def test_a_computed_column_of_a_secret_name_is_hidden(computed: None, root: User, declared: Declared) -> None:
    assert "api_token" not in rights_on(Flight, root).computed
    declared.model(Flight, fields=["number", "api_token"])
    assert read(Flight, root, "api_token") == [[1, "hunter2"], [2, "hunter2"]]


def test_a_computed_column_that_is_excluded(computed: None, root: User, declared: Declared) -> None:
    declared.model(Flight, exclude=["route"])

    message = refusal(Flight, root, fields=["route"])
    assert message.startswith("no field 'route'. Did you mean notes? Allowed: ")
    assert message.count("route") == 1


def test_computed_columns_are_those_of_get_fields_where_a_project_has_its_own(
    computed: None, root: User, declared: Declared
) -> None:
    class Own(ModelMCP):
        def get_fields(self, request: HttpRequest) -> Any:
            return ["number", "route", "shout"]

        def shout(self, flight: Flight) -> str:
            return f"{flight.number}!"

    declared.model(Flight, Own)

    assert list(rights_on(Flight, root).computed) == ["route", "shout"]
    assert read(Flight, root, "shout") == [[1, "1000!"], [2, "1001!"]]


def test_a_computed_column_ordered_by_what_is_hidden(clerk: User, declared: Declared, shop: None) -> None:
    class Own(Scoped):
        fields = ["by"]

        @admin.display(ordering="maker__name")
        def by(self, making: Making) -> str:
            return making.maker.name

    declared.model(Making, Own)

    assert rights_on(Making, clerk).computed["by"].order is None
    assert refusal(Making, clerk, order_by=["by"]).startswith("no field to order by 'by'.")
