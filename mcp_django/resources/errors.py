"""Errors of queries: each says what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcp_django.conf import get_conf
from mcp_django.exceptions import FieldError, field_error
from mcp_django.resources.fields import split_path
from mcp_django.unknown_names import unknown_name

if TYPE_CHECKING:
    from mcp_django.resources.policy import ModelRights


class InvalidQuery(Exception):
    """A query that is not valid. Its errors say what is wrong and what is allowed."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(error["message"] for error in errors))
        self.errors = list(errors)

    @classmethod
    def one(cls, field: str, message: str, received: Any = None) -> InvalidQuery:
        return cls([field_error(field, message, received)])


def unknown_path(what: str, rights: ModelRights, path: str, allowed: Sequence[str]) -> str:
    """The error text for a path that leads nowhere. It lists the names that are allowed at the wrong place."""
    head, rest = split_path(path)
    column, relation = rights.columns.get(head), rights.relations.get(head)
    related = relation.related if relation is not None else column.related if column is not None else None
    if not rest or related is None:
        return unknown_name(what, path, allowed)
    if path.count("__") > get_conf().MAX_RELATION_DEPTH:
        return f"follows relations more than {get_conf().MAX_RELATION_DEPTH} deep (MAX_RELATION_DEPTH)."
    names = [f"{head}__{name}" for name in related.columns]
    return unknown_name(what, path, [*names, f"{head}__count"] if relation is not None else names)
