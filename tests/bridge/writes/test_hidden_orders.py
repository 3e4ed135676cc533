"""The order in which rows are listed tells nothing of a column that the agent may not read."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import ModelAdmin, TabularInline

from tests.bridge.writes.conftest import Writer
from tests.shop.models import Pick, Supplier
from tests.support.declared import Declared

pytestmark = [pytest.mark.django_db, pytest.mark.every_database]


class Rated(ModelAdmin[Any]):
    """Lists suppliers by a rating that agents may not read."""

    ordering = ("rating",)


@pytest.fixture
def suppliers(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> list[Supplier]:
    """Two of them, whose order by the rating is another one than that by the key."""
    monkeypatch.setattr(Supplier._meta, "ordering", ["rating"])
    declared.admin(Supplier, Rated)
    declared.model(Supplier, exclude=["rating"])
    return [Supplier.objects.create(name=name, code=name, rating=rating) for name, rating in (("a", 2), ("b", 1))]


@pytest.fixture
def picks(declared: Declared, suppliers: list[Supplier]) -> None:
    declared.admin(Pick, ModelAdmin)
    declared.model(Pick, fields="__all__")


def test_ranking_rows_by_a_hidden_column_in_the_choices_of_a_form(
    root: Writer, picks: None, suppliers: list[Supplier]
) -> None:
    described = root.ask("describe_form", model="shop.pick")["fields"]["supplier"]

    assert described["enum"] == [str(one.pk) for one in suppliers]


def test_choices_keep_the_order_of_a_column_that_the_agent_reads(
    root: Writer, picks: None, suppliers: list[Supplier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rated, "ordering", ("rating", "-name"))
    described = root.ask("describe_form", model="shop.pick")["fields"]["supplier"]

    assert described["enum"] == [str(one.pk) for one in reversed(suppliers)]


def test_ranking_rows_by_a_hidden_column_in_the_links_of_a_record(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pick._meta, "ordering", ["size"])
    declared.admin(Pick, ModelAdmin)
    declared.model(Pick, exclude=["size"])
    row, *near = (Pick.objects.create(size=size) for size in (None, 2, 1))
    row.near.set(near)
    of_row = {"model": "shop.pick", "id": str(row.pk)}
    asked = {"model": "shop.pick", "filter": {"pk": row.pk}, "fields": ["near__pk", "near__colour"]}
    keys = [str(one.pk) for one in near]

    unlinked = root.ask("preview_change", **of_row, operation="update", values={"near": []})["diff"]
    made = root.confirmed("update_record", **of_row, values={"near": []})["diff"]
    linked = root.confirmed("update_record", **of_row, values={"near": keys})["diff"]

    assert unlinked == made == [{"field": "near", "before": keys, "after": []}]
    assert linked == [{"field": "near", "before": [], "after": keys}]
    assert list(map(str, root.ask("get_record", **of_row)["near"])) == keys
    assert [str(key) for key, _ in root.ask("find_records", **asked)["rows"][0][1]["rows"]] == keys


def test_ranking_rows_by_a_hidden_column_in_the_rows_of_an_inline(
    root: Writer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Picks(TabularInline):  # type: ignore[type-arg]
        model = Pick
        fields = ("size", "colour")
        ordering = ("size",)
        extra = 0

    declared.admin(Supplier, type("A", (ModelAdmin,), {"inlines": [Picks], "fields": ["name"]}))
    declared.model(Pick, fields=["colour", "supplier"], consent={"update": "preview"})
    row = Supplier.objects.create(name="a", code="a")
    keys = [str(Pick.objects.create(supplier=row, size=size).pk) for size in (2, 1)]
    changed = {"pick": [{"pk": key, "colour": "red"} for key in keys]}

    shown = root.ask("update_record", model="shop.supplier", id=str(row.pk), values={}, rows=changed)

    assert [one["pk"] for one in shown["rows"]] == keys
