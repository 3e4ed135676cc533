"""Which AdminSite's models agents see: the one that is served, and no other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from django.test import override_settings
from django.urls import clear_url_caches, include, path

from demo_project.flights.models import Airline, Airport
from mcp_django import site
from mcp_django.console.review import inventory
from tests.checks.conftest import of
from tests.support.asking import DirectPeer, keys, listed
from tests.support.data import make_staff, switch_on
from tests.support.declared import Declared

Admin: Any = admin.ModelAdmin
#: Named by MCP["ADMIN_SITE"].
named = admin.AdminSite("named")
named.register(Airport)


@pytest.fixture
def serve(settings: Any, monkeypatch: pytest.MonkeyPatch, declared: Declared) -> Iterator[Callable[..., None]]:
    """Serves these AdminSites and no other, and nothing is exposed by code."""
    declared.unregister(User)
    declared.unregister(Group)
    module = ModuleType("tests.served_admins")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def serve(*admin_sites: admin.AdminSite) -> None:
        pages = [path(f"{one.name}/", one.urls) for one in admin_sites]
        module.urlpatterns = [*pages, path("", include("mcp_django.urls"))]  # type: ignore[attr-defined]
        clear_url_caches()
        settings.ROOT_URLCONF = module.__name__

    yield serve
    clear_url_caches()


class WithoutSuperusers(Admin):
    list_display = ["username"]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(is_superuser=False)


def own_site(*models: Any, cls: type[admin.AdminSite] = admin.AdminSite, name: str = "own") -> admin.AdminSite:
    made = cls(name)
    for model in models:
        made.register(model)
    return made


def labels(user: User) -> list[str]:
    return list(DirectPeer(user).call("describe_models")["structuredContent"]["models"])


def test_the_rows_are_those_of_the_admin_that_is_served_for_a_registered_model_too(
    db: None, serve: Any, declared: Declared
) -> None:
    """The default AdminSite, which nobody serves, shows superusers."""
    own = admin.AdminSite("own")
    own.register(User, WithoutSuperusers)
    User.objects.create_superuser("root")
    staff = make_staff("staff", "auth.view_user")

    serve(own)
    declared.model(User)

    assert keys(DirectPeer(staff), "auth.user") == [staff.pk]
    assert labels(staff) == ["auth.user"]
    declared.model(User, fields=["username"])
    assert keys(DirectPeer(staff), "auth.user") == [staff.pk]


def test_models_of_an_admin_that_is_not_served_do_not_exist(db: None, serve: Any) -> None:
    serve(own_site(Airline))

    assert labels(User.objects.create_superuser("root")) == ["flights.airline"]
    assert "flights_flight_mark_cancelled" not in site.tools


def test_a_model_of_several_admins_is_exposed_by_none(db: None, serve: Any) -> None:
    serve(own_site(Airline, Airport), own_site(Airport, name="other"))

    assert labels(User.objects.create_superuser("root")) == ["flights.airline"]
    [message] = of("W017")
    assert message.msg == "flights.airport is in the AdminSites other and own. Agents do not see it until one is named."
    assert inventory.build(site)["left_out"]["flights.airport"] == (
        "it is in the AdminSites other and own; name one in MCP['ADMIN_SITE']"
    )


def test_a_setting_names_the_admin(db: None, serve: Any, settings: Any) -> None:
    settings.MCP = {"ADMIN_SITE": "tests.test_admin_sites.named"}
    serve(own_site(Airline, Airport), own_site(Airport, name="other"))

    assert labels(User.objects.create_superuser("root")) == ["flights.airport"]
    assert of("W016") == of("W017") == of("W018") == []


def test_where_no_admin_is_served_no_model_exists_but_those_that_do_without_it(
    db: None, serve: Any, declared: Declared
) -> None:
    root = User.objects.create_superuser("root")
    serve()

    assert "describe_models" not in DirectPeer(root).tools()
    [message] = of("W016")
    assert message.msg == "The URLconf serves no AdminSite, so agents see no model of the admin."
    with override_settings(MCP={"EXPOSE_ADMIN": False}):
        assert of("W016") == []
    declared.model(User, fields=["username"], use_admin=False)
    assert labels(root) == ["auth.user"]


class Closed(admin.AdminSite):
    def has_permission(self, request: HttpRequest) -> bool:
        verified: bool = request.user.is_verified()  # type: ignore[union-attr]
        return verified


def test_an_admin_that_lets_no_token_in_shows_nothing_and_a_check_says_so(db: None, serve: Any) -> None:
    own = own_site(Airline, cls=Closed)
    own._registry[Airline].actions = [look]  # type: ignore[attr-defined]
    switch_on("flights_airline_look")
    serve(own)

    tools = DirectPeer(User.objects.create_superuser("root")).tools()

    assert {"describe_models", "flights_airline_look"}.isdisjoint(tools)
    [message] = of("W018")
    assert message.msg.startswith("The AdminSite own lets no token in, not even a superuser's")


@admin.action(permissions=["view"], description="Look")
def look(modeladmin: Any, request: HttpRequest, queryset: Any) -> None:
    modeladmin.message_user(request, modeladmin.admin_site.name)


def test_an_action_runs_in_the_admin_that_is_served(db: None, serve: Any) -> None:
    own = own_site(Airline)
    own._registry[Airline].actions = [look]  # type: ignore[attr-defined]
    Airline.objects.create(carrier="UA", name="United")
    switch_on("flights_airline_look")
    serve(own)
    root = DirectPeer(User.objects.create_superuser("root"))

    assert listed(root, "flights_airline_look")["title"] == "Look"
    assert root.call("flights_airline_look", ids=["UA"])["content"] == [{"type": "text", "text": "own"}]


def test_the_default_admin_is_back_with_its_urls(db: None, serve: Any, settings: Any) -> None:
    root = User.objects.create_superuser("root")
    before, urls = labels(root), settings.ROOT_URLCONF

    serve(own_site(Airline))
    between = labels(root)
    settings.ROOT_URLCONF = urls
    after = labels(root)

    assert (between, after) == (["flights.airline"], before)


# A ModelMCP takes rows and permissions from its ModelAdmin. Where nobody knows from which, it must not show all rows.


@pytest.mark.parametrize("admins", [2, 0])
def test_a_registered_model_is_not_shown_without_its_admin(
    db: None, serve: Any, declared: Declared, admins: int
) -> None:
    own, other = own_site(name="own"), own_site(name="other")
    for one in (own, other):
        one.register(User, WithoutSuperusers)
    declared.model(User, fields=["username"])

    serve(*(own, other)[:admins])

    assert "describe_models" not in DirectPeer(User.objects.create_superuser("root")).tools()
    assert "MCP['ADMIN_SITE']" in inventory.build(site)["left_out"]["auth.user"]
    for expose in (True, False):
        with override_settings(MCP={"EXPOSE_ADMIN": expose}):
            [message] = [message for message in of("W017") if message.msg.startswith("auth.user is in ")]
        assert message.msg.endswith(". Agents do not see it until one is named.")


def test_names_that_get_actions_makes_up_do_not_pile_up(db: None, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def get_actions(self: Any, request: HttpRequest, *where: Any) -> Any:
        return {name: (look, name, "Look") for name in (f"a{uuid4().hex}" for _ in range(10))}

    own = admin.AdminSite("own")
    own.register(Airline, type("Inventive", (Admin,), {"get_actions": get_actions}))
    monkeypatch.setattr("mcp_django.bridge.sites._MAX_TOOLS", 60)
    serve(own)
    root = DirectPeer(User.objects.create_superuser("root"))

    for _ in range(10):
        root.tools()

    assert len(site.tools) <= 60
