"""A proxy that is registered beside its model: a model of its own, over the same table."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest

from mcp_django import site
from mcp_django.console.review import inventory
from mcp_django.models import Tool
from tests.shop.models import Pallet, SparePallet
from tests.support.asking import DirectPeer, columns, described, errors_of, keys, listed
from tests.support.data import make_staff, switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

Admin: Any = admin.ModelAdmin


@admin.action(description="Mend %(verbose_name_plural)s", permissions=["view"])
def mend(model_admin: Any, request: HttpRequest, queryset: Any) -> None:
    queryset.update(name="mended")


class PalletAdmin(Admin):  # type: ignore[misc]
    list_display = ["name"]
    fields = ["name"]
    actions = [mend]


class SparePalletAdmin(Admin):  # type: ignore[misc]
    """Shows the key alone, of those that are spare."""

    list_display = ["id"]
    exclude = ["name"]
    actions = [mend]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(name__startswith="spare")


@pytest.fixture(autouse=True)
def pallets(declared: Declared, db: None) -> None:
    declared.admin(Pallet, PalletAdmin)
    declared.admin(SparePallet, SparePalletAdmin)
    for number, name in enumerate(("euro", "spare one", "spare two"), 1):
        Pallet.objects.create(id=number, name=name)


@pytest.fixture
def root() -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def keeper() -> DirectPeer:
    """May view the proxy, and not its model."""
    return DirectPeer(make_staff("keeper", "shop.view_sparepallet"))


@pytest.fixture
def clerk() -> DirectPeer:
    """May view the model, and not its proxy."""
    return DirectPeer(make_staff("clerk", "shop.view_pallet"))


def test_each_has_its_own_label_fields_and_rows(root: DirectPeer) -> None:
    assert {"shop.pallet", "shop.sparepallet"} < set(
        listed(root, "find_records")["inputSchema"]["properties"]["model"]["enum"]
    )
    assert (columns(root, "shop.pallet"), columns(root, "shop.sparepallet")) == (["id", "name"], ["id"])
    assert (keys(root, "shop.pallet"), keys(root, "shop.sparepallet")) == ([1, 2, 3], [2, 3])
    assert root.read("db://shop/pallet/1") == {"id": 1, "name": "euro"}
    assert root.read("db://shop/sparepallet/2") == {"id": 2}
    assert root.request(MODERN, "resources/read", {"uri": "db://shop/sparepallet/1"})["error"]
    assert described(root, "shop.sparepallet")["uri"] == "db://shop/sparepallet"
    told = inventory.build(site)["models"]
    assert (told["shop.pallet"]["rows"], told["shop.sparepallet"]["rows"]) == ("all", "SparePalletAdmin.get_queryset")


def test_reading_a_model_by_the_permission_on_its_proxy(keeper: DirectPeer, clerk: DirectPeer) -> None:
    assert keys(keeper, "shop.sparepallet") == [2, 3]
    assert keys(clerk, "shop.pallet") == [1, 2, 3]
    for peer, label in ((keeper, "shop.pallet"), (clerk, "shop.sparepallet")):
        [error] = errors_of(peer.call("find_records", model=label))
        assert error["message"].startswith(f"no model '{label}'.")
        uri = f"db://{label.replace('.', '/')}"
        for one in (uri, f"{uri}/2", f"{uri}?id=2", f"{uri}.schema"):
            assert peer.request(MODERN, "resources/read", {"uri": one})["error"]["data"]["reason"]
        assert uri not in str(peer.result(MODERN, "resources/list"))


def test_reading_a_hidden_field_of_the_model_by_its_proxy(keeper: DirectPeer) -> None:
    for asked in ({"fields": ["name"]}, {"filter": {"name": "euro"}}, {"order_by": ["name"]}, {"search": "euro"}):
        assert errors_of(keeper.call("find_records", model="shop.sparepallet", **asked))


def test_each_has_its_own_actions(root: DirectPeer, keeper: DirectPeer) -> None:
    switch_on("shop_pallet_mend", "shop_sparepallet_mend")

    assert keeper.call("shop_sparepallet_mend", ids=["1", "2"]).get("isError") is True
    assert "shop_pallet_mend" not in str(keeper.result(MODERN, "tools/list"))
    assert not keeper.call("shop_sparepallet_mend", ids=["2"]).get("isError")
    assert list(Pallet.objects.order_by("id").values_list("name", flat=True)) == ["euro", "mended", "spare two"]
    assert Tool.objects.filter(name__endswith="_mend").count() == 2
