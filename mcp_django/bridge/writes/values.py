"""Values that an agent gives for fields of a form: what the form would show for them, and what it made of them."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import SuspiciousFileOperation, ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import models
from django.utils.text import get_valid_filename
from pydantic_core import from_json

from mcp_django.bridge.changes.shown_values import amount_of
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields import choices, kinds
from mcp_django.bridge.resources.fields.field_kinds import APPROXIMATE_DATE, kind_of, partners
from mcp_django.bridge.resources.fields.kinds import Kind
from mcp_django.bridge.resources.fields.parsing import MAX_LIST_VALUES
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.reading import files
from mcp_django.bridge.uploads.files import NO_UPLOAD, StoredUpload, open_upload
from mcp_django.bridge.writes.form_data import flat_choices
from mcp_django.protocol.errors import LimitExceeded
from mcp_django.protocol.jsonrpc import encode

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import Rights
    from mcp_django.bridge.writes.fields import WritableField
    from mcp_django.core.types import AnyField

#: A file in a call. Larger ones are uploaded, or named by a link.
MAX_FILE_BYTES = 16_384
#: Linked rows of one field.
_MAX_LINKS = 1_000
_MAX_NAME = 100

#: The kind of a field of the form alone, by its class.
_KINDS: Mapping[type[forms.Field], Kind] = {
    forms.NullBooleanField: kinds.BOOLEAN,
    forms.BooleanField: kinds.BOOLEAN,
    forms.DecimalField: kinds.DECIMAL,
    forms.FloatField: kinds.NUMBER,
    forms.IntegerField: kinds.INTEGER,
    forms.DateTimeField: kinds.DATETIME,
    forms.SplitDateTimeField: kinds.DATETIME,
    forms.DateField: kinds.DATE,
    forms.TimeField: kinds.TIME,
    forms.DurationField: kinds.DURATION,
    forms.UUIDField: kinds.UUID,
    forms.GenericIPAddressField: kinds.ADDRESS,
    forms.CharField: kinds.TEXT,
    forms.ChoiceField: kinds.TEXT,
}
#: What stands for no value.
_NOTHING: tuple[Any, ...] = (None, "", [])
#: A field that reads integers of any size.
_ANY_FIELD = models.BigIntegerField()


class Cleared:
    """Stands in the place of a file: the stored one is removed."""


#: A file that is removed.
CLEARED = Cleared()


def kind_in(one: WritableField) -> Kind | None:
    """The kind of a field's values; None where an agent can give none."""
    if one.field is not None:
        return kind_of(one.field, named=True)
    return next((_KINDS[cls] for cls in type(one.bound.field).__mro__ if cls in _KINDS), None)


def read(one: WritableField, value: Any, rights: Rights) -> Any:
    """What the form would show for the value. Raises ValidationError."""
    form_field = one.bound.field
    if isinstance(form_field, forms.FileField):
        if value is None and form_field.required:
            raise ValidationError("must have a file")
        return _upload(value, rights) if isinstance(value, str) else _file(value, rights)
    if value is None:
        if isinstance(one.field, models.JSONField) and not one.field.null:
            raise ValidationError("must not be null")
        return None
    if isinstance(form_field, forms.JSONField):
        if "\\u0000" in json.dumps(value):
            raise ValidationError("must not hold null characters")
        return _with_numbers_of(one.bound.initial, value)
    if one.is_list or isinstance(form_field, forms.ModelMultipleChoiceField):
        return _list(value, _MAX_LINKS)
    if isinstance(form_field, forms.MultipleChoiceField) and (one.field is None or isinstance(value, list)):
        return [each if isinstance(each, int) else _text(each) for each in _list(value, MAX_LIST_VALUES)]
    if one.field is None and isinstance(form_field, forms.ModelChoiceField):
        return value if isinstance(value, int) else _text(value)
    kind = kind_in(one)
    is_choice = isinstance(form_field, forms.ChoiceField) and not isinstance(form_field, forms.MultipleChoiceField)
    if is_choice and kind is not None and one.field is not None:
        return _choice(one, one.field, kind, value)
    if kind is None or (isinstance(form_field, forms.MultiValueField) and one.field is None and kind is kinds.TEXT):
        raise ValidationError("cannot be given by an agent. A person can fill it in in the admin")
    if kind is kinds.TEXT:
        return _text(value)
    found = kind.read(one.field or _ANY_FIELD, value)
    # A form takes it as it shows it, "March 2021", and not as it is stored.
    return one.field.to_python(found) if one.field is not None and kind is APPROXIMATE_DATE else found


def currencies_of(one: WritableField) -> list[str]:
    """The currencies that can be chosen beside an amount of django-money; none for other fields."""
    form_field: Any = one.bound.field
    if one.field is None or one.name not in partners(one.field.model):
        return []
    parts = [part for part in getattr(form_field, "fields", ()) if isinstance(part, forms.ChoiceField)]
    return [str(value) for part in parts for value, _ in flat_choices(part.choices) if value]


def choices_of(one: WritableField) -> Iterator[tuple[Any, Any, Any]]:
    """Each choice of a field that has a list of its own: as the form has it, in JSON as agents know it, its label."""
    form_field: Any = one.bound.field
    if not isinstance(form_field, forms.ChoiceField) or isinstance(form_field, forms.ModelChoiceField):
        return
    for value, label in flat_choices(form_field.choices):
        if value in (None, ""):
            continue
        yield value, as_shown(one, value), label


def as_shown(one: WritableField, value: Any) -> Any:
    """A value of a field, or a list of them, in JSON."""
    if isinstance(one.bound.field, forms.MultipleChoiceField) and isinstance(value, list):
        return [each if isinstance(each, int | float) else str(each) for each in value]
    kind = kind_in(one)
    if one.field is not None and kind is not None:
        return choices.written(one.field, kind, value)
    return value if isinstance(value, int | float) else str(value)


def _choice(one: WritableField, field: AnyField, kind: Kind, given: Any) -> Any:
    """The value of the choice that is given as it is described, or else what is given. Raises ValidationError."""
    for value, shown, _ in choices_of(one):
        if choices.as_text(given) == choices.as_text(shown):
            return choices.stored(field, value)
    if kind is kinds.DATA:
        return given
    return _text(given) if kind is kinds.TEXT else kind.read(field, given)


def _with_numbers_of(stored: Any, given: Any) -> Any:
    """JSON that an agent gives, with each stored number that it was shown as a text, or as null, at the same place."""
    if isinstance(stored, int | float | Decimal) and isinstance(given, str | None):
        return stored if from_json(encode(kinds.DATA.write(stored))) == given else given
    if isinstance(given, dict) and isinstance(stored, dict):
        return {name: _with_numbers_of(stored.get(name), value) for name, value in given.items()}
    if isinstance(given, list) and isinstance(stored, list):
        return [_with_numbers_of(was, value) for was, value in zip_longest(stored[: len(given)], given)]
    return given


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValidationError("must be a string")
    if "\x00" in value:
        raise ValidationError("must not hold null characters")
    return value


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(each, str | int) for each in value):
        raise ValidationError("must be a list of strings")
    if len(value) > most:
        raise ValidationError(f"at most {most:,} values")
    return value


def _upload(uri: str, rights: Rights) -> StoredUpload:
    """The file that the agent has uploaded. Raises ValidationError."""
    try:
        return open_upload(rights.request.mcp, uri)  # type: ignore[arg-type]
    except LookupError:
        raise ValidationError(NO_UPLOAD) from None


def _file(value: Any, rights: Rights) -> Any:
    """A file from ``{"name": …, "base64": …}`` or ``{"name": …, "uri": …}``. Raises ValidationError."""
    if value is None:
        return CLEARED
    is_shaped = isinstance(value, dict) and value.keys() in ({"name", "base64"}, {"name", "uri"})
    if not is_shaped or not all(isinstance(text, str) for text in value.values()):
        shapes = '{"name": "a.txt", "base64": "…"}, or {"name": "a.txt", "uri": "db://…"} for a file that is there'
        raise ValidationError(f'must be the text "upload://…", or an object {shapes}; or null to take the file away')
    name = value["name"]
    if len(name) > _MAX_NAME or set(name) & set("/\\\x00") or name.startswith(".") or not _is_file_name(name):
        raise ValidationError("has a name that is not that of a file: without a path, at most 100 characters")
    content = _linked(value["uri"], rights) if "uri" in value else _decoded(value["base64"])
    return SimpleUploadedFile(name, content)


def _linked(uri: str, rights: Rights) -> bytes:
    """The file that a record holds and that the agent may read. Raises ValidationError."""
    target = uris.parse(uri) if len(uri) <= uris.MAX_URI else None
    is_file = target is not None and target.kind == "file"
    model = ways.reach(rights, target) if target is not None and is_file else None
    try:
        found = files.read(model, uri, target) if model is not None and target is not None else None
    except LimitExceeded as error:
        raise ValidationError(error.message) from None
    if found is None:
        raise ValidationError("has a uri that is not that of a file in a record: get_record gives these")
    return base64.b64decode(found["blob"]) if "blob" in found else str(found["text"]).encode()


def _decoded(text: str) -> bytes:
    """The content that stands in the call. Raises ValidationError."""
    if len(text) > MAX_FILE_BYTES * 4 / 3 + 4:
        raise ValidationError(
            f"is longer than {MAX_FILE_BYTES:,} bytes: upload it as describe_form says, or name it by its uri"
        )
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValidationError("is not base64") from None


def _is_file_name(name: str) -> bool:
    """Whether anything is left of the name once it is stored."""
    try:
        return bool(get_valid_filename(name))
    except SuspiciousFileOperation:
        return False


# What a form made of a value.


#: Fields of PostgreSQL whose widgets have no room for all of their values: an empty range, a comma in a text.
_PAST_WIDGETS = frozenset({"ArrayField", "RangeField"})


def writes_past_widget(field: Any) -> bool:
    """Whether a given value is put into the row itself, once the form has accepted what its widget makes of it."""
    if isinstance(field, models.JSONField) and field.choices:
        return True  # A list of choices makes a text of each.
    classes = (cls for cls in type(field).__mro__ if cls.__module__.startswith("django.contrib.postgres.fields."))
    return any(cls.__name__ in _PAST_WIDGETS for cls in classes)


def adjustment(one: WritableField, given: Any) -> str | None:
    """How the form reads a given value differently, in words; None if it does not. Called once the form is validated.

    Raises ValidationError if the value is lost.
    """
    bound = one.bound
    if writes_past_widget(one.field):
        return None
    if isinstance(bound.field, forms.FileField | forms.ModelChoiceField) or bound.name not in bound.form.cleaned_data:
        return None
    try:
        made = bound.field.clean(bound.data)
    except ValidationError:
        return None  # The errors of the form say so.
    final = bound.form.cleaned_data[bound.name]
    if final != made and str(final) != str(made):
        # It is not repeated: it may be a row that the agent cannot see.
        return "the form makes another value of it"
    if isinstance(given, list) and given and currencies_of(one) and str(getattr(made, "currency", "")) == given[1]:
        given = given[0]
    made = amount_of(made)
    if made == given or str(made) == str(given) or (given in _NOTHING and made in _NOTHING):
        return None
    if isinstance(made, list) and isinstance(given, list) and list(map(str, made)) == list(map(str, given)):
        return None
    if isinstance(made, str) and isinstance(given, str) and _bare(made) == _bare(given):
        return f"read as {made!r:.100}"
    if isinstance(made, datetime.datetime | datetime.time) and isinstance(given, type(made)):
        return f"read as {made.isoformat()}"
    if isinstance(made, Decimal | float) and isinstance(given, Decimal | float | int):
        return f"read as {made}"
    raise ValidationError("cannot be written so: the form reads something else. A person can change it in the admin")


def _bare(text: str) -> str:
    return "\n".join(text.split("\r\n")).strip()
