"""Pages and commands for people know the operations of the API: inventory and lock, *Sees*, scopes, checks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from rest_framework.permissions import AllowAny

from mcp_django import expose, expose_form, site
from mcp_django.access.permissions import can_be_granted
from mcp_django.bridge.sites import MCPSite, names_nothing
from mcp_django.checks.api import check_api
from mcp_django.console.review import inventory, reasons
from mcp_django.exchange import scopes
from tests.api.project import views_orders
from tests.console.visiting import client_of, offered, text_of
from tests.support.data import switch_on
from tests.support.declared import Declared


def test_an_operation_is_told_with_who_may_call_it_its_filters_and_its_fields(declared_api: None) -> None:
    found = inventory.build(site)["operations"]

    assert found["order.list"] == {
        "request": "GET /api/orders/",
        "what": "The orders of the current user.",
        "who": ["IsAuthenticated"],
        "authentication": ["SessionAuthentication", "BasicAuthentication"],
        "filters": [
            "number", "customer", "note__icontains", "number__in", "status", "total", "placed_after",
            "search: number, note, customer__name", "ordering: number, total, placed_at",
        ],
        "serializer": found["order.list"]["serializer"],
        "fields": found["order.list"]["fields"],
    }  # fmt: skip
    assert found["order.destroy"]["consent"] == "ask" and found["order.pay"]["consent"] == "preview"
    assert "password.post" not in found


def test_what_is_left_out_is_told_with_the_reason(declared_api: None) -> None:
    left_out = inventory.build(site)["left_out"]

    assert "the word password" in left_out["password.post of the API"]
    assert "for machines" in left_out["machine.get of the API"]
    assert "a page for people" in left_out["page.get of the API"]
    assert "users, groups or permissions" in left_out["group.create of the API"]


def test_the_lock_tells_what_has_changed_of_an_operation(
    declared_api: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = str(tmp_path / "lock.json")
    call_command("mcp_inventory", "--lock", lock)
    call_command("mcp_inventory", "--lock", lock, "--check")

    monkeypatch.setattr(views_orders.OrderViewSet, "permission_classes", [AllowAny])

    with pytest.raises(CommandError) as told:
        call_command("mcp_inventory", "--lock", lock, "--check")
    assert '~ operation order.list: who ["AllowAny"], was ["IsAuthenticated"]' in str(told.value)
    assert "operations" in json.loads(Path(lock).read_text())


def test_the_inventory_of_a_user_has_what_the_api_lets_this_user_call(
    declared_api: None, shop: SimpleNamespace, capsys: Any
) -> None:
    call_command("mcp_inventory", "--user", "anna", "--scopes", "read,write")
    printed = capsys.readouterr().out

    assert "Operations of the API" in printed and "order.list: GET /api/orders/" in printed
    assert "group.list" not in printed.partition("Left out")[0]
    assert "group.list" in inventory.build(site, shop.stella, ["read"])["operations"]


@pytest.mark.parametrize(
    ("name", "held", "step"),
    [
        ("order.list", ["read"], None),
        ("order.pay", ["read"], "scope"),
        ("order.pay", ["write"], None),
        ("group.list", ["read"], "permission"),
        ("password.post", ["write"], "exposure"),
    ],
)
def test_why_an_operation_is_reached_or_not(
    name: str, held: list[str], step: str | None, declared_api: None, shop: SimpleNamespace
) -> None:
    switch_on("change_api")

    found = reasons.explain(site, shop.anna, held, name)

    assert found.kind == "operation"
    assert (found.no.step if found.no else None) == step


def test_an_unknown_operation_is_none_and_the_near_one_is_named(declared_api: None, shop: SimpleNamespace) -> None:
    assert "Did you mean order.list?" in reasons.explain(site, shop.anna, ["read"], "order.lst").why


def test_the_page_of_what_an_agent_sees_lists_the_operations(declared_api: None, shop: SimpleNamespace) -> None:
    page = client_of(shop.stella).get("/admin/mcp_django/accesstoken/sees/", {"why": "order.pay"})

    said = text_of(page.content.decode())
    assert "Operations of the API" in said and "GET /api/orders/summary/" in said
    assert "Do the scopes allow it? no" in said
    assert {"api:order:read", "api:order:write"} <= offered(page.content.decode())


def test_a_scope_for_a_resource_is_one_where_there_is_such_a_resource(declared_api: None) -> None:
    assert scopes.parse(["api:order:read", "api:order-line:write"]) == ["api:order-line:write", "api:order:read"]
    with pytest.raises(ValueError, match="unknown scope"):
        scopes.parse(["api:order"])
    assert names_nothing("api:order:read") == "" and "Did you mean order?" in names_nothing("api:oder:read")
    assert can_be_granted(site, "api:order:read") and not can_be_granted(site, "api:absent:read")
    assert scopes.grant({"read"}, "api:order:read") and not scopes.grant({"read"}, "api:order:write")
    assert not scopes.grant({"api:order:read"}, "read") and not scopes.grant({"api:order:read"}, "api:product:read")
    assert scopes.grant({"api:order:read"}, scopes.ANY_READABLE_API)
    assert not scopes.grant({"model:shop.order:read"}, scopes.ANY_API)


def test_the_checks_name_what_is_exposed_in_vain(declared: Declared, shop: SimpleNamespace, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SELF_SERVICE": []}
    declared.expose("nowhere/")
    declared.expose("api/", exclude=["ordr.*"], tools=["order.list"])

    def order_list(request: Any) -> None:
        """A tool with the name of an operation's."""

    declared.tool(order_list, read_only=True)

    found = {one.id: one.msg for one in run_checks() if one.id in [f"mcp_django.W0{n}" for n in range(36, 41)]}

    assert "expose('nowhere/') offers nothing" in found["mcp_django.W036"]
    assert "'ordr.*'" in found["mcp_django.W037"]
    assert "machine.get" in found["mcp_django.W038"] and "scoped.get" in found["mcp_django.W038"]
    assert "greeting.get" in found["mcp_django.W039"]
    assert "order.list is no tool of its own" in found["mcp_django.W040"]


def test_the_check_names_pages_that_have_no_form(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.api.forms_project.urls"
    site = MCPSite("pages")
    expose_form("contact", "contcat", "done", site=site)

    found = [one.msg.partition(" offers")[0] for one in check_api(site)]

    assert found == ["expose_form('contcat')", "expose_form('done')"]


def test_a_site_that_exposes_no_api_asks_no_url_for_it() -> None:
    plain = MCPSite("plain")

    assert not plain.exposes_api and plain.api_resources == () and plain._api is None

    expose("nowhere/", site=plain)
    assert plain.exposes_api and not plain.api_resources
