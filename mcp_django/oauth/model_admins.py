"""Clients and grants in the admin: who may act for whom, and since when, with actions that end it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db import models
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_django.console.admin.base import ActingAdmin
from mcp_django.console.admin.links import activity_link
from mcp_django.console.admin.pausing import PausableAdmin, Subject
from mcp_django.console.credentials.lendings import scopes_in_words
from mcp_django.models import Grant, Restriction
from mcp_django.oauth.models import Client


class _ReadOnlyAdmin(ActingAdmin):
    """Rows that are made by logging in, and that only actions change."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # The permission is for the actions; a page has nothing to save.
        return obj is None and super().has_change_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        # Deleting is allowed away from the own page, and would show it to people who may not open it.
        return super().has_module_permission(request) and self.has_view_or_change_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Nobody deletes them here. They go with their user: without this, Django would refuse to delete the user.
        return not self.is_own_page(request)


class ClientAdmin(PausableAdmin, _ReadOnlyAdmin):
    """The OAuth clients that somebody has let in."""

    list_display = ["name_or_key", "host", "registered_by", "users", "last_used", "blocked_at"]
    list_filter = ["registered_by", "blocked_at"]
    search_fields = ["name", "key"]
    readonly_fields = ["key", "name", "host", "registered_by", "redirects", "created_at", "last_used", "blocked_at"]
    fields = (*readonly_fields,)
    actions = ["block", "unblock"]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        grants = Grant.objects.filter(client=models.OuterRef("key"), last_used_at__isnull=False)
        latest = grants.order_by("-last_used_at").values("last_used_at")[:1]
        found: models.QuerySet[Any] = super().get_queryset(request).annotate(used_at=models.Subquery(latest))
        return found

    def get_ordering(self, request: HttpRequest) -> list[Any]:
        return [models.F("used_at").desc(nulls_last=True), "-pk"]

    @admin.display(description=_("last used"), ordering="used_at")
    def last_used(self, client: Client) -> Any:
        return getattr(client, "used_at", None)

    @admin.display(description=_("calls itself"), ordering="name")
    def name_or_key(self, client: Client) -> str:
        return str(client)

    @admin.display(description=_("host"))
    def host(self, client: Client) -> str:
        return Grant(client=client.key).client_host or "-"

    @admin.display(description=_("redirect URIs"))
    def redirects(self, client: Client) -> str:
        return "\n".join(client.redirect_uris)

    def subject_of(self, obj: Client) -> Subject:
        return Subject(Restriction.Kind.APP, obj.key, gettext("the app %(app)s") % {"app": obj}, obj)

    def may_pause(self, request: HttpRequest, obj: Client) -> bool:
        # As for blocking it.
        return super().may_pause(request, obj) and self.has_change_permission(request)

    @admin.display(description=_("users"))
    def users(self, client: Client) -> int:
        return Grant.objects.current().filter(client=client.key).values("user").distinct().count()

    @admin.action(description=_("Block the selected clients and end their grants"), permissions=["change"])
    def block(self, request: HttpRequest, queryset: models.QuerySet[Client]) -> None:
        ended = 0
        for client in queryset.filter(blocked_at=None):
            ended += client.block()
            self.log_change(request, client, "Blocked.")
        said = ngettext("%(count)d grant was ended.", "%(count)d grants were ended.", ended)
        self.message_user(request, said % {"count": ended})

    @admin.action(description=_("Unblock the selected clients"), permissions=["change"])
    def unblock(self, request: HttpRequest, queryset: models.QuerySet[Client]) -> None:
        for client in queryset.filter(blocked_at__isnull=False):
            client.unblock()
            self.log_change(request, client, "Unblocked.")


class _HoldsFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("current", _("holds")), ("over", _("ended or expired"))]

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
        holds = models.Q(ended_at__isnull=True, expires_at__gt=timezone.now())
        match self.value():
            case "current":
                return queryset.filter(holds)
            case "over":
                return queryset.exclude(holds)
        return queryset


class GrantAdmin(PausableAdmin, _ReadOnlyAdmin):
    """What people let clients do. Users who are not superusers see, pause and revoke only their own."""

    list_display = ["user", "calls_itself", "client", "scope_names", "created_at", "last_used_at", "expires_at", "over"]
    list_filter = [_HoldsFilter]
    list_select_related = ["user"]
    readonly_fields = [
        "user", "client_name", "client", "resource", "scope_names", "declined_names", "created_at", "last_used_at",
        "expires_at", "over", "activity",
    ]  # fmt: skip
    fields = (*readonly_fields,)
    actions = ["revoke"]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        queryset = super().get_queryset(request)
        return queryset if request.user.is_superuser else queryset.filter(user=request.user.pk)

    def subject_of(self, obj: Grant) -> Subject:
        label = gettext("the app %(app)s of %(user)s") % {"app": obj, "user": obj.user}
        return Subject(Restriction.Kind.TOKEN, str(obj.line), label, obj)

    def may_pause(self, request: HttpRequest, obj: Grant) -> bool:
        return super().may_pause(request, obj) and self.has_change_permission(request) and obj.is_current()

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        return ["client_name", "client", f"user__{get_user_model().USERNAME_FIELD}"]

    @admin.display(description=_("calls itself"), ordering="client_name")
    def calls_itself(self, grant: Grant) -> str:
        return grant.client_name or "-"

    @admin.display(description=_("scopes"))
    def scope_names(self, grant: Grant) -> str:
        return scopes_in_words(grant)

    @admin.display(description=_("declined"))
    def declined_names(self, grant: Grant) -> str:
        return ", ".join(grant.declined) or "-"

    @admin.display(description=_("ended"), ordering="ended_at")
    def over(self, grant: Grant) -> str:
        if grant.ended_at is not None:
            return f"{timezone.localtime(grant.ended_at):%Y-%m-%d %H:%M} ({grant.get_ended_by_display()})"
        return "-" if grant.is_current() else str(_("expired"))

    @admin.display(description=_("activity"))
    def activity(self, grant: Grant) -> str:
        return activity_link(self.admin_site, _("of its user"), user=grant.user_id)

    @admin.action(description=_("Revoke the selected grants"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[Grant]) -> None:
        count = 0
        for grant in queryset.filter(ended_at__isnull=True):
            count += grant.end(Grant.Ended.REVOKED)
            self.log_change(request, grant, "Revoked.")
        said = ngettext("%(count)d grant was revoked.", "%(count)d grants were revoked.", count)
        self.message_user(request, said % {"count": count})
