"""The filters that a project has written for its lists in the admin (``SimpleListFilter``), by their parameters.

A person picks one of a few choices, and code of the project says which rows these are. An agent picks by
``{"list_filter:needs_review": "yes"}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q

from mcp_django.bridge.resources.policy.searching import rows_found
from mcp_django.core.compat import translated_fields
from mcp_django.core.hooks import call_hook

if TYPE_CHECKING:
    from django.contrib.admin import SimpleListFilter

    from mcp_django.bridge.resources.policy.policy import ModelRights

#: How the name of such a filter begins.
PREFIX = "list_filter:"
_FAILED: Any = object()


@dataclass(frozen=True)
class ListFilter:
    """One such filter, with the choices that the user has."""

    rights: ModelRights = field(repr=False)
    cls: type[SimpleListFilter]
    title: str
    #: Value → what a person reads of it.
    choices: Mapping[str, str]

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.cls.parameter_name}"

    def condition(self, value: str) -> Q | None:
        """The rows of a choice; None where the project's code fails, or gives what is no queryset of the model."""
        rows = translated_fields.in_language(self.rights.rows())
        called = f"{self.cls.__qualname__}.queryset"
        found = call_hook(partial(self._queryset, rows, value), _FAILED, called)
        if found is None:
            return Q()  # As in the admin: all rows.
        notes: list[str] = []
        condition = None if found is _FAILED else rows_found(self.rights, rows, found, called, notes)
        # A part of the rows would be an answer to another question.
        return None if notes else condition

    def _queryset(self, rows: models.QuerySet[Any], value: str) -> Any:
        request = self.rights.rights.request
        return _made(self.cls, self.rights, {str(self.cls.parameter_name): [value]}).queryset(request, rows)


def list_filters(rights: ModelRights) -> Mapping[str, ListFilter]:
    """Those that the user may use, by their names in a filter."""
    found = (_of_class(rights, cls) for cls in rights.ask_hook("get_list_filters", ()))
    allowed = rights.filter_names
    return {one.name: one for one in found if one is not None and (allowed is None or one.name in allowed)}


def _of_class(rights: ModelRights, cls: type[SimpleListFilter]) -> ListFilter | None:
    made = call_hook(partial(_made, cls, rights, {}), None, cls.__qualname__)
    if made is None:
        return None
    choices = {str(value): str(shown) for value, shown in made.lookup_choices if value is not None}
    return ListFilter(rights, cls, str(made.title), choices) if choices else None


def _made(cls: Any, rights: ModelRights, params: Any) -> Any:
    return cls(rights.rights.request, params, rights.model, rights.model_mcp.model_admin)
