"""A model that stands in an inline alone: its changes are told to those who may see the row by the inline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin

from tests.push.conftest import assert_nothing_but, watch
from tests.shop.models import Making, Part, Supplier, Tag
from tests.support.data import make_staff, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer, Peers

Admin: Any = admin.ModelAdmin
Inline: Any = admin.TabularInline

QUIET = "db://shop/tag/quiet"
COLLECTION = "db://shop/making"


class MakingInline(Inline):
    model = Making


class PartAdmin(Admin):
    """Shows no row whose name begins with "secret"."""

    inlines = [MakingInline]

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(name__startswith="secret")


@pytest.fixture(autouse=True)
def makings(declared: Declared, settings: Any, transactional_db: None) -> dict[str, Making]:
    settings.MCP = {**settings.MCP, "LIVE_SECONDS": 0.02}
    declared.admin(Part, PartAdmin)
    maker = Supplier.objects.create(name="Acme")
    return {
        name: Making.objects.create(part=Part.objects.create(name=name), maker=maker) for name in ("bolt", "secret")
    }


@pytest.fixture
def touch() -> Callable[[], None]:
    return Tag.objects.create(name="quiet").save


def test_a_change_is_told_to_those_who_watch_the_row_and_its_model(admin: Peer, makings: dict[str, Making]) -> None:
    record = f"{COLLECTION}/{makings['bolt'].pk}"
    watching = watch(admin, MODERN, COLLECTION, record)

    makings["bolt"].save()

    assert watching.uris(2) == sorted([COLLECTION, record])


def test_hearing_of_a_row_whose_parent_is_hidden(
    admin: Peer, makings: dict[str, Making], touch: Callable[[], None]
) -> None:
    watching = watch(admin, MODERN, COLLECTION, QUIET)

    makings["secret"].save()

    assert_nothing_but(watching, QUIET, touch)


@pytest.mark.parametrize("permission", ["view_part", "view_making"])
def test_hearing_with_half_of_the_permissions(peers: Peers, permission: str) -> None:
    peer = peers(token_of(make_staff("keeper", f"shop.{permission}")))

    assert peer.watch(MODERN, [COLLECTION]).honoured == {}
