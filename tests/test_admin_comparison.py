"""What the admin shows beside what agents reach: each thing that is missing is named, with a reason and a cure."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import User
from django.http import HttpRequest

from demo_project.flights.models import Airline, Disruption, Flight
from mcp_django import MCPSite, ModelMCP, site
from mcp_django.console.review import inventory
from mcp_django.models import AccessToken
from tests.bridge.resources.inventory.conftest import Admin, refused, run
from tests.shop.models import Apikey, Product
from tests.support.data import make_staff, switch_on
from tests.support.declared import Declared
from tests.support.pages import blocks


def missing(label: str, **options: Any) -> dict[str, str]:
    """What is missing of a model, each with the reason."""
    found: dict[str, str] = inventory.build(site, **options)["admin"]["missing"].get(label, {})
    return found


class WholeAdmin(Admin):  # type: ignore[misc]
    fields = ("name", "price", "api_key")


def small_site(admins: dict[Any, Any]) -> MCPSite:
    """A site whose admin has these models alone."""
    admin_site = AdminSite("small")
    for model, model_admin in admins.items():
        admin_site.register(model, model_admin)
    return MCPSite("small", admin_site=admin_site)


# Fields.


def test_a_secret_is_listed_with_a_cure_that_cures(declared: Declared) -> None:
    declared.admin(Product, WholeAdmin)
    declared.admin(Airline, Admin)

    assert missing("flights.airline") == {}
    assert missing("shop.product") == {
        "api_key": "looks like a secret, and is not named in fields; name it in fields of a ModelMCP"
    }
    declared.model(Product, fields=["name", "price", "api_key"])
    assert missing("shop.product") == {}


def test_a_secret_that_is_computed_and_a_relation_to_a_hidden_model_are_listed(declared: Declared) -> None:
    declared.admin(Product, type("TokenAdmin", (Admin,), {"list_display": ["token"], "token": lambda *args: ""}))
    declared.unregister(User)
    declared.admin(User, None)

    assert missing("shop.product")["token"] == "looks like a secret; name it in fields of a ModelMCP"
    assert missing("flights.disruption") == {
        "reported_by": ("points to a model that is not shown, or whose objects are checked one by one; show that model")
    }


def test_what_a_registration_leaves_out_is_listed_with_its_class(declared: Declared) -> None:
    class ProductMCP(ModelMCP):
        fields = ["name"]

    class DisruptionMCP(ModelMCP):
        exclude = ["note"]

    declared.admin(Product, WholeAdmin)
    declared.model(Product, ProductMCP)
    declared.model(Disruption, DisruptionMCP)

    assert missing("shop.product")["price"] == "fields of ProductMCP do not name it; name it there"
    excluded = "DisruptionMCP excludes it; take it out of exclude there"
    assert missing("flights.disruption") == {"note": excluded, "search in note": excluded}


def test_a_hook_that_may_decide_by_the_object_is_named(declared: Declared) -> None:
    class PickyAdmin(Admin):  # type: ignore[misc]
        readonly_fields = ("margin",)

        def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
            return [] if obj.pk else ["name", "price", "margin"]

        def margin(self, obj: Any) -> str:
            return ""

    declared.admin(Product, PickyAdmin)

    [(name, why)] = missing("shop.product").items()

    assert name == "margin"
    assert "PickyAdmin.get_fields decides by the object; decorate it with mcp_django.ignores_object" in why


def test_an_input_of_the_form_is_no_value_of_a_row(declared: Declared) -> None:
    class ProductForm(forms.ModelForm):  # type: ignore[type-arg]
        send_mail = forms.BooleanField()

    class ProductAdmin(Admin):  # type: ignore[misc]
        form = ProductForm
        fields = ("name", "send_mail", "margin")
        readonly_fields = ("margin",)

        def margin(self, obj: Any) -> str:
            return ""

    declared.admin(Product, ProductAdmin)

    assert missing("shop.product") == {
        "send_mail": "is an input of the form, and no value of a row; name a method in fields of a ModelMCP",
    }


def test_a_path_to_a_hidden_field_is_listed(declared: Declared) -> None:
    class DisruptionAdmin(Admin):  # type: ignore[misc]
        list_display = ("reported_by", "reported_by__username", "reported_by__last_login")

    declared.admin(Disruption, DisruptionAdmin)
    declared.model(User, exclude=["last_login"])

    assert missing("flights.disruption") == {
        "reported_by__last_login": "leads to a field that is not shown; show that field"
    }


def test_the_form_is_asked_as_for_an_object_and_never_as_for_adding(declared: Declared) -> None:
    asked: list[Any] = []

    class AirlineAdmin(Admin):  # type: ignore[misc]
        def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
            asked.append(obj)
            return super().get_fieldsets(request, obj)

    declared.admin(Airline, AirlineAdmin)
    inventory.build(site)

    assert asked
    assert all(isinstance(obj, Airline) for obj in asked)


def test_a_hook_that_fails_is_named(declared: Declared, caplog: pytest.LogCaptureFixture) -> None:
    class BrokenAdmin(Admin):  # type: ignore[misc]
        def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
            return obj.plane.tailnum

        def get_inline_instances(self, request: HttpRequest, obj: Any = None) -> Any:
            raise KeyError

    declared.admin(Airline, BrokenAdmin)

    failed = inventory.build(site)["failed"]

    assert "<BrokenAdmin flights.airline>.get_fieldsets failed; taken as a refusal (AttributeError)" in failed
    assert "<BrokenAdmin flights.airline>.get_inline_instances failed; taken as a refusal (KeyError)" in failed
    assert caplog.records == []


# Inlines.


class DisruptionInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Disruption
    fields = ("kind", "note")


def test_the_fields_of_an_inline_are_here_where_its_model_is(declared: Declared) -> None:
    declared.admin(Flight, type("FlightAdmin", (Admin,), {"inlines": [DisruptionInline]}))
    everything = missing("flights.flight")
    declared.model(Disruption, exclude=["note"])

    assert everything == {}
    assert list(missing("flights.flight")) == ["inline flights.disruption.note"]


def test_the_key_of_an_inline_that_leads_back_is_no_field_of_it(declared: Declared) -> None:
    inline = type("AllInline", (admin.StackedInline,), {"model": Disruption})
    declared.admin(Flight, type("FlightAdmin", (Admin,), {"inlines": [inline]}))
    declared.model(Disruption, fields=[])

    assert set(missing("flights.flight")) == {
        f"inline flights.disruption.{name}" for name in ("kind", "severity", "resolved", "note")
    }


# Actions.


def test_an_action_whose_name_is_taken_is_listed(declared: Declared) -> None:
    class AirlineAdmin(Admin):  # type: ignore[misc]
        actions = ["rename"]

        @admin.action(description="Rename")
        def rename(self, request: HttpRequest, queryset: Any) -> None: ...

    @staticmethod  # type: ignore[misc]
    def taken(request: HttpRequest) -> str:
        """Says nothing."""
        return ""

    declared.admin(Airline, AirlineAdmin)
    declared.tool(taken, name="flights_airline_rename")

    assert missing("flights.airline") == {
        "action rename": "another tool is named flights_airline_rename; rename the action"
    }


def test_an_action_that_a_user_is_refused_is_listed_and_is_here_once_it_is_switched_on(db: None) -> None:
    user = make_staff("vera", "flights.view_flight", "flights.change_flight")

    def why(*scopes: str) -> str | None:
        return missing("flights.flight", user=user, scopes=scopes).get("action mark_cancelled")

    assert why("read") == "the scope actions is missing; add it with --scopes"
    off = "the user may not run it, or it is off; an administrator switches it on, at Tools"
    assert why("read", "actions") == off
    switch_on("flights_flight_mark_cancelled")
    assert why("read", "actions") is None


# Models.


def test_what_the_admin_hides_from_the_user_is_not_compared(declared: Declared, db: None) -> None:
    user = make_staff("vera", "flights.view_airline")

    compared = inventory.build(site, user)["admin"]

    assert compared["fields"] == compared["fields_here"] == len(["carrier", "name"])


def test_the_fields_of_a_model_that_is_left_out_are_counted_and_not_listed_and_our_own_models_not_compared() -> None:
    compared = inventory.build(small_site({Apikey: Admin, Product: WholeAdmin, AccessToken: Admin}))["admin"]

    assert (compared["fields"], compared["fields_here"]) == (4, 2)
    assert compared["hidden"] == {"of hidden models": 1, "secret": 1}
    assert list(compared["missing"]) == ["shop.product"]


# The command.


def test_the_inventory_ends_with_a_summary(declared: Declared, db: None) -> None:
    declared.admin(Product, WholeAdmin)
    compared = inventory.build(site)["admin"]

    last = " ".join(run().rpartition("\n\n")[2].split())

    models = len(inventory.build(site)["models"])
    assert last.startswith(
        f"{models} models; {compared['fields']} fields that your admin shows, {compared['fields_here']} of them here; "
        f"3 actions, 3 of them here; hidden: "
    )
    assert f"{compared['hidden']['secret']} secret" in last


def test_where_everything_has_a_reason_the_command_prints_what_its_page_shows() -> None:
    small = small_site({Product: WholeAdmin})

    printed = run("--site", small.name, "--compare-admin")

    [shown] = [block for block in blocks("docs/inventory.md", "text") if "Shown by your admin" in block]
    assert printed == shown


def test_what_is_missing_without_a_reason_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "REMEDIES", {})
    small = small_site({Disruption: type("DisruptionAdmin", (Admin,), {"fields": ("kind", "reported_by")})})

    why = refused("--site", small.name, "--compare-admin")

    assert why == (
        "The admin shows this, agents cannot reach it, and there is no reason:\n\nflights.disruption reported_by"
    )


# Filters, searches and columns of lists.


class Busy(admin.SimpleListFilter):
    title = parameter_name = "busy"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [("yes", "Busy")]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset


def test_what_a_list_is_filtered_by_and_searched_in_is_compared(declared: Declared) -> None:
    class Lists(Admin):  # type: ignore[misc]
        list_filter = ["name", ("price", admin.AllValuesFieldListFilter), "api_key", Busy]
        search_fields = ["^name", "api_key"]
        fields = ["name"]

    declared.admin(Product, Lists)
    by_admin = missing("shop.product")
    uses = inventory.build(site)["admin"]
    declared.model(Product, fields=["name"])
    by_registration = missing("shop.product")

    secret = "looks like a secret, and is not named in fields; name it in fields of a ModelMCP"
    assert by_admin == {
        "filter price": "leads to what may not be read; show that field", "filter api_key": secret,
        "search in api_key": secret,
    }  # fmt: skip
    assert uses["uses"] - uses["uses_here"] == 3
    assert by_registration["filter list_filter:busy"] == (
        "ProductMCP names its fields; name list_filter:busy in filter_fields there"
    )


def test_a_search_of_the_admins_own_and_a_hierarchy_of_dates_are_compared(declared: Declared) -> None:
    class Own(Admin):  # type: ignore[misc]
        date_hierarchy = "reported_at"
        search_fields = ["note"]
        exclude = ["reported_at"]

        def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
            return queryset, False

    declared.admin(Disruption, Own)

    assert missing("flights.disruption") == {
        "filter reported_at": "leads to what may not be read; show that field",
        "search in note": 'get_search_results may look into hidden fields; set search = "admin"',
    }


def test_columns_that_the_page_of_the_list_adds_are_compared_and_inputs_that_it_does_not_render_are_not(
    db: None, declared: Declared
) -> None:
    class Page(ChangeList):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.list_display = [*self.list_display, "reorder"]

    class Own(Admin):  # type: ignore[misc]
        fields = ["name", "price"]
        list_filter = ["name"]

        def get_changelist(self, request: HttpRequest, **options: Any) -> Any:
            return Page

        def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **options: Any) -> Any:
            form = super().get_form(request, obj, change, **options)
            form.base_fields.pop("price", None)
            return form

        def reorder(self, obj: Any) -> str:
            return ""

    declared.admin(Product, Own)

    assert missing("shop.product") == {"reorder": "is computed in the form alone; name it in list_display"}
