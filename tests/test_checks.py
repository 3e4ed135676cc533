"""System checks: each id, what it says and what would silence it."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.core.checks import CheckMessage, Error, Warning, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, models
from django.http import HttpRequest
from django.test import override_settings

from demo_project.flights.models import Airline, Flight
from mcp_django import ModelMCP
from mcp_django.checks import check_databases, check_settings, check_sites
from mcp_django.conf import get_conf, load
from tests.shop.models import Apikey, Product, Unwatched
from tests.support.declared import Declared

Admin: Any = admin.ModelAdmin


def messages() -> list[CheckMessage]:
    return run_checks(tags=["mcp_django"])


def of(number: str) -> list[CheckMessage]:
    return [message for message in messages() if message.id == f"mcp_django.{number}"]


def test_the_demo_has_nothing_to_be_told() -> None:
    assert messages() == []


@override_settings(MCP={"MAX_ROW": 5, "QQQ": 1})
def test_e001_an_unknown_setting_is_told_with_the_nearest() -> None:
    assert messages() == [
        Error("MCP has no key 'MAX_ROW'.", hint="Did you mean MAX_ROWS?", id="mcp_django.E001"),
        Error("MCP has no key 'QQQ'.", id="mcp_django.E001"),
    ]


def test_an_unknown_setting_is_refused_where_it_is_read() -> None:
    with override_settings(MCP={"MAX_ROW": 5}), pytest.raises(ImproperlyConfigured, match="unknown keys: MAX_ROW"):
        get_conf()


def test_settings_have_defaults_and_take_lists() -> None:
    assert load({}).MAX_ROWS == 100
    assert load({"ALLOWED_ORIGINS": ["https://a.example"]}).ALLOWED_ORIGINS == ("https://a.example",)


@override_settings(MCP={"CHANNEL_LAYER": "nowhere"}, CHANNEL_LAYERS={})
def test_e002_a_channel_layer_that_is_not_there() -> None:
    [message] = of("E002")

    assert isinstance(message, Error) and "nowhere" in message.msg


def _act(self: Any, request: HttpRequest, queryset: Any) -> None:
    pass


def test_e003_two_actions_of_one_tool_name(declared: Declared) -> None:
    class A(models.Model):  # noqa: DJ008
        class Meta:
            app_label = "shop_x"
            db_table = "collision_a"

    class X_A(models.Model):  # noqa: DJ008
        class Meta:
            app_label = "shop"
            db_table = "collision_b"

    declared.admin(A, type("One", (Admin,), {"actions": ["act"], "act": _act}))
    declared.admin(X_A, type("Two", (Admin,), {"actions": ["act"], "act": _act}))

    [message] = of("E003")

    assert message.msg in (
        "The action shop_x.a.act has the same tool name as the action shop.x_a.act: shop_x_a_act.",
        "The action shop.x_a.act has the same tool name as the action shop_x.a.act: shop_x_a_act.",
    )
    assert message.hint == "Rename one of them."


def test_e003_an_action_and_a_function_of_one_tool_name(declared: Declared) -> None:
    def flights_flight_mark_cancelled(request: HttpRequest) -> None:
        """Act."""

    declared.tool(flights_flight_mark_cancelled)

    [message] = of("E003")

    assert message.msg == (
        "The action flights.flight.mark_cancelled has the same tool name as the tool flights_flight_mark_cancelled: "
        "flights_flight_mark_cancelled."
    )


def test_e004_a_composite_key(declared: Declared) -> None:
    class Pair(models.Model):  # noqa: DJ008
        pk = models.CompositePrimaryKey("left", "right")
        left = models.IntegerField()
        right = models.IntegerField()

        class Meta:
            app_label = "shop"

    declared.model(Pair, fields="__all__")

    [message] = of("E004")

    assert isinstance(message, Error)
    assert message.msg == "shop.pair has a composite primary key, which has no URI yet."


def test_e005_no_fields_and_no_admin_to_ask(declared: Declared) -> None:
    declared.model(Unwatched)

    [message] = of("E005")

    assert message.msg == "ModelMCP names no fields, and shop.unwatched has no ModelAdmin to ask."
    assert message.hint == 'Set fields = [...], or fields = "__all__" for all that are not secrets.'


def test_e005_is_silent_where_fields_are_named_or_asked_of_the_admin(declared: Declared) -> None:
    declared.model(Unwatched, fields=["name"])
    declared.model(Flight)
    declared.model(Product, fields="__all__")

    assert messages() == []


@pytest.mark.parametrize("attribute", ["fields", "exclude", "filter_fields"])
def test_e006_a_name_that_is_no_column(declared: Declared, attribute: str) -> None:
    class AirlineMCP(ModelMCP):
        pass

    declared.model(Airline, AirlineMCP, **{attribute: ["nme", "qqq", "flights"]})

    found = of("E006")

    assert [message.msg for message in found] == [
        f"AirlineMCP.{attribute} names {name!r}, which is no column of flights.airline."
        for name in ("nme", "qqq", "flights")
    ]
    assert [message.hint for message in found][:2] == ["Did you mean name?", "Columns: carrier, name."]


def test_e007_a_key_that_is_hidden(declared: Declared) -> None:
    declared.model(Apikey, fields="__all__")

    [message] = of("E007")

    assert message.msg == "The primary key of shop.apikey cannot be read, so that no agent is shown the model."
    assert "token" in (message.hint or "")


def test_e007_is_silent_where_the_key_is_named(declared: Declared) -> None:
    declared.model(Apikey, fields=["token"])

    assert messages() == []


@pytest.mark.parametrize(("path", "text"), [
    ("rest_framework.authentication.SessionAuthentication", "any page in the browser could send it. Use tokens."),
    ("nowhere.Nothing", "No module named 'nowhere'"),
])  # fmt: skip
def test_e008_authentication_that_cannot_be_used(path: str, text: str) -> None:
    with override_settings(MCP={"AUTHENTICATION_CLASSES": [path]}):
        [message] = of("E008")

    assert isinstance(message, Error)
    assert message.msg.startswith("No call can be answered: ") and message.msg.endswith(text)


def test_w001_a_database_without_autocommit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES, "default", {**settings.DATABASES["default"], "AUTOCOMMIT": False})

    found = check_settings(None)

    [message] = [message for message in found if message.id == "mcp_django.W001"]
    assert isinstance(message, Warning)
    assert message.msg.startswith("Changes on the database 'default' are not pushed")


@override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "tenants.middleware.TenantMiddleware"])
def test_w002_middleware_that_sockets_would_skip() -> None:
    [message] = of("W002")

    assert isinstance(message, Warning)
    assert "tenants.middleware.TenantMiddleware may choose a tenant" in message.msg


@override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "tenants.middleware.TenantMiddleware"], MCP={"ASGI_DOOR": True})
def test_w002_is_silent_where_the_project_says_that_it_does_not_matter() -> None:
    assert messages() == []


@override_settings(MCP={"NOPE": 1})
def test_sites_are_not_looked_at_while_the_settings_cannot_be_read() -> None:
    assert check_sites(None) == []


def test_w003_a_database_without_time_zones(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = check_databases(None, databases=["default"])
    monkeypatch.setattr(settings, "TIME_ZONE", "Nowhere/Nothing")

    found = check_databases(None, databases=["default"])

    assert before == []
    assert [message.id for message in found] == (["mcp_django.W003"] if connection.vendor == "mysql" else [])
