"""Where the paths of a query lead, as ``carrier__flights__number``: the models on their way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp_django.bridge.resources.fields.columns import Column, Relation
from mcp_django.bridge.resources.fields.kinds import split_path

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights


@dataclass(frozen=True, slots=True)
class Step:
    """A relation or a foreign key in a path."""

    by: Relation | Column
    #: The model that it leads to.
    rights: ModelRights
    #: What follows it: a path from there, or a lookup.
    rest: str

    @property
    def reads_rows(self) -> bool:
        """Whether rows of that model are read. A foreign key by itself is a value of its own row."""
        return isinstance(self.by, Relation) or bool(self.rest and self.rest not in self.by.kind.lookups)

    @property
    def models(self) -> Iterator[ModelRights]:
        """The model that it leads to, and the through model of a many-to-many field."""
        if isinstance(self.by, Relation) and self.by.links is not None:
            yield self.by.links
        yield self.rights


def steps(rights: ModelRights, path: str) -> Iterator[Step]:
    """The steps of a path, which may have a lookup at its end, and a minus before it."""
    rest = path.removeprefix("-")
    while rest:
        head, rest = split_path(rest)
        # No relation has the name of a column. Most paths are columns, and relations take their time to find.
        by: Column | Relation | None = rights.own_column(head) or rights.relations.get(head)
        if by is None or by.related is None:
            return
        yield Step(by, by.related, rest)
        rights = by.related


def of_filter(conditions: Any, prefix: str = "") -> Iterator[str]:
    """The paths that a valid filter names."""
    for name, value in conditions.items():
        if name in ("any", "all"):
            for item in value:
                yield from of_filter(item, prefix)
        elif name == "not":
            yield from of_filter(value, prefix)
        else:
            yield f"{prefix}{name}"
            if isinstance(value, dict):
                yield from of_filter(value, f"{prefix}{name}__")


def of_search(rights: ModelRights, search: str) -> list[str]:
    """The paths that a search looks in."""
    return [field.name for field in rights.searchable] if search else []


def smallest_group(rights: ModelRights, paths: Iterable[str]) -> int:
    """The smallest number of rows that a group of the model must have to be shown.

    It is the largest number that the model itself, or a model whose rows the paths read, asks for: groups of flights
    by the height of their airport show single airports.
    """
    read = (step for path in paths for step in steps(rights, path) if step.reads_rows)
    return max([rights.smallest_group, *(model.smallest_group for step in read for model in step.models)])
