from __future__ import annotations

from django.contrib import admin
from django.db.models import JSONField
from django_json_widget.widgets import JSONEditorWidget
from guardian.admin import GuardedModelAdmin
from import_export.admin import ImportExportModelAdmin
from mptt.admin import DraggableMPTTAdmin, MPTTModelAdmin
from nested_admin import NestedModelAdmin, NestedStackedInline, NestedTabularInline
from parler.admin import TranslatableAdmin
from polymorphic.admin import PolymorphicChildModelAdmin, PolymorphicParentModelAdmin
from reversion.admin import VersionAdmin
from simple_history.admin import SimpleHistoryAdmin
from treebeard.admin import TreeAdmin
from treebeard.forms import movenodeform_factory

from tests.projects.writing.studio import models

admin.site.register(models.Folder)
admin.site.register(models.Track, ImportExportModelAdmin)
admin.site.register(models.Genre, MPTTModelAdmin)
admin.site.register(models.Place, DraggableMPTTAdmin)


@admin.register(models.Task)
class TaskAdmin(GuardedModelAdmin):  # type: ignore[misc]
    user_can_access_owned_objects_only = True
    user_owned_objects_field = "owner"
    raw_id_fields = ("owner",)


class ClauseInline(admin.TabularInline):  # type: ignore[type-arg]
    model = models.Clause
    extra = 1


@admin.register(models.Contract)
class ContractAdmin(VersionAdmin):
    inlines = (ClauseInline,)


class ChoiceInline(admin.TabularInline):  # type: ignore[type-arg]
    model = models.Choice
    extra = 1


@admin.register(models.Poll)
class PollAdmin(SimpleHistoryAdmin):
    inlines = (ChoiceInline,)


@admin.register(models.Section)
class SectionAdmin(TreeAdmin):
    form = movenodeform_factory(models.Section)


@admin.register(models.Prop)
class PropAdmin(PolymorphicParentModelAdmin):
    base_model = models.Prop
    child_models = (models.Lamp,)


@admin.register(models.Lamp)
class LampAdmin(PolymorphicChildModelAdmin):
    base_model = models.Lamp


@admin.register(models.Step)
class StepAdmin(TreeAdmin):
    form = movenodeform_factory(models.Step)


@admin.register(models.Title)
class TitleAdmin(TranslatableAdmin):  # type: ignore[type-arg]
    list_display = ("title", "number")
    fieldsets = ((None, {"fields": ("title", "summary", "number")}),)


class TakeInline(NestedTabularInline):  # type: ignore[misc]
    model = models.Take
    extra = 0


class SceneInline(NestedStackedInline):  # type: ignore[misc]
    model = models.Scene
    extra = 0
    sortable_field_name = "position"
    inlines = (TakeInline,)


@admin.register(models.Show)
class ShowAdmin(NestedModelAdmin):  # type: ignore[misc]
    inlines = (SceneInline,)


@admin.register(models.Wardrobe)
class WardrobeAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    formfield_overrides = {JSONField: {"widget": JSONEditorWidget}}
