"""Rows that are deleted, one by one and together."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from tests.writes.lab.conftest import Lab
from tests.writes.lab.models import Album, Drawer, Ledger, Line, Lorry, Order, Remark, Story, Topic, Vehicle, Writer

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


def test_the_hooks_that_delete_a_row_are_asked(lab: Lab, orders: list[Order]) -> None:
    declare(lab, Order, KeepingAdmin)

    made = lab.same_deletion(orders[0])

    names = [ledger["name"] for ledger in made.of(Ledger)]
    assert names == ["1 in the history", "first by root", "first is gone"]


def test_the_hook_that_deletes_several_rows_is_asked(lab: Lab, orders: list[Order]) -> None:
    declare(lab, Order, KeepingAdmin)

    made = lab.same_deletion(*orders)

    assert sorted(ledger["name"] for ledger in made.of(Ledger)) == [
        "3 in the history", "first by root", "second by root", "third by root",
    ]  # fmt: skip


def test_a_row_that_the_project_keeps_is_kept(lab: Lab, orders: list[Order]) -> None:
    declare(lab, Order, HidingAdmin)

    made = lab.same_deletion(orders[0])

    assert made.of(Order)[0]["name"] == "deleted"


def test_a_row_with_links_and_a_link_that_is_emptied_are_as_after_a_person(lab: Lab) -> None:
    declare(lab, Writer)
    writer = Writer.objects.create(name="Ann")
    story = Story.objects.create(name="news", editor=writer)
    story.writers.add(writer)
    story.topics.add(Topic.objects.create(name="art"))

    made = lab.same_deletion(writer)

    assert made.of(Story)[0]["editor_id"] is None


def test_what_is_said_about_a_row_goes_with_it(lab: Lab) -> None:
    declare(lab, Album)
    album = Album.objects.create(name="Revolver")
    album.remarks.create(text="good")

    assert lab.same_deletion(album).of(Remark) == []


def test_a_row_of_two_tables_is_deleted_from_both(lab: Lab) -> None:
    declare(lab, Lorry)

    made = lab.same_deletion(Lorry.objects.create(name="big one"))

    assert made.of(Vehicle) == made.of(Lorry) == []


@pytest.mark.parametrize("key", ["a/b c", "a_2Fb", "../x", "?a=1#b"])
def test_a_row_with_any_text_as_its_key_is_deleted(lab: Lab, key: str) -> None:
    declare(lab, Drawer)

    assert lab.same_deletion(Drawer.objects.create(code=key)).of(Drawer) == []
