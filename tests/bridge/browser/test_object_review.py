"""Actions on the page of a row where administrators review and decide about tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.checks import run_checks

from mcp_django import ObjectAction, site
from mcp_django.console.admin.tools import kind_of
from mcp_django.console.review import inventory
from mcp_django.console.review.reasons import explain
from mcp_django.models import Tool
from tests.bridge.browser.conftest import OnRow
from tests.bridge.browser.packages import Selling, selling
from tests.console.visiting import client_of, text_of
from tests.support.data import switch_on

pytestmark = pytest.mark.django_db

Drive = Callable[..., OnRow]
SELL = "shop_product_object_sell"


class Asking(Selling):
    sell = selling(consent="ask", changes=["stock"], destructive=False)


def test_it_stands_in_the_list_the_inventory_and_the_lock_as_what_it_is(on_row: Drive) -> None:
    agent = on_row(Asking, "sell")

    built = inventory.build(site)
    page = text_of(client_of(agent.user).get("/admin/mcp_django/tool/", {"kind": "action"}).content.decode())

    found = built["tools"][SELL]
    assert {name: found[name] for name in ("kind", "scope", "permissions", "consent", "destructive", "starts")} == {
        "kind": "action of shop.product", "scope": "actions", "permissions": ["change"], "consent": "ask",
        "destructive": False, "starts": "off",
    }  # fmt: skip
    assert SELL in str(inventory.lock(built))
    assert kind_of(site.tools[SELL]) == "action" and SELL in page and "shop.product · needs actions, change" in page


def test_describe_models_names_it_to_whoever_may_run_it(on_row: Drive) -> None:
    agent = on_row(Asking, "sell")

    described = agent.call("describe_models", model="shop.product")["content"][0]["text"]
    Tool.objects.filter(name=SELL).update(enabled=False)
    off = agent.call("describe_models", model="shop.product")["content"][0]["text"]

    assert SELL in described
    assert SELL not in off and "Actions exist that are switched off" in off


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        ("nothing", None),
        ("switch", "is switched off"),
        ("scope", "is missing"),
        ("permission", "it needs the permission change on shop.product"),
    ],
)
def test_why_not_is_answered(on_row: Drive, lacks: str, why: str | None) -> None:
    on_row(Selling, "sell")
    user = User.objects.create_user("seller", is_staff=True)
    given = ["view_product"] if lacks == "permission" else ["view_product", "change_product"]
    user.user_permissions.add(*Permission.objects.filter(codename__in=given))
    Tool.objects.filter(name=SELL).update(enabled=lacks != "switch")

    found = explain(site, user, ["read"] if lacks == "scope" else ["read", "actions"], SELL)

    assert found.allowed is (why is None)
    assert why is None or (found.no is not None and why in str(found.no.why)), found.no


def test_what_the_admin_shows_and_the_tools_lack_is_listed(on_row: Drive) -> None:
    on_row(Selling, "sell")
    seller = User.objects.create_superuser("seller")

    def missing(*scopes: str) -> Any:
        built = inventory.build(site, user=seller, scopes=scopes)
        return built["admin"]["missing"].get("shop.product", {}).get("action of a row sell")

    assert missing("read") == "the scope actions is missing; add it with --scopes"
    assert missing("read", "actions") is None
    Tool.objects.filter(name=SELL).update(enabled=False)
    assert "an administrator switches it on" in missing("read", "actions")
    switch_on(SELL)


def test_two_tools_of_one_name_are_reported(on_row: Drive) -> None:
    class Same(Selling):
        actions = ["object_sell"]

        def object_sell(self, request: Any, queryset: Any) -> None:
            """It has the name that the tool of the row would have."""

    on_row(Same, "sell", object_actions=[ObjectAction("sell", button="_sell")])

    found = [one.msg for one in run_checks() if one.id == "mcp_django.W015"]

    assert len(found) == 1 and f"{SELL}." in found[0] and "It is not offered." in found[0]
