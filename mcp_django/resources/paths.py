"""Where a path leads, as ``carrier__flights__number``: the models on its way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcp_django.resources.columns import Column, Relation
from mcp_django.resources.kinds import split_path

if TYPE_CHECKING:
    from mcp_django.resources.policy import ModelRights


@dataclass(frozen=True, slots=True)
class Step:
    """A relation or a foreign key in a path."""

    by: Relation | Column
    #: The model that it leads to.
    rights: ModelRights
    #: What follows it: a path from there, or a lookup.
    rest: str


def steps(rights: ModelRights, path: str) -> Iterator[Step]:
    """The steps of a path, which may have a lookup at its end, and a minus before it."""
    rest = path.removeprefix("-")
    while rest:
        head, rest = split_path(rest)
        # No relation has the name of a column. Most paths are columns, and relations take their time to find.
        by: Column | Relation | None = rights.columns.get(head) or rights.relations.get(head)
        if by is None or by.related is None:
            return
        yield Step(by, by.related, rest)
        rights = by.related
