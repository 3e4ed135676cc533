"""Clients and grants in the admin: who may act for whom, and since when, with actions that end it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext, pgettext
from django.utils.translation import gettext_lazy as _

from mcp_django.access.trail import acting
from mcp_django.console.admin.base import ButtonsAdmin
from mcp_django.console.admin.lent import LentAdmin
from mcp_django.console.admin.links import activity_link
from mcp_django.console.admin.pausing import PausableAdmin, Subject
from mcp_django.console.admin.token_status import moment
from mcp_django.console.credentials.lendings import scopes_in_words
from mcp_django.core.compat.admin import key_in_url
from mcp_django.models import Grant, Restriction
from mcp_django.oauth.models import Client


class _ReadOnlyAdmin(ButtonsAdmin):
    """Rows that are made by logging in, and that only actions and buttons change."""

    def may_act(self, request: HttpRequest) -> bool:
        """Whether the viewer may end rows of this list. A page has nothing to save, so it is not asked for a row."""
        return self.has_change_permission(request)

    def asked(self, request: HttpRequest, object_id: str) -> Any:
        """The row that a page is about. Raises PermissionDenied."""
        row = self.get_object(request, key_in_url(object_id))
        if row is None or not self.may_act(request):
            raise PermissionDenied
        return row

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

    list_display = ["app", "registered_by", "users", "last_used", "blocked"]
    list_filter = ["registered_by", "blocked_at"]
    search_fields = ["name", "key"]
    readonly_fields = ["key", "name", "host", "registered_by", "redirects", "created_at", "last_used", "blocked_at"]
    fields = (*readonly_fields,)
    actions = ["block", "unblock"]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        grants = Grant.objects.filter(client=models.OuterRef("key"))
        latest = grants.filter(last_used_at__isnull=False).order_by("-last_used_at").values("last_used_at")[:1]
        current = Grant.objects.current().filter(client=models.OuterRef("key")).order_by().values("client")
        users = current.annotate(number=models.Count("user", distinct=True)).values("number")
        counted = {"used_at": models.Subquery(latest), "user_count": models.Subquery(users)}
        found: models.QuerySet[Any] = super().get_queryset(request).annotate(**counted)
        return found

    def get_ordering(self, request: HttpRequest) -> list[Any]:
        return [models.F("used_at").desc(nulls_last=True), "-pk"]

    @admin.display(description=_("last used"), ordering="used_at")
    def last_used(self, client: Client) -> Any:
        return moment(getattr(client, "used_at", None))

    @admin.display(description=_("blocked"), ordering="blocked_at")
    def blocked(self, client: Client) -> Any:
        return "-" if client.blocked_at is None else moment(client.blocked_at)

    @admin.display(description=_("app"), ordering="name")
    def app(self, client: Client) -> str:
        return _named(str(client), self.host(client))

    @admin.display(description=_("host"))
    def host(self, client: Client) -> str:
        return Grant(client=client.key).client_host or "-"

    @admin.display(description=_("redirect URIs"))
    def redirects(self, client: Client) -> str:
        return "\n".join(client.redirect_uris)

    def subject_of(self, obj: Client) -> Subject:
        return Subject(Restriction.Kind.APP, obj.key, gettext("the app %(app)s") % {"app": obj}, obj)

    def may_pause(self, request: HttpRequest, obj: Client) -> bool:
        return super().may_pause(request, obj) and self.may_act(request)

    @admin.display(description=_("users"), ordering="user_count")
    def users(self, client: Client) -> int:
        return getattr(client, "user_count", None) or 0

    def get_urls(self) -> list[Any]:
        return [self.page_path("<path:object_id>/block/", self.block_view, "block"), *super().get_urls()]

    def buttons(self, request: HttpRequest, row: Client) -> Iterator[tuple[str, Any]]:
        if self.may_act(request):
            yield "block", _("Block") if row.blocked_at is None else _("Unblock")
        yield from super().buttons(request, row)

    def block_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask once, and block the client; or unblock one that is blocked."""
        client: Client = self.asked(request, object_id)
        is_blocked, back = client.blocked_at is not None, self.page_url("change", object_id)
        if request.method != "POST":
            title = _("Unblock the client") if is_blocked else _("Block the client")
            grants = Grant.objects.current().filter(client=client.key).count()
            return self.page(request, "block_client", title=title, object=client, grants=grants, back=back)
        chosen = Client.objects.filter(pk=client.pk)
        with acting(request):
            # What the form said counts: somebody may have blocked it since.
            (self.unblock if request.POST.get("is_blocked") else self.block)(request, chosen)
        return HttpResponseRedirect(back)

    @admin.action(description=_("Block the selected clients and end their grants"), permissions=["change"])
    def block(self, request: HttpRequest, queryset: models.QuerySet[Client]) -> None:
        ended = 0
        for client in queryset.filter(blocked_at=None):
            ended += client.block()
            self.log_change(request, client, gettext("Blocked."))
        said = ngettext("%(count)d grant was ended.", "%(count)d grants were ended.", ended)
        self.message_user(request, said % {"count": ended})

    @admin.action(description=_("Unblock the selected clients"), permissions=["change"])
    def unblock(self, request: HttpRequest, queryset: models.QuerySet[Client]) -> None:
        count = 0
        for client in queryset.filter(blocked_at__isnull=False):
            client.unblock()
            self.log_change(request, client, gettext("Unblocked."))
            count += 1
        said = ngettext("%(count)d client was unblocked.", "%(count)d clients were unblocked.", count)
        self.message_user(request, said % {"count": count})


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


class GrantAdmin(PausableAdmin, LentAdmin, _ReadOnlyAdmin):
    """What people let clients do. Users who are not superusers see, pause and revoke only their own."""

    list_display = ["who", "app", "scope_names", "since", "last_used", "state"]
    list_filter = [_HoldsFilter]
    list_select_related = ["user"]
    readonly_fields = [
        "user", "client_name", "client", "resource", "scope_names", "for_a_while", "declined_names", "since",
        "last_used", "state", "activity",
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
        return super().may_pause(request, obj) and self.may_act(request) and obj.is_current()

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        return ["client_name", "client", f"user__{get_user_model().USERNAME_FIELD}"]

    @admin.display(description=_("user"), ordering="user")
    def who(self, grant: Grant) -> str:
        return str(grant.user)

    @admin.display(description=_("app"), ordering="client_name")
    def app(self, grant: Grant) -> str:
        return _named(grant.client_name or "-", grant.client_host)

    @admin.display(description=_("since"), ordering="created_at")
    def since(self, grant: Grant) -> Any:
        return moment(grant.created_at)

    @admin.display(description=_("last used"), ordering="last_used_at")
    def last_used(self, grant: Grant) -> Any:
        return moment(grant.last_used_at)

    @admin.display(description=_("scopes"))
    def scope_names(self, grant: Grant) -> str:
        return scopes_in_words(grant)

    @admin.display(description=_("declined"))
    def declined_names(self, grant: Grant) -> str:
        return ", ".join(grant.declined) or "-"

    @admin.display(description=_("state"), ordering="expires_at")
    def state(self, grant: Grant) -> str:
        """Whether it holds, with the moment at which it ends or has ended, and why."""
        if grant.ended_at is not None:
            return _badge("", grant.get_ended_by_display(), grant.ended_at)
        return _badge("is-good", _("holds until"), grant.expires_at) if grant.is_current() else (
            _badge("", pgettext("grant", "expired"), grant.expires_at)
        )  # fmt: skip

    @admin.display(description=_("activity"))
    def activity(self, grant: Grant) -> str:
        return activity_link(self.admin_site, _("of its user"), user=grant.user_id)

    def get_urls(self) -> list[Any]:
        return [self.page_path("<path:object_id>/revoke/", self.revoke_view, "revoke"), *super().get_urls()]

    def buttons(self, request: HttpRequest, row: Grant) -> Iterator[tuple[str, Any]]:
        if row.ended_at is None and self.may_act(request):
            yield "revoke", _("Revoke")
        yield from super().buttons(request, row)

    def may_end(self, request: HttpRequest, row: Any) -> bool:
        return self.may_act(request)

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask once, and end the grant."""
        grant, back = self.asked(request, object_id), self.page_url("change", object_id)
        if request.method != "POST":
            return self.page(request, "revoke_grant", title=_("Revoke the grant"), object=grant, back=back)
        with acting(request):
            self.revoke(request, Grant.objects.filter(pk=grant.pk))
        return HttpResponseRedirect(back)

    @admin.action(description=_("Revoke the selected grants"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[Grant]) -> None:
        count = 0
        for grant in queryset.filter(ended_at__isnull=True):
            count += grant.end(Grant.Ended.REVOKED)
            self.log_change(request, grant, gettext("Revoked."))
        said = ngettext("%(count)d grant was revoked.", "%(count)d grants were revoked.", count)
        self.message_user(request, said % {"count": count})


def _named(name: str, host: str) -> str:
    """What a client calls itself, which nobody has verified, above the host that answers for it."""
    return format_html('{}<br><span class="mcp mcp-quiet">{}</span>', name, host) if host else name


def _badge(look: str, text: Any, at: datetime) -> str:
    return format_html('<span class="mcp"><span class="mcp-badge {}">{}</span> {}</span>', look, text, moment(at))
