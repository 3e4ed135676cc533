"""describe_form: what an agent may write of a model, with JSON Schema for each field of its form."""

from __future__ import annotations

from html import unescape
from itertools import islice
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.html import strip_tags

from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.reading.selection import in_order
from mcp_django.bridge.uploads.files import how_to_upload
from mcp_django.bridge.writes import access, pages, proposals, values
from mcp_django.bridge.writes.opening import open_form
from mcp_django.protocol.names import title_of
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
    from mcp_django.bridge.writes.fields import WritableField, WritableForm, WritableInline

#: More choices than these are not listed.
_MAX_CHOICES = 20
_LISTS = 'A list replaces what is linked; {"add": [..], "remove": [..]} changes it.'
_FILE = (
    'As "upload://.." (see upload), or {"name": "a.txt", "base64": ".."}, or "uri": a db:// file instead of base64; '
    "null takes the file away."
)


def listed(rights: Rights) -> JSON:
    """Every model that may be written, with what may be done with its rows."""
    return {"models": {model.label: access.operations(model) for model in access.writable_models(rights)}}


def describe(model: ModelRights, key: Any) -> JSON:
    """The form of a row, or without a key that of a new one. Raises InvalidQuery and ToolError."""
    of_row, pk = (model, None) if key is None else proposals.row_of(model, key)
    operations = access.operations(model)
    if key is None and "create" not in operations:
        raise InvalidQuery.one("id", f"is needed: you may not create a {model.label}.")
    described: JSON = {"model": model.label, **({} if key is None else {"id": str(pk)}), "operations": operations}
    if key is not None and "update" not in operations and not access.decides_by_row(model, "delete"):
        return described
    page, main, inlines = open_form(of_row, pk)
    if key is not None:
        described["operations"] = [one for one in operations if one not in page.refused]
        if "update" not in described["operations"]:
            return described
    writable = [main, *(inline.empty_form for inline in inlines.values())]
    described["fields"] = _fields(main, is_new=key is None)
    if inlines:
        described["inlines"] = {name: _inline(inline) for name, inline in inlines.items()}
    if any(isinstance(one.bound.field, forms.FileField) for form in writable for one in form.fields.values()):
        described["upload"] = how_to_upload(model.rights.request)
    if main.withheld:
        described["notes"] = [f"Only a person can fill in {', '.join(main.withheld)}, in the admin."]
        if path := pages.page_path(access.admin_of(model), *pages.page_name(pk)):
            described["url"] = model.rights.request.build_absolute_uri(path)
    return described


def _inline(inline: WritableInline) -> JSON:
    shown = inline.inline
    described: JSON = {"model": inline.rights.label, "operations": inline.operations}
    if shown.formset.max_num < 1_000:
        described["most"] = shown.formset.max_num
    return {**described, "fields": _fields(inline.empty_form, is_new=True)}


def _fields(form: WritableForm, *, is_new: bool) -> dict[str, JSON]:
    fields = form.fields.items()
    return {name: _field(one, is_new=is_new, currency=form.currency_beside(name)) for name, one in fields}


def _field(one: WritableField, *, is_new: bool, currency: str) -> JSON:
    field: Any = one.bound.field
    described = _schema(one, field)
    if is_new and one.bound.initial not in (None, "", []):
        described |= _default(one)
    elif is_new and field.required:
        described["required"] = True
    described |= title_of(one.name, _plain(field.label or ""))
    # Of a model that is not listed, or without rows, an agent gives a key that it was told.
    related = one.related
    found_in = related.label if related is not None and related.is_listed and related.has_rows else ""
    said = [_plain(field.help_text), f"One of {found_in}: find_records finds it." if found_in else ""]
    if currency and (choices := values.currencies_of(one)):
        listed = f": {', '.join(choices)}" if len(choices) <= _MAX_CHOICES else ""
        said.append(f"Its currency is {currency}{listed}.")
    if text := " ".join(filter(None, [*said, described.pop("description", "")])):
        described["description"] = text
    return described


def _default(one: WritableField) -> JSON:
    """What stands in the form of a new record, where it is a plain value of a column that the agent may read."""
    value, is_plain = one.bound.initial, one.field is not None and one.related is None
    return {"default": value} if is_plain and isinstance(value, str | bool | int | float) else {}


def _schema(one: WritableField, field: Any) -> JSON:
    if isinstance(field, forms.FileField):
        return {"type": ["string", "object"], "description": _FILE}
    choices = _choices(one, field)
    if one.is_list:
        return {"type": "array", "items": {"type": "string", **choices}, "description": _LISTS}
    if isinstance(field, forms.MultipleChoiceField):
        return {"type": "array", "items": choices}
    kind = values.kind_in(one)
    if isinstance(field, forms.JSONField) or kind is None:
        return dict(choices)
    described: JSON = {**kind.schema, **choices}
    if isinstance(field, forms.CharField) and field.max_length:
        described["maxLength"] = field.max_length
    for keyword, limit in (("minimum", "min_value"), ("maximum", "max_value")):
        found = getattr(field, limit, None)
        if isinstance(found, int | float):
            described[keyword] = found
    return described


def _choices(one: WritableField, field: Any) -> JSON:
    """The values that can be chosen, where they are few."""
    if one.related is not None:
        if not hasattr(field, "queryset") or not one.related.has_rows:
            return {}
        offered = {str(row.pk): row for row in field.queryset[: _MAX_CHOICES + 1]}
        if len(offered) > _MAX_CHOICES:
            return {}
        seen = in_order(one.related, list(offered))
        return {"enum": [str(field.prepare_value(offered[key])) for key in seen if key in offered]}
    if not isinstance(field, forms.ChoiceField) or isinstance(field, forms.ModelChoiceField):
        return {}
    found = [shown for _, shown, _ in islice(values.choices_of(one), _MAX_CHOICES + 1)]
    return {} if len(found) > _MAX_CHOICES else {"enum": found}


def _plain(text: Any) -> str:
    """A text of a form as a person reads it."""
    return " ".join(unescape(strip_tags(str(text))).split())
