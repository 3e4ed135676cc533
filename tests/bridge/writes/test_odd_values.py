"""Values as agents send them and as databases hold them: written as they are read, or refused with the reason."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib.admin import ModelAdmin
from django.db import connection

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.fields import parsing
from mcp_django.bridge.resources.fields.postgresql import HSTORE
from tests.bridge.writes.conftest import Writer, errors_of
from tests.bridge.writes.test_values import asks_for_nothing
from tests.shop.models import Document, Labelled, Product, Shelf, Tag
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database
is_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="PostgreSQL: TEST_DATABASE=postgresql")


@pytest.fixture
def products(root: Writer, declared: Declared) -> Writer:
    declared.admin(Product, asks_for_nothing(fields=["name", "stock", "price", "details"]))
    declared.model(Product, fields="__all__")
    return root


def told(peer: Writer, row: Any, **values: Any) -> str:
    label = row._meta.label_lower
    return peer.told("update_record", model=label, id=str(row.pk), values=values)


def test_a_number_that_may_have_lost_digits_is_refused(products: Writer) -> None:
    row = Product.objects.create(id=2**53, name="a")
    digits = "has more digits than a number keeps in JSON: send it as a text."

    assert errors_of(told(products, row, price=90071992547409.93)) == [("values.price", digits)]
    assert "90071992547409.93" in told(products, row, price="90071992547409.93")
    found = products.call("find_records", model="shop.product", filter={"id": float(2**53 + 1)})
    assert json.loads(found["content"][0]["text"])["errors"][0]["message"] == digits


def test_a_decimal_has_digits_alone(products: Writer) -> None:
    row = Product.objects.create(name="a")

    for value in ("5", " 5 ", "+5.", ".5", "1e3", 5, 5.25):
        assert '"status":"preview"' in told(products, row, price=value), value
    for value in ("1_000", "\u0665", "NaN", "Infinity", "0x5", "5,0", True):
        assert errors_of(told(products, row, price=value)) == [
            ("values.price", "must be a number or a string of digits.")
        ], value


def test_an_address_has_no_zone(root: Writer, declared: Declared) -> None:
    declared.admin(Document, asks_for_nothing(fields=["address"]))
    row = Document.objects.create(name="a", address="fe80::1")

    message = "must be an IP address without a zone, which would not be kept."
    assert errors_of(told(root, row, address="fe80::1%eth0")) == [("values.address", message)]
    assert root.call("find_records", model="shop.document", filter={"address": "fe80::1%eth1"})["isError"]


def test_a_value_that_a_page_has_cut_is_not_written_back(products: Writer) -> None:
    row = Product.objects.create(name="a", details={"k": "y" * 5_000})
    page = products.ask("find_records", model="shop.product", fields=["details"])
    whole = products.ask("get_record", model="shop.product", id=str(row.pk))["details"]

    assert "get_record gives it whole" in told(products, row, details=page["rows"][0][1])
    assert '"diff":[]' in told(products, row, details=whole)


def test_a_long_text_can_be_previewed_and_written(products: Writer) -> None:
    row = Product.objects.create(name="a", details="y" * 400_000)
    asked = {"model": "shop.product", "id": str(row.pk), "values": {"details": "z" * 400_000}}

    shown = products.ask("update_record", **asked)
    done = products.ask("update_record", **asked, confirm=shown["confirm"])

    row.refresh_from_db()
    assert row.details == "z" * 400_000 and done["status"] == "applied"
    for one in (shown, done):
        assert len(json.dumps(one)) < 400_000
        assert one["diff"][0]["after"].endswith("z…")
        assert "Values of details ending in … are cut here alone. They are written whole." in one["notes"]


def test_a_key_that_is_given_is_in_the_preview(root: Writer, declared: Declared) -> None:
    declared.admin(Tag, ModelAdmin)

    shown = root.ask("create_record", model="shop.tag", values={"name": "red"})

    assert shown["diff"] == [{"field": "name", "before": None, "after": "red"}]


def test_a_choice_without_a_value_is_as_a_browser_sends_it(root: Writer, declared: Declared) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        price = forms.TypedChoiceField(required=False, coerce=int, empty_value=None, choices=[(None, "?"), (1, "S")])
        name = forms.ChoiceField(required=False, choices=[(None, "?"), ("a", "A"), ("Group", [("b", "B")])])

    declared.admin(Product, type("A", (ModelAdmin,), {"form": Form, "fields": ["name", "price", "stock"]}))
    row = Product.objects.create(name="a", price=None, stock=1)
    root.confirmed("update_record", model="shop.product", id=str(row.pk), values={"stock": 2})
    root.confirmed("create_record", model="shop.product", values={"stock": 5})

    assert list(Product.objects.order_by("pk").values_list("name", "price", "stock")) == [
        ("a", None, 2), ("", None, 5),
    ]  # fmt: skip


def test_a_field_of_the_form_alone_is_in_the_diff(root: Writer, declared: Declared) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        elsewhere = forms.CharField(required=False, initial="Chair")

    declared.admin(Product, type("A", (ModelAdmin,), {"form": Form, "fields": ["name", "elsewhere"]}))
    row = Product.objects.create(name="a")

    shown = root.ask("update_record", model="shop.product", id=str(row.pk), values={"elsewhere": "Seat"})

    assert shown["diff"] == [{"field": "elsewhere", "after": "Seat"}]


def test_a_record_that_the_admin_does_not_save_is_none(root: Writer, declared: Declared) -> None:
    nothing: Callable[..., None] = lambda *args: None  # noqa: E731
    declared.admin(Product, type("A", (ModelAdmin,), {"fields": ["name"], "save_model": nothing}))

    done = root.confirmed("create_record", model="shop.product", values={"name": "a"})

    assert "record" not in done and done["notes"] == ["The admin has saved no record of this model."]


def test_a_form_that_refuses_a_field_which_is_not_given_is_told(root: Writer, declared: Declared) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        def clean(self) -> None:
            if self.cleaned_data.get("name") == "done" and self.cleaned_data.get("price") is None:
                self.add_error("price", "is needed")

        price = forms.DecimalField(required=False)

    declared.admin(Product, type("A", (ModelAdmin,), {"form": Form, "fields": ["name", "price"]}))
    row = Product.objects.create(name="a")

    assert errors_of(told(root, row, name="done")) == [("values.price", "is needed")]


def test_what_the_form_makes_of_a_given_value_is_told_and_not_shown(root: Writer, declared: Declared) -> None:
    hidden = Tag.objects.create(name="hidden")

    class Form(forms.ModelForm):  # type: ignore[type-arg]
        coupon = forms.CharField(required=False, initial="initial")

        def clean_name(self) -> str:
            return "Bob"

        def clean_coupon(self) -> Tag:
            return hidden

    declared.admin(Product, type("A", (ModelAdmin,), {"form": Form, "fields": ["name", "coupon"]}))
    row = Product.objects.create(name="Bob")

    shown = root.ask("update_record", model="shop.product", id=str(row.pk), values={"name": "Ann", "coupon": "x"})

    assert shown["diff"] == [{"field": "coupon", "after": "x"}]
    note = "the form makes another value of it"
    assert shown["adjusted"] == [{"field": f"values.{name}", "note": note} for name in ("name", "coupon")]


def test_several_choices_are_described_and_written_as_a_list(root: Writer, declared: Declared) -> None:
    class Form(forms.ModelForm):  # type: ignore[type-arg]
        colours = forms.MultipleChoiceField(choices=[("a", "A"), ("b", "B")], required=False)
        sizes = forms.TypedMultipleChoiceField(choices=[(1, "S"), (2, "M")], required=False, coerce=int)
        name = forms.MultipleChoiceField(choices=[("a", "A")], required=False)

    declared.admin(Product, type("A", (ModelAdmin,), {"form": Form, "fields": ["name", "stock", "colours", "sizes"]}))
    row = Product.objects.create(name="", stock=1)

    described = root.ask("describe_form", model="shop.product")["fields"]
    assert [described[name]["type"] for name in ("colours", "sizes", "name")] == ["array"] * 3
    assert described["sizes"]["items"] == {"enum": [1, 2]}
    for values in ({"stock": 2}, {"colours": ["a", "b"]}, {"sizes": ["1"]}, {"sizes": [2]}):
        assert '"status":"preview"' in told(root, row, **values), values


def test_the_last_moment_of_the_calendar_is_written_and_found(root: Writer, settings: Any) -> None:
    row, other = make_flights(2)
    last = "9999-12-31T23:59:59Z"

    root.confirmed("update_record", model="flights.flight", id=str(row.pk), values={"departs_at": last})

    found = root.ask("find_records", model="flights.flight", filter={"departs_at": last}, fields=["id"])
    assert found["rows"] == [[row.pk]]
    # East of UTC it is beyond the calendar, and the admin's own page would fail.
    settings.TIME_ZONE = "Asia/Tokyo"
    assert errors_of(told(root, other, departs_at=last)) == [("values.departs_at", "is out of range.")]


@is_postgresql
def test_what_only_postgresql_has_is_written_as_it_is_read(root: Writer, declared: Declared) -> None:
    declared.admin(Shelf, asks_for_nothing())
    declared.model(Shelf, fields="__all__")
    shelf = Shelf.objects.create()
    empty = {"lower": None, "upper": None, "bounds": "empty"}

    done = root.confirmed("update_record", model="shop.shelf", id=str(shelf.pk), values={"places": empty})

    assert done["diff"][0]["after"] == empty
    # A field of an extension, which is not installed here.
    assert HSTORE.read(Labelled._meta.get_field("labels"), {"a": None, "b": "y"}) == {"a": None, "b": "y"}  # type: ignore[arg-type]
    found = root.ask("find_records", model="shop.shelf", fields=["places"], filter={"places": empty})
    assert found["rows"] == [[shelf.pk, empty]]
    # What their widgets have no room for.
    exact = {"labels": ["a,b", " c "], "serials": {"lower": 1, "upper": None, "bounds": "(]"}}
    made = root.confirmed("create_record", model="shop.shelf", values=exact)
    row = Shelf.objects.get(pk=made["record"].rpartition("/")[2])
    assert (row.labels, row.serials.lower, row.serials.upper) == (exact["labels"], 2, None)
    assert "10 characters" in root.refused("create_record", model="shop.shelf", values={"labels": ["x" * 11]})


# Reading.


def test_a_list_of_a_filter_may_be_the_text_of_its_json(products: Writer) -> None:
    keys = [Product.objects.create(id=number, name=name).pk for number, name in ((1, "a"), (2, "b"), (3, "c,d"))]

    def found(**asked: Any) -> list[Any]:
        return [
            row[0] for row in products.ask("find_records", model="shop.product", filter=asked, fields=["id"])["rows"]
        ]

    assert found(name__in='["a", "b"]') == keys[:2]
    assert found(name__in='["c,d"]') == keys[2:]
    assert found(name__in="a,b") == keys[:2]
    assert found(id__range=f"[{keys[0]}, {keys[1]}]") == keys[:2]
    assert parsing.as_list("[a") == ["[a"]


def test_the_last_second_of_the_calendar_fails_no_date_part(root: Writer, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    make_flights(2)
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
    Flight.objects.filter(pk=1).update(departs_at=last)
    parts = (
        "hour",
        "minute",
        "week",
        "week_day",
        "iso_week_day",
        "day",
        "month",
        "quarter",
        "year",
        "iso_year",
        "date",
    )

    for part in parts:
        grouped = root.ask("aggregate_records", model="flights.flight", group_by=[f"departs_at__{part}"])
        assert sum(row[-1] for row in grouped["rows"]) == 2, part
        if part not in ("date", "year", "iso_year"):
            found = root.ask("find_records", model="flights.flight", filter={f"departs_at__{part}__gte": 0})
            assert 2 in [row[0] for row in found["rows"]], part


def test_a_search_says_where_it_does_not_look(root: Writer, declared: Declared) -> None:
    class Searched(ModelAdmin[Any]):
        fields = search_fields = ("name", "details__color")

        def get_fields(self, request: Any, obj: Any = None) -> Any:
            return ["name", "details"]

    declared.admin(Product, Searched)
    declared.model(Product, fields="__all__")
    Product.objects.create(name="a", details={"color": "red"})

    [note] = root.ask("find_records", model="shop.product", search="red")["notes"]

    assert note == "The search found nothing. It looks for each word in name, and not within details__color."
