"""Tokens in the admin: made, shown once, and revoked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcp_django.admin.links import activity_link, shows_activity
from mcp_django.exchange import scopes
from mcp_django.models import AccessToken

if TYPE_CHECKING:
    TokenAdmin = admin.ModelAdmin[AccessToken]
else:
    TokenAdmin = admin.ModelAdmin


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
        fields = ["user", "name", "scopes", "expires_at"]

    def clean_scopes(self) -> list[str]:
        return scopes.parse(self.cleaned_data["scopes"])


@admin.register(AccessToken)
class AccessTokenAdmin(TokenAdmin):
    """Tokens are made, shown once, and revoked. Users who are not superusers make, see and revoke only their own."""

    form = AccessTokenForm
    list_display = ["name_or_number", "user", "scope_names", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_filter = ["revoked_at", "expires_at"]
    search_fields = ["name"]
    list_select_related = ["user"]
    readonly_fields = ["created_at", "last_used_at", "revoked_at", "activity"]
    actions = ["revoke"]

    @admin.display(description=_("name"), ordering="name")
    def name_or_number(self, token: AccessToken) -> str:
        return str(token)

    @admin.display(description=_("scopes"))
    def scope_names(self, token: AccessToken) -> str:
        return ", ".join(token.scopes)

    @admin.display(description=_("activity"))
    def activity(self, token: AccessToken) -> str:
        of_token = activity_link(self.admin_site, _("with this token"), token=token.pk)
        of_user = activity_link(self.admin_site, _("of its user"), user=token.user_id)
        return format_html("{} · {}", of_token, of_user)

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
        activity = ["activity"] if obj is not None and shows_activity(self.admin_site, request) else []
        return [*owner, "name", "scopes", "expires_at", *history, *activity]

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
            user=owner, name=obj.name, scopes=obj.scopes, expires_at=obj.expires_at
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
