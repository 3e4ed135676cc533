"""Tokens in the admin: made, shown once, and revoked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext, ngettext, pgettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from mcp_django.access import nonces
from mcp_django.access.trail import acting
from mcp_django.bridge.sites import site
from mcp_django.console.admin.lent import LentAdmin
from mcp_django.console.admin.links import activity_link, shows_activity
from mcp_django.console.admin.pausing import PausableAdmin, Subject, of_token
from mcp_django.console.admin.sees import SeesAdmin
from mcp_django.console.admin.token_forms import AccessTokenForm, RollForm
from mcp_django.console.admin.token_status import PAUSED, cell, moment, status_of
from mcp_django.console.admin.token_templates import template_of, templates
from mcp_django.console.admin.token_words import WordsAdmin
from mcp_django.console.admin.user_field import UserFieldAdmin
from mcp_django.console.credentials.lendings import scopes_in_words
from mcp_django.console.credentials.lifetimes import SentBefore
from mcp_django.console.credentials.limits_field import limits_in_words
from mcp_django.console.credentials.makers import maker_in_words, maker_of
from mcp_django.console.credentials.scopes import reach_of
from mcp_django.console.pages.connecting import client_setups
from mcp_django.console.pages.project_name import server_name
from mcp_django.core.compat.admin import key_in_url
from mcp_django.core.secret import Secret
from mcp_django.models import AccessToken, sealed


class AccessTokenAdmin(PausableAdmin, LentAdmin, UserFieldAdmin, WordsAdmin, SeesAdmin):
    """Tokens are made, shown once, and revoked. Users who are not superusers make, see and revoke only their own."""

    form = AccessTokenForm
    change_form_template = "admin/mcp_django/accesstoken/change_form.html"
    list_display = ["name_and_end", "who", "scope_names", "status", "last_used", "ends"]
    list_filter = ["revoked_at", "expires_at"]
    list_select_related = ["user"]
    readonly_fields = [
        "scope_names",
        "limit_names",
        "ends",
        "maker",
        "for_a_while",
        "last_characters",
        "status",
        "created_at",
        "last_used_at",
        "revoked_at",
        "activity",
    ]
    actions = ["revoke"]

    # The list.

    @admin.display(description=_("name"), ordering="name")
    def name_and_end(self, token: AccessToken) -> str:
        return cell(token, f"{token} …{token.last_chars}" if token.last_chars else token)

    @admin.display(description=_("user"), ordering="user")
    def who(self, token: AccessToken) -> str:
        return cell(token, token.user)

    @admin.display(description=_("scopes"))
    def scope_names(self, token: AccessToken) -> str:
        return cell(token, scopes_in_words(token))

    @admin.display(description=_("status"))
    def status(self, token: AccessToken) -> str:
        found = status_of(token)
        return (PAUSED if not found.is_dead and self.is_paused(token) else found).badge()

    def subject_of(self, obj: AccessToken) -> Subject:
        return of_token(obj)

    def may_pause(self, request: HttpRequest, obj: AccessToken) -> bool:
        return super().may_pause(request, obj) and self._may_revoke(request, obj)

    @admin.display(description=_("last used"), ordering="last_used_at")
    def last_used(self, token: AccessToken) -> str:
        return cell(token, moment(token.last_used_at))

    @admin.display(description=_("ends"), ordering="expires_at")
    def ends(self, token: AccessToken) -> str:
        return cell(token, moment(token.expires_at) if token.expires_at else pgettext("lifetime", "never"))

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        shown = [*super().get_list_display(request)]
        return [*shown, self._links_for(request)] if self.has_change_permission(request) else shown

    def _links_for(self, request: HttpRequest) -> Callable[[AccessToken], str]:
        """A column of what the viewer may do. A method of the ModelAdmin would not get the request."""

        @admin.display(description=_("what you can do"))
        def links(token: AccessToken) -> str:
            named = {"roll": _("Roll"), "revoke": _("Revoke")}
            may = {"roll": self._may_roll(request, token), "revoke": self._may_revoke(request, token)}
            found = [(self.page_url(page, token.pk), text, token, text) for page, text in named.items() if may[page]]
            return format_html_join(" · ", '<a href="{}" aria-label="{} {}">{}</a>', found) or "-"

        return links

    # The page of a token.

    @admin.display(description=_("limits"))
    def limit_names(self, token: AccessToken) -> str:
        return limits_in_words(token.limits) or "-"

    @admin.display(description=_("last characters"))
    def last_characters(self, token: AccessToken) -> str:
        return f"…{token.last_chars}" if token.last_chars else "-"

    @admin.display(description=_("made by"))
    def maker(self, token: AccessToken) -> str:
        return maker_in_words(token)

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

    def get_exclude(self, request: HttpRequest, obj: AccessToken | None = None) -> list[str]:
        of_others = [] if request.user.is_superuser or obj is not None else ["user"]
        return [*super().get_exclude(request, obj), *of_others]

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        return ["name", "=last_chars", f"user__{get_user_model().USERNAME_FIELD}"]

    def get_fields(self, request: HttpRequest, obj: AccessToken | None = None) -> list[Any]:
        owner = ["user"] if request.user.is_superuser or obj is not None else []
        history = (
            ["maker", "for_a_while", "last_characters", "status", "created_at", "last_used_at", "revoked_at"]
            if obj is not None
            else []
        )
        if obj is not None and shows_activity(self.admin_site, request):
            history.append("activity")
        if obj is not None and not self.has_change_permission(request, obj):
            return [*owner, "name", "scope_names", "addresses", "limit_names", "ends", *history]
        rest = ["lifetime", "expires_at", "limits", "addresses", *(["nonce"] if obj is None else [])]
        return [*owner, "name", "scopes", *rest, *history]

    def get_actions(self, request: HttpRequest, action_location: Any = None) -> dict[str, Any]:
        # Django passes the location, the list or the form, from 6.1 on.
        location = [] if action_location is None else [action_location]
        actions = super().get_actions(request, *location)
        # Many tokens at once are revoked, not deleted, since a deleted token leaves no trace of its user.
        actions.pop("delete_selected", None)
        return actions

    def has_delete_permission(self, request: HttpRequest, obj: AccessToken | None = None) -> bool:
        # A deleted token leaves no trace of its user. Used ones go with their user, whom Django would otherwise refuse
        # to delete, and by mcp_token --clear.
        was_used = obj is not None and obj.last_used_at is not None
        return super().has_delete_permission(request, obj) and not (was_used and self.is_own_page(request))

    # A new token.

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        key = initial.pop("template", None)
        return initial if key is None else {**initial, "template": template_of(key)}

    @method_decorator(sensitive_variables())
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST":
            nonces.forget_expired()
        extra_context = {
            **(extra_context or {}),
            "token_templates": list(templates()),
            "template_key": request.GET.get("template", ""),
        }
        try:
            return super().add_view(request, form_url, extra_context)
        except SentBefore:
            return self._made_before(request)

    def save_model(self, request: HttpRequest, obj: AccessToken, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        form.use_up()
        owner = obj.user if request.user.is_superuser else request.user
        made, plain = sealed(
            AccessToken.objects.create_token(
                user=owner,
                name=obj.name,
                scopes=obj.scopes,
                addresses=obj.addresses,
                limits=obj.limits,
                expires_at=form.expiry,
                made_by=maker_of(site, request, owner),
            )
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

    def _shown(self, request: HttpRequest, token: AccessToken, plain: Secret) -> HttpResponse:
        """The only page that shows the token."""
        clients = client_setups(_endpoint(request), server_name(site), token=plain)
        title = _("The new token")
        return self.page(
            request,
            "new_token",
            title=title,
            token=plain,
            object=token,
            clients=clients,
            test_url=self.page_url("test"),
        )

    def _made_before(self, request: HttpRequest) -> HttpResponse:
        """The page for a form that is sent again."""
        return self.page(request, "token_made", title=_("The token was already made"))

    @method_decorator([sensitive_post_parameters("token"), sensitive_variables()])
    def test_view(self, request: HttpRequest) -> HttpResponse:
        """What the token reaches that the viewer was just shown. The token is neither stored nor shown again."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        reach = reach_of(request, site, Secret(request.POST.get("token", "")))
        # Tokens that the viewer could not see in the list count as unknown.
        if reach is not None and not self.get_queryset(request).filter(pk=reach.token_id).exists():
            reach = None
        return self.page(request, "token_test", title=_("What the token reaches"), reach=reach)

    # Rolling and revoking.

    def get_urls(self) -> list[Any]:
        return [
            self.page_path("test/", self.test_view, "test"),
            self.page_path("<path:object_id>/roll/", self.roll_view, "roll", atomic=False),
            self.page_path("<path:object_id>/revoke/", self.revoke_view, "revoke"),
            self.page_path("add/", self.add_view, "add", atomic=False),
            *super().get_urls(),
        ]

    def buttons(self, request: HttpRequest, row: AccessToken) -> Iterator[tuple[str, Any]]:
        yield "sees", _("Sees")
        if self._may_roll(request, row):
            yield "roll", _("Roll")
        if self._may_revoke(request, row):
            yield "revoke", _("Revoke")
        yield from super().buttons(request, row)

    def _may_roll(self, request: HttpRequest, token: AccessToken) -> bool:
        # Rolling shows a new token, so it needs the permission to add one.
        return self._may_revoke(request, token) and self.has_add_permission(request)

    def _may_revoke(self, request: HttpRequest, token: AccessToken) -> bool:
        return token.is_current() and self.has_change_permission(request, token)

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask once, and end the token."""
        token = self.get_object(request, key_in_url(object_id))
        if token is None or not self.has_change_permission(request, token):
            raise PermissionDenied
        if not token.is_current():
            self.message_user(request, _("This token has already ended."), messages.WARNING)
            return HttpResponseRedirect(self.page_url("changelist"))
        if request.method != "POST":
            back = self.page_url("changelist")
            return self.page(request, "revoke_token", title=_("Revoke the token"), object=token, back=back)
        with acting(request):
            token.revoke()
        self.log_change(request, token, gettext("Revoked."))
        self.message_user(request, _("The token “%(token)s” was revoked.") % {"token": token})
        return HttpResponseRedirect(self.page_url("changelist"))

    @method_decorator(sensitive_variables())
    def roll_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Replace a token by its successor, which is shown once."""
        token = self.get_object(request, key_in_url(object_id))
        if token is None or not self.has_change_permission(request, token) or not self.has_add_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            nonces.forget_expired()
        form = RollForm(request.POST or None)
        if form.is_valid():
            try:
                return self._roll(request, token, form)
            except SentBefore:
                return self._made_before(request)
            except ValidationError as error:
                form.add_error(None, error)
        return self.page(request, "roll_token", title=_("Roll the token"), object=token, form=form)

    def _roll(self, request: HttpRequest, token: AccessToken, form: RollForm) -> HttpResponse:
        grace = timedelta(seconds=form.cleaned_data["grace"])
        with acting(request), transaction.atomic(using=nonces.database()):
            form.use_up()
            made, plain = sealed(
                token.roll(grace=grace, expires_at=form.expiry, made_by=maker_of(site, request, token.user))
            )
        self.log_change(request, token, gettext("Rolled."))
        self.log_addition(request, made, gettext("Succeeds the token %(id)s.") % {"id": token.pk})
        return self._shown(request, made, plain)

    @admin.action(description=_("Revoke the selected tokens"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[AccessToken]) -> None:
        count = 0
        for token in queryset.filter(revoked_at__isnull=True):
            token.revoke()
            self.log_change(request, token, gettext("Revoked."))
            count += 1
        self.message_user(
            request,
            ngettext("%(count)d token was revoked.", "%(count)d tokens were revoked.", count) % {"count": count},
        )


def _endpoint(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("mcp_django:endpoint"))
