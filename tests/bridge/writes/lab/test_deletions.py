"""Rows that are deleted, one by one and together."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import (
    Album,
    Drawer,
    Ledger,
    Line,
    Lorry,
    Order,
    Remark,
    Story,
    Topic,
    Vehicle,
    Writer,
)

pytestmark = pytest.mark.every_database
Admin: Any = admin.ModelAdmin


def declare(lab: Lab, model: Any, admin_class: Any = None) -> None:
    """With a delete that needs no answer of a person."""
    lab.admin(model, admin_class)
    lab.site.register(model, consent={"delete": "preview"})


@pytest.fixture
def orders(db: None) -> list[Order]:
    """Three orders, each with a line."""
    made = [Order.objects.create(name=name) for name in ("first", "second", "third")]
    for order in made:
        order.lines.create(what=f"cup of {order}")
    return made


class KeepingAdmin(Admin):
    """Writes into a ledger what is deleted."""

    def delete_model(self, request: Any, obj: Any) -> None:
        Ledger.objects.create(name=f"{obj} by {request.user}")
        super().delete_model(request, obj)

    def delete_queryset(self, request: Any, queryset: Any) -> None:
        for obj in queryset.order_by("pk"):
            Ledger.objects.create(name=f"{obj} by {request.user}")
        super().delete_queryset(request, queryset)

    def log_deletions(self, request: Any, queryset: Any) -> Any:
        Ledger.objects.create(name=f"{len(queryset)} in the history")
        return super().log_deletions(request, queryset)

    def response_delete(self, request: Any, obj_display: str, obj_id: Any) -> Any:
        Ledger.objects.create(name=f"{obj_display} is gone")
        return super().response_delete(request, obj_display, obj_id)


class HidingAdmin(Admin):
    """Deletes nothing: it marks a row."""

    def delete_model(self, request: Any, obj: Any) -> None:
        Order.objects.filter(pk=obj.pk).update(name="deleted")


def test_a_row_is_deleted_with_what_belongs_to_it(lab: Lab, orders: list[Order]) -> None:
    declare(lab, Order)

    made = lab.same_deletion(orders[0])

    assert len(made.of(Order)) == len(made.of(Line)) == 2


def test_the_hooks_that_delete_a_row_and_several_are_asked(lab: Lab, orders: list[Order]) -> None:
    declare(lab, Order, KeepingAdmin)

    one, several = lab.same_deletion(orders[0]), lab.same_deletion(*orders)

    assert [ledger["name"] for ledger in one.of(Ledger)] == ["1 in the history", "first by root", "first is gone"]
    assert sorted(ledger["name"] for ledger in several.of(Ledger)) == [
        "3 in the history", "first by root", "second by root", "third by root",
    ]  # fmt: skip
    assert len(several.log) == 3


def test_a_row_that_the_project_keeps_is_kept(lab: Lab, orders: list[Order]) -> None:
    declare(lab, Order, HidingAdmin)

    made = lab.same_deletion(orders[0])

    assert made.of(Order)[0]["name"] == "deleted"


def test_links_and_what_is_said_about_a_row_and_its_other_table_are_as_after_a_person(lab: Lab) -> None:
    for model in (Writer, Album, Lorry):
        declare(lab, model)
    writer, album = Writer.objects.create(name="Ann"), Album.objects.create(name="Revolver")
    story = Story.objects.create(name="news", editor=writer)
    story.writers.add(writer)
    story.topics.add(Topic.objects.create(name="art"))
    album.remarks.create(text="good")
    lorry = lab.same_deletion(Lorry.objects.create(name="big one"))

    assert lab.same_deletion(writer).of(Story)[0]["editor_id"] is None
    assert lab.same_deletion(album).of(Remark) == []
    assert lorry.of(Vehicle) == lorry.of(Lorry) == []


def test_a_row_with_any_text_as_its_key_is_deleted(lab: Lab) -> None:
    declare(lab, Drawer)

    for key in ("../x", "a/b c", "a_2Fb", "?a=1#b"):
        drawer = Drawer.objects.create(code=key)

        assert lab.same_deletion(drawer).of(Drawer) == [], key
        drawer.delete()
