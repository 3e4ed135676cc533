"""The laboratory itself notices what an agent does in another way than a person."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import ModelAdmin

from mcp_django.bridge.writes import twin
from tests.bridge.writes.lab import driving
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Ledger, Order

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


SAVE_MODEL = twin._Hooks.save_model


def save_another_value(self: Any, request: Any, obj: Any, *args: Any) -> None:
    obj.total = 4
    SAVE_MODEL(self, request, obj, *args)


def save_past_a_hook(self: Any, *args: Any) -> None:
    ModelAdmin.save_related(self, *args)


def save_twice(self: Any, request: Any, form: Any, *args: Any) -> None:
    self.mcp_run.stop()
    form.instance.save()
    super(twin._Hooks, self).save_related(request, form, *args)


def write_too_early(self: Any, *args: Any) -> None:
    Ledger.objects.create(name="too early")
    SAVE_MODEL(self, *args)


#: What the agent does in the place of a hook or a function, and what is said of it.
SPOILT: dict[str, tuple[Any, str, Any, str]] = {
    "past the admin": (driving, "apply", lambda *_, **__: Order.objects.update(total=3), "0 views have written"),
    "another value": (twin._Hooks, "save_model", save_another_value, "'total': 4"),
    "a hook is left out": (
        twin._Hooks, "save_related", save_past_a_hook, "Watched.save_related: None by an agent, 1 by a person",
    ),
    "twice": (twin._Hooks, "save_related", save_twice, "different signals"),
    "a preview that writes": (
        twin._Hooks, "save_model", write_too_early, "signals were sent by more than the view that writes",
    ),
    "no history": (twin._Hooks, "log_change", lambda *_: None, "different history"),
}  # fmt: skip


def test_what_an_agent_does_otherwise_is_noticed(lab: Lab, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    for what, (owner, name, spoilt, words) in SPOILT.items():
        with monkeypatch.context() as patched, pytest.raises(AssertionError) as raised:
            patched.setattr(owner, name, spoilt, raising=False)
            lab.same(Order, order, values={"total": 3})

        assert words in str(raised.value), what
    lab.admin(Ledger)
    with pytest.raises(AssertionError, match="nothing was written"):
        lab.same(Ledger, Ledger.objects.create(name="May"), values={"name": "May"})
