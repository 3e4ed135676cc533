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

from demo_project.flights.models import Airport, Disruption, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.fields.html_text import text_of
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
        [1, "JFK-IAH", "flight 1000", False, "1000 & <b> (/x/1)", 0, 1400, "on time", None],
        [2, "EWR-IAH", "flight 1001", True, "1001 & <b> (/x/2)", 1, 1401, "on time", None],
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


MARKUP = {
    '<a href="https://x.example/pay?a=1&amp;b=2">pay</a>': "pay (https://x.example/pay?a=1&b=2)",
    '<a href="/a"><b>one</b> two</a>, <a href="/b">three</a>': "one two (/a), three (/b)",
    '<a href="https://x.example">https://x.example</a>': "https://x.example",
    '<a href="javascript:alert(1)">go</a> <a href="#">up</a> <a>bare</a>': "go up bare",
    '<img src="/a.png" alt="a logo"> <img src="/b.png"/>': "a logo (/a.png) /b.png",
    '<img src="data:image/png;base64,AAAA" alt="dot">': "dot",
    '<a href="/big"><img src="/small.png" alt="cat"></a>': "cat (/small.png) (/big)",
    "<ul><li>one</li><li>two</li></ul>a<br>b<p>c</p>": "one two a b c",
    "  many \n\t blanks&nbsp;&nbsp;here ": "many blanks here",
    "<script>alert(1)</script><style>p {}</style>seen": "seen",
    "&lt;b&gt; &amp; &#39;": "<b> & '",
    "<a href='/open'>never closed": "never closed",
    "</a></script>text": "text",
    "": "",
}


def test_the_html_of_a_cell_as_a_person_reads_it() -> None:
    assert {markup: text_of(markup) for markup in MARKUP} == MARKUP


def test_a_cell_of_a_row_that_is_not_there_is_empty(
    root: User, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    class Own(Admin):
        list_display = ["number", "first_report"]

        def first_report(self, flight: Flight) -> str:
            return str(flight.disruptions.get().kind)

    declared.admin(Flight, Own)
    make_flights(1)

    assert read(Flight, root, "first_report") == [[1, None]] and caplog.text == ""


def test_a_path_of_the_list_is_a_column_of_a_page_as_far_as_it_may_be_read(root: User, declared: Declared) -> None:
    class Own(Admin):
        list_display = ["number", "origin__name", "carrier__name", "origin__no_such", "__str__"]

    declared.admin(Flight, Own)
    make_flights(1)

    def shown() -> list[str]:
        return [name for name in rows.find(rights_on(Flight, root), rows.RecordQuery()).columns if "__" in name]

    whole = shown()
    declared.model(Airport, exclude=["name"])

    assert (whole, shown()) == (["origin__name", "carrier__name"], ["carrier__name"])


def test_an_order_by_a_foreign_key_is_that_of_the_related_rows(
    root: User, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_flights(4)
    for name, key in {"Alpha": "JFK", "Mike": "EWR", "Zulu": "LGA"}.items():
        Airport.objects.filter(pk=key).update(name=name)
    declared.admin(Flight, Admin)

    def order(*names: str) -> list[str]:
        found = rows.find(rights_on(Flight, root), rows.RecordQuery(fields=["origin"], order_by=list(names)))
        return [row[1] for row in found.rows]

    monkeypatch.setattr(Airport._meta, "ordering", ["name"])
    related = [order("origin"), order("-origin")]
    monkeypatch.setattr(Airport._meta, "ordering", ["-name"])
    turned = order("origin")
    declared.model(Airport, exclude=["name"])
    by_key = order("origin")

    by_name = sorted(by_key, key=["JFK", "EWR", "LGA"].index)
    assert related == [by_name, by_name[::-1]] and turned == by_name[::-1]
    assert by_key == sorted(by_key) != by_name
