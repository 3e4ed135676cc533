from __future__ import annotations

from typing import Any

from django.contrib import admin
from guardian.admin import GuardedModelAdmin
from import_export.admin import ImportExportModelAdmin
from mptt.admin import DraggableMPTTAdmin, MPTTModelAdmin
from parler.admin import TranslatableAdmin
from polymorphic.admin import PolymorphicChildModelAdmin, PolymorphicChildModelFilter, PolymorphicParentModelAdmin
from reversion.admin import VersionAdmin
from simple_history.admin import SimpleHistoryAdmin
from treebeard.admin import TreeAdmin
from treebeard.forms import movenodeform_factory
from unfold.admin import ModelAdmin, StackedInline

from tests.projects.popular.shelf import models

admin.site.register(models.Poll, SimpleHistoryAdmin)
admin.site.register(models.Genre, MPTTModelAdmin)
admin.site.register(
    models.Place,
    DraggableMPTTAdmin,
    list_display=("tree_actions", "indented_title"),
    list_display_links=("indented_title",),
)
admin.site.register(models.Task, GuardedModelAdmin)


@admin.register(models.Title)
class TitleAdmin(TranslatableAdmin):  # type: ignore[type-arg]
    list_display = ("title", "number", "language_column")
    fieldsets = ((None, {"fields": ("title", "summary", "number")}),)


class ProjectChildAdmin(PolymorphicChildModelAdmin):
    base_model = models.Project


@admin.register(models.ArtProject)
class ArtProjectAdmin(ProjectChildAdmin):
    base_model = models.ArtProject
    show_in_index = True


@admin.register(models.ResearchProject)
class ResearchProjectAdmin(ProjectChildAdmin):
    base_model = models.ResearchProject


@admin.register(models.Project)
class ProjectAdmin(PolymorphicParentModelAdmin):
    base_model = models.Project
    child_models = (models.ArtProject, models.ResearchProject)
    list_filter = (PolymorphicChildModelFilter,)


class BookInline(admin.TabularInline):  # type: ignore[type-arg]
    model = models.Book
    fields = ("name", "price")


@admin.register(models.Author)
class AuthorAdmin(ImportExportModelAdmin):
    inlines = (BookInline,)


@admin.register(models.Book)
class BookAdmin(ImportExportModelAdmin):
    list_display = ("name", "author", "price")


@admin.register(models.Article)
class ArticleAdmin(VersionAdmin):
    list_display = ("name", "author")


@admin.register(models.Section)
class SectionAdmin(TreeAdmin):
    form = movenodeform_factory(models.Section)


class BulbInline(StackedInline):  # type: ignore[misc]
    model = models.Bulb


@admin.register(models.Lamp)
class LampAdmin(ModelAdmin):  # type: ignore[misc]
    list_display = ("name", "watts")
    inlines = (BulbInline,)


@admin.register(models.Food)
class FoodAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "tag_list")

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).prefetch_related("tags")

    def tag_list(self, obj: Any) -> str:
        return ", ".join(tag.name for tag in obj.tags.all())
