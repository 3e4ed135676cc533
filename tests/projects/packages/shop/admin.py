from __future__ import annotations

from typing import Any

from adminsortable2.admin import SortableAdminBase, SortableAdminMixin, SortableTabularInline
from dal import autocomplete
from django import forms
from django.contrib import admin
from django.db.models import JSONField
from django_fsm.admin import FSMAdminMixin
from django_json_widget.widgets import JSONEditorWidget
from django_select2.forms import ModelSelect2Widget, Select2MultipleWidget
from guardian.admin import GuardedModelAdmin
from guardian.shortcuts import get_objects_for_user
from modeltranslation.admin import TranslationAdmin, TranslationTabularInline
from nested_admin import NestedModelAdmin, NestedStackedInline, NestedTabularInline
from ordered_model.admin import OrderedInlineModelAdminMixin, OrderedModelAdmin, OrderedTabularInline
from polymorphic.admin import (
    PolymorphicChildModelAdmin,
    PolymorphicChildModelFilter,
    PolymorphicInlineSupportMixin,
    PolymorphicParentModelAdmin,
    StackedPolymorphicInline,
)
from rangefilter.filters import DateRangeFilterBuilder, DateTimeRangeFilterBuilder, NumericRangeFilterBuilder

from tests.projects.packages.shop import models

for _model in (
    models.Topping,
    models.Continent,
    models.Country,
    models.Location,
    models.Publication,
    models.Writer,
    models.Book,
    models.Contact,
    models.Notice,
    models.Ticket,
    models.Recipe,
    models.Brand,
    models.Album,
    models.Payment,
):
    admin.site.register(_model)


@admin.register(models.Shelf)
class ShelfAdmin(OrderedModelAdmin):  # type: ignore[misc]
    list_display = ("name", "move_up_down_links")


class PizzaToppingInline(OrderedTabularInline):  # type: ignore[misc]
    model = models.PizzaTopping
    fields = ("topping", "order", "move_up_down_links")
    readonly_fields = ("order", "move_up_down_links")
    ordering = ("order",)
    extra = 1


@admin.register(models.Pizza)
class PizzaAdmin(OrderedInlineModelAdminMixin, admin.ModelAdmin):  # type: ignore[misc,type-arg]
    list_display = ("name",)
    inlines = (PizzaToppingInline,)


class PictureInline(SortableTabularInline):  # type: ignore[misc]
    model = models.Picture
    extra = 1


@admin.register(models.Panel)
class PanelAdmin(SortableAdminMixin, admin.ModelAdmin):  # type: ignore[misc,type-arg]
    list_display = ("name",)
    inlines = (PictureInline,)


@admin.register(models.Picture)
class PictureAdmin(SortableAdminBase, admin.ModelAdmin):  # type: ignore[misc,type-arg]
    pass


class StandInline(NestedTabularInline):  # type: ignore[misc]
    model = models.Stand
    extra = 0


class HallInline(NestedStackedInline):  # type: ignore[misc]
    model = models.Hall
    extra = 0
    sortable_field_name = "position"
    inlines = (StandInline,)


@admin.register(models.Fair)
class FairAdmin(NestedModelAdmin):  # type: ignore[misc]
    inlines = (HallInline,)


@admin.register(models.Layout)
class LayoutAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    formfield_overrides = {JSONField: {"widget": JSONEditorWidget}}


@admin.register(models.Delivery)
class DeliveryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_filter = (
        ("sent", DateRangeFilterBuilder()),
        ("arrived", DateTimeRangeFilterBuilder(title="Arrived")),
        ("weight", NumericRangeFilterBuilder()),
    )


@admin.register(models.Offer)
class OfferAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "price", "discount")


@admin.register(models.Dossier)
class DossierAdmin(GuardedModelAdmin):  # type: ignore[misc]
    """Shows those of which the user has the permission, by the model or by the object."""

    list_display = ("name",)

    def get_queryset(self, request: Any) -> Any:
        return get_objects_for_user(request.user, "shop.view_dossier", super().get_queryset(request))

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return obj is None or super().has_view_permission(request) or request.user.has_perm("shop.view_dossier", obj)

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return super().has_change_permission(request) or request.user.has_perm("shop.change_dossier", obj)


@admin.register(models.Post)
class PostAdmin(FSMAdminMixin, admin.ModelAdmin):  # type: ignore[misc,type-arg]
    fsm_fields = ["state"]
    list_display = ("name", "state")


@admin.register(models.Toy)
class ToyAdmin(PolymorphicChildModelAdmin):
    base_model = models.Toy
    show_in_index = True


@admin.register(models.Drink)
class DrinkAdmin(PolymorphicChildModelAdmin):
    base_model = models.Drink


@admin.register(models.Good)
class GoodAdmin(PolymorphicParentModelAdmin):
    base_model = models.Good
    child_models = (models.Toy, models.Drink)
    list_filter = (PolymorphicChildModelFilter,)


class ItemInline(StackedPolymorphicInline):
    class BreakableInline(StackedPolymorphicInline.Child):
        model = models.Breakable

    model = models.Item
    child_inlines = (BreakableInline,)


@admin.register(models.Parcel)
class ParcelAdmin(PolymorphicInlineSupportMixin, admin.ModelAdmin):  # type: ignore[type-arg]
    inlines = (ItemInline,)


@admin.register(models.Review)
class ReviewAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("title", "status", "created", "modified")


class RemarkInline(TranslationTabularInline):  # type: ignore[type-arg]
    model = models.Remark


@admin.register(models.News)
class NewsAdmin(TranslationAdmin):  # type: ignore[type-arg]
    list_display = ("title", "published")
    inlines = (RemarkInline,)


class BrandWidget(ModelSelect2Widget):  # type: ignore[misc]
    search_fields = ("name__icontains",)


class WareForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = models.Ware
        fields = ("name", "brand", "maker", "others")
        widgets = {
            "brand": BrandWidget,
            "maker": autocomplete.ModelSelect2(url="brands"),
            "others": Select2MultipleWidget,
        }


@admin.register(models.Ware)
class WareAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    form = WareForm
