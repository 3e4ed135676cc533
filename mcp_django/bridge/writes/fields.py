"""Which fields of a page an agent may fill in: those that it may read, by the names that it knows them by.

Fields of the form alone, which are of no column, may be filled in unless they are named like secrets. What may not be
filled in does not exist for the agent, and stays as the page has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django import forms
from django.db import models

from mcp_django.access.permissions import has_scope
from mcp_django.bridge.changes.shown_values import model_field
from mcp_django.bridge.declared.inlines import is_generic
from mcp_django.bridge.declared.secrets import gives_rights, held_in_form, is_about_rights, is_secret_name
from mcp_django.bridge.resources.fields.field_kinds import partners
from mcp_django.bridge.resources.reading.selection import in_order
from mcp_django.bridge.writes.access import needs_of
from mcp_django.bridge.writes.form_data import is_disabled
from mcp_django.bridge.writes.pages import InlineForm
from mcp_django.core.compat.admin import foreign_key_of_inline
from mcp_django.exchange.scopes import WRITE, of_model

if TYPE_CHECKING:
    from django.forms.boundfield import BoundField

    from mcp_django.bridge.declared.consent import Considered, Needs
    from mcp_django.bridge.declared.options import Operation
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.pages import FormPage, Inline
    from mcp_django.core.types import AnyField


@dataclass(frozen=True)
class WritableField:
    """A field of a form that the agent may fill in."""

    name: str
    bound: BoundField
    #: The field of the model; None for one of the form alone.
    field: AnyField | None
    #: The rights on the rows that it may point to; None if it points to none.
    related: ModelRights | None = None

    @property
    def is_list(self) -> bool:
        """Whether it points to many rows."""
        return isinstance(self.bound.field, forms.ModelMultipleChoiceField)

    @property
    def key_name(self) -> str:
        """The name of the field of the related model that its values are."""
        if isinstance(self.field, models.ForeignKey):
            return self.field.target_field.attname
        return str(getattr(self.bound.field, "to_field_name", None) or "pk")


class WritableForm:
    """The fields of one form that the agent may fill in."""

    def __init__(
        self, form: Any, names: Collection[str], rights: ModelRights, declared: Sequence[str] | None = None
    ) -> None:
        self.form = form
        self.rights = rights
        self._names = names
        self._declared = declared

    @cached_property
    def fields(self) -> Mapping[str, WritableField]:
        found = (self._field(name) for name in self._names)
        return {one.name: one for one in found if one is not None}

    def why_closed(self, name: str) -> str:
        """Why the agent may read a field of the form and not fill it in, with the remedy; empty where it has none."""
        field = model_field(self.rights.model, name) if name in self._names else None
        is_read = self.rights.own_column(name) is not None or name in self.rights.relations
        if field is None or not is_read or self._declared is not None or not gives_rights(field):
            return ""
        return "says what users may do. Agents fill it in where write_fields of a ModelMCP names it."

    def currency_beside(self, name: str) -> str:
        """The name of the currency in the same field of the form as an amount, if the agent may read it; else empty."""
        currency = partners(self.rights.model).get(name, "")
        return currency if currency and self.rights.own_column(currency) is not None else ""

    @cached_property
    def withheld(self) -> list[str]:
        """The names of required fields without a value that the agent may not fill in: only a person can."""
        required = (name for name in self._names if self.form.fields[name].required and name not in self.fields)
        return [name for name in required if self.form[name].initial in (None, "", [])]

    def _field(self, name: str) -> WritableField | None:
        bound: BoundField = self.form[name]
        if is_disabled(bound) or not self._is_declared(name):
            return None
        field = model_field(self.rights.model, name)
        if field is None:
            is_secret = is_secret_name(name, held_in_form(bound.field))
            return None if is_secret else self._of_form_alone(name, bound)
        # Django would save a copy under another key.
        if field.primary_key and not self.form.instance._state.adding:
            return None
        if self.rights.model_mcp.hides(field) or (self._declared is None and gives_rights(field)):
            return None
        if field.many_to_many:
            relation = self.rights.relations.get(name)
            if relation is None or not isinstance(bound.field, forms.ModelMultipleChoiceField):
                return None
            return WritableField(name, bound, field, relation.related)
        column = self.rights.own_column(name)
        if column is None or column.types is not None:
            return None
        if isinstance(field, models.ForeignKey) and column.related is None:
            return None  # The agent may read the key, but not the row that it names.
        return WritableField(name, bound, field, column.related)

    def _of_form_alone(self, name: str, bound: BoundField) -> WritableField | None:
        if not isinstance(bound.field, forms.ModelChoiceField):
            return WritableField(name, bound, None)
        offering: Any = bound.field.queryset
        related = self.rights.rights.of_model(offering.model)
        return None if related is None else WritableField(name, bound, None, related)

    def _is_declared(self, name: str) -> bool:
        return self._declared is None or name in self._declared


@dataclass(frozen=True)
class WritableInline:
    """An inline of a page whose rows the agent may change, by the name of their relation."""

    name: str
    inline: Inline
    rights: ModelRights
    #: The names of the fields that lead to the parent, which are not filled in.
    links: Collection[str]

    @cached_property
    def seen(self) -> Sequence[str]:
        """The keys of those of its rows that the agent sees, in an order that it may know."""
        keys = [str(one.row.pk) for one in self.inline.forms if one.row is not None]
        return in_order(self.rights, keys) if keys else ()

    @cached_property
    def operations(self) -> Collection[Operation]:
        """What may be done with the rows that it shows: "create", "update" and "delete"."""
        shown = {"create": self.inline.can_add, "delete": self.inline.can_delete}
        return [one for one in _operations(self.rights) if shown.get(one, True)]

    def needs_of(self, operation: Operation, considered: Callable[[], Iterable[Considered]]) -> Needs:
        """What the operation needs for one of its rows."""
        return needs_of(_declaring(self.rights), operation, considered)

    @property
    def empty_form(self) -> WritableForm:
        """The form of a new row."""
        return self.form_of(InlineForm(self.inline.formset.empty_form, self.inline.new_names, None))

    def form_of(self, one: InlineForm) -> WritableForm:
        names = [name for name in one.names if name not in self.links and name != self.rights.model._meta.pk.name]
        declared = _declaring(self.rights).ask_hook("get_write_fields", ())
        return WritableForm(one.form, names, self.rights, declared)


def inlines_of(page: FormPage, rights: ModelRights) -> Mapping[str, WritableInline]:
    """The inlines of a page, each by the name of the relation that its rows are."""
    found: dict[str, WritableInline] = {}
    for inline in page.inlines:
        add_inline(found, inline, rights)
    return found


def add_inline(found: dict[str, WritableInline], inline: Inline, rights: ModelRights) -> WritableInline | None:
    """Add the next inline of a page to those before it; None where the agent may not write its rows."""
    link = None if inline.is_nested else link_of(inline.inline, rights)
    if link is None:
        return None
    name, related, links = link
    name = next(_numbered(name, found))
    found[name] = WritableInline(name, inline, related, links)
    return found[name]


def link_of(inline: Any, rights: ModelRights) -> tuple[str, ModelRights, Collection[str]] | None:
    """The relation that the rows of an inline are, the rights on them, and the names of what leads to the parent.

    None where the agent may not write them.
    """
    name, links = _link_of(inline)
    relation = rights.relations.get(name)
    if relation is None or relation.related.model is not inline.model or is_about_rights(inline.model):
        return None
    return (name, relation.related, links) if _operations(relation.related) else None


def _operations(rights: ModelRights) -> Collection[Operation]:
    """What may be done with rows in an inline, before its own permissions: by options of their model, and scopes."""
    if not has_scope(rights.rights.request, of_model(rights.label, WRITE)):
        return ()
    found: Collection[Operation] = _declaring(rights).ask_hook("get_writable", ())
    return found


def _declaring(rights: ModelRights) -> ModelRights:
    """The rights on an inline's model by the model's own options, even if the inline has options of its own."""
    return rights.rights.of_model(rights.model) or rights


def _link_of(inline: Any) -> tuple[str, Collection[str]]:
    """The relation that the rows of an inline are, and the names of their fields that lead to the parent."""
    model_name = str(inline.opts.model_name)
    if is_generic(inline):
        return model_name, (inline.ct_field, inline.ct_fk_field)
    link = foreign_key_of_inline(inline)
    return model_name if link.remote_field.hidden else str(link.remote_field.name), (link.name,)


def _numbered(name: str, taken: Collection[str]) -> Iterator[str]:
    """The name, or with a number behind it where another inline has it."""
    number = 1
    while True:
        candidate = name if number == 1 else f"{name}-{number}"
        if candidate not in taken:
            yield candidate
        number += 1
