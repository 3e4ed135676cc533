from __future__ import annotations

import datetime
from typing import Any

from django.contrib import admin
from django.contrib.auth import login
from django.core.paginator import Paginator
from django.db.models import Count, F, OuterRef, Subquery
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from tests.projects.shapes.watching import models

Admin: Any = admin.ModelAdmin


class ChecksFilter(admin.SimpleListFilter):
    """Asks for what the queryset of the list computes."""

    title = "check count"
    parameter_name = "num_checks"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return [(str(number), f"More than {number}") for number in (0, 10)]

    def queryset(self, request: Any, queryset: Any) -> Any:
        return queryset.filter(num_checks__gt=int(self.value())) if self.value() else queryset


@admin.register(models.Profile)
class ProfileAdmin(Admin):
    """Columns that the queryset computes, actions that log in or need no permission, and secrets in the form."""

    readonly_fields = ["email"]
    search_fields = ["id", "user__email"]
    list_select_related = ["user"]
    list_display = ["id", "email", "checks", "date_joined", "over_limit", "sms"]
    list_filter = ["sms_limit", ChecksFilter, "over_limit_date"]
    fieldsets = [("Profile", {"fields": ["token"]}), ("Limits", {"fields": ["sms_limit", "sms_sent"]})]
    actions = ["login", "remove_totp", "forgive"]

    def get_queryset(self, request: Any) -> Any:
        checks = models.Check.objects.filter(project__owner=OuterRef("user_id")).order_by()
        counted = checks.values("project__owner").annotate(number=Count("pk")).values("number")
        return super().get_queryset(request).annotate(num_checks=Subquery(counted))

    def email(self, obj: Any) -> str:
        return format_html("{} <span>{}</span>", obj.user.email, "free") if obj.sms_limit > 3 else obj.user.email

    def checks(self, obj: Any) -> str:
        return format_html("<b>{} of {}</b>", obj.num_checks or 0, obj.sms_limit)

    @admin.display(ordering="user__date_joined")
    def date_joined(self, obj: Any) -> Any:
        return obj.user.date_joined

    @admin.display(ordering="over_limit_date")
    def over_limit(self, obj: Any) -> Any:
        return obj.over_limit_date.date() if obj.over_limit_date else None

    def sms(self, obj: Any) -> str:
        return f"{obj.sms_sent} of {obj.sms_limit}"

    def login(self, request: Any, queryset: Any) -> Any:
        login(request, queryset.get().user, "django.contrib.auth.backends.ModelBackend")
        return redirect("admin:index")

    @admin.action(description="Remove TOTP")
    def remove_totp(self, request: Any, queryset: Any) -> None:
        for profile in queryset:
            profile.totp = None
            profile.save()
        self.message_user(request, f"Removed TOTP for {len(queryset)} profile(s)")

    def forgive(self, request: Any, queryset: Any) -> None:
        self.message_user(request, f"{queryset.update(over_limit_date=None)} user(s) forgiven")


@admin.register(models.Project)
class ProjectAdmin(Admin):
    """Several counts beside each other, and keys of several kinds."""

    readonly_fields = ["code", "owner"]
    list_display = ["id", "name_", "usage", "switch"]
    search_fields = ["id", "name", "owner__email", "code"]

    def get_queryset(self, request: Any) -> Any:
        found = super().get_queryset(request).select_related("owner")
        return found.annotate(num_checks=Count("check", distinct=True), num_channels=Count("channel", distinct=True))

    def name_(self, obj: Any) -> str:
        return obj.name or f"Default Project for {obj.owner.email}"

    def usage(self, obj: Any) -> str:
        return format_html("<strong>{} checks</strong>, {} channels", obj.num_checks, obj.num_channels)

    def switch(self, obj: Any) -> str:
        return format_html("<a href='{}'>Show Checks</a>", reverse("page", args=[obj.code]))


@admin.register(models.Check)
class CheckAdmin(Admin):
    """Staff without the permission on the model may have it on single rows."""

    list_display = ["project", "name", "filter_body"]

    def has_module_permission(self, request: Any) -> bool:
        return True

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is None or super().has_view_permission(request) or request.user.has_perm("watching.view_check", obj)

    def get_queryset(self, request: Any) -> Any:
        found = super().get_queryset(request)
        if super().has_view_permission(request):
            return found
        return found.filter(pk__in=[row.pk for row in found if self.has_view_permission(request, row)])


class KnownPages(Paginator):  # type: ignore[type-arg]
    """Counts nothing, since there are too many rows."""

    count = 1_000
    page_range = range(1, 11)


@admin.register(models.Ping)
class PingAdmin(Admin):
    readonly_fields = ["owner", "has_body"]
    list_display = ["id", "created", "owner", "scheme"]
    exclude = ["body"]
    paginator = KnownPages
    show_full_result_count = False


class ErrorFilter(admin.SimpleListFilter):
    title = "error"
    parameter_name = "status"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return [("ok", "No Error"), ("error", "Error")]

    def queryset(self, request: Any, queryset: Any) -> Any:
        name = "last_error" if queryset.model is models.Channel else "error"
        match self.value():
            case "ok":
                return queryset.filter(**{name: ""})
            case "error":
                return queryset.exclude(**{name: ""})
        return queryset


class SlowFilter(admin.SimpleListFilter):
    title = "last notify duration"
    parameter_name = "last_notify_duration"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return zip("16", ["More than 1s", "More than 6s"], strict=True)

    def queryset(self, request: Any, queryset: Any) -> Any:
        least = datetime.timedelta(seconds=float(self.value() or 0))
        return queryset.filter(last_notify_duration__gt=least) if self.value() else queryset


@admin.register(models.Channel)
class ChannelAdmin(Admin):
    """Cells with entities, blanks and marked-up words; a page of the site that only the list can name."""

    search_fields = ["value", "project__owner__email", "code"]
    readonly_fields = ["code"]
    list_display = ["id", "transport", "project_", "status", "time"]
    list_filter = ["kind", SlowFilter, ErrorFilter, "disabled"]
    raw_id_fields = ["project"]
    actions = ["disable"]

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).annotate(project_code=F("project__code"), email=F("project__owner__email"))

    def view_on_site(self, obj: Any) -> str:
        return reverse("page", args=[obj.project_code])

    def project_(self, obj: Any) -> str:
        return format_html('{} &rsaquo; <a href="{}">{}</a>', obj.email, self.view_on_site(obj), "Default")

    def transport(self, obj: Any) -> str:
        return format_html('<span class="ic">{}</span> &nbsp; {}{}', obj.kind, obj.kind, " (not verified)")

    @mark_safe
    def status(self, obj: Any) -> str:
        return "<span class='d'>Disabled</span>" if obj.disabled else "-"

    def time(self, obj: Any) -> str | None:
        return f"{obj.last_notify_duration.total_seconds():.1f}" if obj.last_notify_duration else None

    def disable(self, request: Any, queryset: Any) -> None:
        self.message_user(request, f"Disabled {queryset.update(disabled=True)} channel(s)")


@admin.register(models.Notification)
class NotificationAdmin(Admin):
    """A path as a column, and cells that fail for want of a related row."""

    readonly_fields = ["owner", "code"]
    list_display = ["id", "channel__kind", "project", "channel_value", "receipt", "error"]
    list_filter = ["channel__kind", ErrorFilter]
    list_select_related = ["channel__project"]
    raw_id_fields = ["channel"]

    def channel_value(self, obj: Any) -> str:
        return format_html("<div>{}</div>", obj.channel.value)

    def project(self, obj: Any) -> str:
        url = reverse("page", args=[obj.channel.project.code])
        return format_html("""<div><a href="{}">{}</a></div>""", url, obj.channel.project.name)


@admin.register(models.Record)
class RecordAdmin(Admin):
    """Rows that nobody writes, with a text that folds out."""

    readonly_fields = ["message"]
    list_display = ["logger", "message_traceback"]
    list_filter = ["level"]

    def logger(self, obj: Any) -> str:
        return format_html("<span>{}</span> {}", obj.get_level_display()[0], obj.message)

    def message_traceback(self, obj: Any) -> str:
        folded = "{}<details><summary>Show traceback</summary><pre>{}</pre></details>\n\n"
        return format_html(folded, obj.message, obj.traceback) if obj.traceback else obj.message

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False
