"""Keys that are no numbers, and models that are made of others."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Bicycle, Drawer, Lorry, Parcel, Sticker, Vehicle

pytestmark = pytest.mark.every_database
Admin: Any = admin.ModelAdmin
#: Keys that mean something in paths, in addresses and in texts of HTML.
KEYS = ["a/b c", "50%", "a_2Fb", "../x", "ä & <b>", "?a=1#b", "add"]


class StickerInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Sticker
    extra = 1


def test_a_row_with_a_random_key_is_made_and_changed(lab: Lab) -> None:
    lab.admin(Parcel)

    made = lab.same(Parcel, values={"name": "books"})
    parcel = Parcel.objects.create(name="books")
    changed = lab.same(Parcel, parcel, values={"name": "maps"})

    assert made.of(Parcel) == [{"id": "new 0", "name": "books"}]
    assert changed.of(Parcel) == [{"id": parcel.pk, "name": "maps"}]


def test_a_row_with_any_text_as_its_key_is_made_and_changed(lab: Lab) -> None:
    lab.admin(Drawer, inlines=[StickerInline])
    for key in KEYS:
        made = lab.same(
            Drawer,
            values={"code": key, "content": "pens"},
            rows={"stickers": [{"label": "red"}]},
            typed={"code": key, "content": "pens", "stickers-0-label": "red"},
        )
        drawer = Drawer.objects.create(code=key, content="pens")
        sticker = drawer.stickers.create(label="red")
        changed = lab.same(
            Drawer,
            drawer,
            values={"content": "paper"},
            rows={"stickers": [{"pk": sticker.pk, "label": "blue"}, {"label": "green"}]},
            typed={"content": "paper", "stickers-0-label": "blue", "stickers-1-label": "green"},
        )
        drawer.delete()

        assert made.of(Drawer)[0]["content"] == "pens", key
        assert changed.of(Drawer) == [{"code": key, "content": "paper"}], key
        assert [one["drawer_id"] for one in changed.of(Sticker)] == [key, key], key


def test_a_row_of_two_tables_is_made_and_changed_in_both(lab: Lab) -> None:
    lab.admin(Lorry)

    made = lab.same(Lorry, values={"name": "big one", "wheels": 8, "load": 40})
    lorry = Lorry.objects.create(name="big one", wheels=8, load=40)
    changed = lab.same(Lorry, lorry, values={"wheels": 10, "load": 44}).of(Lorry)[0]

    assert made.of(Vehicle) == [{"id": "new 0", "name": "big one", "wheels": 8}]
    assert made.of(Lorry) == [{"id": "new 0", "name": "big one", "wheels": 8, "vehicle_ptr_id": "new 0", "load": 40}]
    assert (changed["wheels"], changed["load"]) == (10, 44)


def test_a_row_is_made_and_changed_by_a_proxy(lab: Lab) -> None:
    lab.admin(Bicycle)

    made = lab.same(Bicycle, values={"name": "old one", "wheels": 2})
    changed = lab.same(Bicycle, Bicycle.objects.create(name="new one"), values={"wheels": 2})

    assert [one.log[0]["model"] for one in (made, changed)] == ["Lab | bicycle"] * 2
