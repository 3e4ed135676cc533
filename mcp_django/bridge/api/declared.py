"""What is declared of an operation, without a request and without a database: for people to review, and to lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_django.bridge.api.describing import what_of
from mcp_django.bridge.api.operations import Operation
from mcp_django.bridge.api.views import asked
from mcp_django.bridge.declared.consent import described
from mcp_django.protocol.types import JSON


def entry_of(operation: Operation) -> JSON:
    """An operation in the inventory.

    ``{"request", "what", "who", "authentication", "filters", "serializer", "fields", "consent"}``: ``who`` are its
    permission classes and ``filters`` what its filters are declared for; ``fields`` are those of the serializer that is
    declared. What is known only to a request is left out.
    """
    serializer = operation.option("serializer_class")
    found: JSON = {
        "request": f"{operation.method} {operation.route.text}",
        "what": what_of(operation),
        "who": _names(operation.option("permission_classes")),
        "authentication": _names(operation.option("authentication_classes")),
        "filters": _filters(operation) if operation.is_safe else [],
        "serializer": getattr(serializer, "__name__", ""),
        "fields": _fields(serializer),
    }
    if operation.native is not None:
        found |= operation.native.declared()
    if not operation.is_safe:
        found["consent"] = described(operation.consent)
    return found


def _names(classes: Any) -> list[str]:
    return [getattr(one, "__name__", str(one)) for one in classes or ()]


def _filters(operation: Operation) -> Sequence[str]:
    """The names by which rows can be found."""
    filterset = operation.option("filterset_class")
    found = list(operation.option("filterset_fields") or getattr(filterset, "base_filters", None) or ())
    for name in ("search_fields", "ordering_fields"):
        declared = operation.option(name)
        if isinstance(declared, list | tuple) and declared:
            found.append(f"{name.partition('_')[0]}: {', '.join(map(str, declared))}")
    return found


def _fields(serializer: Any) -> list[str]:
    """The fields of the serializer that the view declares."""
    if not isinstance(serializer, type):
        return []
    return sorted(asked(serializer.__name__, lambda: list(serializer().fields)) or ())
