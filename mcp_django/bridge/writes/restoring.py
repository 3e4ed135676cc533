"""Puts back what the widgets of a form have lost of fields that the agent has not named.

A widget has no room for all that a column holds: it drops microseconds, and spaces at the ends of texts. A person who
saves the page loses them. An agent changes only what it names, and what the project derives from that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models

from mcp_django.bridge.writes.exact_forms import read_exactly
from mcp_django.bridge.writes.fields import model_field
from mcp_django.core.db.column_paths import has_key_in

if TYPE_CHECKING:
    from mcp_django.bridge.writes.filling import Given


class LostPrecision:
    """What the widgets of a page have lost, which is put back when the page is sent with the values of an agent."""

    def __init__(self, given: Given) -> None:
        self._named: Collection[str] = given.main.values
        #: The names that are given in the row of each form of an inline, by the prefix of the form.
        self._rows = {str(one.form.form.prefix): set(one.values) for each in given.rows.values() for one in each}

    def prepare(self, formset: Any) -> None:
        """Prepare a formset to be validated: rows that are not named are not saved, and date-times are read in UTC."""
        add_fields = formset.add_fields

        def add_and_prepare(form: Any, index: Any) -> None:
            add_fields(form, index)
            self._prepare_row(form)

        formset.add_fields = add_and_prepare
        for form in vars(formset).get("forms", ()):
            self._prepare_row(form)

    def restore(self, form: Any, obj: models.Model) -> None:
        """Put back what the form of the page has lost, once it is valid."""
        _restore(form, obj, self._named)

    def restore_rows(self, formsets: Iterable[Any]) -> None:
        """Put back what the forms of rows have lost, once the formsets are valid."""
        for form in chain.from_iterable(formset.forms for formset in formsets):
            if str(form.prefix) in self._rows and form.has_changed():
                _restore(form, form.instance, self._rows[str(form.prefix)])
            elif not form.instance._state.adding:
                # It is not saved, and validating it has replaced what is stored.
                vars(form.instance).update(form.mcp_stored)

    def _prepare_row(self, form: Any) -> None:
        read_exactly(form)
        if str(form.prefix) not in self._rows and not form.instance._state.adding:
            form.has_changed = lambda: False


def _restore(form: Any, obj: models.Model, named: Collection[str]) -> None:
    for name, field in form.fields.items():
        column = model_field(type(obj), name)
        if column is None or name not in form.cleaned_data or field.disabled:
            continue
        if column.many_to_many:
            form.cleaned_data[name] = _with_links_that_are_not_offered(form[name], form.cleaned_data[name])
        elif name not in named and not isinstance(field, forms.FileField):
            _put_back(form, obj, name, column.attname)


def _put_back(form: Any, obj: models.Model, name: str, attname: str) -> None:
    stored = form.mcp_stored.get(attname)
    current = getattr(obj, attname)
    if attname not in form.mcp_stored or obj._state.adding or current == stored:
        return
    try:
        made = form.fields[name].clean(form[name].data)
    except ValidationError:
        return
    # Put back only a difference that comes from reading the widget's text. What the project derives stays.
    if getattr(made, "pk", made) == current or made == current:
        setattr(obj, attname, stored)


def _with_links_that_are_not_offered(bound: Any, cleaned: Any) -> Any:
    """The linked rows, with those that the form does not offer, which a page would have unlinked."""
    present = [getattr(each, "pk", each) for each in bound.initial or []]
    if not present or not isinstance(bound.field, forms.ModelMultipleChoiceField):
        return cleaned
    offering: Any = bound.field.queryset
    offered = set(offering.filter(has_key_in(offering.model, present)).values_list("pk", flat=True))
    others = [key for key in present if key not in offered]
    if not others:
        return cleaned
    keys = [getattr(each, "pk", each) for each in cleaned]
    return offering.model._base_manager.filter(has_key_in(offering.model, [*keys, *others]))
