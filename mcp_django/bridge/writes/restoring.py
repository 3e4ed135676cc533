"""Keeps what an agent has not named, to the byte, where a form is sent with its values.

A widget has no room for all that a column holds: it drops microseconds, and spaces at the ends of texts. A field may
write other bytes for the same value: it encrypts it anew, or rounds it. A person who saves the page loses them. An
agent changes only what it names, and what the project derives from that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from decimal import Decimal
from functools import cached_property, partial, wraps
from itertools import chain
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.files import File
from django.db import models

from mcp_django.bridge.changes.shown_values import model_field
from mcp_django.bridge.writes.exact_forms import read_exactly
from mcp_django.bridge.writes.values import writes_past_widget
from mcp_django.core.compat.forms import around_construction
from mcp_django.core.compat.models import choose_columns, write_all_columns
from mcp_django.core.db.column_paths import has_key_in

if TYPE_CHECKING:
    from mcp_django.bridge.writes.filling import Given
    from mcp_django.core.types import AnyField


class LostPrecision:
    """What the widgets of a page lose, which is kept when the page is sent with the values of an agent."""

    def __init__(self, given: Given) -> None:
        self._given = given
        #: The rows that save only what differs.
        self._sparing: list[models.Model] = []

    @cached_property
    def _rows(self) -> Mapping[str, Mapping[str, Any]]:
        """What is given for the row of each form of an inline, by the prefix of the form."""
        return {str(one.form.form.prefix): one.values for each in self._given.rows.values() for one in each}

    def prepare_form(self, form: Any) -> None:
        """Prepare the form of the page to be validated."""
        _keep_unnamed(form, self._given.main.values)

    def prepare_formset(self, formset: Any) -> None:
        """Prepare a formset to be validated: rows that are not named are not saved, and date-times are read in UTC."""
        add_fields = formset.add_fields

        def add_and_prepare(form: Any, index: Any) -> None:
            add_fields(form, index)
            self._prepare_row(form)

        formset.add_fields = add_and_prepare
        for form in vars(formset).get("forms", ()):
            self._prepare_row(form)

    def restore(self, form: Any, obj: models.Model) -> None:
        """Put back the links that the form of the page has lost, once it is valid, and spare what does not differ."""
        self._restore(form, obj)

    def restore_rows(self, formsets: Iterable[Any]) -> None:
        """Do the same with the forms of rows, once the formsets are valid."""
        for form in chain.from_iterable(formset.forms for formset in formsets):
            if str(form.prefix) in self._rows and form.has_changed():
                self._restore(form, form.instance)
            elif not form.instance._state.adding:
                # It is not saved, and validating it has replaced what is stored.
                vars(form.instance).update(form.mcp_stored)

    def release(self) -> None:
        """Let the rows save all of their columns again."""
        for row in self._sparing:
            write_all_columns(row)

    def _prepare_row(self, form: Any) -> None:
        read_exactly(form)
        if str(form.prefix) in self._rows:
            _keep_unnamed(form, self._rows[str(form.prefix)])
        elif not form.instance._state.adding:
            form.has_changed = lambda: False

    def _restore(self, form: Any, obj: models.Model) -> None:
        for name, field in form.fields.items():
            column = model_field(type(obj), name)
            if column is not None and column.many_to_many and name in form.cleaned_data and not field.disabled:
                form.cleaned_data[name] = _with_links_that_are_not_offered(form[name], form.cleaned_data[name])
        if obj is form.instance and not obj._state.adding:
            choose_columns(obj, _Differing(obj, form.mcp_values))
            self._sparing.append(obj)


# What the form writes to its instance.


def _keep_unnamed(form: Any, given: Mapping[str, Any]) -> None:
    """Let a form leave alone what it has only shown and read again. What the project derives is written."""
    form.mcp_values = _snapshot(form.instance)
    made: dict[str, Any] = {}
    for name, field in form.fields.items():
        column = model_field(type(form.instance), name)
        is_shown = name not in given and not form.instance._state.adding
        is_exact = name in given and writes_past_widget(column)
        if column is not None and not column.many_to_many and (is_shown or is_exact):
            field.clean = _remembering(field.clean, partial(made.__setitem__, name))
    around_construction(form, partial(_stored_values, form, made, given))


def _remembering(clean: Callable[..., Any], remember: Callable[[Any], None]) -> Callable[..., Any]:
    @wraps(clean)
    def clean_and_remember(*args: Any, **kwargs: Any) -> Any:
        value = clean(*args, **kwargs)
        remember(_copy(value))
        return value

    return clean_and_remember


@contextmanager
def _stored_values(form: Any, made: dict[str, Any], given: Mapping[str, Any]) -> Iterator[None]:
    """While the row is made, what is stored or given stands for what widgets gave; then it is put into the row."""
    row, cleaned = form.instance, form.cleaned_data
    # A field that the form refuses is not among its cleaned values.
    known = {name: value for name, value in made.items() if name in cleaned}
    read = {name: cleaned[name] for name, value in known.items() if _is_same(value, _copy(cleaned[name]))}
    columns: dict[str, Any] = {name: model_field(type(row), name) for name in read}
    stored = {name: given[name] if name in given else getattr(row, column.attname) for name, column in columns.items()}
    kept = {
        name: given[name] if name in given else getattr(row, name)
        for name, column in columns.items()
        if not column.is_relation
        and not isinstance(column, models.FileField)
        and not _is_stored_alike(column, made[name], stored[name])
    }
    cleaned.update(kept)
    yield
    cleaned.update({name: read[name] for name, value in kept.items() if cleaned.get(name) is value})
    for name, column in columns.items():
        now = _copy(getattr(row, column.attname))
        # Django's validation writes each value as the field's class has it: an address in lower case. A key may have
        # the case of the row that it leads to.
        if not _is_same(now, stored[name]) and any(
            _is_same(now, one) for one in _readings(column, stored[name], made[name])
        ):
            setattr(row, column.attname, stored[name])


def _is_stored_alike(column: Any, made: Any, stored: Any) -> bool:
    """Whether the form made the stored value of it, or another one for which the field writes the same.

    Of those the row is validated with the form's, as in the admin: a unique field may read NULL as an empty text.
    """
    if _is_same(made, stored):
        return True
    try:
        return _is_same(column.get_prep_value(made), column.get_prep_value(stored))
    except Exception:  # noqa: BLE001 - a class of a project may refuse it in any way
        return False


def _readings(column: Any, stored: Any, made: Any) -> Iterator[Any]:
    """What a form, and the validation of its instance, may make of a stored value."""
    yield getattr(made, column.target_field.attname) if isinstance(made, models.Model) else made
    with suppress(Exception):
        yield column.to_python(stored)


# What saving the instance writes to the database.


def _snapshot(row: models.Model) -> dict[str, Any]:
    """The values of the columns of a row, as they were read."""
    names = (field.attname for field in row._meta.concrete_fields)
    return {name: _copy(getattr(row, name)) for name in names if name in vars(row)}


class _Differing:
    """Whether a column is to be written: the row has another value than what was read, or it was written since.

    A field's class may make another value of what the row has, as one that encrypts it. That is no reason to write it.
    """

    def __init__(self, row: models.Model, values: dict[str, Any]) -> None:
        self._row, self._using, self._key, self._values = row, row._state.db, row.pk, dict(values)

    def __call__(self, using: str, key: Any, field: AnyField, value: Any) -> bool:
        name = field.attname
        is_read = using == self._using and key == self._key and name in self._values
        if is_read and (_is_same(self._values[name], _copy(value)) or self._is_made_again(field, value)):
            return False
        self._values.pop(name, None)
        return True

    def _is_made_again(self, field: AnyField, value: Any) -> bool:
        """Whether the row still has what was read, and ``pre_save`` of the field makes the new value of it."""
        if type(field).pre_save is models.Field.pre_save or isinstance(field, models.FileField):
            return False
        is_untouched = _is_same(self._values[field.attname], _copy(getattr(self._row, field.attname)))
        return is_untouched and _is_same(_copy(field.pre_save(self._row, False)), _copy(value))


class _NoCopy:
    """Stands for a value that cannot be copied. It equals nothing."""


def _copy(value: Any) -> Any:
    """A value that a later change in place does not reach. Of a file it is the name."""
    if isinstance(value, File):
        return value.name
    if isinstance(value, models.Model):
        return value
    try:
        return deepcopy(value)
    except Exception:  # noqa: BLE001 - a class of a project may refuse it in any way
        return _NoCopy()


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values are stored alike, as 1, 1.0 and true are not, which Python finds equal."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(_is_same, one.values(), other.values()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, float | Decimal):
        return repr(one) == repr(other)
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - a class of a project may fail to compare in any way
        return False


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
