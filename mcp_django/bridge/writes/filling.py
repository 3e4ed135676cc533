"""Fills the forms of a page: with what they show, and with what an agent gives."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from pydantic_core import from_json

from mcp_django.bridge.changes import shown_values
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields.errors import InvalidQuery, Mistakes
from mcp_django.bridge.resources.fields.field_kinds import partners
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.writes import states, values
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.bridge.writes.pages import InlineForm
from mcp_django.bridge.writes.values import CLEARED
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.exceptions import ToolError, field_error
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from django.forms.boundfield import BoundField

    from mcp_django.bridge.declared.options import Operation
    from mcp_django.bridge.resources.policy.policy import Rights
    from mcp_django.bridge.writes.fields import WritableField, WritableForm, WritableInline
    from mcp_django.bridge.writes.pages import FormPage, Inline
    from mcp_django.protocol.types import JSON

logger = logging.getLogger("mcp_django")

#: Why a record cannot be changed that holds what another program has written.
NOT_SHOWN = "The form of the admin cannot show this record, which holds what is no value of a field."
#: Rows of inlines in one call.
_MAX_ROWS = 100
#: Neither a page nor a preview cuts a value that is shorter.
LEAST_CUT = 100
#: Characters of an unknown name that its error repeats.
_MAX_NAME = 100


@dataclass
class GivenForm:
    """What an agent gives for one form: by the names of its fields, as the form would show it."""

    form: WritableForm
    #: Where the values stand in the arguments, as ``values`` or ``rows.lines.0``.
    place: str
    values: dict[str, Any] = field(default_factory=dict)
    is_deleted: bool = False
    #: The index of the form among those of its formset; None for the page's own.
    index: int | None = None

    @property
    def is_new(self) -> bool:
        """Whether it is for a row that is not there yet."""
        return bool(self.form.form.instance._state.adding)

    @property
    def operation(self) -> Operation:
        return "delete" if self.is_deleted else "create" if self.is_new else "update"


@dataclass
class Given:
    """What an agent gives for a page, read and allowed."""

    main: GivenForm
    #: By the names of inlines.
    rows: dict[str, list[GivenForm]] = field(default_factory=dict)

    @property
    def forms(self) -> Iterator[GivenForm]:
        yield self.main
        for each in self.rows.values():
            yield from each


# Reading what is given.


def read(
    main: WritableForm, inlines: Mapping[str, WritableInline], given: JSON, rows_given: Mapping[str, Any]
) -> Given:
    """What an agent gives, as the forms of the page would show it. Raises InvalidQuery with all that is wrong."""
    mistakes = Mistakes()
    found = Given(GivenForm(main, "values"))
    with mistakes:
        found.main.values = read_values(main, given, "values")
    for name, each in rows_given.items():
        with mistakes:
            check_known(name, inlines)
            found.rows[name] = read_rows(inlines[name], each)
    mistakes.raise_any()
    return found


def check_known(name: str, inlines: Mapping[str, WritableInline]) -> None:
    """Raises InvalidQuery for a name that is of no inline."""
    if name not in inlines:
        raise InvalidQuery.one(f"rows.{name[:_MAX_NAME]}", unknown_name("inline", name, list(inlines)), name)


def read_values(form: WritableForm, given: Mapping[str, Any], place: str) -> dict[str, Any]:
    """What is given for one form, by the names of its fields. Raises InvalidQuery."""
    mistakes = Mistakes()
    found: dict[str, Any] = {}
    currencies: dict[str, str] = {}
    amounts = {name: amount for amount in form.fields if (name := form.currency_beside(amount))}
    for name, value in given.items():
        with mistakes:
            one, amount = form.fields.get(name), amounts.get(name, "")
            if one is None and amount:
                # The currency of an amount, which stands in the same field of the form.
                if not _is_as_shown(form, name, value):
                    currencies[amount] = _read_currency(form.fields[amount], value, f"{place}.{name}")
                continue
            if one is None:
                why = form.why_closed(name) or unknown_name("field", name, list(form.fields))
                raise InvalidQuery.one(f"{place}.{name[:_MAX_NAME]}", why, name)
            if _is_as_shown(form, name, value):
                continue  # A value given back as it was read counts as not given: its widget may lose a part of it.
            if _is_cut(form, name, value):
                text = "ends where a page has cut it: get_record gives it whole."
                raise InvalidQuery.one(f"{place}.{name}", text, value)
            try:
                found[name] = read_value(one, value, form.rights.rights)
            except ValidationError as error:
                raise InvalidQuery.one(f"{place}.{name}", f"{'; '.join(error.messages)}.", value) from None
    for name, currency in currencies.items():
        with mistakes:
            found[name] = [_amount(form.fields[name], found, place), currency]
    mistakes.raise_any()
    return found


def _read_currency(one: WritableField, value: Any, place: str) -> str:
    """The currency of an amount. Raises InvalidQuery."""
    known = values.currencies_of(one)
    if value not in known:
        instead = f"must be one of {', '.join(known[:20])}." if known else "can only be filled in by a person."
        raise InvalidQuery.one(place, instead, value)
    return str(value)


def _amount(one: WritableField, found: Mapping[str, Any], place: str) -> Any:
    """The amount that gets another currency: that which is given, or that of the form. Raises InvalidQuery."""
    shown: Any = one.bound.initial
    stands = shown[0] if isinstance(shown, list | tuple) else getattr(shown, "amount", shown)
    amount = found.get(one.name, stands)
    if amount in (None, ""):
        raise InvalidQuery.one(f"{place}.{one.name}", "is needed beside its currency.")
    return amount


def _is_as_shown(form: WritableForm, name: str, value: Any) -> bool:
    """Whether a value is that of the row, as the agent reads it."""
    column, row = form.rights.own_column(name), form.form.instance
    if column is None or row._state.adding:
        return False
    if column.kind.linked:
        return value is not None and bool(value == uris.file_uri(form.rights.model, row.pk, column.name))
    stored = getattr(row, column.attname)
    if value is None and column.related is not None:
        return stored is None  # Null may stand for a row that the agent cannot see.
    return states.is_same_json(from_json(encode(shown_values.shown(column, stored, unreadable=None))), value)


def _is_cut(form: WritableForm, name: str, value: Any) -> bool:
    """Whether a value is the beginning of what is stored, as it is shown where it is too long."""
    column, row = form.rights.own_column(name), form.form.instance
    is_cut = isinstance(value, str) and value.endswith("…") and len(value) > LEAST_CUT
    if column is None or row._state.adding or not is_cut or column.kind.linked:
        return False
    shown = shown_values.shown(column, getattr(row, column.attname))
    whole = shown if isinstance(shown, str) else encode(shown).decode()
    return whole != value and whole.startswith(value.removesuffix("…"))


def read_value(one: WritableField, value: Any, rights: Rights) -> Any:
    """A value as the form would show it. Raises ValidationError, also for a row that the agent cannot see."""
    found = _read_links(one, value, rights) if one.is_list else values.read(one, value, rights)
    _check_visible(one, found)
    return found


def _read_links(one: WritableField, value: Any, rights: Rights) -> list[Any]:
    """The keys of linked rows: a list replaces those that the agent sees, and others stay. Raises ValidationError."""
    present = links_in(one.bound)
    if isinstance(value, dict):
        if not value.keys() <= {"add", "remove"} or not value:
            raise ValidationError('must be a list of keys, or an object {"add": […], "remove": […]}')
        added, removed = (_read_keys(one, value.get(name, []), rights) for name in ("add", "remove"))
        wanted = [*(key for key in present if key not in removed), *added]
    else:
        seen = visible_rows.visible_keys(one.related, present) if one.related is not None else ()
        wanted = [*(key for key in present if key not in seen), *_read_keys(one, value, rights)]
    return list(dict.fromkeys(wanted))


def _read_keys(one: WritableField, value: Any, rights: Rights) -> list[str]:
    """The keys of rows that the agent sees. Raises ValidationError, for others as for those that do not exist."""
    keys = list(map(str, values.read(one, value, rights) or []))
    if one.related is None or not keys:
        return keys
    seen = visible_rows.visible_keys(one.related, keys)
    if missing := [key for key in keys if key not in seen]:
        raise ValidationError(f"no {one.related.label} with the primary key {missing[0][:100]}")
    return keys


def links_in(bound: BoundField) -> list[str]:
    """The keys of the rows that a field of many rows holds by now."""
    return [str(getattr(each, "pk", each)) for each in bound.initial or []]


def _check_visible(one: WritableField, value: Any) -> None:
    """Raises ValidationError for a row that the agent cannot see, as for one that does not exist."""
    related = one.related
    if related is None or one.is_list or value in (None, ""):
        return
    try:
        found = related.rows().filter(**{one.key_name: value}).values_list("pk", flat=True)[:1]
    except (TypeError, ValueError):
        found = related.rows().none()
    if not visible_rows.visible_keys(related, list(found)):
        raise ValidationError(f"no {related.label} with {one.key_name} {str(value)[:100]}")


def read_rows(inline: WritableInline, given: Any) -> list[GivenForm]:
    """What is given for the rows of one inline. Raises InvalidQuery."""
    place = f"rows.{inline.name}"
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise InvalidQuery.one(place, "must be a list of objects.", given)
    if len(given) > _MAX_ROWS:
        raise InvalidQuery.one(place, f"at most {_MAX_ROWS} rows.", given)
    mistakes, found = Mistakes(), []
    free = iter(range(len(inline.inline.formset.initial_forms), 10_000))
    for number, each in enumerate(given):
        with mistakes:
            found.append(_read_row(inline, each, f"{place}.{number}", free))
    mistakes.raise_any()
    named = [one.index for one in found]
    if twice := [number for number, index in enumerate(named) if index in named[:number]]:
        raise InvalidQuery.one(f"{place}.{twice[0]}.pk", "names a row that was named before.")
    return found


def check_room(inlines: Mapping[str, WritableInline], given: Given) -> None:
    """Raises InvalidQuery for more rows than a page has room for: it has no button for them.

    It tells whether there are hidden rows, so it is asked once the new values of the proposal are counted.
    """
    mistakes = Mistakes()
    for name, forms_ in given.rows.items():
        formset = inlines[name].inline.formset
        there, most = len(formset.initial_forms), formset.max_num
        added, deleted = sum(one.is_new for one in forms_), sum(one.is_deleted for one in forms_)
        with mistakes:
            if added and there - deleted + added > most:
                raise InvalidQuery.one(f"rows.{name}", f"would have more than {most} rows.")
    mistakes.raise_any()


def _read_row(inline: WritableInline, given: Mapping[str, Any], place: str, free: Iterator[int]) -> GivenForm:
    key_name = inline.rights.model._meta.pk.name
    given = dict(given)
    is_deleted = given.pop("delete", False)
    if not isinstance(is_deleted, bool):
        raise InvalidQuery.one(f"{place}.delete", "must be true or false.", is_deleted)
    key = given.pop("pk", given.pop(key_name, None))
    if key is None and is_deleted:
        raise InvalidQuery.one(f"{place}.delete", "needs the pk of the row.")
    if key is None:
        return _new_row(inline, given, place, free)
    for index, one in enumerate(inline.inline.forms):
        if one.row is not None and str(one.row.pk) == str(key) and str(key) in inline.seen:
            if is_deleted and "delete" not in inline.operations:
                raise InvalidQuery.one(f"{place}.delete", "rows of this inline cannot be deleted.")
            if not is_deleted and "update" not in inline.operations:
                raise InvalidQuery.one(place, "rows of this inline cannot be changed.")
            form = inline.form_of(one)
            return GivenForm(form, place, read_values(form, given, place), is_deleted, index)
    raise InvalidQuery.one(
        f"{place}.pk", f"no {inline.rights.label} of this row with the primary key {key!s:.100}.", key
    )


def _new_row(inline: WritableInline, given: Mapping[str, Any], place: str, free: Iterator[int]) -> GivenForm:
    if "create" not in inline.operations:
        raise InvalidQuery.one(place, "rows of this inline cannot be added.")
    index = next(free)
    form = inline.form_of(_form_at(inline.inline, index))
    found = GivenForm(form, place, read_values(form, given, place), index=index)
    if not _differs(found):
        # Django takes such a row for one that nobody has filled in, and drops it without a word.
        raise InvalidQuery.one(place, "equals an empty row of the form, which is not saved. Give at least one value.")
    return found


def _differs(found: GivenForm) -> bool:
    fields = found.form.fields
    return any(fields[name].bound.initial != value for name, value in found.values.items())


def _form_at(inline: Inline, index: int) -> InlineForm:
    """The form of a new row: one of those that the page has for it, or another like them."""
    if index < len(inline.forms):
        return inline.forms[index]
    empty = inline.formset.empty_form
    empty.prefix = inline.formset.add_prefix(index)
    inline.forms.append(InlineForm(empty, inline.new_names, None))
    return inline.forms[-1]


# Filling.


def fill(page: FormPage, inlines: Mapping[str, WritableInline], given: Given | None = None) -> FormData:
    """What a browser would send of the page with the given values; without any, what it would send untouched."""
    data = FormData()
    named = {} if given is None else given.main.values
    write_form(data, page.form, page.names, named, () if given is None else given.main.form.fields)
    changed = {id(inlines[name].inline): forms_ for name, forms_ in given.rows.items()} if given is not None else {}
    for inline in page.inlines:
        write_inline(data, inline, changed.get(id(inline), ()))
    return data


def write_inline(data: FormData, inline: Inline, given: Iterable[GivenForm]) -> None:
    """What a browser would send of an inline with what is given for its rows. Raises ToolError."""
    by_index = {one.index: one for one in given}
    management = inline.formset.management_form
    for name in management.fields:
        value = len(inline.forms) if name == "TOTAL_FORMS" else management[name].initial
        data.write(management[name], value)
    for index, one in enumerate(inline.forms):
        found = by_index.get(index)
        write_form(data, one.form, one.names, {} if found is None else found.values)
        if found is not None and found.is_deleted:
            data.add(f"{one.form.prefix}-DELETE", "on")


def write_form(
    data: FormData, form: Any, names: Iterable[str], given: Mapping[str, Any], known: Collection[str] = ()
) -> None:
    """Write these fields of a form as a browser sends them: with the given values, and others as they stand.

    ``known``: the names of the fields that the agent may be told. Raises ToolError.
    """
    for name in names:
        bound = form[name]
        if isinstance(bound.field, forms.FileField):
            _write_file(data, bound, given.get(name))
            continue
        value = given.get(name, bound.initial)
        if isinstance(bound.field, forms.ModelMultipleChoiceField):
            value = _offered(bound, value)
        if name in given:
            value = _with_currency(form, name, value)
        try:
            data.write(bound, value)
        except Exception:
            if name in given or form.instance._state.adding:
                raise
            logger.warning("The form cannot show a value of %s", form.instance._meta.label, exc_info=True)
            what = [field_error(f"values.{name}", "holds a value that the form cannot show.")] if name in known else []
            raise ToolError(f"{NOT_SHOWN} Nothing was changed.", what) from None


def _with_currency(form: Any, name: str, value: Any) -> Any:
    """An amount of django-money with its currency: that of the row or of its field, or else what the page shows.

    Other values are as they are.
    """
    model: Any = type(getattr(form, "instance", None))
    partner = partners(model).get(name) if hasattr(model, "_meta") else None
    if partner is None or value is None or isinstance(value, list):
        return value
    return [value, getattr(form.instance, partner, None)]


def _offered(bound: BoundField, value: Any) -> list[str]:
    """The keys without those that are linked by now and that the form does not offer: a browser cannot send them.

    They stay linked: see ``restoring``.
    """
    field: Any = bound.field
    present = links_in(bound)
    keys = [str(getattr(each, "pk", each)) for each in value or []]
    offered = (
        {str(row.pk) for row in field.queryset.filter(has_key_in(field.queryset.model, present))} if present else set()
    )
    return [key for key in keys if key in offered or key not in present]


def _write_file(data: FormData, bound: Any, given: Any) -> None:
    if given is CLEARED:
        data.add(f"{bound.html_name}-clear", "on")
    elif given is not None:
        data.files.appendlist(bound.html_name, given)
