"""What the audit trail keeps of arguments: values of filters on ``ModelMCP.audit_fields``, and of ``audit=``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.exchange.usage import Usage
from mcp_django.protocol.types import JSON

#: Characters that are kept of a text, and values that are kept of a filter or a list.
_MAX_TEXT, _MAX_VALUES = 100, 20


def note_filter(usage: Usage, model: ModelRights, conditions: Any) -> None:
    """Note the values of a filter that the model allows and that its caller may read."""
    nothing: Sequence[str] = ()
    allowed = {name for name in model.ask_hook("get_audit_fields", nothing) if model.own_column(name) is not None}
    if allowed:
        for name, value in _conditions(conditions):
            field, _, lookup = name.partition("__")
            if field in allowed and _is_lookup(model, field, lookup) and len(usage.values) < _MAX_VALUES:
                usage.values[name] = kept_value(value)


def _is_lookup(model: ModelRights, field: str, lookup: str) -> bool:
    """Whether it is a lookup of the field: anything else may lead to another model, or be a text of the client."""
    return not lookup or lookup in model.columns[field].kind.lookups


def note_arguments(usage: Usage, allowed: Iterable[str], arguments: JSON) -> None:
    """Note the values of those arguments of a tool that the project allows."""
    usage.values.update({name: kept_value(arguments[name]) for name in allowed if name in arguments})


def kept_value(value: Any) -> Any:
    """A value as the trail has it: a number, a short text, or a list of these; else the name of its type."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] + "…"
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [kept_value(one) for one in value[:_MAX_VALUES] if not isinstance(one, list | tuple | dict)]
    return type(value).__name__


def _conditions(conditions: Any) -> Iterator[tuple[str, Any]]:
    """The conditions of a filter, also those within ``any``, ``all`` and ``not``."""
    pairs: Iterable[tuple[str, Any]] = conditions.items() if isinstance(conditions, dict) else conditions
    for name, value in pairs:
        nested = value if isinstance(value, list) else [value]
        if name in ("any", "all", "not") and all(isinstance(one, dict) for one in nested):
            for one in nested:
                yield from _conditions(one)
        else:
            yield name, value
