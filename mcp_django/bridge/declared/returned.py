"""What a function of the project returns, by its annotation: rows of a model, or what no function can return."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models.manager import BaseManager
from django.forms.forms import BaseForm
from django.forms.formsets import BaseFormSet
from django.http.response import HttpResponseBase

_LISTS = (list, tuple, set, frozenset, Sequence, Collection, Iterable, Set)

_BY_KEY = "what holds other values names a row by its key, as row.pk"
_ROWS_ALONE = f"one model, one model or None, or a list or a queryset of one model; {_BY_KEY}"
#: What no function can return → what it returns instead.
_INSTEAD: Mapping[type, str] = {
    models.Model: _ROWS_ALONE,
    models.QuerySet: _ROWS_ALONE,
    BaseManager: "a queryset, as its all() gives one",
    HttpResponseBase: "its text, or a content block of mcp_django.content",
    BaseForm: "its cleaned_data, or the row that it saved",
    BaseFormSet: "a list of what each of its forms holds",
}
_ANYTHING = (
    "a str, a content block, a model, a queryset, or what pydantic writes (numbers, lists, dicts, dataclasses, its own "
    "models)"
)


@dataclass(frozen=True, slots=True)
class ReturnedRows:
    """Rows of one model: a single one, or many."""

    many: bool
    #: None where the annotation does not say. ``QuerySet[Order]`` is nothing but QuerySet while the code runs.
    model: type[models.Model] | None = None
    #: Whether None may be returned too.
    optional: bool = False


def rows_of(annotation: Any, owner: str) -> ReturnedRows | None:
    """The rows that an annotation promises; None if it promises something else.

    Raises ImproperlyConfigured for rows beside something else, named by the function's ``owner``.
    """
    found = [(option, _rows_in(option)) for option in options(annotation) if option is not NoneType]
    rows = [one for _, one in found if one is not None]
    if not rows:
        return None
    if len(found) > 1:
        raise ImproperlyConfigured(cannot_return(annotation, owner))
    return replace(rows[0], optional=NoneType in options(annotation))


def check_parts(annotation: Any, owner: str) -> None:
    """Raises ImproperlyConfigured for an annotation that names what no function can return."""
    if any(_instead_of(part) or is_of_class(part) for part in leaves(annotation)):
        raise ImproperlyConfigured(cannot_return(annotation, owner))


def cannot_return(annotation: Any, owner: str) -> str:
    """Says that a function cannot return what its annotation promises, and what it returns instead."""
    found = (instead for part in _parts(annotation, set()) if (instead := _instead_of(part)))
    return f"{owner} cannot return {inspect.formatannotation(annotation)}: return {next(found, _ANYTHING)}."


def has_no_json(owner: str, error: Exception) -> str:
    """Says that what a function returned cannot be written as JSON, and what it returns instead."""
    return f"{owner} returned what has no JSON ({error}): return {_ANYTHING}; {_BY_KEY}"


def is_of_class(annotation: Any) -> bool:
    """Whether it promises a class and no value: ``type[Order]``."""
    return get_origin(annotation) is type


def instead_of(value: Any) -> str:
    """What a function returns instead of a value that has no JSON."""
    return _instead_of(type(value)) or _ANYTHING


def options(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation itself."""
    if get_origin(annotation) is Annotated and not _is_for_pydantic(annotation):
        return options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(one for member in get_args(annotation) for one in options(member))
    return (NoneType if annotation is None else annotation,)


def leaves(annotation: Any) -> Iterator[Any]:
    """The annotation, and all annotations in its brackets."""
    yield annotation
    for part in get_args(annotation):
        yield from leaves(part)


def _rows_in(option: Any) -> ReturnedRows | None:
    cls, within = get_origin(option) or option, get_args(option)
    if not isinstance(cls, type):
        return None
    if issubclass(cls, models.Model):
        return ReturnedRows(many=False, model=_known(cls))
    if issubclass(cls, models.QuerySet):
        # With stubs for types, the second one is what a row is: a dict, after values().
        plain = all(isinstance(one, type) and issubclass(one, models.Model) for one in within)
        return ReturnedRows(many=True, model=_known(within[0]) if within else None) if plain else None
    if cls not in _LISTS or len([one for one in within if one is not Ellipsis]) != 1:
        return None
    if cls is tuple and Ellipsis not in within:
        return None  # A tuple of exactly one.
    rows = [_rows_in(one) for one in options(within[0])]
    return None if len(rows) > 1 or rows[0] is None or rows[0].many else replace(rows[0], many=True)


def _known(cls: Any) -> type[models.Model] | None:
    """The model, unless any class that inherits it may be meant."""
    return None if cls is models.Model or cls._meta.abstract else cls


def _is_for_pydantic(annotation: Any) -> bool:
    """Whether the project says how pydantic writes the value."""
    return any(hasattr(one, "__get_pydantic_core_schema__") for one in annotation.__metadata__)


def _instead_of(part: Any) -> str:
    cls = get_origin(part) or part
    if not isinstance(cls, type):
        return ""
    return next((instead for refused, instead in _INSTEAD.items() if issubclass(cls, refused)), "")


def _parts(annotation: Any, seen: set[Any]) -> Iterator[Any]:
    """The leaves of an annotation, and those of the fields of its classes."""
    for part in leaves(annotation):
        yield part
        if isinstance(part, type) and not _instead_of(part) and part not in seen:
            seen.add(part)
            for hint in _fields_of(part):
                yield from _parts(hint, seen)


def _fields_of(cls: type) -> list[Any]:
    try:
        return list(get_type_hints(cls, include_extras=True).values())
    except Exception:  # noqa: BLE001 - a name that is not known here may be at fault, or anything
        return []
