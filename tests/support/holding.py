"""Tools of a served test project that tell a lot, and say what is open: registered where a process is started with this
module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import transaction

from mcp_django import tool
from mcp_django.push import hub as hubs
from tests.shop.models import Tag


@tool(read_only=True)
def fill(request: Any) -> str:
    """Answers with half a megabyte."""
    return "x" * 500_000


#: Rows that ``pour`` has yielded, and its runs that were closed.
_poured = {"rows": 0, "closed": 0}


@tool(read_only=True)
def pour(request: Any) -> Iterator[list[Any]]:
    """A gigabyte."""
    try:
        for number in range(1_000_000):
            _poured["rows"] += 1
            yield [number, "x" * 1_000]
    finally:
        _poured["closed"] += 1


@tool(read_only=True)
def poured(request: Any) -> dict[str, int]:
    """What became of ``pour``."""
    return _poured


@tool
def touch(request: Any) -> str:
    """Changes every tag."""
    with transaction.atomic():
        for one in Tag.objects.all():
            one.save()
    return "touched"


@tool(read_only=True)
async def held(request: Any) -> dict[str, int]:
    """How much is open in this process."""
    [hub] = hubs._hubs.values()
    connections = [file for file in Path("/proc/self/fd").iterdir() if _is_socket(file)]
    return {"members": len(hub._members), "listeners": len(hub._listeners), "sockets": len(connections)}


def _is_socket(file: Path) -> bool:
    try:
        return str(file.readlink()).startswith("socket:")
    except OSError:
        return False
