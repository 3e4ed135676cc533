"""What the forms and the messages of a page say, by the names that the agent knows, without what it must not learn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django import forms
from django.apps import apps
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models

from mcp_django.bridge.resources.fields.choices import as_text
from mcp_django.bridge.resources.fields.unreadable import unreadable_names
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.tools.action_responses import read_messages
from mcp_django.bridge.tools.row_texts import hidden_names_of, named, names_of
from mcp_django.bridge.writes import values
from mcp_django.bridge.writes.filling import GivenForm
from mcp_django.bridge.writes.pages import Refused, model_of
from mcp_django.core.db.column_paths import has_key_in, rows_of_keys
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.protocol.unknown_names import allowed_names, did_you_mean, nearest_values

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.fields import WritableField, WritableForm, WritableInline
    from mcp_django.bridge.writes.filling import Given
    from mcp_django.bridge.writes.pages import FormPage
    from mcp_django.exchange.requests import MCPRequest

FORBIDDEN = "You may not do this. Nothing was changed."
#: Rows with the same value that are looked at, for one that the agent sees.
_MAX_LOOKED_AT = 100
#: Characters of a value that its error repeats.
_MAX_CHOICE = 100


def errors_of(given: Given, page: FormPage, inlines: Mapping[str, WritableInline]) -> list[FieldError]:
    """What the forms of a page say is wrong."""
    names = _names_in(page.form, given.main.form.rights)
    found = list(_errors_of_form(page.form, given.main.form, given.main, names))
    for name, inline in inlines.items():
        place = f"rows.{name}"
        shown = next((one for one in page.inlines if one.formset.prefix == inline.inline.formset.prefix), None)
        if shown is None:
            continue
        found += [field_error(place, named(text, names)) for text in _texts_of_rows(shown.formset)]
        by_index = {one.index: one for one in given.rows.get(name, ())}
        for index, form in enumerate(shown.formset.forms):
            row = inline.inline.forms[index]
            if row.row is not None and str(row.row.pk) not in inline.seen:
                found += [field_error(place, "the form refuses it because of other rows.")] if form.errors else []
                continue
            known = by_index.get(index) or GivenForm(inline.form_of(row), place)
            own = _names_in(form, known.form.rights) if form.errors else {}
            found += _errors_of_form(form, known.form, known, {**names, **own})
    return found or [field_error("values", "the form refuses it because of what only a person can change.")]


def _texts_of_rows(formset: Any) -> Iterator[str]:
    """What is wrong with the rows of an inline together."""
    for error in formset.non_form_errors().as_data():
        if error.code == "deleting_protected":
            # Its text names the rows that hold it.
            yield "a row cannot be deleted: other records would have to be deleted first."
        else:
            yield from map(str, error.messages)


def _errors_of_form(form: Any, known: WritableForm, given: GivenForm, names: Mapping[str, str]) -> Iterator[FieldError]:
    """What a form says is wrong. ``names``: the texts of rows, with what stands for each."""
    is_hidden = False
    for name, errors in form.errors.as_data().items():
        for error in errors:
            if name not in known.fields and name != "__all__":
                is_hidden = True
                continue
            place = given.place if name == "__all__" else f"{given.place}.{name}"
            if error.code == "invalid_choice" and name in given.values and (choices := _choices_of(known, name)):
                yield _no_choice(place, known.fields[name], given.values[name], choices)
                continue
            for text in _texts_of(error, form, known.rights):
                stored = given.form.form.initial.get(name)
                is_stored = name in known.fields and name not in given.values and stored not in (None, "", [])
                said = named(text, names)
                yield field_error(place, f"what is stored is not accepted any more: {said}" if is_stored else said)
    if is_hidden:
        yield field_error(given.place, "the form refuses it because of a field that only a person can fill in.")


def _names_in(form: Any, rights: ModelRights) -> dict[str, str]:
    """The texts of the row of a form, as it is stored and as it would be, with what stands for it."""
    row = form.instance
    return hidden_names_of(rights, [row, *_stored(rights, [] if row._state.adding else [row.pk])])


def _stored(rights: ModelRights, keys: Iterable[Any]) -> Iterable[models.Model]:
    found = [key for key in keys if key is not None]
    return rights.model._base_manager.filter(has_key_in(rights.model, found)) if found else ()


def _errors_of_saving(error: ValidationError, rights: ModelRights, keys: Iterable[Any]) -> Iterator[FieldError]:
    """What ``save`` or ``save_model`` of the project says is wrong. It reveals no hidden field and no other row."""
    names = hidden_names_of(rights, _stored(rights, keys))
    by_name = error.error_dict if hasattr(error, "error_dict") else {"": error.error_list}
    for name, errors in by_name.items():
        is_known = name in ("", "__all__") or rights.own_column(name) is not None
        place = f"values.{name}" if is_known and name not in ("", "__all__") else "values"
        for one in errors:
            if not is_known:
                yield field_error(place, "it is refused because of a field that only a person can fill in.")
            elif _is_about_others(one):
                yield field_error(place, "this value cannot be used.")
            else:
                yield from (field_error(place, named(text, names)) for text in one.messages)


def _choices_of(form: WritableForm, name: str) -> dict[str, str]:
    """The labels of the choices of a field that has a list of its own; empty where rows are the choices."""
    known = form.fields[name]
    found = () if known.related is not None else values.choices_of(known)
    return {as_text(shown): str(label) for _, shown, label in found}


def _no_choice(place: str, one: WritableField, given: Any, choices: Mapping[str, str]) -> FieldError:
    """The error of a value that is none of the choices, with the nearest of them."""
    shown = values.as_shown(one, given)
    are_several = isinstance(shown, list) and isinstance(one.bound.field, forms.MultipleChoiceField)
    wrong = [text for text in map(as_text, shown if are_several else [shown]) if text not in choices]
    known = {value: [value, label] for value, label in choices.items()}
    labelled = {value if label == value else f"{value}, {label}": value for value, label in choices.items()} | {
        value: value for value in choices
    }
    near = [labelled.get(text, text) for text in nearest_values(wrong[0], known)] if wrong else []
    said = " or ".join(repr(text[:_MAX_CHOICE]) for text in wrong) or repr(shown)
    hint = f"{did_you_mean(near)} {allowed_names(list(choices))}"
    return field_error(place, f"{one.name} has no choice {said}.{hint}", shown)


# Other rows with the same value.


def _is_about_others(error: ValidationError) -> bool:
    """Whether other rows, of whichever model was saved, may be why the value is refused."""
    if error.code in ("unique", "unique_together", "unique_for_date"):
        return True
    constraints = (one for model in apps.get_models() for one in model._meta.constraints)
    return any(_is_violation(error, one) for one in constraints if not isinstance(one, models.CheckConstraint))


def _is_violation(error: ValidationError, constraint: models.BaseConstraint) -> bool:
    by_code = error.code is not None and error.code == constraint.violation_error_code
    return by_code or str(error.message) == str(constraint.get_violation_error_message())


def _texts_of(error: ValidationError, form: Any, rights: ModelRights) -> Iterator[str]:
    """The texts of an error. They do not reveal that a row which the agent cannot see has the same value."""
    alike = _alike(error, form.instance, rights)
    if alike is not None and not _is_seen(alike, form.instance, rights):
        yield "this value cannot be used."
        return
    yield from map(str, error.messages)


def _alike(error: ValidationError, row: models.Model, rights: ModelRights) -> models.Q | None:
    """The condition for another row that makes a value refused: empty if unknown, None if no row is the reason."""
    params: Mapping[str, Any] = error.params or {}
    match error.code:
        case "unique" | "unique_together":
            return _same_values(params.get("unique_check") or (), row, rights)
        case "unique_for_date":
            return _same_values([params["field"]], row, rights) & _same_date(params, row)
    for constraint in _constraints_on_others(row):
        if _is_violation(error, constraint):
            same = _same_values(getattr(constraint, "fields", ()), row, rights)
            return same & (getattr(constraint, "condition", None) or models.Q()) if same else same
    return None


def _constraints_on_others(row: models.Model) -> Iterator[models.BaseConstraint]:
    """The constraints of a row that other rows may make it violate."""
    for _, constraints in row.get_constraints():
        yield from (one for one in constraints if not isinstance(one, models.CheckConstraint))


def _same_values(names: Any, row: models.Model, rights: ModelRights) -> models.Q:
    """A condition for the same values; empty if one is of a field that the agent may not read."""
    columns = [rights.own_column(name) for name in names]
    if None in columns:
        return models.Q()
    return models.Q(**{one.attname: getattr(row, one.attname) for one in columns if one is not None})


def _same_date(params: Mapping[str, Any], row: models.Model) -> models.Q:
    name, lookup = params["date_field"], params["lookup_type"]
    moment = getattr(row, name)
    units = ("year", "month", "day") if lookup == "date" else (lookup,)
    return models.Q(**{f"{name}__{unit}": getattr(moment, unit) for unit in units})


def _is_seen(alike: models.Q, row: models.Model, rights: ModelRights) -> bool:
    """Whether the agent sees another row that is like this one."""
    if not alike:
        return False
    found = rights.rows().filter(alike)
    if not row._state.adding:
        found = found.exclude(pk=row.pk)
    return bool(visible_rows.visible_keys(rights, list(found.values_list("pk", flat=True)[:_MAX_LOOKED_AT])))


def said_by(request: MCPRequest, names: Mapping[str, str]) -> list[str]:
    """The messages of a request, in which rows are named by their model and key."""
    lines, _ = read_messages(request)
    return [named(line, names) for line in lines]


@contextmanager
def refusals(rights: ModelRights, keys: Iterable[Any]) -> Iterator[None]:
    """Turns what the admin answers in the place of its form, and what saving refuses, into a ToolError."""
    try:
        yield
    except PermissionDenied:
        raise ToolError(FORBIDDEN, reason="NO_PERMISSION") from None
    except ValidationError as error:
        raise ToolError(
            "Saving it is refused. Nothing was changed.", list(_errors_of_saving(error, rights, keys))
        ) from None
    except Refused as error:
        admin = rights.model_mcp.model_admin
        other = None if admin is None else model_of(error.response, admin)
        real = None if other is None else rights.rights.of_model(other)
        if real is not None:
            raise ToolError(f"The admin shows it as a {real.label}: name that model. Nothing was changed.") from None
        said = said_by(error.request, names_of(rights.label, _stored(rights, keys)))
        instead = [f"Create a {' or a '.join(heirs)}."] if list(keys) == [None] and (heirs := _heirs(rights)) else []
        text = " ".join(["The admin does not show its form for this.", *said, *instead, "Nothing was changed."])
        raise ToolError(text) from None


def _heirs(rights: ModelRights) -> list[str]:
    """The models whose rows are rows of this one too: a parent of django-polymorphic has no form of its own."""
    concrete = rights.model._meta.concrete_model
    heirs = (one for one in rights.rights.models() if issubclass(one.model, rights.model))
    return [one.label for one in heirs if one.model._meta.concrete_model is not concrete]


def of_unreadable(model: ModelRights, keys: Sequence[Any], error: Exception) -> list[FieldError]:
    """The fields of these rows that the admin cannot read, which ended it with ``error``. Hidden ones have no name."""
    rows = rows_of_keys(model.model._base_manager.all(), list(visible_rows.visible_keys(model, keys)))
    names = unreadable_names(rows, [field.attname for field in model.model._meta.concrete_fields], error)
    shown = [name for name, column in model.columns.items() if column.attname in names]
    return [
        field_error(
            f"values.{name}" if name else "values", "cannot be read. It can be corrected in the database alone."
        )
        for name in shown or [""] * bool(names)
    ]
