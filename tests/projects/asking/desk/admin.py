"""The ModelAdmin of each package, one after the other on the same model: see ``cases``."""

from __future__ import annotations

from typing import Any

from admin_action_tools.admin import ActionFormMixin, AdminConfirmMixin, add_form_to_action, confirm_action
from admin_form_action import form_action
from admin_wizard.admin import UpdateAction
from adminactions import actions as adminactions
from class_based_admin_actions import ClassActionsMixin, ConfirmationMixin, FormUpdateAction
from class_based_admin_actions import UpdateAction as ClassUpdateAction
from django import forms
from django.contrib import admin
from django_admin_action_forms import AdminActionForm, AdminActionFormsMixin, action_with_form
from import_export.admin import ExportActionMixin, ImportExportMixin

from tests.projects.asking.desk import row_admin  # noqa: F401
from tests.projects.asking.desk.forms import StateForm
from tests.projects.asking.desk.models import Item, Owner

admin.site.register(Owner)


class StateModelForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Item
        fields = ("state",)


class ActionForm(AdminActionForm):  # type: ignore[misc]
    state = forms.ChoiceField(choices=Item.State)


class Confirmed(AdminActionForm):  # type: ignore[misc]
    class Meta:
        list_objects = True
        help_text = "Go on?"


class Gone(ConfirmationMixin, ClassUpdateAction):  # type: ignore[misc]
    description = "Let go"
    update_fields = {"state": "gone"}


class Changed(FormUpdateAction):  # type: ignore[misc]
    description = "Change"
    form_class = StateModelForm


class Wizard(UpdateAction):  # type: ignore[misc]
    pass


@admin.register(Item)
class ItemAdmin(  # type: ignore[misc]
    AdminActionFormsMixin, AdminConfirmMixin, ActionFormMixin, ClassActionsMixin, ImportExportMixin,
    ExportActionMixin, admin.ModelAdmin,
):  # fmt: skip
    list_display = ("name", "state", "price")

    @action_with_form(ActionForm, description="Set the state")
    def set_state(self, request: Any, queryset: Any, data: Any) -> None:
        queryset.update(state=data["state"])
        self.message_user(request, f"{data['state']}: {queryset.count()}")

    @action_with_form(Confirmed, description="Confirm")
    def confirm_only(self, request: Any, queryset: Any, data: Any) -> None:
        queryset.update(state="gone")

    @confirm_action()
    def tool_confirmed(self, request: Any, queryset: Any) -> None:
        queryset.update(state="gone")

    @add_form_to_action(StateForm)
    @confirm_action()
    def tool_form(self, request: Any, queryset: Any, form: Any = None) -> None:
        queryset.update(state=form.cleaned_data["state"])

    @form_action(StateForm)
    def form_action(self, request: Any, queryset: Any) -> None:
        queryset.update(state=request.form.cleaned_data["state"])

    actions = [
        set_state, confirm_only, tool_confirmed, tool_form, form_action, Gone, Changed, Wizard(StateModelForm),
        "delete_selected", adminactions.mass_update, adminactions.export_as_csv, adminactions.export_as_xls,
        adminactions.export_as_fixture, adminactions.byrows_update, adminactions.merge, adminactions.bulk_update,
        adminactions.export_delete_tree, adminactions.find_duplicates_action, adminactions.graph_queryset,
    ]  # fmt: skip
