"""Tokens in the admin: made, shown once, and revoked."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminSplitDateTime, AdminTextareaWidget, AdminTextInputWidget
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcp_django.access.trail import acting
from mcp_django.admin.acting import ActingAdmin
from mcp_django.admin.links import activity_link, shows_activity
from mcp_django.compat.admin import key_in_url
from mcp_django.exchange import scopes
from mcp_django.exchange.addresses import parse_networks
from mcp_django.models import AccessToken
from mcp_django.models.tokens import NEVER, Expiry, check_expiry, default_expiry
from mcp_django.sites import names_nothing


class ExpiryForm(forms.Form):
    """When a token expires: at a moment, or never, which must be said."""

    expires_at = forms.SplitDateTimeField(label=_("Expires"), required=False, widget=AdminSplitDateTime)
    never_expires = forms.BooleanField(
        label=_("Never expires"),
        required=False,
        help_text=_("Then it is valid until somebody revokes it. Prefer a date, and roll the token before it."),
    )

    def clean(self) -> dict[str, Any] | None:
        data = super().clean() or self.cleaned_data
        if data.get("never_expires"):
            data["expires_at"] = None
        elif data.get("expires_at") is None and "expires_at" not in self.errors:
            self.add_error("expires_at", _("Name a moment, or tick the box below if it shall never expire."))
        if self._sets_expiry() and not {"expires_at", "never_expires"} & self.errors.keys():
            try:
                check_expiry(data["expires_at"], self._created_at())
            except ValidationError as error:
                self.add_error("expires_at", error)
        return data

    def _sets_expiry(self) -> bool:
        return True

    def _created_at(self) -> datetime:
        return timezone.now()

    @property
    def expiry(self) -> Expiry:
        """As ``create_token`` takes it."""
        return cast("datetime | None", self.cleaned_data["expires_at"]) or NEVER


class RollForm(ExpiryForm):
    """How a token is replaced by its successor."""

    grace = forms.TypedChoiceField(
        label=_("The old token ends"),
        coerce=int,
        choices=[(0, _("at once")), (3_600, _("in an hour")), (86_400, _("in a day")), (604_800, _("in a week"))],
        help_text=_("Until then both tokens are valid, so that the agent can be given the new one without a break."),
    )
    field_order = ["grace", "expires_at", "never_expires"]


class AccessTokenForm(ExpiryForm, forms.ModelForm):  # type: ignore[type-arg]
    scopes = forms.MultipleChoiceField(
        choices=list(scopes.SCOPES.items()),
        required=False,
        # The admin's style sheet gives labels of such a list their full width.
        widget=forms.CheckboxSelectMultiple(attrs={"class": "radiolist"}),
        initial=[scopes.READ],
        help_text=_("The agent may do what both the user and these scopes allow. Admin actions need both scopes."),
    )
    single_scopes = forms.CharField(
        label=_("Single models and tools"),
        required=False,
        widget=AdminTextInputWidget,
        help_text=_(
            "Separated by commas. model:app.model:read reads one model, tool:NAME calls one tool. They allow only "
            "that, so leave the boxes above empty for an agent that shall do nothing else."
        ),
    )
    addresses = forms.CharField(
        label=_("Addresses"),
        required=False,
        widget=AdminTextInputWidget,
        help_text=_("Addresses and networks from which alone it may be used, as 192.0.2.7, 2001:db8::/32. Empty: all."),
    )

    class Meta:
        model = AccessToken
        fields = ["user", "name", "scopes", "addresses", "limits", "expires_at"]
        widgets = {"limits": AdminTextareaWidget(attrs={"rows": 2})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        token = self.instance
        if token.pk is None:
            self.initial.setdefault("expires_at", default_expiry(timezone.now()))
            return
        self.initial["scopes"] = [scope for scope in token.scopes if scope in scopes.SCOPES]
        self.initial["single_scopes"] = ", ".join(scope for scope in token.scopes if scope not in scopes.SCOPES)
        self.initial["addresses"] = ", ".join(token.addresses)
        self.initial["never_expires"] = token.expires_at is None

    def clean_addresses(self) -> list[str]:
        try:
            return parse_networks(self.cleaned_data["addresses"].split(","))
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def clean_single_scopes(self) -> list[str]:
        try:
            named = scopes.parse(self.cleaned_data["single_scopes"].split(","))
        except ValueError as error:
            raise ValidationError(str(error)) from None
        # What an old token names may be gone since.
        kept = [] if self.instance.pk is None else list(self.instance.scopes)
        new = [scope for scope in named if scope not in kept]
        if problems := [problem for scope in new if (problem := names_nothing(scope))]:
            raise ValidationError(problems)
        return named

    def clean(self) -> dict[str, Any] | None:
        data = super().clean() or self.cleaned_data
        if "single_scopes" in data:
            data["scopes"] = scopes.parse([*data.get("scopes", []), *data["single_scopes"]])
            if not data["scopes"] and "scopes" not in self.errors:
                self.add_error("scopes", _("Choose at least one scope, or name a model or a tool."))
        return data

    def _sets_expiry(self) -> bool:
        return self.instance.pk is None or not {"expires_at", "never_expires"}.isdisjoint(self.changed_data)

    def _created_at(self) -> datetime:
        return cast("datetime", self.instance.created_at)

    def clean_limits(self) -> dict[str, Any]:
        return self.cleaned_data["limits"] or {}


@admin.register(AccessToken)
class AccessTokenAdmin(ActingAdmin):
    """Tokens are made, shown once, and revoked. Users who are not superusers make, see and revoke only their own."""

    form = AccessTokenForm
    list_display = [
        "name_or_number", "ends_in", "user", "scope_names", "created_at", "last_used_at", "expires_at", "revoked_at",
    ]  # fmt: skip
    list_filter = ["revoked_at", "expires_at"]
    search_fields = ["name", "=last_chars"]
    list_select_related = ["user"]
    readonly_fields = ["ends_in", "created_at", "last_used_at", "revoked_at", "activity"]
    actions = ["revoke"]

    @admin.display(description=_("name"), ordering="name")
    def name_or_number(self, token: AccessToken) -> str:
        return str(token)

    @admin.display(description=_("ends in"))
    def ends_in(self, token: AccessToken) -> str:
        return f"…{token.last_chars}" if token.last_chars else "-"

    @admin.display(description=_("scopes"))
    def scope_names(self, token: AccessToken) -> str:
        return ", ".join(token.scopes)

    @admin.display(description=_("activity"))
    def activity(self, token: AccessToken) -> str:
        of_token = activity_link(self.admin_site, _("with this token"), token=token.pk)
        of_user = activity_link(self.admin_site, _("of its user"), user=token.user_id)
        return format_html("{} · {}", of_token, of_user)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[AccessToken]:
        # The tokens of OAuth clients come and go by the hour: their grants are shown instead.
        queryset = super().get_queryset(request).filter(grant__isnull=True)
        return queryset if request.user.is_superuser else queryset.filter(user=request.user.pk)

    def get_readonly_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> list[str]:
        # The user of a token never changes, since that would give an agent another person's rights.
        return [*self.readonly_fields, *(["user"] if obj is not None else [])]

    def get_exclude(self, request: HttpRequest, obj: AccessToken | None = None) -> list[str] | None:
        return None if request.user.is_superuser or obj is not None else ["user"]

    def get_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> list[Any]:
        owner = ["user"] if request.user.is_superuser or obj is not None else []
        history = ["ends_in", "created_at", "last_used_at", "revoked_at"] if obj is not None else []
        if obj is not None and shows_activity(self.admin_site, request):
            history.append("activity")
        if obj is not None and not self.has_change_permission(request, obj):
            return [*owner, "name", "scopes", "addresses", "limits", "expires_at", *history]
        rest = ["addresses", "limits", "expires_at", "never_expires"]
        return [*owner, "name", "scopes", "single_scopes", *rest, *history]

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
            user=owner,
            name=obj.name,
            scopes=obj.scopes,
            addresses=obj.addresses,
            limits=obj.limits,
            expires_at=form.expiry,
        )
        obj.__dict__.update(made.__dict__)
        # Only the response may show it, since a message could be kept in a cookie.
        request._mcp_new_token = plain  # type: ignore[attr-defined]

    def response_add(
        self, request: HttpRequest, obj: AccessToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        plain = getattr(request, "_mcp_new_token", None)
        return (
            super().response_add(request, obj, post_url_continue) if plain is None else self._shown(request, obj, plain)
        )

    def _shown(self, request: HttpRequest, token: AccessToken, plain: str) -> HttpResponse:
        """The only page that shows the token."""
        own = {"token": plain, "object": token, "endpoint": _endpoint(request), "server_name": _server_name(request)}
        response = self._page(request, "new_token", {"title": _("The new token"), **own})
        response["Cache-Control"] = "no-store"
        return response

    def _page(self, request: HttpRequest, template: str, context: dict[str, Any]) -> TemplateResponse:
        changelist = reverse(self._url_name("changelist"), current_app=self.admin_site.name)
        shared = {**self.admin_site.each_context(request), "opts": self.opts, "changelist": changelist}
        return TemplateResponse(request, f"admin/mcp_django/{template}.html", {**shared, **context})

    def _url_name(self, view: str) -> str:
        return f"admin:{self.opts.app_label}_{self.opts.model_name}_{view}"

    # Rolling.

    def get_urls(self) -> list[Any]:
        name = self._url_name("roll").removeprefix("admin:")
        return [
            path("<path:object_id>/roll/", self.admin_site.admin_view(self.roll_view), name=name),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        token = self.get_object(request, key_in_url(object_id))
        can_roll = token is not None and token.is_current() and self._may_roll(request, token)
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), "can_roll": can_roll})

    def _may_roll(self, request: HttpRequest, token: AccessToken) -> bool:
        # The successor is a new token, which whoever rolls it gets to see.
        return self.has_change_permission(request, token) and self.has_add_permission(request)

    def roll_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Replace a token by its successor, which is shown once."""
        token = self.get_object(request, key_in_url(object_id))
        if token is None or not self._may_roll(request, token):
            raise PermissionDenied
        form = RollForm(request.POST or None, initial={"expires_at": default_expiry(timezone.now())})
        if form.is_valid():
            try:
                with acting(request):
                    grace = timedelta(seconds=form.cleaned_data["grace"])
                    made, plain = token.roll(grace=grace, expires_at=form.expiry)
            except ValidationError as error:
                form.add_error(None, error)
            else:
                self.log_change(request, token, "Rolled.")
                self.log_addition(request, made, f"Succeeds the token {token.pk}.")
                return self._shown(request, made, plain)
        return self._page(request, "roll_token", {"title": _("Roll the token"), "object": token, "form": form})

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
