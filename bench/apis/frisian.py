"""frisian-mcp: it finds the viewsets by itself."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from bench.apis.cases import Asked

PATH = "/mcp"
PACKAGE = "frisian-mcp"
NOTES: list[str] = []
_tools: dict[tuple[Any, Any], Any] = {}


def prepare() -> None:
    """Look for the viewsets, as the first request does."""
    from frisian_mcp.backends.discovery import DRFSyncDiscovery  # type: ignore[import-not-found]

    for one in DRFSyncDiscovery().discover_tools():
        _tools[one.view_class, one.action] = one


def tool(one: Asked) -> str | None:
    found = _tool(one)
    return None if found is None else str(found.name)


def _tool(one: Asked) -> Any:
    view: Any = one.match.func
    action = getattr(view, "actions", {}).get(one.case.method.lower())
    return _tools.get((getattr(view, "cls", None), action))


def arguments(one: Asked) -> dict[str, Any]:
    """The key of a record is its ``id``; a list as the body is ``items``. The answer of a write is left short."""
    body = one.body()
    keys = {"id" if name == "pk" else name: value for name, value in one.kwargs.items()}
    given = {**keys, **one.query, **({"items": body} if isinstance(body, list) else body or {})}
    schemas = _tool(one).input_schema["properties"]
    return {name: _fitting(value, schemas.get(name, {})) for name, value in given.items()}


def _fitting(value: Any, schema: dict[str, Any]) -> Any:
    """A decimal or a key in the type that the schema wants."""
    if schema.get("type") == "number":
        with suppress(TypeError, ValueError):
            return float(value)
    return str(value) if "oneOf" in schema and isinstance(value, int) else value
