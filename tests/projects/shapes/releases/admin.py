from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Sum
from django.utils.html import format_html, format_html_join

from tests.projects.shapes.releases import models

Admin: Any = admin.ModelAdmin
Tabular: Any = admin.TabularInline


@admin.register(models.Entry)
class EntryAdmin(Admin):
    """A hook that takes the request by its name alone, and changes only how a field looks."""

    exclude = ["body_html"]
    prepopulated_fields = {"slug": ["headline"]}

    def formfield_for_dbfield(self, db_field: Any, **kwargs: Any) -> Any:
        found = super().formfield_for_dbfield(db_field, **kwargs)
        if db_field.name == "body":
            found.widget.attrs["rows"] = 60
            found.help_text = format_html('<a href="{}">Pictures</a>', "/pictures")
        return found


@admin.register(models.Upload)
class UploadAdmin(Admin):
    """Cells of pictures, links and buttons."""

    list_display = ["title", "thumbnail", "link", "buttons"]

    def thumbnail(self, obj: Any) -> str:
        return format_html('<img src="{}" alt="{}">', obj.url, obj.alt_text)

    def link(self, obj: Any) -> str:
        return format_html('<a href="{}">{}</a>', obj.url, obj.title)

    def buttons(self, obj: Any) -> str:
        rows = (("md", "Markdown"), ("html", "HTML"))
        buttons = format_html_join("\n", '<li><button data-clipboard-content="{}">{}</button></li>', rows)
        return format_html("<ul>{}</ul>", buttons)


@admin.register(models.Releaser)
class ReleaserAdmin(Admin):
    """Keys that anyone may know, which are named like others."""

    list_display = ["name", "key_id", "key_url"]


@admin.register(models.Release)
class ReleaseAdmin(Admin):
    list_display = ["version", "date", "show_status"]
    search_fields = ["version"]
    list_filter = ["is_lts"]

    @admin.display(boolean=True, description="supported?", ordering="date")
    def show_status(self, obj: Any) -> bool:
        return bool(obj.is_lts)


class FixInline(Tabular):
    model = models.Fix
    extra = 0
    autocomplete_fields = ["release"]


@admin.register(models.Issue)
class IssueAdmin(Admin):
    """A relation that is written in an inline and filtered by, a property in the form, an order by two keys."""

    list_display = ["cve_year_number", "summary", "commit_hash_main", "record"]
    list_filter = ["releases"]
    search_fields = ["cve_year_number", "summary", "commit_hash_main"]
    readonly_fields = ["severity"]
    inlines = [FixInline]

    def get_ordering(self, request: Any) -> list[str]:
        return ["-score", "cve_year_number"]

    @admin.display(description="CVE Record")
    def record(self, obj: Any) -> str:
        return format_html('<a href="/cve/{}" target="_blank">CVE Record</a>', obj.cve_year_number)


@admin.register(models.Fix)
class FixAdmin(Admin):
    """Paths as columns, as filters and in the search."""

    list_display = ["issue__cve_year_number", "release__version", "commit_hash"]
    list_filter = ["issue__cve_year_number", "release__version"]
    search_fields = ["issue__cve_year_number", "release__version", "commit_hash"]

    def get_ordering(self, request: Any) -> list[str]:
        return ["-issue__cve_year_number", "release__version"]


class ActivityFilter(admin.SimpleListFilter):
    """Hides rows until somebody asks for them."""

    title = "Status"
    parameter_name = "status"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        return (None, "Active"), ("inactive", "Inactive"), ("all", "All")

    def choices(self, changelist: Any) -> Any:
        for lookup, title in self.lookup_choices:
            yield {
                "selected": self.value() == lookup,
                "query_string": changelist.get_query_string({self.parameter_name: lookup}, []),
                "display": title,
            }

    def queryset(self, request: Any, queryset: Any) -> Any:
        match self.value():
            case None:
                return queryset.filter(inactive=False)
            case "inactive":
                return queryset.filter(inactive=True)
        return queryset


@admin.register(models.Member)
class MemberAdmin(Admin):
    list_display = ["name", "level", "renewal"]
    list_filter = [ActivityFilter, "level"]
    inlines = [type("InvoiceInline", (Tabular,), {"model": models.Invoice})]

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).prefetch_related("invoice_set")

    def renewal(self, obj: Any) -> str:
        return format_html('<a href="/renew/{}"><img src="{}" alt="{}"></a>', obj.pk, "/pencil.svg", "renew")


class DonatedFilter(admin.DateFieldListFilter):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "donation date"


@admin.register(models.Hero)
class HeroAdmin(Admin):
    list_display = ["id", "name", "approved"]
    list_editable = ["approved"]
    list_filter = ["approved", ("donation__created", DonatedFilter)]

    def get_changeform_initial_data(self, request: Any) -> dict[str, str]:
        return {"id": "h4711"}


@admin.register(models.Donation)
class DonationAdmin(Admin):
    """A column of the list that its queryset computes."""

    list_display = ["id", "amount", "hero"]
    raw_id_fields = ["hero"]
    ordering = ["-created"]

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).annotate(amount=Sum("payment__amount"))

    def amount(self, obj: Any) -> Any:
        return obj.amount


@admin.register(models.Payment)
class PaymentAdmin(Admin):
    list_display = ["id", "amount", "stripe_charge_id", "donation"]
    list_select_related = ["donation__hero"]
    search_fields = ["stripe_charge_id", "donation__hero__name"]


@admin.register(models.Meeting)
class MeetingAdmin(Admin):
    fieldsets = [("Metadata", {"fields": ["title", "slug"]}), ("Report", {"fields": ["treasurer_report"]})]

    def get_changeform_initial_data(self, request: Any) -> dict[str, str]:
        return {"title": "Monthly meeting", "slug": "monthly-meeting"}
