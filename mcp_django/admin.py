"""Tokens, tools and prompts in the Django admin."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import ValidationError
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcp_django.exchange import scopes
from mcp_django.models import AccessToken, AdminOverride, Prompt, Tool
from mcp_django.override_rows import make_prompt_rows, make_tool_rows
from mcp_django.prompt_templates import compile_template
from mcp_django.sites import all_sites

if TYPE_CHECKING:
    from mcp_django.prompt_templates import Argument
    from mcp_django.prompts.base import BasePrompt
    from mcp_django.sites import MCPSite
    from mcp_django.tools.base import BaseTool

    TokenAdmin = admin.ModelAdmin[AccessToken]
    OverrideAdminBase = admin.ModelAdmin[Any]
else:
    TokenAdmin = OverrideAdminBase = admin.ModelAdmin


class AccessTokenForm(forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        choices=list(scopes.SCOPES.items()),
        # The admin's style sheet gives labels of such a list their full width.
        widget=forms.CheckboxSelectMultiple(attrs={"class": "radiolist"}),
        initial=[scopes.READ],
        help_text=_("The agent may do what both the user and these scopes allow. Admin actions need both scopes."),
    )

    class Meta:
        model = AccessToken
        fields = ["user", "name", "scopes", "limits", "expires_at"]
        widgets = {"limits": AdminTextareaWidget(attrs={"rows": 2})}

    def clean_scopes(self) -> list[str]:
        return scopes.parse(self.cleaned_data["scopes"])

    def clean_limits(self) -> dict[str, Any]:
        return self.cleaned_data["limits"] or {}


@admin.register(AccessToken)
class AccessTokenAdmin(TokenAdmin):
    """Tokens are made, shown once, and revoked. Users who are not superusers make, see and revoke only their own."""

    form = AccessTokenForm
    list_display = ["name_or_number", "user", "scope_names", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_filter = ["revoked_at", "expires_at"]
    search_fields = ["name"]
    list_select_related = ["user"]
    readonly_fields = ["created_at", "last_used_at", "revoked_at"]
    actions = ["revoke"]

    @admin.display(description=_("name"), ordering="name")
    def name_or_number(self, token: AccessToken) -> str:
        return str(token)

    @admin.display(description=_("scopes"))
    def scope_names(self, token: AccessToken) -> str:
        return ", ".join(token.scopes)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[AccessToken]:
        queryset = super().get_queryset(request)
        return queryset if request.user.is_superuser else queryset.filter(user=request.user.pk)

    def get_readonly_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> list[str]:
        # The user of a token never changes, since that would give an agent another person's rights.
        return [*self.readonly_fields, *(["user"] if obj is not None else [])]

    def get_exclude(self, request: HttpRequest, obj: AccessToken | None = None) -> list[str] | None:
        return None if request.user.is_superuser or obj is not None else ["user"]

    def get_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> list[Any]:
        owner = ["user"] if request.user.is_superuser or obj is not None else []
        history = ["created_at", "last_used_at", "revoked_at"] if obj is not None else []
        return [*owner, "name", "scopes", "limits", "expires_at", *history]

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        # Django passes the location, the list or the form, from 6.1 on.
        location = [] if action_location is None else [action_location]
        actions = super().get_actions(request, *location)
        # Many tokens at once are revoked, not deleted, since a deleted token leaves no trace of its user.
        actions.pop("delete_selected", None)
        return actions

    def save_model(self, request: HttpRequest, obj: AccessToken, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        owner = obj.user if request.user.is_superuser else request.user
        made, plain = AccessToken.objects.create_token(
            user=owner, name=obj.name, scopes=obj.scopes, expires_at=obj.expires_at, limits=obj.limits
        )
        obj.__dict__.update(made.__dict__)
        # Only the response may show it, since a message could be kept in a cookie.
        request._mcp_new_token = plain  # type: ignore[attr-defined]

    def response_add(
        self, request: HttpRequest, obj: AccessToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        plain = getattr(request, "_mcp_new_token", None)
        if plain is None:
            return super().response_add(request, obj, post_url_continue)
        opts = self.opts
        context = {
            **self.admin_site.each_context(request),
            "title": _("The new token"),
            "opts": opts,
            "token": plain,
            "object": obj,
            "endpoint": _endpoint(request),
            "server_name": _server_name(request),
            "changelist": reverse(
                f"admin:{opts.app_label}_{opts.model_name}_changelist", current_app=self.admin_site.name
            ),
        }
        response = TemplateResponse(request, "admin/mcp_django/new_token.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @admin.action(description=_("Revoke the selected tokens"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[AccessToken]) -> None:
        count = 0
        for token in queryset.filter(revoked_at__isnull=True):
            token.revoke()
            self.log_change(request, token, "Revoked.")
            count += 1
        self.message_user(
            request,
            ngettext("%(count)d token was revoked.", "%(count)d tokens were revoked.", count) % {"count": count},
        )


def _endpoint(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("mcp_django:endpoint"))


def _server_name(request: HttpRequest) -> str:
    """A name for this server of letters, digits and hyphens, which every client accepts."""
    return re.sub(r"[^A-Za-z0-9]+", "-", request.get_host()).strip("-")


class OverrideAdmin(OverrideAdminBase):
    """What administrators decide about tools and prompts: on or off, the texts, and the groups."""

    list_editable = ["enabled"]
    filter_horizontal = ["groups"]
    actions = ["enable", "disable"]
    #: Adds the rows of declared tools or prompts that have none yet.
    make_rows: Callable[[str], int]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("groups")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "GET":
            type(self).make_rows(self.get_queryset(request).db)
        return super().changelist_view(request, extra_context)

    @admin.display(description=_("declared description"))
    def declared_description(self, row: Any) -> str:
        raise NotImplementedError

    @admin.display(description=_("declared description"))
    def summary(self, row: Any) -> str:
        return Truncator(self.declared_description(row)).chars(90)

    @admin.display(description=_("groups"))
    def group_names(self, row: AdminOverride) -> str:
        return ", ".join(group.name for group in row.groups.all()) or "-"

    @admin.action(description=_("Switch on"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        self._set_enabled(request, queryset, enabled=True)

    @admin.action(description=_("Switch off"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        self._set_enabled(request, queryset, enabled=False)

    def _set_enabled(self, request: HttpRequest, queryset: models.QuerySet[Any], *, enabled: bool) -> None:
        changed = list(queryset.exclude(enabled=enabled))
        for row in changed:
            row.enabled = enabled
            row.save(update_fields=["enabled"])
            self.log_change(request, row, [{"changed": {"fields": ["enabled"]}}])
        count = len(changed)
        text = (
            ngettext("%(count)d %(what)s was switched on.", "%(count)d %(what)s were switched on.", count)
            if enabled
            else ngettext("%(count)d %(what)s was switched off.", "%(count)d %(what)s were switched off.", count)
        )
        what = self.opts.verbose_name if count == 1 else self.opts.verbose_name_plural
        self.message_user(request, text % {"count": count, "what": what})


@admin.register(Tool)
class ToolAdmin(OverrideAdmin):
    """Overrides of tools. We make their rows, so people can neither add nor delete them."""

    list_display = ["name", "enabled", "what_it_does", "summary", "group_names"]
    list_filter = ["enabled", "site"]
    search_fields = ["name", "description"]
    fields = ["name", "site", "enabled", "what_it_does", "declared_description", "description", "groups"]
    readonly_fields = ["name", "site", "what_it_does", "declared_description"]
    make_rows = staticmethod(make_tool_rows)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Tool | None = None) -> bool:
        return False

    @admin.display(description=_("what it does"))
    def what_it_does(self, row: Tool) -> str:
        tool = _tool_of(row)
        if tool is None:
            return str(_("no longer exists"))
        if tool.annotations.read_only:
            return str(_("reads"))
        return str(_("may destroy data") if tool.annotations.destructive else _("changes data"))

    @admin.display(description=_("declared description"))
    def declared_description(self, row: Tool) -> str:
        tool = _tool_of(row)
        return tool.get_description(None) if tool is not None else ""


class PromptForm(forms.ModelForm):  # type: ignore[type-arg]
    site = forms.ChoiceField(label=_("site"))

    class Meta:
        model = Prompt
        fields = ["site", "name", "enabled", "title", "description", "text", "groups"]
        widgets = {
            "description": AdminTextareaWidget(attrs={"rows": 3}),
            "text": AdminTextareaWidget(attrs={"rows": 16}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "site" in self.fields:
            names = sorted(site.name for site in all_sites() if site.is_served) or ["mcp"]
            field = cast("forms.ChoiceField", self.fields["site"])
            field.choices = [(name, name) for name in names]
            field.initial = names[0]
            if len(names) == 1:
                field.widget = field.hidden_widget()
        if "text" in self.fields:
            self.fields["text"].required = True

    def clean_text(self) -> str:
        # Browsers send CRLF, and agents should read plain line ends.
        return str(self.cleaned_data["text"]).replace("\r\n", "\n")

    def clean(self) -> dict[str, Any] | None:
        site, name = self.cleaned_data.get("site", self.instance.site), self.cleaned_data.get("name")
        if name is None:
            return super().clean()
        others = Prompt.objects.filter(site=site, name=name).exclude(pk=self.instance.pk)
        if others.exists() or _declared_prompt(site, name) is not None:
            self.add_error("name", _("There is already a prompt with this name."))
        return super().clean()


@admin.register(Prompt)
class PromptAdmin(OverrideAdmin):
    """Overrides of declared prompts, and prompts that administrators write."""

    form = PromptForm
    list_display = ["name", "enabled", "origin", "summary", "group_names"]
    list_filter = ["enabled", "site"]
    search_fields = ["name", "title", "description", "text"]
    make_rows = staticmethod(make_prompt_rows)

    def get_fields(self, request: HttpRequest, obj: Prompt | None = None) -> list[Any]:
        words = ["title", "description"]
        if obj is None:
            return ["site", "name", "enabled", *words, "text", "groups"]
        if _is_written(obj):
            return ["name", "site", "enabled", *words, "text", "argument_names", "groups"]
        return ["name", "site", "enabled", "origin", "argument_names", "declared_description", *words, "groups"]

    def get_readonly_fields(self, request: HttpRequest, obj: Prompt | None = None) -> list[str]:
        computed = ["origin", "argument_names", "declared_description"]
        if obj is None:
            return computed
        # The row of a declared prompt is found by its name.
        return [*computed, "site", *([] if _is_written(obj) else ["name"])]

    def has_delete_permission(self, request: HttpRequest, obj: Prompt | None = None) -> bool:
        # The row of a declared prompt would be made again, switched on.
        declared = obj is not None and _declared_prompt(obj.site, obj.name) is not None
        return super().has_delete_permission(request, obj) and not declared

    @admin.display(description=_("from"))
    def origin(self, row: Prompt) -> str:
        if _declared_prompt(row.site, row.name) is not None:
            return str(_("declared by the project"))
        return str(_("written here") if row.text else _("no longer exists"))

    @admin.display(description=_("arguments"))
    def argument_names(self, row: Prompt) -> str:
        names = [
            argument.name if argument.required else _("%(name)s (optional)") % {"name": argument.name}
            for argument in _arguments_of(row)
        ]
        return ", ".join(names) or "-"

    @admin.display(description=_("declared description"))
    def declared_description(self, row: Prompt) -> str:
        prompt = _declared_prompt(row.site, row.name)
        return prompt.get_description() if prompt is not None else ""

    @admin.display(description=_("description"))
    def summary(self, row: Prompt) -> str:
        return Truncator(row.description or self.declared_description(row) or row.title).chars(90)


def _site_of(name: str) -> MCPSite | None:
    return next((site for site in all_sites() if site.name == name), None)


def _tool_of(row: Tool) -> BaseTool | None:
    site = _site_of(row.site)
    return site.tools.get(row.name) if site is not None else None


def _declared_prompt(site_name: str, name: str) -> BasePrompt | None:
    site = _site_of(site_name)
    return site.prompts.get(name) if site is not None else None


def _is_written(row: Prompt) -> bool:
    return bool(row.text) and _declared_prompt(row.site, row.name) is None


def _arguments_of(row: Prompt) -> Sequence[Argument]:
    declared = _declared_prompt(row.site, row.name)
    if declared is not None:
        return declared.arguments
    try:
        return compile_template(row.text).arguments
    except ValidationError:
        return []
