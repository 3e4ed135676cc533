"""Templates: what the form for a new token begins with. Two are ours, and administrators write others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from mcp_django.console.admin.rights_admin import RightsAdmin
from mcp_django.console.admin.token_forms import RightsForm
from mcp_django.console.credentials.lifetimes import in_days, offered_days
from mcp_django.console.credentials.limits_field import limits_in_words
from mcp_django.exchange.rates import CALLS, ROWS
from mcp_django.exchange.scopes import READ
from mcp_django.models import TokenTemplate

#: The templates that every project has, each by its key in the URL.
BUILT_IN: Mapping[str, Mapping[str, Any]] = {
    "analyst": {
        "name": _("Read-only analyst"), "scopes": [READ], "days": 30, "limits": {CALLS: "60/min", ROWS: "100000/day"},
    },
    "one-tool": {"name": _("One tool"), "scopes": [], "limits": {CALLS: "60/min"}},
}  # fmt: skip


def templates() -> Iterator[tuple[str, TokenTemplate]]:
    """Every template, by its key in the URL."""
    for key, values in BUILT_IN.items():
        yield key, TokenTemplate(**{**values, "name": str(values["name"])})
    for one in TokenTemplate.objects.all():
        yield str(one.pk), one


def template_of(key: str) -> TokenTemplate | None:
    # Compared here: a URL may hold texts that a database cannot take.
    return next((one for own, one in templates() if own == key), None)


class TokenTemplateForm(RightsForm):
    days = forms.TypedChoiceField(label=_("Ends"), required=False, coerce=int, empty_value=None)

    class Meta:
        model = TokenTemplate
        fields = ["name", "days"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Whoever makes the token chooses a tool, if the template names none.
        self.fields["scopes"].required = False
        own = self.instance.days
        offered = sorted({*offered_days(), *([own] if own is not None else [])})
        days: Any = self.fields["days"]
        days.choices = [("", _("as every new token")), *((one, in_days(one)) for one in offered)]


class TokenTemplateAdmin(RightsAdmin):
    """Templates are for everybody who may make tokens. They give no right: whoever makes a token chooses."""

    form = TokenTemplateForm
    list_display = ["name", "scope_names", "end", "limit_names"]
    search_fields = ["name"]
    readonly_fields = ["scope_names", "limit_names", "end"]

    def get_fields(self, request: HttpRequest, obj: TokenTemplate | None = None) -> list[Any]:
        may_edit = obj is None or self.has_change_permission(request, obj)
        return ["name", "scopes", "limits", "days"] if may_edit else ["name", *self.readonly_fields]

    @admin.display(description=_("scopes"))
    def scope_names(self, template: TokenTemplate) -> str:
        return ", ".join(template.scopes) or "-"

    @admin.display(description=_("ends"), ordering="days")
    def end(self, template: TokenTemplate) -> Any:
        return _("as every new token") if template.days is None else in_days(template.days)

    @admin.display(description=_("limits"))
    def limit_names(self, template: TokenTemplate) -> str:
        return limits_in_words(template.limits) or "-"
