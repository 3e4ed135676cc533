"""The state of a row, its links and the rows of its inlines, and what of it differs, as far as the agent may read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.core.files import File
from django.db import models, router

from mcp_django.bridge.changes import shown_values
from mcp_django.bridge.changes.shown_values import model_field
from mcp_django.bridge.resources.fields.unreadable import fetch_instances
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.resources.reading.selection import in_order
from mcp_django.bridge.writes.values import CLEARED
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.core.db.stored_columns import stored_columns
from mcp_django.core.types import AnyField
from mcp_django.exchange.questions import digest
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.resources.fields.columns import Column
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.fields import WritableField, WritableInline
    from mcp_django.bridge.writes.filling import GivenForm
    from mcp_django.bridge.writes.pages import FormPage, InlineForm
    from mcp_django.bridge.writes.twin import ViewRun

#: The types of JSON, by those of Python.
_TYPES: Mapping[type, str] = {
    dict: "object", list: "array", str: "text", int: "number", float: "number", bool: "boolean", type(None): "null",
}  # fmt: skip

#: Values of the columns of a row, by the names of their attributes.
Values = Mapping[str, Any]
#: The key of a row of an inline, or the index of its form if it is not saved yet.
Place = str | int


@dataclass
class State:
    """A row: its columns, the keys of linked rows, and the rows of its inlines by their places."""

    values: Values
    links: dict[str, list[str]] = field(default_factory=dict)
    rows: dict[str, dict[Place, Values]] = field(default_factory=dict)


def of_page(page: FormPage, inlines: Mapping[str, WritableInline]) -> State:
    """The state that a page shows: all columns of its row, and the rows of inlines that the agent sees."""
    found = State(values_of(page.form.instance), _links(page.form, page.names, _initial))
    for name, inline in inlines.items():
        shown = {str(one.row.pk): one for one in inline.inline.forms if one.row is not None}
        found.rows[name] = {key: _values_of_row(shown[key]) for key in inline.seen if key in shown}
    return found


def _values_of_row(one: InlineForm) -> Values:
    return {**values_of(one.row), **_links(one.form, one.names, _initial)} if one.row is not None else {}


def _initial(form: Any, name: str) -> Any:
    return form[name].initial


def _cleaned(form: Any, name: str) -> Any:
    return form.cleaned_data.get(name)


def _links(form: Any, names: Iterable[str], read: Callable[[Any, str], Any]) -> dict[str, list[str]]:
    """The keys of linked rows, by the names of the fields of a form that list them."""
    return {name: _keys(read(form, name)) for name in names if _is_list(form, name)}


def of_run(run: ViewRun, inlines: Mapping[str, WritableInline]) -> State:
    """The state that a sent form would lead to, as far as it is known before it is saved."""
    form = run.form
    found = State(values_of(form.instance), _links(form, form.fields, _cleaned))
    formsets = {formset.prefix: formset for formset in run.formsets}
    for name, inline in inlines.items():
        formset = formsets.get(inline.inline.formset.prefix)
        if formset is not None:
            found.rows[name] = dict(_planned(formset))
    return found


def _planned(formset: Any) -> Iterator[tuple[Place, Values]]:
    deleted = set(map(id, getattr(formset, "deleted_forms", ())))
    for index, form in enumerate(formset.forms):
        is_new = form.instance._state.adding
        if id(form) not in deleted and (form.has_changed() or not is_new):
            yield _place_of(form, index), {**values_of(form.instance), **_links(form, form.fields, _cleaned)}


def _place_of(form: Any, index: int) -> Place:
    return index if form.instance._state.adding else str(form.instance.pk)


def place_of_given(given: GivenForm) -> Place:
    return _place_of(given.form.form, given.index or 0)


def values_of(row: models.Model) -> Values:
    return {one.attname: _value_of(row, one) for one in row._meta.concrete_fields}


def _value_of(row: models.Model, field: models.Field[Any, Any]) -> Any:
    """A value as it is stored: a form may hold an empty text where a column has null."""
    if field.generated and row._state.adding:
        return None
    value = getattr(row, field.attname)
    if hasattr(value, "resolve_expression"):
        return None  # The database computes it.
    may_be_empty = field.empty_strings_allowed or isinstance(field, models.JSONField)
    return None if value == "" and field.null and not may_be_empty else value


def _is_list(form: Any, name: str) -> bool:
    column = model_field(type(form.instance), name)
    return column is not None and bool(column.many_to_many)


def _keys(linked: Any) -> list[str]:
    return [str(getattr(each, "pk", each)) for each in linked or ()]


def stored(rights: ModelRights, keys: Iterable[Any]) -> dict[str, Values]:
    """What is stored of these rows, by their keys."""
    model = rights.model
    return dict(stored_columns(model, keys, router.db_for_write(model)))


def digest_of(rights: ModelRights, key: Any) -> str:
    """Names all that is stored of a row."""
    return digest(stored(rights, [key]).get(str(key), {}))


def read_again(model: type[models.Model], keys: Iterable[Any], using: str) -> dict[str, Values]:
    """The values of these rows as they are now, by their keys."""
    rows = fetch_instances(model._base_manager.using(using).filter(has_key_in(model, list(keys))))
    return {str(row.pk): values_of(row) for row in rows}


def linked(field: AnyField, keys: Iterable[Any], using: str) -> dict[str, list[str]]:
    """The keys of the rows that are linked to each of these rows by a field, in the order of texts."""
    found: dict[str, list[str]] = {}
    rows = field.model._base_manager.using(using).filter(has_key_in(field.model, list(keys)))
    for key, other in rows.exclude(**{field.name: None}).order_by().values_list("pk", field.name):
        found.setdefault(str(key), []).append(str(other))
    return {key: sorted(others) for key, others in found.items()}


def many_to_many(model: type[models.Model], name: str) -> AnyField | None:
    """The field of this name that links rows in both directions, if it is one."""
    found = model_field(model, name)
    return found if found is not None and found.many_to_many else None


def bound_to(rights: ModelRights, found: Mapping[str, Values], names: Iterable[str] = ()) -> JSON:
    """What a confirmation of a change is bound to, of what is stored.

    That is what the agent may read, and what the form would write, whose fields are ``names``. That another column has
    moved is nothing that the agent may learn, and the change is made.
    """
    written = (model_field(rights.model, name) for name in names)
    bound = {column.attname for column in rights.columns.values() if not column.via}
    bound |= {field.attname for field in written if field is not None and field.concrete and not field.many_to_many}
    return {key: {name: value for name, value in one.items() if name in bound} for key, one in found.items()}


def stored_around(state: State, inlines: Mapping[str, WritableInline]) -> JSON:
    """The same of its links and the rows of its inlines."""
    return {
        "links": {name: sorted(keys) for name, keys in state.links.items()},
        "rows": {name: _bound_rows(inlines[name], list(rows)) for name, rows in state.rows.items() if rows},
    }


def _bound_rows(inline: WritableInline, keys: Iterable[Any]) -> JSON:
    names = {name for one in inline.inline.forms for name in one.names}
    return bound_to(inline.rights, stored(inline.rights, keys), names)


def readable(rights: ModelRights, values: Values) -> dict[str, Any]:
    """The values of all columns that the agent may read, by the names of these."""
    return {name: values[column.attname] for name, column in rights.columns.items() if column.attname in values}


# What differs.


def differences(before: State | None, after: State, rights: ModelRights) -> list[JSON]:
    """``{"field", "before", "after"}`` of each field that differs and that the agent may read."""
    found = _of_values({} if before is None else before.values, after.values, rights)
    return [*found, *_of_links({} if before is None else before.links, after.links, rights)]


def _of_links(before: Mapping[str, Any], after: Mapping[str, Any], rights: ModelRights) -> list[JSON]:
    """The differences of linked rows, as far as the agent sees them."""
    found: list[JSON] = []
    for name, relation in rights.relations.items():
        was, keys = before.get(name, []), after.get(name)
        if keys is None or sorted(was) == sorted(keys):
            continue
        seen = in_order(relation.related, [*was, *keys])
        before_, after_ = ([key for key in seen if key in some] for some in (set(was), set(keys)))
        if before_ != after_:
            found.append({"field": name, "before": before_, "after": after_})
    return found


def of_form_alone(given: GivenForm) -> list[JSON]:
    """``{"field", "after"}`` of the given fields that are of no column, such as those of another table.

    What the form shows in them before is left out: code of the project has taken it from anywhere.
    """
    return [
        {"field": name, "after": given_value(given.form.fields[name], value)}
        for name, value in given.values.items()
        if given.form.fields[name].field is None
    ]


def given_value(known: WritableField, value: Any) -> Any:
    """A value that was given for a field, as JSON."""
    if isinstance(value, File):
        return f"the file {value.name}"
    if value is CLEARED:
        return "no file"
    if known.is_list and known.related is not None:
        return in_order(known.related, _keys(value))
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def shortened(differing: list[JSON], limit: int) -> list[str]:
    """Cut the values of differences that are longer than ``limit``. Returns the names of their fields."""
    cut = []
    for one in differing:
        for name in {"before", "after"} & one.keys():
            value = one[name]
            text = value if isinstance(value, str) else encode(value).decode()
            if len(text) > limit and not isinstance(value, bool | int | float | None):
                one[name] = f"{text[:limit]}…"
                cut.append(str(one["field"]))
    return list(dict.fromkeys(cut))


def differing_rows(
    before: State | None,
    after: State,
    inlines: Mapping[str, WritableInline],
    given: Mapping[str, Sequence[GivenForm]],
) -> dict[tuple[str, Place], JSON]:
    """``{"inline", "pk", "change", "diff"}`` of each row of an inline that differs, or is given what is no column."""
    found: dict[tuple[str, Place], JSON] = {}
    for name, inline in inlines.items():
        was = {} if before is None else before.rows.get(name, {})
        now = after.rows.get(name, {})
        added = [key for key in now if key not in was]
        alone = {place_of_given(one): of_form_alone(one) for one in given.get(name, ())}
        # Rows that are not saved yet have no key. Of the others, code of the project may have made some.
        stored = [key for key in added if isinstance(key, str)]
        planned = [key for key in added if isinstance(key, int)]
        seen = {*inline.seen, *planned, *visible_rows.visible_keys(inline.rights, stored)}
        for key in dict.fromkeys([*was, *now]):
            if key not in seen:
                continue
            one, other = was.get(key, {}), now.get(key, {})
            diff = [*_of_values(one, other, inline.rights), *_of_links(one, other, inline.rights), *alone.get(key, ())]
            change = "delete" if key not in now else "add" if key not in was else "update"
            if diff or change != "update":
                named = {} if isinstance(key, int) else {"pk": key}
                what = {} if change == "delete" else {"diff": diff}
                found[name, key] = {"inline": name, **named, "change": change, **what}
    return found


def _of_values(before: Values, after: Values, rights: ModelRights) -> list[JSON]:
    found = []
    for column in rights.columns.values():
        if isinstance(column.field, models.AutoField) and not before:
            continue
        if column.name != column.field.name and column.field.name in rights.columns:
            continue  # A translated field. That of its language says the same.
        was, now = before.get(column.attname), after.get(column.attname)
        if _differ(column, was, now):
            one = {
                "field": column.name,
                "before": shown_values.shown(column, was),
                "after": shown_values.shown(column, now),
            }
            if is_same_json(one["before"], one["after"]) and (types := _types_that_differ(was, now)):
                one["types"] = types
            found.append(one)
    return found


def _types_that_differ(was: Any, now: Any, place: str = "") -> list[str]:
    """Where two values that look alike are of different types, as ``total: number → text``."""
    parts: list[tuple[Any, Any, Any]] = []
    if isinstance(was, dict) and isinstance(now, dict):
        parts = [(name, was[name], now[name]) for name in now if name in was]
    elif isinstance(was, list) and isinstance(now, list):
        parts = [(index, *pair) for index, pair in enumerate(zip(was, now, strict=False))]
    elif type(was) is not type(now):
        types = " → ".join(_TYPES.get(type(one), type(one).__name__) for one in (was, now))
        return [f"{place}: {types}" if place else types]
    return [
        found
        for name, one, other in parts
        for found in _types_that_differ(one, other, f"{place}.{name}" if place else str(name))
    ]


def _differ(column: Column, one: Any, other: Any) -> bool:
    if isinstance(one, File) or isinstance(other, File):
        return bool(getattr(one, "name", one) != getattr(other, "name", other))
    if isinstance(column.field, models.JSONField):
        return not is_same_json(one, other)
    return bool(one != other)


def is_same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same as JSON, where 1, 1.0 and true are three values, which Python finds equal."""
    first, second = (json.dumps(value, sort_keys=True, default=str) for value in (one, other))
    return first == second


def names_in(found: Iterable[JSON]) -> list[str]:
    return [str(one["field"]) for one in found]
