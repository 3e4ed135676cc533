"""The form field for scopes: boxes for what the site has, and none to be typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from mcp_django.console.credentials.scope_choices import ModelChoice, ScopeChoices, why_not_offered
from mcp_django.exchange.scopes import known, parse


@dataclass(frozen=True)
class Table:
    """What has a scope to read it and one to write it, as a table with two columns of boxes."""

    id: str
    title: Any
    find: Any
    heading: Any
    rows: Sequence[ModelChoice]

    def chosen(self, ticked: Set[str]) -> int:
        return sum(scope in ticked for one in self.rows for scope in (one.read, one.write))


class ScopePicker(forms.CheckboxSelectMultiple):
    """Boxes for the broad scopes, tables of what is read and written, and a list of the tools."""

    offered = ScopeChoices()
    #: Scopes that the token has, and that are not offered to whoever edits it.
    beside: Sequence[str] = ()
    #: Where a page is that says in words what a token with the chosen scopes may do. Empty: there is none.
    words_url = ""

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        # By the engine of the project: one for forms may know no templates of apps.
        return render_to_string("mcp_django/scope_picker.html", self.get_context(name, value, attrs))

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        ticked = frozenset(self.format_value(value))
        tools, picker = self.offered.tools, (attrs or {}).get("id", f"id_{name}")
        resources = self.offered.resources
        tables = (
            Table(f"{picker}_models", _("Single models"), _("Find a model"), _("Model"), self.offered.models),
            Table(f"{picker}_api", _("Single resources of the API"), _("Find a resource"), _("Resource"), resources),
        )
        return {
            "name": name,
            "id": picker,
            "is_invalid": "true" if (attrs or {}).get("aria-invalid") else "",
            "ticked": ticked,
            "broad": list(self.offered.broad),
            "tables": [(table, table.chosen(ticked)) for table in tables if table.rows],
            "tools": tools,
            "chosen_tools": sum(one.scope in ticked for one in tools),
            "beside": [(scope, why_not_offered(scope)) for scope in self.beside],
            "words_url": self.words_url,
            # Whoever begins with nothing wants one thing.
            "opens_tools": not ticked,
        }


class ScopeField(forms.MultipleChoiceField):
    """The scopes of a token, in their fixed order."""

    widget = ScopePicker
    default_error_messages = {"required": _("Choose at least one scope, or a model, or a tool.")}

    def offer(self, offered: ScopeChoices, kept: Iterable[str] = (), words_url: str = "") -> None:
        """Offer these, and of the scopes ``kept`` of a token that exists also those that are not offered."""
        self._kept = list(kept)
        picker: Any = self.widget
        picker.offered, picker.words_url = offered, words_url
        picker.beside = [scope for scope in self._kept if scope not in offered.every_scope]
        self.choices = [(scope, scope) for scope in [*sorted(offered.every_scope), *picker.beside]]

    def clean(self, value: Any) -> list[str]:
        chosen = frozenset(super().clean(value))
        if chosen == frozenset(self._kept):
            return self._kept
        return [*parse(known(chosen)), *(scope for scope in self._kept if scope in chosen and not known([scope]))]
