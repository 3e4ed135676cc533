"""What must be unique in a model, whichever way it is declared."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.postgres.constraints import ExclusionConstraint
from django.db import models
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Lower

from demo_project.flights.models import Flight
from mcp_django.core.db.uniqueness import unique_fields
from tests.shop.models import Gadget, Gizmo, Part, SpareGadget, Supplier, Warranty


def names_of(model: Any) -> set[tuple[Any, tuple[str, ...]]]:
    return {(one.owner, tuple(sorted(one.names))) for one in unique_fields(model)}


def test_fields_that_are_unique_are_found_with_keys_and_relations_to_one_row() -> None:
    assert names_of(Part) == {(Part, ("id",))}
    assert names_of(Warranty) == {(Warranty, ("id",)), (Warranty, ("part",))}


def test_a_child_and_a_proxy_have_what_is_unique_in_their_parents() -> None:
    own = {(Gadget, ("id",)), (Gadget, ("code",))}

    assert names_of(SpareGadget) == own
    assert names_of(Gizmo) == own | {(Gizmo, ("gadget_ptr",))}


def test_what_is_unique_for_a_day_a_month_or_a_year_is_found_with_its_date(monkeypatch: pytest.MonkeyPatch) -> None:
    tailnum, before = Flight._meta.get_field("tailnum"), names_of(Flight)

    for unit in ("date", "month", "year"):
        with monkeypatch.context() as patched:
            patched.setattr(tailnum, f"unique_for_{unit}", "departs_at")
            assert names_of(Flight) - before == {(Flight, ("departs_at", "tailnum"))}, unit


#: A constraint → the fields that decide whether a row may stand beside the others.
CONSTRAINTS: list[tuple[models.BaseConstraint, tuple[str, ...]]] = [
    (models.UniqueConstraint(fields=["name", "rating"], name="x"), ("name", "rating")),
    (models.UniqueConstraint("name", models.F("rating").desc(), name="x"), ("name", "rating")),
    (models.UniqueConstraint(Lower("name"), Coalesce("rating", 0), name="x"), ("name", "rating")),
    (models.UniqueConstraint(KT("name__first"), name="x"), ("name",)),
    (models.UniqueConstraint(fields=["name"], condition=models.Q(open=True), name="x"), ("name", "open")),
    (models.UniqueConstraint(fields=["name"], name="x", condition=~models.Q(open=True, rating__gt=3) | models.Q(
        rating=models.F("parent_id"))), ("name", "open", "parent", "rating")),
    (models.UniqueConstraint(Lower("name"), condition=models.Q(pk__gt=0), name="x"), ("id", "name")),
    (models.UniqueConstraint(fields=["name"], include=["rating"], name="x"), ("name",)),
    (ExclusionConstraint(expressions=[("name", "="), (models.F("rating"), "&&")], name="x"), ("name", "rating")),
]  # fmt: skip


def test_a_constraint_has_the_fields_of_its_expressions_and_of_its_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    before = names_of(Supplier)

    def found(constraint: models.BaseConstraint) -> set[Any]:
        monkeypatch.setattr(Supplier._meta, "constraints", [constraint])
        return names_of(Supplier) - before

    assert [found(one) for one, _ in CONSTRAINTS] == [{(Supplier, names)} for _, names in CONSTRAINTS]
    assert found(models.CheckConstraint(condition=models.Q(rating__gt=0), name="x")) == set()


def test_what_the_database_computes_counts_as_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: Any = Supplier._meta.get_field("rating")
    before = names_of(Supplier)
    monkeypatch.setattr(computed, "generated", True)
    monkeypatch.setattr(computed, "expression", Lower("name"), raising=False)
    monkeypatch.setattr(Supplier._meta, "unique_together", (("rating", "open"),))

    assert names_of(Supplier) - before == {(Supplier, ("name", "open"))}
