"""Where rows are read from a replica, what is written is read from where it is written: the replica may lag."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from mcp_django.bridge.writes.tools import WRITE_TOOLS
from tests.bridge.writes.conftest import Writer
from tests.shop.models import Making, Part, Supplier
from tests.support.data import make_users, switch_on
from tests.support.declared import Declared

pytestmark = pytest.mark.django_db(databases=["default", "other"], transaction=True)

Admin: Any = admin.ModelAdmin
Inline: Any = admin.TabularInline
OF_PART = (Part, Making, Supplier)


class MakingInline(Inline):
    model = Making


class PartAdmin(Admin):
    fields = ["name"]
    inlines = [MakingInline]


class _ReadsElsewhere:
    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model in OF_PART else None

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"

    def allow_relation(self, *args: Any, **hints: Any) -> bool:
        return True


@pytest.fixture
def part(declared: Declared, settings: Any) -> Part:
    """A part that the replica knows as it was before, and with another row in its inline."""
    declared.admin(Supplier, Admin)
    declared.admin(Part, PartAdmin)
    declared.model(Part, extra_fields=["weight"])
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    for alias, name, is_open in (("other", "old", True), ("default", "new", False)):
        maker = Supplier(pk=1, name="Acme")
        maker.save(using=alias, force_insert=True)
        Part(pk=7, name=name, weight=1 if alias == "other" else 2).save(using=alias, force_insert=True)
        Making(pk=3, part_id=7, maker_id=1, open=is_open).save(using=alias, force_insert=True)
    settings.DATABASE_ROUTERS = [_ReadsElsewhere()]
    return Part.objects.using("default").get()


def test_columns_that_nobody_names_keep_what_the_primary_has_and_its_changes_are_noticed(part: Part) -> None:
    agent = Writer(make_users().admin)
    about = {"model": "shop.part", "id": "7", "values": {"name": "newer"}}
    stale = agent.ask("update_record", **about)["confirm"]
    Part.objects.using("default").update(weight=5)

    refused = agent.refused("update_record", **about, confirm=stale)
    shown = agent.ask("update_record", **about)
    done = agent.ask("update_record", **about, confirm=shown["confirm"])

    assert "What is there has changed since." in refused
    assert shown["diff"] == [{"field": "name", "before": "new", "after": "newer"}]
    assert done["diff"] == shown["diff"]
    found = Part.objects.using("default").get()
    assert (found.name, found.weight) == ("newer", 5)


def test_rows_of_inlines_are_those_of_the_primary(part: Part) -> None:
    agent = Writer(make_users().admin)

    done = agent.confirmed("update_record", model="shop.part", id="7", rows={"makings": [{"pk": "3", "open": True}]})

    [row] = done["rows"]
    assert row["diff"] == [{"field": "open", "before": False, "after": True}]
    assert Making.objects.using("default").get().open is True
