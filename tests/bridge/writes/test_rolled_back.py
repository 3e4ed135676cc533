"""Previews of models that are saved for them, and rolled back."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry

from demo_project.flights.models import Airline
from tests.bridge.writes.conftest import Writer
from tests.shop.models import Document, Making, Part, Supplier
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


class Deriving(admin.ModelAdmin[Airline]):
    def save_model(self, request: Any, obj: Airline, form: Any, change: bool) -> None:
        obj.name = f"{obj.name} Inc."
        super().save_model(request, obj, form, change)


@pytest.fixture(autouse=True)
def airline(root: Writer, declared: Declared) -> Airline:
    declared.admin(Airline, Deriving)
    return Airline.objects.create(carrier="UA", name="United")


def update(root: Writer) -> tuple[Any, Any]:
    about: dict[str, Any] = {"model": "flights.airline", "id": "UA", "values": {"name": "Unity"}}
    shown = root.ask("update_record", **about)
    between = (list(Airline.objects.values_list("name", flat=True)), LogEntry.objects.count())
    assert between == (["United"], 0), "the preview left something behind"
    return shown, root.ask("update_record", **about, confirm=shown["confirm"])


def test_what_saving_makes_is_in_the_preview(root: Writer, declared: Declared) -> None:
    declared.model(Airline, fields=["carrier", "name"], preview="rollback")

    shown, done = update(root)

    assert shown["diff"] == done["diff"] == [{"field": "name", "before": "United", "after": "Unity Inc."}]


def test_a_new_record_is_previewed_so_and_made_once(root: Writer, declared: Declared) -> None:
    declared.model(Airline, fields=["carrier", "name"], preview="rollback")
    about: dict[str, Any] = {"model": "flights.airline", "values": {"carrier": "ZZ", "name": "Zed"}}

    shown = root.ask("create_record", **about)
    before = Airline.objects.count()
    done = root.ask("create_record", **about, confirm=shown["confirm"])

    assert {one["field"]: one["after"] for one in shown["diff"]}["name"] == "Zed Inc."
    assert "id" not in shown
    assert (before, Airline.objects.count(), done["id"]) == (1, 2, "ZZ")


def test_rows_of_inlines_are_in_the_preview_with_what_saving_makes(root: Writer, declared: Declared) -> None:
    class Makings(admin.TabularInline):  # type: ignore[type-arg]
        model = Making

    class PartAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        fields = ["name"]
        inlines = [Makings]

        def save_formset(self, request: Any, form: Any, formset: Any, change: bool) -> None:
            super().save_formset(request, form, formset, change)
            Making.objects.filter(part=form.instance).update(open=False)

    declared.admin(Part, PartAdmin)
    declared.admin(Supplier, admin.ModelAdmin)
    declared.model(Part, preview="rollback")
    part, maker = Part.objects.create(name="bolt"), Supplier.objects.create(name="Acme")
    rows = {"makings": [{"maker": str(maker.pk)}]}

    shown = root.ask("update_record", model="shop.part", id=str(part.pk), rows=rows)

    [row] = shown["rows"]
    assert (row["change"], "pk" in row) == ("add", False)
    assert {one["field"]: one["after"] for one in row["diff"]} == {"part": part.pk, "maker": maker.pk, "open": False}
    assert not Making.objects.exists()


def test_a_file_is_not_stored_for_a_preview(root: Writer, declared: Declared, settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path
    declared.admin(Document, type("Admin", (admin.ModelAdmin,), {"fields": ["upload"]}))
    declared.model(Document, fields=["name", "upload"], preview="rollback")
    Document.objects.create(name="a")
    upload = {"name": "a.txt", "base64": base64.b64encode(b"text").decode()}
    about: dict[str, Any] = {"model": "shop.document", "id": "a", "values": {"upload": upload}}

    shown = root.ask("update_record", **about)
    stored = list(tmp_path.iterdir())
    done = root.ask("update_record", **about, confirm=shown["confirm"])

    assert not stored
    assert done["status"] == "applied" and Document.objects.get(name="a").upload.read() == b"text"
