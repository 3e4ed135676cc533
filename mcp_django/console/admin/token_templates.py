"""Templates: what the form for a new token begins with. Two are ours, and administrators write others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

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


def in_words(unknown: int) -> Iterator[str]:
    """How many scopes name what the viewer may not know of."""
    if unknown:
        yield ngettext("%(count)d more", "%(count)d more", unknown) % {"count": unknown}


class TokenTemplateForm(RightsForm):
    days = forms.TypedChoiceField(label=_("Ends"), required=False, coerce=int, empty_value=None)
    _unknown: Sequence[str] = ()

    class Meta:
        model = TokenTemplate
        fields = ["name", "days"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "scopes" in self.fields and self.instance.pk is not None:
            self._keep_unknown()
        # Whoever makes the token chooses a tool, if the template names none.
        self.fields["scopes"].required = False
        own = self.instance.days
        offered = sorted({*offered_days(), *([own] if own is not None else [])})
        days: Any = self.fields["days"]
        days.choices = [("", _("as every new token")), *((one, in_days(one)) for one in offered)]

    def _keep_unknown(self) -> None:
        """Show no scope that names what the editor may not know of. Saving keeps it."""
        own, offered = self.instance.scopes, self.offered.every_scope
        self._unknown = [scope for scope in own if scope not in offered]
        known = [scope for scope in own if scope in offered]
        field: Any = self.fields["scopes"]
        field.offer(self.offered, known, self.words_url)
        self.initial["scopes"] = known
        if self._unknown:
            field.help_text = ", ".join(in_words(len(self._unknown)))

    def clean(self) -> dict[str, Any] | None:
        if "scopes" in self.cleaned_data:
            self.cleaned_data["scopes"] = [*self.cleaned_data["scopes"], *self._unknown]
        return super().clean()


class TokenTemplateAdmin(RightsAdmin):
    """Templates are for everybody who may make tokens. They give no right: whoever makes a token chooses.

    Other people may have named models and tools in them of which the viewer may not know: these are counted.
    """

    form = TokenTemplateForm
    list_display = ["name", "end", "limit_names"]
    search_fields = ["name"]
    readonly_fields = ["limit_names", "end"]

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        return ["name", self._scope_names(request), "end", "limit_names"]

    def get_readonly_fields(self, request: HttpRequest, obj: TokenTemplate | None = None) -> list[Any]:
        return [self._scope_names(request), *self.readonly_fields]

    def get_fields(self, request: HttpRequest, obj: TokenTemplate | None = None) -> list[Any]:
        may_edit = obj is None or self.has_change_permission(request, obj)
        return ["name", "scopes", "limits", "days"] if may_edit else ["name", *self.get_readonly_fields(request, obj)]

    def _scope_names(self, request: HttpRequest) -> Callable[[TokenTemplate], str]:
        """The column of the scopes, for this viewer."""
        kept: Callable[[TokenTemplate], str] | None = request.__dict__.get("_mcp_scope_names")
        if kept is not None:
            return kept
        offered = self.offered(request).every_scope

        @admin.display(description=_("scopes"))
        def scope_names(template: TokenTemplate) -> str:
            known = [scope for scope in template.scopes if scope in offered]
            return ", ".join([*known, *in_words(len(template.scopes) - len(known))]) or "-"

        request.__dict__["_mcp_scope_names"] = scope_names
        return scope_names

    @admin.display(description=_("ends"), ordering="days")
    def end(self, template: TokenTemplate) -> Any:
        return _("as every new token") if template.days is None else in_days(template.days)

    @admin.display(description=_("limits"))
    def limit_names(self, template: TokenTemplate) -> str:
        return limits_in_words(template.limits) or "-"
