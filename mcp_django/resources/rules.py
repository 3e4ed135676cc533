"""Says that a rule of the project limits which rows a caller sees, so that an empty answer is not read as a fact.

The note is about the rule and not about the rows: it is the same whether or not a row is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mcp_django.resources.aggregates import AggregateQuery
from mcp_django.resources.columns import Relation
from mcp_django.resources.paths import steps
from mcp_django.resources.policy import ModelRights
from mcp_django.resources.rows import RecordQuery
from mcp_django.resources.selection import record_outputs
from mcp_django.types import JSON


def of_model(rights: ModelRights) -> list[str]:
    """The note of a model by itself; none where its rows are not limited."""
    return _notes(rights, ())


def of_records(rights: ModelRights, query: RecordQuery) -> list[str]:
    """The note of a valid query for rows, and of the models that it leads to."""
    # Without fields every column is read, and a foreign key to a hidden row reads as null.
    read = () if query.fields else rights.columns.values()
    paths = [*query.fields, *query.order_by, *_conditions(query.filter), *_searched(rights, query.search)]
    return _notes(rights, paths, [column.related for column in read if column.related is not None])


def of_groups(rights: ModelRights, query: AggregateQuery) -> list[str]:
    """The note of a valid query for measures, and of the models that it leads to."""
    named = [path for paths in query.paths.values() for path in paths]
    filters = [query.filter, *query.conditions.values()]
    met = [path for conditions in filters for path in _conditions(conditions)]
    return _notes(rights, [*named, *met, *_searched(rights, query.search)])


def of_record(rights: ModelRights, fields: Sequence[str]) -> list[str]:
    """The note of the models that the fields of a record lead to. The record itself was found."""
    paths = fields or [output.name for output in record_outputs(rights)]
    return _limited(model for path in paths for model in _models(rights, path))


def of_filter(rights: ModelRights, conditions: JSON) -> list[str]:
    """The note of a valid filter, and of the models that it leads to."""
    return _notes(rights, _conditions(conditions))


def _notes(rights: ModelRights, paths: Iterable[str], beside: Iterable[ModelRights] = ()) -> list[str]:
    return _limited([rights, *beside, *(model for path in paths for model in _models(rights, path))])


def _limited(models: Iterable[ModelRights]) -> list[str]:
    limited = dict.fromkeys(model.label for model in models if model.scoped)
    return [f"A rule of this project limits which rows of {', '.join(limited)} you see."] if limited else []


def _conditions(conditions: Any, prefix: str = "") -> Iterator[str]:
    """The paths that a valid filter names."""
    for name, value in conditions.items():
        if name in ("any", "all"):
            for item in value:
                yield from _conditions(item, prefix)
        elif name == "not":
            yield from _conditions(value, prefix)
        else:
            yield f"{prefix}{name}"
            if isinstance(value, dict):
                yield from _conditions(value, f"{prefix}{name}__")


def _searched(rights: ModelRights, search: str) -> list[str]:
    return [field.name for field in rights.searchable] if search else []


def _models(rights: ModelRights, path: str) -> Iterator[ModelRights]:
    """The models that a path leads to. A foreign key by itself leads to one: the key of a hidden row reads as null."""
    for step in steps(rights, path):
        if isinstance(step.by, Relation) and step.by.links is not None:
            yield step.by.links
        yield step.rights
