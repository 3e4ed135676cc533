"""The table of what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_COLUMNS = (
    "", "version", "operations that work", "done though forbidden over HTTP", "tools", "bytes of tools/list",
    "a list: HTTP", "by a tool", "calls a second of a core", "times, best to worst",
)  # fmt: skip


def lines(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A row for each server, and below the table what else there is to say of it."""
    yield f"\n| {' | '.join(_COLUMNS)} |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---|"
    for name, one in found.items():
        yield f"| {name} | {' | '.join(_cells(one))} |"
    yield ""
    for name, one in found.items():
        yield from (f"- {name}: {note}" for note in _notes(one))


def _cells(one: Mapping[str, Any]) -> list[str]:
    if "error" in one:
        return [one["version"], "could not be measured", *[""] * 7]
    took = one.get("list")
    times = ["", "", "", "not one works"]
    if took is not None:
        rate = f"{1000 / took['call']:.0f}"
        times = [f"{took['http']:.1f} ms", f"{took['call']:.1f} ms", rate, ratio(took)]
    counts = [f"{one['work']} of {one['of']}", str(len(one["forbidden"])), str(one["tools"]), f"{one['bytes']:,}"]
    return [one["version"], *counts, *times]


def ratio(took: Mapping[str, float]) -> str:
    return f"{took['median']:.2f} ({took['best']:.2f} to {took['worst']:.2f})"


def _notes(one: Mapping[str, Any]) -> Iterator[str]:
    if "error" in one:
        yield one["error"]
        return
    if one.get("broken"):
        yield f"{one['broken']} of {one['requests']} requests over HTTP end otherwise once it serves the views"
    if (listed := one.get("listed", "/api/orders/")) != "/api/orders/":
        yield f"the list is {listed}"
    yield from one.get("notes", ())
