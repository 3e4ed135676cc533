"""django-unfold: whether the admin looks like it, its ModelAdmin, its links, and its widgets for our own fields.

By itself, its ModelAdmin gives its widgets to the fields of models alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from django import forms
from django.apps import apps
from django.contrib.admin import ModelAdmin, widgets
from django.template.loader import get_template
from django.utils.html import format_html_join
from django.utils.module_loading import import_string
from django.utils.safestring import SafeString, mark_safe

#: Django's widgets → those of django-unfold, by their names.
_WIDGETS: Mapping[type[forms.Widget], str] = {
    forms.CheckboxInput: "UnfoldBooleanWidget",
    forms.CheckboxSelectMultiple: "UnfoldAdminCheckboxSelectMultipleWidget",
    forms.NumberInput: "UnfoldAdminIntegerFieldWidget",
    forms.RadioSelect: "UnfoldAdminRadioSelectWidget",
    forms.Select: "UnfoldAdminSelectWidget",
    forms.Textarea: "UnfoldAdminTextareaWidget",
    forms.TextInput: "UnfoldAdminTextInputWidget",
    widgets.AdminSplitDateTime: "UnfoldAdminSplitDateTimeWidget",
    widgets.AdminTextareaWidget: "UnfoldAdminTextareaWidget",
    widgets.AdminTextInputWidget: "UnfoldAdminTextInputWidget",
}


def is_unfolded() -> bool:
    """Whether pages of the admin are made of the templates of django-unfold, which need its ModelAdmin.

    They are where its app comes before ``django.contrib.admin``, whichever AdminSite the project has.
    """
    names = [config.name for config in apps.get_app_configs()]
    return "unfold" in names and names.index("unfold") < names.index("django.contrib.admin")


def model_admin() -> type[ModelAdmin[Any]]:
    """The class of the ModelAdmins whose pages look like the others."""
    found: type[ModelAdmin[Any]] = import_string("unfold.admin.ModelAdmin") if is_unfolded() else ModelAdmin
    return found


def links(found: Iterable[tuple[str, Any]], place: str) -> SafeString:
    """Links in the head of a page, as the others there: see the tag ``mcp_links``."""
    if not is_unfolded():
        shown = found if place in ("form", "list") else ()
        return format_html_join("\n", '<li><a href="{}">{}</a></li>', shown)
    shown = found if place in ("form", "beside") else ()
    template = get_template("unfold/helpers/tab_action.html")
    return mark_safe("".join(template.render({"link": url, "title": text}) for url, text in shown))  # noqa: S308


def dress(form: Any) -> None:
    """Give the fields of a form's class, which is of one request, the widgets of django-unfold, where its pages are."""
    if is_unfolded():
        form.base_fields = {name: _dressed(field) for name, field in form.base_fields.items()}


def _dressed(field: forms.Field) -> forms.Field:
    widget = field.widget
    # Ours has labels for its two inputs.
    is_moment = isinstance(widget, widgets.AdminSplitDateTime)
    name = _WIDGETS.get(widgets.AdminSplitDateTime if is_moment else type(widget))
    if name is None or widget.is_hidden:
        return field
    # The form's class shares its fields with others.
    found = deepcopy(field)
    made = import_string(f"unfold.widgets.{name}")(attrs=dict(widget.attrs))
    if isinstance(widget, forms.MultiWidget):
        for part, before in zip(made.widgets, widget.widgets, strict=True):
            part.attrs |= {key: value for key, value in before.attrs.items() if key.startswith("aria-")}
    if isinstance(widget, forms.widgets.ChoiceWidget):
        made.choices = widget.choices
    made.is_required, made.is_localized = widget.is_required, widget.is_localized
    found.widget = made
    return found
