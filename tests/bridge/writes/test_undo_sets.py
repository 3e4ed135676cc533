"""Any set of changes, undone at once: all is as it was before, and what somebody else changed since stays."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.utils import timezone

from demo_project.flights.models import Disruption, Flight
from mcp_django.models import Change
from tests.bridge.writes.conftest import Writer
from tests.shop.models import Part, Supplier, Tag
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db")

FLIGHT, PART = "flights.flight", "shop.part"
#: Sets of one case, and changes of a set.
SETS, MOST = 5, 5
STATUSES = ["on_time", "delayed", "cancelled"]
NOTES = ["", " a ", "fog\nand snow", "ß"]


@pytest.fixture
def agent(root: Writer, flights: list[Flight], declared: Declared) -> Writer:
    inline = type("Inline", (admin.TabularInline,), {"model": Disruption, "fields": ["kind", "severity"]})
    declared.admin(
        Flight, type("Admin", (admin.ModelAdmin,), {"fields": ["notes", "status", "plane"], "inlines": [inline]})
    )
    declared.admin(Part, type("Parts", (admin.ModelAdmin,), {"fields": ["name", "tags"]}))
    declared.admin(Supplier, type("Suppliers", (admin.ModelAdmin,), {"fields": ["name", "code", "rating"]}))
    declared.admin(Tag, admin.ModelAdmin)
    declared.model(Disruption, consent={"delete": "preview"})
    declared.model(Supplier, consent={"delete": "preview"})
    for number in range(3):
        Tag.objects.create(name=f"tag {number}")
    for number in range(3):
        Part.objects.create(name=f"part {number}").tags.set(Tag.objects.all()[: number + 1])
    return root


def change(agent: Writer, chance: random.Random) -> None:
    """One change of a random kind."""
    keys = ["1", "4", "7"]
    kind = chance.choice(["update", "rows", "links", "many", "create"])
    if kind == "update":
        values: dict[str, Any] = {
            "notes": chance.choice(["", " a ", "fog\nand snow", "ß"]),
            "status": chance.choice(STATUSES),
        }
        agent.confirmed("update_record", model=FLIGHT, id=chance.choice(keys), values=values)
    elif kind == "rows":
        key = chance.choice(keys)
        there = list(Disruption.objects.filter(flight_id=key))
        rows: list[dict[str, Any]] = [{"kind": "crew", "severity": chance.choice(["minor", "major"])}]
        if there:
            one = str(chance.choice(there).pk)
            rows = chance.choice([rows, [{"pk": one, "severity": "major"}], [{"pk": one, "delete": True}]])
        agent.confirmed("update_record", model=FLIGHT, id=key, rows={"disruptions": rows})
    elif kind == "links":
        tags = chance.sample(list(map(str, Tag.objects.values_list("pk", flat=True))), chance.randrange(1, 4))
        part = chance.choice(list(Part.objects.all()))
        agent.confirmed(
            "update_record", model=PART, id=str(part.pk), values={"tags": tags, "name": chance.choice("ab")}
        )
    elif kind == "many":
        agent.confirmed(
            "update_records", model=FLIGHT, ids=chance.sample(keys, 2), values={"status": chance.choice(STATUSES)}
        )
    else:
        code = f"N{Supplier.objects.count()}{chance.randrange(10_000)}"
        made = agent.confirmed("create_record", model="shop.supplier", values={"name": "x", "code": code, "rating": 1})
        if chance.random() < 0.5:
            key = Change.objects.get(pk=made["change"]).changed_rows.get().key
            agent.confirmed("update_record", model="shop.supplier", id=key, values={"rating": chance.randrange(2, 9)})


def everything() -> Any:
    """What can be seen of all rows, without the keys of rows that were made again."""
    disruptions = Disruption.objects.order_by("flight_id", "kind", "severity").values_list(
        "flight_id", "kind", "severity"
    )
    return [
        list(Flight.objects.order_by("pk").values_list("pk", "notes", "status", "plane")), list(disruptions),
        [(part.name, sorted(part.tags.values_list("pk", flat=True))) for part in Part.objects.order_by("pk")],
        list(Supplier.objects.order_by("pk").values_list("pk", "name", "rating")),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(50))
def test_a_random_set_of_changes_is_undone_whole(agent: Writer, seed: int) -> None:
    check_sets(agent, seed)


@pytest.mark.release("minutes of random changes")
@pytest.mark.parametrize("seed", range(50, 200))
def test_further_random_sets_of_changes_are_undone_whole(agent: Writer, seed: int) -> None:
    check_sets(agent, seed)


def check_sets(agent: Writer, seed: int) -> None:
    """Several sets of changes, each undone at once."""
    chance = random.Random(seed)
    for number in range(SETS):
        before, since = everything(), timezone.now()
        for _ in range(chance.randrange(1, MOST + 1)):
            change(agent, chance)

        if everything() != before:
            agent.confirmed("undo_change", since=since.isoformat())

        assert everything() == before, f"set {number} of seed {seed}"
        Change.objects.filter(decided_at__gte=since).update(decided_at=since - timedelta(days=1))


@pytest.mark.parametrize("seed", range(20))
def test_what_somebody_else_changed_since_is_left_alone(agent: Writer, seed: int) -> None:
    chance, since = random.Random(seed), timezone.now()
    for _ in range(MOST):
        change(agent, chance)
    agent.confirmed("update_record", model=FLIGHT, id="1", values={"notes": f"agent {seed}", "status": "cancelled"})
    Flight.objects.filter(pk=1).update(notes="somebody else")

    agent.confirmed("undo_change", since=since.isoformat())

    assert Flight.objects.values_list("notes", "status").get(pk=1) == ("somebody else", "on_time")
