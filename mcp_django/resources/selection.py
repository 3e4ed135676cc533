"""What is read of each row: the columns, computed values and related rows that an agent asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_django.conf import get_conf
from mcp_django.resources import columns
from mcp_django.resources.columns import Column, Output, RelatedCount, RelatedList
from mcp_django.resources.errors import InvalidQuery, unknown_path
from mcp_django.resources.fields import split_path
from mcp_django.resources.policy import ModelRights


def outputs(rights: ModelRights, names: Sequence[str] | None) -> list[Output]:
    """The requested values, or all columns; the primary key always first. Raises InvalidQuery."""
    if not names:
        return list(rights.columns.values())
    chosen: dict[str, Output] = {rights.primary_key.name: rights.primary_key}
    for name in names:
        if name != "pk":
            chosen.setdefault(name, _output(rights, name))
    if len({path for output in chosen.values() for path in _relations_of(output)}) > columns.MAX_RELATIONS:
        raise InvalidQuery.one("fields", f"follow more than {columns.MAX_RELATIONS} relations.")
    return list(chosen.values())


def _relations_of(output: Output) -> Iterator[str]:
    """The paths of the relations that must be followed to read it."""
    if isinstance(output, RelatedCount | RelatedList):
        # Each list takes a query of its own, for each row.
        yield output.name
    elif isinstance(output, Column):
        yield from ("__".join(step.name for step in output.via[: count + 1]) for count in range(len(output.via)))


def _output(rights: ModelRights, name: str) -> Output:
    column = rights.column(name)
    if column is not None and not (column.via and column.kind.linked):
        return column
    if name in rights.computed:
        return rights.computed[name]
    head, rest = split_path(name)
    relation = rights.relations.get(head)
    if relation is not None:
        if rest == "count":
            return RelatedCount(name, relation)
        inner = relation.related.column(rest or "pk", get_conf().MAX_RELATION_DEPTH - 1)
        if inner is not None and not inner.kind.linked:
            return RelatedList(name, relation, inner)
    raise InvalidQuery.one("fields", unknown_path("field", rights, name, readable(rights)), name)


def readable(rights: ModelRights) -> list[str]:
    """Names that ``fields`` may hold, without those of related models."""
    return [*rights.columns, *rights.computed, *rights.relations, *(f"{name}__count" for name in rights.relations)]
