"""The laboratory itself notices what an agent does in another way than a person."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import ModelAdmin

from mcp_django.writes import twin
from tests.writes.lab import driving
from tests.writes.lab.conftest import Lab
from tests.writes.lab.models import Ledger, Order

Admin: Any = admin.ModelAdmin


class Watched(Admin):
    fields = ["name", "total"]

    def save_related(self, *args: Any) -> None:
        super().save_related(*args)

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        Ledger.objects.create(name=obj.name)


@pytest.fixture
def order(lab: Lab) -> Order:
    lab.admin(Order, Watched)
    return Order.objects.create(name="first")


def spoil(monkeypatch: pytest.MonkeyPatch, name: str, hook: Any) -> None:
    """Let the twin do something else in the place of a hook."""
    monkeypatch.setattr(twin._Hooks, name, hook)


def differs(lab: Lab, order: Order) -> str:
    with pytest.raises(AssertionError) as raised:
        lab.same(Order, order, values={"total": 3})
    return str(raised.value)


def test_a_row_that_is_written_past_the_admin_is_noticed(
    lab: Lab, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving, "apply", lambda *args, **given: Order.objects.update(total=3))

    assert "0 views have written" in differs(lab, order)


def test_a_value_that_differs_is_noticed(lab: Lab, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model = twin._Hooks.save_model

    def save_another(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        obj.total = 4
        save_model(self, request, obj, form, change)

    spoil(monkeypatch, "save_model", save_another)

    assert "'total': 4" in differs(lab, order)


def test_a_hook_that_is_left_out_is_noticed(lab: Lab, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_related(self: Any, *args: Any) -> None:
        ModelAdmin.save_related(self, *args)

    spoil(monkeypatch, "save_related", save_related)

    assert "Watched.save_related: None by an agent, 1 by a person" in differs(lab, order)


def test_a_row_that_is_saved_twice_is_noticed(lab: Lab, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_related(self: Any, request: Any, form: Any, formsets: Any, change: bool) -> None:
        self.mcp_pass.stop()
        form.instance.save()
        super(twin._Hooks, self).save_related(request, form, formsets, change)

    spoil(monkeypatch, "save_related", save_related)

    assert "different signals" in differs(lab, order)


def test_a_preview_that_writes_is_noticed(lab: Lab, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model = twin._Hooks.save_model

    def write_first(self: Any, *args: Any) -> None:
        Ledger.objects.create(name="too early")
        save_model(self, *args)

    spoil(monkeypatch, "save_model", write_first)

    assert "signals were sent by more than the view that writes" in differs(lab, order)


def test_a_change_without_history_is_noticed(lab: Lab, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin._Hooks, "log_change", lambda *args: None, raising=False)

    assert "different history" in differs(lab, order)


def test_a_change_that_changes_nothing_is_noticed(lab: Lab, order: Order) -> None:
    lab.admin(Ledger)

    with pytest.raises(AssertionError, match="nothing was written"):
        lab.same(Ledger, Ledger.objects.create(name="May"), values={"name": "May"})
