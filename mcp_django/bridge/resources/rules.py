"""Says that a rule of the project limits which rows a caller sees, so that an empty answer is not read as a fact.

The note is about the rule and not about the rows: it is the same whether or not a row is hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery
from mcp_django.bridge.resources.policy import paths
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.rows import RecordQuery
from mcp_django.bridge.resources.reading.selection import record_outputs
from mcp_django.protocol.types import JSON


def of_model(rights: ModelRights) -> list[str]:
    """The note of a model by itself; none where its rows are not limited."""
    return _notes(rights, ())


def of_records(rights: ModelRights, query: RecordQuery) -> list[str]:
    """The note of a valid query for rows, and of the models that it leads to."""
    # Without fields every column is read, and a foreign key to a hidden row reads as null.
    read = () if query.fields else rights.columns.values()
    named = [*query.fields, *query.order_by, *paths.of_filter(query.filter), *paths.of_search(rights, query.search)]
    return _notes(rights, named, [column.related for column in read if column.related is not None])


def of_groups(rights: ModelRights, query: AggregateQuery) -> list[str]:
    """The note of a valid query for measures, and of the models that it leads to."""
    return _notes(rights, query.all_paths(rights))


def of_record(rights: ModelRights, fields: Sequence[str]) -> list[str]:
    """The note of the models that the fields of a record lead to. The record itself was found."""
    named = fields or [output.name for output in record_outputs(rights)]
    return _limited(model for path in named for model in _models(rights, path))


def of_filter(rights: ModelRights, conditions: JSON) -> list[str]:
    """The note of a valid filter, and of the models that it leads to."""
    return _notes(rights, paths.of_filter(conditions))


def _notes(rights: ModelRights, named: Iterable[str], beside: Iterable[ModelRights] = ()) -> list[str]:
    return _limited([rights, *beside, *(model for path in named for model in _models(rights, path))])


def _limited(models: Iterable[ModelRights]) -> list[str]:
    limited = dict.fromkeys(model.label for model in models if model.scoped)
    return [f"A rule of this project limits which rows of {', '.join(limited)} you see."] if limited else []


def _models(rights: ModelRights, path: str) -> Iterator[ModelRights]:
    """The models that a path leads to. A foreign key by itself leads to one: the key of a hidden row reads as null."""
    for step in paths.steps(rights, path):
        yield from step.models
