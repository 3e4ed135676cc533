"""Bulk changes in transactions, on several databases and in async code."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import LazySettings
from django.db import transaction

from mcp_django import changed
from mcp_django.core.events.changed_rows import ModelChange
from tests.push.bulk.conftest import told, written
from tests.push.conftest import Heard
from tests.shop.models import Ware

pytestmark = pytest.mark.every_database


TWO_DATABASES = pytest.mark.django_db(transaction=True, databases=["default", "other"])


# Transactions and databases.


def test_bulk_changes_are_told_at_the_commit_and_those_of_a_rolled_back_savepoint_are_not(watched: Heard) -> None:
    with transaction.atomic():
        Ware.objects.bulk_create([Ware(name="a"), Ware(name="b")])
        with pytest.raises(RuntimeError), transaction.atomic():
            Ware.objects.bulk_create([Ware(name="lost")])
            Ware.objects.filter(name="a").update(price=1)
            raise RuntimeError
        with transaction.atomic():
            Ware.objects.filter(name="b").update(price=1)
        Ware.objects.bulk_update([Ware(name="b", price=3)], ["price"])
        before = list(watched.events)

    assert before == []
    assert watched.changes() == told(ware=written("a", "b"))


def test_a_rolled_back_bulk_change_is_never_told(watched: Heard, wares: list[Ware]) -> None:
    with transaction.atomic():
        Ware.objects.bulk_create([Ware(name="lost")])
        Ware.objects.update(price=3)
        Ware.objects.filter(name="a")._raw_delete("default")
        changed(Ware)
        transaction.set_rollback(True)

    assert watched.events == []


@TWO_DATABASES
def test_bulk_changes_name_the_database_that_they_happened_on(watched: Heard) -> None:
    there = Ware.objects.using("other")
    there.bulk_create([Ware(name="a"), Ware(name="b")])
    there.filter(name="a").update(price=1)
    there.filter(name="b")._raw_delete("other")
    changed(Ware, ["c"], using="other")

    assert watched.changes() == told(alias="other", ware=ModelChange({"a", "b", "c"}, {"b"}))


class WritesElsewhere:
    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "other" if model is Ware else None


@TWO_DATABASES
def test_a_router_says_where_a_bulk_change_happens(watched: Heard, settings: LazySettings) -> None:
    settings.DATABASE_ROUTERS = [WritesElsewhere()]

    Ware.objects.bulk_create([Ware(name="a"), Ware(name="b")])
    Ware.objects.filter(name="a").update(price=1)
    Ware.objects.bulk_update([Ware(name="b")], ["price"])
    changed(Ware, ["c"])

    assert watched.changes() == told(alias="other", ware=written("a", "b", "c"))


def test_without_autocommit_a_bulk_change_is_made_and_not_told(watched: Heard, wares: list[Ware]) -> None:
    transaction.set_autocommit(False)
    try:
        Ware.objects.filter(name="a").update(price=7)
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    assert Ware.objects.get(name="a").price == 7
    assert watched.events == []


# Async code.


def test_the_async_methods_are_told(watched: Heard) -> None:
    async def work() -> None:
        await Ware.objects.abulk_create([Ware(name=name) for name in "abc"])
        await Ware.objects.abulk_update([Ware(name="a", price=1)], ["price"])
        await Ware.objects.filter(name="b").aupdate(price=1)

    async_to_sync(work)()

    assert [{**changes} for changes, _ in watched.events] == [
        told(ware=written("a", "b", "c")),
        told(ware=written("a")),
        told(ware=written("b")),
    ]
