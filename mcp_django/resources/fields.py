"""Fields of models, and paths to them, whoever may read them."""

from __future__ import annotations

from django.db import models

from mcp_django.types import AnyField


def split_path(path: str) -> tuple[str, str]:
    """The first name of a path, and the rest. A path that ends in ``__`` has no rest, and is taken as one name."""
    head, _, rest = path.partition("__")
    return (head, rest) if rest else (path, "")


def column_of(field: AnyField) -> AnyField:
    """The field whose values the column holds: the target of a foreign key, the output of a generated field."""
    while True:
        if isinstance(field, models.ForeignKey):
            field = field.target_field
        elif isinstance(field, models.GeneratedField):
            field = field.output_field  # type: ignore[assignment]
        else:
            return field


def is_parent_link(field: AnyField) -> bool:
    """Whether the relation leads from a child of multi-table inheritance to the rest of the same row."""
    return bool(getattr(field.remote_field, "parent_link", False))
