"""Errors of queries: each says what is wrong and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mcp_django.bridge.resources.fields.kinds import split_path
from mcp_django.conf import get_conf
from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights


class InvalidQuery(Exception):
    """A query that is not valid. Its errors say what is wrong and what is allowed."""

    #: As that of ToolError.
    reason = "INVALID_ARGUMENTS"

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(error["message"] for error in errors))
        self.errors = list(errors)

    @classmethod
    def one(cls, field: str, message: str, received: Any = None) -> InvalidQuery:
        return cls([field_error(field, message, received)])


#: Of a longer name, only so much is looked at.
_MAX_NAME_CHARS = 100
#: The number of mistakes that are reported at once.
MAX_MISTAKES = 20


class Mistakes:
    """Collects the errors of the parts of a query, so that all of them are reported at once.

    Each part is a block ``with mistakes:``. An InvalidQuery ends its block, and the code after the block goes on.
    """

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def __enter__(self) -> Mistakes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if isinstance(error, InvalidQuery):
            self.errors += error.errors
            return True
        return False

    def raise_any(self) -> None:
        """Raises InvalidQuery if there was a mistake."""
        if self.errors:
            raise InvalidQuery(self.errors[:MAX_MISTAKES])


def meant_path(name: str, is_known: Callable[[str], bool], parts: Iterable[str] = ()) -> str:
    """The path that an unknown name stands for; empty if there is none.

    ``carrier__name`` for ``carrier_name`` and ``carrier.name``, and one of the ``parts`` for the part alone:
    ``departs_at__month`` for ``month``.
    """
    name = name[:_MAX_NAME_CHARS]
    for place, letter in enumerate(name):
        path = f"{name[:place]}__{name[place + 1 :]}".replace(".", "__")
        if letter in "._" and is_known(path):
            return path
    return next((path for path in parts if path.endswith(f"__{name}")), "")


def meant_relation(rights: ModelRights, name: str) -> str:
    """The field that points to what an unknown name is called; empty if there is none.

    ``carrier, which points to flights.airline`` for ``airline``, ``airlines`` and ``airline_id``.
    """
    wanted = name[:_MAX_NAME_CHARS].lower().removesuffix("_id").replace(" ", "_")
    related = [(column.name, column.related, "points to") for column in rights.columns.values()]
    related += [(name, relation.related, "leads to rows of") for name, relation in rights.relations.items()]
    for known, model, how in related:
        if model is not None and wanted in _names_of(model):
            return f"{known}, which {how} {model.label}"
    return ""


def _names_of(rights: ModelRights) -> set[str]:
    """What a model is called."""
    meta = rights.model._meta
    names = (str(meta.model_name), str(meta.verbose_name), str(meta.verbose_name_plural))
    return {name.lower().replace(" ", "_") for name in names}


def unknown_path(
    what: str,
    rights: ModelRights,
    path: str,
    allowed: Sequence[str],
    *,
    is_known: Callable[[str], bool] | None = None,
    parts: Iterable[str] = (),
) -> str:
    """The error text for a path that leads nowhere. It lists the names that are allowed at the wrong place.

    ``is_known``: whether another path may be suggested; by default, each that leads to a column. ``parts``: see
    ``meant_path``.
    """
    head, rest = split_path(path)
    relation, related = rights.relations.get(head), rights.beyond(head)
    if not rest or related is None:
        meant = meant_path(path, is_known or (lambda other: rights.column(other) is not None), parts)
        return unknown_name(what, path, allowed, meant or meant_relation(rights, path))
    if path.count("__") > get_conf().MAX_RELATION_DEPTH:
        return f"follows relations more than {get_conf().MAX_RELATION_DEPTH} deep (MAX_RELATION_DEPTH)."
    names = [f"{head}__{name}" for name in related.columns]
    return unknown_name(what, path, [*names, f"{head}__count"] if relation is not None else names)
