"""What rows of inlines need beside the change of their parent: consent, scopes, and what their own model allows."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.contenttypes.admin import GenericTabularInline

from tests.bridge.writes.conftest import Writer
from tests.shop.models import Making, Part, Remark, Supplier
from tests.support.data import Users
from tests.support.declared import Declared

Inline: Any = admin.TabularInline
Admin: Any = admin.ModelAdmin


class MakingInline(Inline):
    model = Making


class PartAdmin(Admin):
    fields = ["name"]
    inlines = [MakingInline]


@pytest.fixture
def making(declared: Declared, settings: Any) -> Making:
    settings.ROOT_URLCONF = "demo_project.urls"
    declared.admin(Part, PartAdmin)
    declared.admin(Supplier, Admin)
    part, maker = Part.objects.create(name="bolt"), Supplier.objects.create(name="Acme")
    return Making.objects.create(part=part, maker=maker)


def deleting(making: Making) -> dict[str, Any]:
    return {"model": "shop.part", "id": str(making.part_id), "rows": rows_of(making, {"delete": True})}


def rows_of(making: Making, change: dict[str, Any]) -> dict[str, Any]:
    [name] = [one.get_accessor_name() for one in Part._meta.related_objects if one.related_model is Making]
    return {str(name): [{"pk": str(making.pk), **change}]}


def test_a_row_that_an_update_deletes_needs_the_consent_of_a_delete(root: Writer, making: Making) -> None:
    shown = root.ask("update_record", **deleting(making))

    told = root.ask("update_record", **deleting(making), confirm=shown["confirm"])

    assert "The user is asked before it is made." in shown["notes"]
    assert told["status"] == "pending"
    assert Making.objects.filter(pk=making.pk).exists()


def test_a_row_that_an_update_adds_needs_none(root: Writer, making: Making) -> None:
    maker = Supplier.objects.create(name="Zed")
    [name] = rows_of(making, {})

    told = root.confirmed(
        "update_record", model="shop.part", id=str(making.part_id), rows={name: [{"maker": str(maker.pk)}]}
    )

    assert told["status"] == "applied"
    assert Making.objects.filter(maker=maker).count() == 1


def test_the_scope_for_the_parent_alone_writes_no_rows_of_its_inlines(
    users: Users, root: Writer, making: Making
) -> None:
    agent = Writer(users.admin, "read", "model:shop.part:write")

    assert "inlines" not in agent.ask("describe_form", model="shop.part", id=str(making.part_id))
    assert "no inline" in agent.refused("update_record", **deleting(making))


@pytest.mark.parametrize(("writable", "operations"), [({"update"}, ["update"]), (False, None)])
def test_what_the_options_of_the_rows_say_holds_for_them_in_an_inline(
    root: Writer, making: Making, declared: Declared, writable: Any, operations: Any
) -> None:
    declared.model(Making, fields=["part", "maker"], writable=writable)

    inlines = root.ask("describe_form", model="shop.part", id=str(making.part_id)).get("inlines", {})

    assert [one["operations"] for one in inlines.values()] == ([] if operations is None else [operations])
    assert ("cannot be deleted" if inlines else "no inline") in root.refused("update_record", **deleting(making))


def test_the_consent_of_the_options_of_the_rows_holds_for_generic_ones(
    root: Writer, making: Making, declared: Declared
) -> None:
    class RemarkInline(GenericTabularInline):  # type: ignore[type-arg]
        model = Remark
        ct_field, ct_fk_field = "kind", "key"

    declared.admin(Part, type("Admin", (Admin,), {"fields": ["name"], "inlines": [RemarkInline]}))
    declared.model(Remark, fields=["text", "kind", "key"], use_admin=False, consent={"create": "ask"})
    about: dict[str, Any] = {"model": "shop.part", "id": str(making.part_id)}
    [name] = root.ask("describe_form", **about)["inlines"]
    about["rows"] = {name: [{"text": "sharp"}]}

    told = root.ask("update_record", **about, confirm=root.ask("update_record", **about)["confirm"])

    assert told["status"] == "pending"


def test_rows_that_nobody_names_are_no_change_though_the_form_would_strip_their_texts(
    root: Writer, declared: Declared, settings: Any
) -> None:
    settings.ROOT_URLCONF = "demo_project.urls"
    inline = type("Inline", (Inline,), {"model": Part, "fields": ["name"], "extra": 0})
    declared.admin(Supplier, type("Admin", (Admin,), {"fields": ["name"], "inlines": [inline]}))
    supplier = Supplier.objects.create(name="Acme")
    Part.objects.create(name=" bolt ", supplier=supplier)

    about: dict[str, Any] = {"model": "shop.supplier", "id": str(supplier.pk), "values": {"name": "Ann"}}

    shown = root.ask("update_record", **about)
    made = root.ask("update_record", **about, confirm=shown["confirm"])

    assert "rows" not in shown and "rows" not in made
    assert Part.objects.get().name == " bolt "
