"""Pages of the admin that agents do not write through, and values that its forms hold otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.forms import modelform_factory
from django.http import HttpResponse
from django.urls import include, path

from demo_project.flights.models import Airline
from tests.bridge.writes.conftest import Writer
from tests.shop.models import Product
from tests.support.data import Users
from tests.support.declared import Declared

Admin: Any = admin.ModelAdmin


ABOUT: dict[str, Any] = {"model": "flights.airline", "id": "UA", "values": {"name": "Zed"}}
REFUSED = "The admin does not show its form for this. Nothing was changed."


@pytest.fixture(autouse=True)
def airline(users: Users) -> Airline:
    return Airline.objects.create(carrier="UA", name="United")


class WithoutPage(Admin):
    """Takes the page of an object away, and leaves its view."""

    def get_urls(self) -> Any:
        return [pattern for pattern in super().get_urls() if not str(pattern.name).endswith("_change")]


class WithAnotherForm(Admin):
    """Shows a form that another part of the project has made, and would save it."""

    def changeform_view(self, request: Any, object_id: Any = None, *args: Any, **kwargs: Any) -> Any:
        response = super().changeform_view(request, object_id, *args, **kwargs)
        made = modelform_factory(Airline, fields=["name"])()
        response.context_data["adminform"].form = made
        return response


class Redirecting(Admin):
    def change_view(self, request: Any, object_id: Any, *args: Any, **kwargs: Any) -> Any:
        self.message_user(request, "It is locked.", "warning")
        return HttpResponse(status=302, headers={"Location": "/elsewhere"})


@pytest.mark.parametrize("admin_class", [WithoutPage, WithAnotherForm])
def test_a_page_that_is_not_the_admins_own_form_is_not_written_through(
    root: Writer, declared: Declared, admin_class: Any
) -> None:
    declared.admin(Airline, admin_class)

    assert root.refused("update_record", **ABOUT) == REFUSED
    assert root.refused("describe_form", model="flights.airline", id="UA") == REFUSED
    assert not LogEntry.objects.exists()


def test_what_the_admin_says_in_the_place_of_its_form_is_told(root: Writer, declared: Declared) -> None:
    declared.admin(Airline, Redirecting)

    refused = root.refused("update_record", **ABOUT)

    assert refused == "The admin does not show its form for this. warning: It is locked. Nothing was changed."


def test_the_key_of_a_record_is_not_changed(root: Writer) -> None:
    """Django would save a copy under the other key."""
    refused = root.refused("update_record", model="flights.airline", id="UA", values={"carrier": "ZZ"})

    assert "no field 'carrier'" in refused
    assert list(Airline.objects.values_list("pk", flat=True)) == ["UA"]


def test_a_value_that_is_given_back_as_it_was_read_changes_nothing(root: Writer) -> None:
    Airline.objects.filter(pk="UA").update(name="  United  ")
    about = {"model": "flights.airline", "id": "UA", "values": {"name": "  United  "}}

    shown = root.ask("update_record", **about)
    root.ask("update_record", **about, confirm=shown["confirm"])

    assert shown["diff"] == []
    assert Airline.objects.get().name == "  United  "


@pytest.mark.every_database
def test_json_with_a_null_character_is_refused_before_the_database_refuses_it(root: Writer, declared: Declared) -> None:
    declared.admin(Product, Admin)

    refused = root.refused("create_record", model="shop.product", values={"details": {"a": ["\x00"]}})

    assert '"field":"values.details","message":"must not hold null characters."' in refused


@pytest.mark.every_database
def test_json_is_compared_by_its_values_and_not_by_what_python_finds_equal(root: Writer, declared: Declared) -> None:
    declared.admin(Product, type("OfDetails", (Admin,), {"fields": ["details"]}))
    product = Product.objects.create(name="A", details={"on": 1, "off": 0})
    about: dict[str, Any] = {"model": "shop.product", "id": str(product.pk)}

    same = root.ask("update_record", **about, values={"details": {"off": 0, "on": 1}})
    made = root.confirmed("update_record", **about, values={"details": {"off": False, "on": True}})

    assert same["diff"] == []
    assert made["diff"] == [{"field": "details", "before": {"on": 1, "off": 0}, "after": {"on": True, "off": False}}]
    product.refresh_from_db()
    assert [product.details["on"], product.details["off"]] == [True, False] and product.details["on"] is True


def test_a_row_whose_page_to_delete_is_taken_away_is_not_deleted(root: Writer, declared: Declared) -> None:
    class Lasting(Admin):
        def get_urls(self) -> Any:
            return [pattern for pattern in super().get_urls() if not str(pattern.name).endswith("_delete")]

    declared.admin(Airline, Lasting)

    assert root.refused("delete_record", model="flights.airline", ids=["UA"]) == REFUSED


def test_a_project_may_include_urls_in_those_of_its_admin(root: Writer, declared: Declared) -> None:
    class Including(Admin):
        def get_urls(self) -> Any:
            return [path("more/", include([])), *super().get_urls()]

    declared.admin(Airline, Including)

    assert root.confirmed("update_record", model="flights.airline", id="UA", values={"name": "Unity"})["diff"]
