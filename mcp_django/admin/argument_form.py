"""A form for the arguments of a tool, made of their JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from pydantic_core import from_json

from mcp_django.tools.base import BaseTool
from mcp_django.types import JSON

#: The answers to a yes-or-no argument, of which the first one sends nothing.
_BOOLEANS: Sequence[tuple[str, Any]] = [("", "—"), ("true", _("true")), ("false", _("false"))]


class _JSONField(forms.CharField):
    """A value that no other field can hold, written as JSON."""

    widget = forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField", "spellcheck": "false"})

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            return from_json(text) if text else None
        except ValueError as error:
            raise ValidationError(_("This is no JSON: %(error)s") % {"error": error}) from None


class ArgumentForm(forms.Form):
    """The arguments of a tool, from its schema; a text that is left empty is not sent."""

    def __init__(self, tool: BaseTool, schema: JSON, data: Any = None, *, may_choose_user: bool = False) -> None:
        super().__init__(data, prefix="try")
        self._tool = tool
        self.arguments = list(schema.get("properties", {}))
        for name in self.arguments:
            self.fields[f"arg-{name}"] = _field(name, schema["properties"][name], name in schema.get("required", ()))
        if may_choose_user and not tool.may_change:
            self.fields["user"] = forms.CharField(
                label=_("As the user"), required=False, help_text=_("Empty: as yourself. The trail names you both."),
            )  # fmt: skip
        if tool.may_change:
            self.fields["agreed"] = forms.BooleanField(
                label=_("It may change data"), error_messages={"required": _("This tool may change data.")}
            )

    def clean_user(self) -> Any:
        name = self.cleaned_data["user"]
        if not name:
            return None
        users = get_user_model()
        found = users._default_manager.filter(**{users.USERNAME_FIELD: name}, is_active=True).first()
        if found is None:
            raise ValidationError(_("There is no active user of this name."))
        return found

    @property
    def given(self) -> JSON:
        """The arguments that were filled in."""
        found = {name: self.cleaned_data.get(f"arg-{name}") for name in self.arguments}
        return {name: value for name, value in found.items() if value not in (None, "")}


def _field(name: str, schema: JSON, required: bool) -> forms.Field:
    """The field for an argument by its JSON Schema."""
    kept: dict[str, Any] = {"label": name, "required": required, "help_text": str(schema.get("description", ""))[:500]}
    variants = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    one = variants[0] if len(variants) == 1 else {}
    if "default" in schema and isinstance(schema["default"], str | int | float):
        kept["help_text"] = f"{kept['help_text']} ({schema['default']})".strip()
    if "enum" in one:
        choices = [("", "—"), *((str(value), str(value)) for value in one["enum"])]
        return forms.ChoiceField(choices=choices, **kept)
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
    return _JSONField(**{**kept, "help_text": f"{kept['help_text']} JSON.".strip()})
