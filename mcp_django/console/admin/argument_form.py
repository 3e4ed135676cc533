"""A form for the arguments of a tool or a prompt, with suggestions while somebody fills it in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.http import JsonResponse
from django.utils.translation import gettext_lazy as _
from pydantic_core import from_json

from mcp_django.bridge.tools.base import BaseTool
from mcp_django.protocol.types import JSON

#: The choices of a yes-or-no argument. The first one sends nothing.
_BOOLEANS: Sequence[tuple[str, Any]] = [("", "—"), ("true", _("true")), ("false", _("false"))]
#: A whole number as JSON writes it.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


#: What a person types → what it is, by the types of JSON Schema that one line of text can hold.
_READERS: Mapping[str, Callable[[str], Any]] = {"string": str, "integer": int, "number": _finite}


class _JSONField(forms.CharField):
    """A value that no other field can hold, written as JSON."""

    widget: Any = forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField", "spellcheck": "false"})

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            return from_json(text, allow_inf_nan=False) if text else None
        except ValueError as error:
            raise ValidationError(_("This is not JSON: %(error)s") % {"error": error}) from None


class _IntegerOrTextField(forms.CharField):
    """A whole number, or a text, such as the key of a row."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return int(text) if _INTEGER.fullmatch(text) else text


class _ListField(_JSONField):
    """Several values: with commas between them, or as a list in JSON."""

    widget = forms.TextInput

    def __init__(self, read: Callable[[str], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._read = read

    def clean(self, value: Any) -> Any:
        if str(value or "").lstrip().startswith("["):
            return super().clean(value)
        text = forms.CharField.clean(self, value)
        try:
            return [self._read(part.strip()) for part in text.split(",") if part.strip()] or None
        except ValueError:
            raise ValidationError(_("Give numbers, with commas between them.")) from None


class SuggestingForm(forms.Form):
    """A form of arguments, each in a field of its own. Its page asks for suggestions while one of them is typed."""

    def __init__(self, data: Any = None, typed: Mapping[str, str] | None = None) -> None:
        """``typed`` is what stands in the fields before anything was sent."""
        super().__init__(data, prefix="try", initial={f"arg-{name}": text for name, text in (typed or {}).items()})
        self.arguments: list[str] = []

    def add_argument(self, name: str, field: forms.Field) -> None:
        self.arguments.append(name)
        self.fields[f"arg-{name}"] = field
        if isinstance(field.widget, forms.TextInput | forms.NumberInput):
            # The list of this id is empty until there is something to suggest.
            field.widget.attrs |= {"list": f"mcp-values-{len(self.arguments)}", "autocomplete": "off"}

    @property
    def typed(self) -> dict[str, str]:
        """What was sent of each argument, as it was typed."""
        return {name: self.data.get(self._sent_as(name), "") for name in self.arguments}

    @property
    def asked(self) -> str | None:
        """The argument for which suggestions are asked. None: there is no such argument."""
        return next((name for name in self.arguments if self._sent_as(name) == self.data.get("suggest")), None)

    def _sent_as(self, name: str) -> str:
        return self.add_prefix(f"arg-{name}")


class ArgumentForm(SuggestingForm):
    """The arguments of a tool, from its schema; a text that is left empty is not sent."""

    def __init__(
        self, tool: BaseTool, schema: JSON, data: Any = None, typed: Mapping[str, str] | None = None, *,
        may_choose_user: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(data, typed)
        for name, described in schema.get("properties", {}).items():
            self.add_argument(name, _field(name, described, name in schema.get("required", ())))
        if may_choose_user and not tool.may_change:
            self.fields["user"] = forms.CharField(
                label=_("As the user"), required=False, help_text=_("Empty: as yourself. The trail names you both."),
            )  # fmt: skip
        if tool.may_change:
            self.fields["agreed"] = forms.BooleanField(
                label=_("Run it for real: this can change data"),
                error_messages={"required": _("This tool may change data. Tick the box to run it.")},
            )

    def clean_user(self) -> Any:
        name = self.cleaned_data["user"]
        if not name:
            return None
        users = get_user_model()
        found = users._default_manager.filter(**{users.USERNAME_FIELD: name}, is_active=True).first()
        if found is None:
            raise ValidationError(_("There is no active user with this username."))
        return found

    @property
    def given(self) -> JSON:
        """The arguments that were filled in."""
        found = {name: self.cleaned_data.get(f"arg-{name}") for name in self.arguments}
        return {name: value for name, value in found.items() if value not in (None, "")}


def suggestions(form: SuggestingForm, suggest: Callable[[str, Mapping[str, str]], Sequence[str]]) -> JsonResponse:
    """The answer ``{"values": […]}``: what ``suggest`` gives for the argument asked for and all that was typed."""
    asked = form.asked
    return JsonResponse({"values": [] if asked is None else list(suggest(asked, form.typed))})


def _field(name: str, schema: JSON, required: bool) -> forms.Field:
    """The field for an argument by its JSON Schema."""
    kept: dict[str, Any] = {"label": name, "required": required, "help_text": str(schema.get("description", ""))[:500]}
    variants = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    one = variants[0] if len(variants) == 1 else {}
    if "default" in schema and isinstance(schema["default"], str | int | float):
        kept["help_text"] = f"{kept['help_text']} ({schema['default']})".strip()
    if "enum" in one:
        values = {str(value): value for value in one["enum"]}
        choices = [("", "—"), *((text, text) for text in values)]
        return forms.TypedChoiceField(choices=choices, coerce=values.__getitem__, empty_value=None, **kept)
    if {one.get("type") for one in variants} == {"integer", "string"}:
        return _IntegerOrTextField(strip=False, **kept)
    match one.get("type"):
        case "string":
            return forms.CharField(strip=False, **kept)
        case "integer":
            return forms.IntegerField(**kept)
        case "number":
            return forms.FloatField(**kept)
        case "boolean":
            return forms.TypedChoiceField(
                choices=_BOOLEANS, coerce=lambda text: text == "true", empty_value=None, **kept
            )
        case "array" if (read := _READERS.get(one.get("items", {}).get("type"))) is not None:
            kept["help_text"] = _("%(text)s With commas between them.") % {"text": kept["help_text"]}
            return _ListField(read, **kept)
    return _JSONField(**{**kept, "help_text": f"{kept['help_text']} JSON.".strip()})
