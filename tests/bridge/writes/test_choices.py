"""A choice is written, and filtered by, as describe_models and describe_form give it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin import ModelAdmin, TabularInline

from tests.bridge.writes.conftest import Writer, errors_of
from tests.shop.models import Part, Pick, Supplier, Tag
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

CHOOSING = [field.name for field in Pick._meta.fields if field.choices]


@pytest.fixture
def picks(root: Writer, declared: Declared) -> Writer:
    declared.admin(Pick, ModelAdmin)
    declared.model(Pick, fields="__all__")
    return root


@pytest.mark.parametrize("name", CHOOSING)
def test_a_choice_is_written_and_found_as_it_is_described(picks: Writer, name: str) -> None:
    field: Any = Pick._meta.get_field(name)
    stored = [value for value, _ in field.flatchoices if value is not None]
    in_models = picks.ask("describe_models", model="shop.pick")["fields"][name]["choices"]
    in_form = picks.ask("describe_form", model="shop.pick")["fields"][name]["enum"]

    for given, expected in zip([*in_models, *in_form], stored * 2, strict=True):
        row = Pick.objects.create()
        of_row = {"model": "shop.pick", "id": str(row.pk)}
        picks.confirmed("update_record", **of_row, values={name: given})
        picks.confirmed("update_record", **of_row, values={"near": []})

        row.refresh_from_db()
        assert getattr(row, name) == expected and type(getattr(row, name)) is type(expected)
        shown = picks.ask("get_record", **of_row)[name]
        assert picks.ask("update_record", **of_row, values={name: shown})["diff"] == []
        if name != "data":
            found = picks.ask("find_records", model="shop.pick", filter={name: given})
            assert len(found["rows"]) == 1 and "notes" not in found, found
        row.delete()


def test_a_value_that_is_no_choice_is_refused_with_the_choices(picks: Writer) -> None:
    row = Pick.objects.create()
    for name, given, message in [
        ("is_sold", "yes", "must be true or false."),
        ("size", 3, "size has no choice '3'. Allowed: 1, 2."),
        ("day", "2024-01-30", "day has no choice '2024-01-30'. Did you mean 2024-01-31? Allowed: 2024-01-31."),
        ("span", "P1D", "span has no choice 'P1DT00H00M00S'. Did you mean P1DT02H00M00S? Allowed: P1DT02H00M00S."),
        ("data", "y", "data has no choice 'y'. Allowed: 7, 1.5, x."),
    ]:
        told = picks.told("update_record", model="shop.pick", id=str(row.pk), values={name: given})
        assert errors_of(told) == [(f"values.{name}", message)]


def test_a_relation_without_a_name_on_the_other_side_is_not_offered(picks: Writer, declared: Declared) -> None:
    for model in (Tag, Supplier):
        declared.admin(model, ModelAdmin)

    described = {
        label: picks.ask("describe_models", model=label).get("relations", {})
        for label in ("shop.pick", "shop.tag", "shop.supplier")
    }

    assert described["shop.pick"] == {"tags": "shop.tag", "near": "shop.pick"}
    assert not any("pick" in name or "+" in name for name in described["shop.tag"])
    assert not any("pick" in name or "+" in name for name in described["shop.supplier"])


def test_an_inline_of_such_a_relation_has_the_name_of_its_model(root: Writer, declared: Declared) -> None:
    class Picks(TabularInline):  # type: ignore[type-arg]
        model = Pick
        fields = ("size", "supplier")
        extra = 0

    declared.admin(Supplier, type("A", (ModelAdmin,), {"inlines": [Picks], "fields": ["name"]}))
    assert root.ask("describe_form", model="shop.supplier")["inlines"]["pick"]["operations"] == [
        "create", "update", "delete",
    ]  # fmt: skip
    row = Supplier.objects.create(name="a")
    rows = {"pick": [{"size": 1}]}
    root.confirmed("update_record", model="shop.supplier", id=str(row.pk), values={"name": "b"}, rows=rows)
    Pick.objects.create(size=1)
    asked = {"filter": {"pick": {"size": 1}}, "fields": ["name", "pick__count"], "order_by": ["-pick__count"]}

    assert root.ask("find_records", model="shop.supplier", **asked)["rows"] == [[row.pk, "b", 1]]


@pytest.mark.parametrize(("options", "keys", "is_found"), [
    ({"fields": ["name"]}, True, True),
    # Shown in groups alone, it has no rows to choose from, and none to find.
    ({"fields": ["name"], "rows": False}, False, False),
], ids=["listed", "without rows"])  # fmt: skip
def test_a_related_row_is_offered_as_its_model_shows_rows(
    root: Writer, declared: Declared, options: dict[str, Any], keys: bool, is_found: bool
) -> None:
    Supplier.objects.create(name="Ann", code="A", rating=1)
    declared.model(Supplier, **options)
    declared.admin(Part, ModelAdmin)
    declared.model(Part, fields="__all__")

    field = root.ask("describe_form", model="shop.part")["fields"]["supplier"]

    assert ("find_records finds it" in str(field)) is is_found
    assert ("enum" in field) is keys, field
