from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpResponse
from django.urls import path
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from tests.projects.shapes.organizers import models

Admin: Any = admin.ModelAdmin
Tabular: Any = admin.TabularInline


class OfTeam(Admin):
    """Rows, and choices of the form, that are those of the user's team."""

    team = ""

    def get_queryset(self, request: Any) -> Any:
        found = super().get_queryset(request)
        return found if request.user.is_superuser else found.filter(**{f"{self.team}__in": [request.user]}).distinct()


@admin.action(description="Freeze selected Events")
def freeze(modeladmin: Any, request: Any, queryset: Any) -> None:
    messages.success(request, f"{queryset.update(is_frozen=True)} events frozen")


@admin.register(models.Event)
class EventAdmin(OfTeam):
    """Other fields for a superuser, and fewer to write once the event is over."""

    team = "team"
    list_display = ["name", "organizers", "city", "has_stats", "is_frozen"]
    search_fields = ["city", "name"]
    filter_horizontal = ["team"]
    actions = [freeze]

    def organizers(self, obj: Any) -> str:
        return ", ".join(member.username for member in obj.team.all())

    @admin.display(boolean=True, description="has stats?")
    def has_stats(self, obj: Any) -> bool:
        return obj.has_stats

    @admin.display(description="page URL")
    def full_url(self, obj: Any) -> str:
        return mark_safe(f'<a href="/{obj.page_url}">{obj.page_url}</a>')

    def get_readonly_fields(self, request: Any, obj: Any = None) -> set[str]:
        found = {"full_url"}
        if obj and not request.user.is_superuser:
            found |= {"city", "name", "page_url"} | ({"team"} if obj.is_frozen else set())
        return found

    def get_fieldsets(self, request: Any, obj: Any = None) -> list[Any]:
        if request.user.is_superuser:
            names = ["name", "city", "page_url", "is_frozen", "team", "applicants_count"]
            return [("Event info", {"fields": names})]
        return [("Event info", {"fields": ["name", "city", "full_url", "team"]})]


@admin.register(models.Form)
class FormAdmin(OfTeam):
    """A form whose choices depend on the user, a page beside those of the admin, a link in the list."""

    team = "event__team"
    list_display = ["text_header", "event", "submissions"]

    def get_form(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, **kwargs)
        if not request.user.is_superuser and "event" in form.base_fields:
            form.base_fields["event"].queryset = models.Event.objects.filter(team__in=[request.user])
        return form

    def get_urls(self) -> list[Any]:
        return [path("submissions/", self.admin_site.admin_view(self.all_submissions)), *super().get_urls()]

    def all_submissions(self, request: Any) -> HttpResponse:
        return HttpResponse(self.get_queryset(request).count())

    @admin.display(description="Applications")
    def submissions(self, obj: Any) -> str:
        return format_html('<a href="/{}" target="_blank">See all submitted applications</a>', obj.event.page_url)


class FormFilter(admin.SimpleListFilter):
    """Choices that depend on the user."""

    title = "Form"
    parameter_name = "form"

    def lookups(self, request: Any, queryset: Any) -> Any:
        found = models.Form.objects.all()
        if not request.user.is_superuser:
            found = found.filter(event__team__in=[request.user])
        return ((form.pk, form.text_header) for form in found)

    def queryset(self, request: Any, queryset: Any) -> Any:
        return queryset.filter(form=self.value()) if self.value() else queryset


@admin.register(models.Question)
class QuestionAdmin(OfTeam):
    team = "form__event__team"
    list_display = ["form", "title", "is_required"]
    list_filter = [FormFilter]


class AnswerInline(Tabular):
    model = models.Answer
    can_delete = False
    extra = 0
    readonly_fields = ["question", "answer"]


@admin.register(models.Application)
class ApplicationAdmin(Admin):
    list_display = ["form", "email"]
    list_filter = ["form"]
    inlines = [AnswerInline]


@admin.register(models.Sponsor)
class SponsorAdmin(OfTeam):
    team = "events__team"
    list_display = ["id", "name", "logo", "url"]
    list_per_page = 50
    search_fields = ["name"]
