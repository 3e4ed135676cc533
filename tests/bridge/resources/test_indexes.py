"""Which orders an index answers."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.contrib.postgres.indexes import BrinIndex, BTreeIndex, GinIndex, HashIndex
from django.db import connection, models
from django.db.models import F, Q
from django.db.models.functions import Lower

from demo_project.flights.models import Airline, Airport, Disruption, Flight, Plane, Weather
from mcp_django.bridge.resources.fields.indexes import index_for, is_indexed, own_columns
from tests.shop.models import Book, CheapProduct, Locker, Person, Product, Visit

pytestmark = pytest.mark.every_database


def made(**meta: Any) -> type[models.Model]:
    """A model without a table: columns a, b and c, of which c is unique and may be null."""
    attributes = {
        "__module__": __name__,
        "a": models.IntegerField(),
        "b": models.IntegerField(),
        "c": models.IntegerField(unique=True, null=True),
        "Meta": type("Meta", (), {"app_label": "shop_indexes", **meta}),
    }
    cls: type[models.Model] = type("Made", (models.Model,), attributes)
    del apps.all_models["shop_indexes"]
    return cls


INDEXED: list[tuple[type[models.Model], list[str]]] = [
    (Flight, []),
    (Flight, ["id"]),
    (Flight, ["-pk"]),
    (Flight, ["departs_at"]),
    (Flight, ["-departs_at"]),
    (Flight, ["departs_at", "id"]),
    (Flight, ["-departs_at", "id"]),
    (Flight, ["departs_at", "id", "status"]),
    (Flight, ["plane"]),
    (Flight, ["plane_id"]),
    (Flight, ["origin", "departs_at"]),
    (Flight, ["-origin", "-departs_at", "-id"]),
    (Flight, ["carrier", "number"]),
    (Disruption, ["-reported_at", "-id"]),
    (Disruption, ["reported_at"]),
    (Weather, ["origin"]),
    (Plane, ["manufacturer", "model", "tailnum"]),
    (Airline, ["carrier", "name"]),
    (User, ["username", "email"]),
    (Group, ["name"]),
    (Visit, ["person"]),
    (Locker, ["owner", "number"]),
    (Book, ["pk"]),
    (Book, ["id"]),
]  # fmt: skip


def test_an_order_that_an_index_begins_with() -> None:
    assert [(model, names) for model, names in INDEXED if not is_indexed(model, names)] == []


NOT_INDEXED: list[tuple[type[models.Model], list[str]]] = [
    (Flight, ["status"]),
    (Flight, ["-arrival_delay", "id"]),
    (Flight, ["status", "departs_at"]),
    (Flight, ["departs_at", "status"]),
    (Flight, ["origin", "-departs_at"]),
    (Flight, ["-origin", "departs_at", "id"]),
    (Flight, ["number"]),
    (Flight, ["origin__name"]),
    (Flight, ["?"]),
    (Flight, ["nothing"]),
    (Flight, ["disruptions"]),
    (Weather, ["time_hour", "origin"]),
    (Plane, ["model"]),
    (Airport, ["name"]),
    (Person, ["name", "badge"]),
    (Book, ["author"]),
    (CheapProduct, ["price"]),
    (Product, ["tags"]),
]  # fmt: skip


def test_an_order_that_no_index_begins_with() -> None:
    assert [(model, names) for model, names in NOT_INDEXED if is_indexed(model, names)] == []


INDEXES: list[tuple[dict[str, Any], list[str], bool]] = [
    ({"indexes": [models.Index(fields=["a", "-b"], name="x")]}, ["a", "-b"], True),
    ({"indexes": [models.Index(fields=["a", "-b"], name="x")]}, ["-a", "b"], True),
    ({"indexes": [models.Index(fields=["a", "-b"], name="x")]}, ["a", "b"], False),
    ({"indexes": [models.Index(F("a").desc(), name="x")]}, ["a"], True),
    ({"indexes": [models.Index("a", F("b").desc(), name="x")]}, ["-a", "b"], True),
    ({"indexes": [models.Index(F("a").desc(nulls_last=True), name="x")]}, ["-a"], False),
    ({"indexes": [models.Index(Lower("a"), name="x")]}, ["a"], False),
    ({"indexes": [models.Index(fields=["a"], name="x", condition=Q(b=1))]}, ["a"], False),
    ({"indexes": [models.Index(fields=["a"], name="x", opclasses=["int4_ops"])]}, ["a"], False),
    ({"indexes": [BTreeIndex(fields=["a"], name="x")]}, ["a"], True),
    ({"indexes": [HashIndex(fields=["a"], name="x")]}, ["a"], False),
    ({"indexes": [GinIndex(fields=["a"], name="x")]}, ["a"], False),
    ({"indexes": [BrinIndex(fields=["a"], name="x")]}, ["a"], False),
    ({"constraints": [models.UniqueConstraint(fields=["a", "b"], name="x")]}, ["a"], True),
    ({"constraints": [models.UniqueConstraint("a", F("b").desc(), name="x")]}, ["a", "-b"], True),
    ({"constraints": [models.UniqueConstraint(fields=["a"], condition=Q(b=1), name="x")]}, ["a"], False),
    ({"constraints": [models.CheckConstraint(condition=Q(a=1), name="x")]}, ["a"], False),
    ({"unique_together": [("a", "b")]}, ["a", "b"], True),
    ({"unique_together": [("a", "b")]}, ["b"], False),
    ({}, ["c"], True),
    # Many rows may have no c, and they are in the order of a.
    ({}, ["c", "a"], False),
]  # fmt: skip


def test_what_is_an_index_and_what_is_none() -> None:
    assert [(meta, names) for meta, names, found in INDEXES if is_indexed(made(**meta), names) is not found] == []


def test_the_index_that_would_answer_it() -> None:
    assert index_for(Flight, ["status"]) == ["status", "id"]
    assert index_for(Flight, ["-arrival_delay", "id"]) == ["-arrival_delay", "-id"]
    assert index_for(Flight, ["status", "-number"]) == ["status", "-number", "-id"]
    assert index_for(Plane, ["-year", "tailnum", "seats"]) == ["-year", "-tailnum"]


def test_of_a_declared_order_its_own_columns_count() -> None:
    declared = ["origin__name", "-plane", F("status"), F("number").desc(nulls_last=True), Lower("notes"), "?", "pk"]

    assert own_columns(Flight, declared) == ["-plane", "status", "-number", "id"]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a server decides by its statistics")
def test_the_database_sorts_where_it_is_said_that_there_is_no_index(db: None) -> None:
    for names in (
        ["departs_at", "id"], ["-departs_at", "-id"], ["origin_id", "departs_at"], ["carrier_id", "number"],
        ["arrival_delay"], ["origin_id", "-departs_at"],
    ):  # fmt: skip
        plan = Flight.objects.order_by(*names).values_list("pk", flat=True)[:20].explain()
        assert ("TEMP B-TREE" in plan) is (names in (["arrival_delay"], ["origin_id", "-departs_at"])), names
        assert is_indexed(Flight, names) is ("TEMP B-TREE" not in plan), names
