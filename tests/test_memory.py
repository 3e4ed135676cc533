"""What a process remembers for TOKEN_CACHE_SECONDS."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.utils import timezone

from mcp_django.core import memory
from mcp_django.core.memory import Memory


@pytest.fixture
def clock(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 10}
    now = [1_000.0]
    monkeypatch.setattr(memory.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def kept(clock: list[float]) -> Memory[str]:
    kept: Memory[str] = Memory(size=2)
    kept.keep("a", "first", kept.generation)
    return kept


def test_a_value_is_remembered_for_a_time(kept: Memory[str], clock: list[float]) -> None:
    clock[0] += 9.9
    assert kept.get("a") == "first"

    clock[0] += 0.2
    assert kept.get("a") is None


def test_a_value_is_not_remembered_after_it_expires(kept: Memory[str], clock: list[float]) -> None:
    kept.keep("a", "ends soon", kept.generation, timezone.now() + timedelta(seconds=2))
    assert kept.get("a") == "ends soon"

    clock[0] += 2
    assert kept.get("a") is None
    kept.keep("b", "over", kept.generation, timezone.now())
    assert kept.get("b") is None


def test_the_oldest_gives_way(kept: Memory[str]) -> None:
    kept.keep("b", "second", kept.generation)
    kept.keep("a", "again", kept.generation)
    kept.keep("c", "third", kept.generation)

    assert [kept.get(name) for name in "abc"] == ["again", None, "third"]


def test_what_was_read_before_something_was_forgotten_is_not_kept(kept: Memory[str]) -> None:
    for forget, left in (
        (lambda: kept.forget("other"), "first"), (lambda: kept.forget("a"), None), (kept.clear, None),
    ):  # fmt: skip
        read_at = kept.generation
        forget()
        kept.keep("b", "stale", read_at)

        assert (kept.get("b"), kept.get("a")) == (None, left)


def test_nothing_is_remembered_where_the_setting_is_zero(settings: LazySettings, kept: Memory[str]) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 0}

    kept.keep("b", "second", kept.generation)

    assert (kept.get("a"), list(kept.entries)) == (None, ["a"])
