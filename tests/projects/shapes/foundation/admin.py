from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.contenttypes.admin import GenericTabularInline
from django.urls import reverse
from django.utils.html import format_html

from tests.projects.shapes.foundation import models

Admin: Any = admin.ModelAdmin
Stacked: Any = admin.StackedInline
Tabular: Any = admin.TabularInline

_TRACKED = ("created", "updated", "creator", "last_modified_by")


class TrackedAdmin:
    """Hooks that add to what Django answers, and look at no object."""

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        return [*super().get_readonly_fields(request, obj), *_TRACKED]  # type: ignore[misc]

    def get_list_display(self, request: Any) -> list[str]:
        return [*super().get_list_display(request), "created", "updated"]  # type: ignore[misc]

    def get_list_filter(self, request: Any) -> list[Any]:
        return [*super().get_list_filter(request), "created"]  # type: ignore[misc]

    def get_fieldsets(self, request: Any, obj: Any = None) -> list[Any]:
        found = super().get_fieldsets(request, obj)  # type: ignore[misc]
        for _, fieldset in found:
            fieldset["fields"] = [name for name in fieldset["fields"] if name not in _TRACKED]
        return [*found, ("About it", {"fields": [("creator", "created"), ("last_modified_by", "updated")]})]


def inline(model: Any, *bases: Any, **members: Any) -> Any:
    return type(f"{model.__name__}Inline", bases, {"model": model, "extra": 0, **members})


class SponsorshipInline(Tabular):
    """Rows that are only shown, with a link to each."""

    model = models.Sponsorship
    fields = readonly_fields = ["link", "status", "year"]
    can_delete = False
    extra = 0

    def link(self, obj: Any) -> str:
        return format_html("<a href='{}'>{}</a>", reverse("admin:foundation_sponsorship_change", args=[obj.pk]), obj.pk)


class AssetInline(GenericTabularInline):
    """Rows of any model, with what a method makes of each."""

    model = models.Asset
    extra = max_num = 0
    readonly_fields = ["internal_name", "value"]

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def value(self, obj: Any = None) -> str:
        return obj.internal_name.upper() if obj else ""


class BenefitInline(Tabular):
    """Its rows, and what may be done with them, depend on the sponsorship that the page is of."""

    model = models.Benefit
    fields = ["name", "internal_value"]
    extra = 0

    def _shown(self, request: Any) -> Any:
        return self.parent_model.objects.filter(pk=request.resolver_match.kwargs.get("object_id")).first()

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        shown = self._shown(request)
        return super().has_add_permission(request, obj) and not (shown and shown.locked)

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return not (obj and obj.locked)

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        return ["name", "internal_value"] if obj and obj.locked else []

    def get_queryset(self, request: Any) -> Any:
        shown = self._shown(request)
        return super().get_queryset(request).filter(year=shown.year if shown else 0)


@admin.register(models.Post)
class PostAdmin(TrackedAdmin, Admin):
    date_hierarchy = "created"
    list_display = ["__str__", "status"]
    list_filter = ["status"]
    inlines = [inline(model, TrackedAdmin, Stacked) for model in (models.Link, models.Photo, models.Video)]


@admin.register(models.Release)
class ReleaseAdmin(TrackedAdmin, Admin):
    list_display = ["__str__", "name", "is_published"]
    inlines = [inline(models.ReleaseFile, TrackedAdmin, Stacked)]


@admin.register(models.Event)
class EventAdmin(TrackedAdmin, Admin):
    inlines = [inline(models.OccurringRule, Stacked, max_num=1), inline(models.RecurringRule, Stacked)]


@admin.register(models.Page)
class PageAdmin(TrackedAdmin, Admin):
    inlines = [inline(models.Image, Stacked), inline(models.Document, Stacked)]


@admin.register(models.Sponsor)
class SponsorAdmin(TrackedAdmin, Admin):
    search_fields = ["name"]
    inlines = [inline(models.Contact, Tabular, raw_id_fields=["user"]), SponsorshipInline, AssetInline]

    def get_prepopulated_fields(self, request: Any, obj: Any = None) -> dict[str, Any]:
        return {} if obj else {"slug": ["name"]}


@admin.register(models.Sponsorship)
class SponsorshipAdmin(Admin):
    list_display = ["sponsor", "status", "year"]
    inlines = [BenefitInline]

    def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
        found = super().get_fieldsets(request, obj)
        return [(title, {**options, "classes": ["open"] if obj and obj.locked else []}) for title, options in found]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        return ["status", *(["year"] if obj and obj.locked else [])]
