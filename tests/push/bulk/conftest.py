"""Models whose changes in bulk are watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_django.core.events.changed_rows import ModelChange
from tests.push.conftest import Heard
from tests.shop.models import Gadget, Tag, Ware
from tests.support.declared import Declared

UNKNOWN = ModelChange(None, set())


def told(*, alias: str = "default", **models_: ModelChange) -> dict[tuple[str, str], ModelChange]:
    return {(alias, f"shop.{name}"): change for name, change in models_.items()}


def written(*keys: Any) -> ModelChange:
    return ModelChange({str(key) for key in keys}, set())


def statements(work: Callable[[], Any]) -> list[str]:
    """The verbs of what the work asks of the database."""
    with CaptureQueriesContext(connection) as captured:
        work()
    return [query["sql"].split(" ", 1)[0] for query in captured]


@pytest.fixture
def watched(heard: Heard, declared: Declared) -> Iterator[Heard]:
    """What is heard of gadgets and wares."""
    declared.model(Gadget, fields="__all__")
    declared.model(Ware, fields="__all__")
    Tag.objects.create(name="the receivers are connected by now")
    heard.events.clear()
    return heard


@pytest.fixture
def gadgets(watched: Heard) -> list[Gadget]:
    gadgets = [Gadget.objects.create(name=name, code=name) for name in "abc"]
    watched.events.clear()
    return gadgets


@pytest.fixture
def wares(watched: Heard) -> list[Ware]:
    wares = [Ware.objects.create(name=name, price=price) for price, name in enumerate("abc")]
    watched.events.clear()
    return wares


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch, watched: Heard) -> None:
    monkeypatch.setattr("mcp_django.core.events.changed_rows.MAX_CHANGED_KEYS", 2)
    watched.join()
