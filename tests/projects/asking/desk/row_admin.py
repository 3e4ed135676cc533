"""The ModelAdmins with actions on the page of one row, one for each package."""

from __future__ import annotations

from typing import Any

from admin_extra_buttons.decorators import button
from admin_extra_buttons.mixins import ExtraButtonsMixin, confirm_action
from django import forms
from django.contrib import admin
from django.http import HttpResponse
from django.shortcuts import redirect
from django.template import engines
from django.urls import reverse
from django_object_actions import DjangoObjectActions
from django_object_actions import action as object_action
from fsm_admin.mixins import FSMTransitionMixin
from inline_actions.admin import InlineActionsModelAdminMixin
from reversion.admin import VersionAdmin
from simple_history.admin import SimpleHistoryAdmin
from unfold.admin import ModelAdmin as UnfoldAdmin
from unfold.decorators import action as unfold_action
from unfold.forms import BaseDialogForm

from tests.projects.asking.desk.forms import StateForm
from tests.projects.asking.desk.models import Buttoned, Flowing, Inlined, Item, Linked, Recorded, Unfolded, Versioned


class StateDialog(BaseDialogForm):  # type: ignore[misc]
    state = forms.ChoiceField(choices=Item.State)


def let_go(obj: Any) -> None:
    obj.state = "gone"
    obj.save()


@admin.register(Linked)
class LinkedAdmin(DjangoObjectActions, admin.ModelAdmin):  # type: ignore[misc]
    change_actions = ("act", "post", "ask")

    def act(self, request: Any, obj: Any) -> None:
        let_go(obj)

    @object_action(button_type="form", methods=("POST",))  # type: ignore[untyped-decorator]
    def post(self, request: Any, obj: Any) -> None:
        let_go(obj)

    def ask(self, request: Any, obj: Any) -> Any:
        form = StateForm(request.POST or None)
        if form.is_valid():
            obj.state = form.cleaned_data["state"]
            obj.save()
            return None
        return asked(request, form)


def asked(request: Any, form: Any) -> HttpResponse:
    markup = "<h1>Ask</h1><form method=post>{% csrf_token %}{{ form }}<button name=go>Go</button></form>"
    return HttpResponse(engines["django"].from_string(markup).render({"form": form}, request))


@admin.register(Unfolded)
class UnfoldedAdmin(UnfoldAdmin):  # type: ignore[misc]
    actions_detail = ["act", "ask"]
    actions_row = ["beside"]
    actions_submit_line = ["submit"]
    # That of the package needs its own AdminSite.
    change_form_template = "desk/unfolded.html"

    @unfold_action(description="Act", permissions=["change"])  # type: ignore[untyped-decorator]
    def act(self, request: Any, object_id: Any) -> HttpResponse:
        let_go(Unfolded.objects.get(pk=object_id))
        return redirect(reverse("admin:desk_unfolded_changelist"))

    @unfold_action(description="Ask", dialog={"title": "Ask", "form_class": StateDialog})  # type: ignore[untyped-decorator]
    def ask(self, request: Any, form: Any, object_id: Any) -> HttpResponse:
        Unfolded.objects.filter(pk=object_id).update(state=form.cleaned_data["state"])
        return redirect(reverse("admin:desk_unfolded_changelist"))

    @unfold_action(description="Beside")  # type: ignore[untyped-decorator]
    def beside(self, request: Any, object_id: Any) -> HttpResponse:
        let_go(Unfolded.objects.get(pk=object_id))
        return redirect(request.META["HTTP_REFERER"])

    @unfold_action(description="Submit")  # type: ignore[untyped-decorator]
    def submit(self, request: Any, obj: Any) -> None:
        let_go(obj)


@admin.register(Buttoned)
class ButtonedAdmin(ExtraButtonsMixin, admin.ModelAdmin):  # type: ignore[misc]
    @button()  # type: ignore[untyped-decorator]
    def act(self, request: Any, pk: Any) -> None:
        let_go(self.get_object(request, pk))

    @button()  # type: ignore[untyped-decorator]
    def ask(self, request: Any, pk: Any) -> Any:
        def done(request: Any) -> None:
            let_go(self.get_object(request, pk))

        return confirm_action(self, request, done, message="Let it go?", success_message="It is gone.", pk=pk)

    @button(enabled=lambda one: one.original.state == "gone")  # type: ignore[untyped-decorator]
    def closed(self, request: Any, pk: Any) -> None:
        raise AssertionError("it is not offered")


@admin.register(Inlined)
class InlinedAdmin(InlineActionsModelAdminMixin, admin.ModelAdmin):  # type: ignore[misc]
    inline_actions = ["act", "ask"]
    list_display = ("name", "state")

    def act(self, request: Any, obj: Any, parent_obj: Any = None) -> None:
        let_go(obj)

    def ask(self, request: Any, obj: Any, parent_obj: Any = None) -> Any:
        form = StateForm(request.POST if "go" in request.POST else None)
        if form.is_valid():
            obj.state = form.cleaned_data["state"]
            obj.save()
            return None
        [name] = [one for one in request.POST if one.startswith("_action__")]
        form.fields[name] = forms.CharField(initial="1", widget=forms.HiddenInput)
        return asked(request, form)


@admin.register(Flowing)
class FlowingAdmin(FSMTransitionMixin, admin.ModelAdmin):  # type: ignore[misc]
    readonly_fields = ("state",)


admin.site.register(Recorded, SimpleHistoryAdmin)
admin.site.register(Versioned, VersionAdmin)
