"""A proxy beside its model: a change by either is told to those who watch either, as far as they may see the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.http import HttpRequest

from tests.push.conftest import assert_nothing_but, watch
from tests.shop.models import Pallet, SparePallet, Tag
from tests.support.data import make_staff, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer, Peers

Admin: Any = admin.ModelAdmin

QUIET = "db://shop/tag/quiet"

MODEL = ["db://shop/pallet", "db://shop/pallet/1", "db://shop/pallet?name__startswith=s&fields=name"]
PROXY = ["db://shop/sparepallet", "db://shop/sparepallet/1", "db://shop/sparepallet?name__startswith=s&fields=name"]


class SparePalletAdmin(Admin):  # type: ignore[misc]
    list_display = ["name"]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).filter(name__startswith="spare")


@pytest.fixture(autouse=True)
def pallets(declared: Declared, settings: Any, transactional_db: None) -> None:
    settings.MCP = {**settings.MCP, "LIVE_SECONDS": 0.02}
    declared.admin(Pallet, type("PalletAdmin", (Admin,), {"list_display": ["name"]}))
    declared.admin(SparePallet, SparePalletAdmin)
    Pallet.objects.create(id=1, name="spare one")
    Pallet.objects.create(id=2, name="euro")


@pytest.fixture
def touch() -> Callable[[], None]:
    return Tag.objects.create(name="quiet").save


@pytest.mark.parametrize("by", [Pallet, SparePallet])
def test_a_change_by_one_is_told_to_those_who_watch_the_other(admin: Peer, by: Any) -> None:
    watching = watch(admin, MODERN, *MODEL, *PROXY)

    row = by.objects.get(pk=1)
    row.name = "spare parts"
    row.save()
    assert watching.uris(6) == sorted([*MODEL, *PROXY])

    by.objects.get(pk=1).delete()
    assert watching.uris(6) == sorted([*MODEL, *PROXY])


def test_hearing_of_a_row_that_the_proxy_does_not_show(admin: Peer, touch: Callable[[], None]) -> None:
    watching = watch(admin, MODERN, "db://shop/sparepallet", QUIET)

    Pallet.objects.get(pk=2).save()
    SparePallet(id=2, name="other").save()

    assert_nothing_but(watching, QUIET, touch)


@pytest.mark.parametrize(("permission", "heard", "refused"), [
    ("view_pallet", MODEL, PROXY), ("view_sparepallet", PROXY, MODEL),
])  # fmt: skip
def test_hearing_of_a_model_by_the_permission_on_the_other(
    peers: Peers, permission: str, heard: list[str], refused: list[str]
) -> None:
    peer = peers(token_of(make_staff("keeper", f"shop.{permission}")))

    watching = peer.watch(MODERN, [*heard, *refused])
    assert watching.honoured == {"resourceSubscriptions": heard}

    for row in (SparePallet(id=1, name="spare parts"), Pallet(id=1, name="spare parts, too")):
        row.save()
        assert watching.uris(3) == sorted(heard)
