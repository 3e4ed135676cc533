"""A deed that an agent may not do as a person may, or that has another outcome, is found."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from mcp_django.bridge.writes.form_data import FormData
from tests.projects.conftest import Served
from tests.projects.deeds import Deeds
from tests.projects.rows import Factory
from tests.projects.written import Written
from tests.shop.models import Product

SKU = "small shop.product: create: sku is stored otherwise"


class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    fields = ("name", "price", "active")
    actions = ["empty"]

    def empty(self, request: Any, queryset: Any) -> None: ...


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    # It is also how long a call may take, on a busy machine too.
    monkeypatch.setattr("tests.projects.deeds._SECONDS", 2)


def test_what_is_done_and_written_as_by_a_person_is_no_difference(served: Served, factory: Factory, root: User) -> None:
    site = served(ProductAdmin)
    deeds, written = Deeds(site, root, factory), Written(site, root, factory)
    before = list(Product.objects.values())

    # Nothing is committed in a test, so that nobody hears of it, and defaults are not held.
    assert list(deeds.lines()) == ["small shop.product: saved: nobody is told"]
    assert list(written.lines()) == [SKU]
    assert deeds.tried == {"delete": 1, "action": 1, "saved": 1}
    assert written.tried == dict.fromkeys(("create", "create by both", "update", "update by both"), 1)
    assert list(Product.objects.values()) == before


def test_what_an_agent_writes_otherwise_is_told(
    served: Served, factory: Factory, root: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = FormData.write
    monkeypatch.setattr(FormData, "write", lambda self, bound, value: bound.name == "name" or write(self, bound, value))

    lines = list(Written(served(ProductAdmin), root, factory).lines())

    assert lines == [
        f"small shop.product: {operation}: refused for name, in a browser made" for operation in ("create", "update")
    ]


def test_what_an_agent_may_not_do_is_told(served: Served, factory: Factory, root: User) -> None:
    site = served(ProductAdmin, writable={"create"})

    deeds, written = Deeds(site, root, factory).lines(), Written(site, root, factory).lines()

    assert "small shop.product: delete: Unknown tool: delete_record, in a browser made" in deeds
    assert [line.partition(" for ")[0] for line in written] == [SKU, "small shop.product: update: refused"]
