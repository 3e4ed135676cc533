"""How a person is chosen, whether there are ten or 20,000: by what the admin has for the model of users."""

from __future__ import annotations

from typing import Any, Literal

from django import forms
from django.contrib.admin import AdminSite
from django.contrib.admin.widgets import AdminTextInputWidget, AutocompleteSelect, ForeignKeyRawIdWidget
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from mcp_django.console.admin.base import AdminBase


class UserByName(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A user, by the name with which that user logs in."""

    widget = AdminTextInputWidget
    default_error_messages = {
        "invalid_choice": _("There is no user with this name."), "several": _("Several users have this name."),
    }  # fmt: skip

    def to_python(self, value: Any) -> Any:
        try:
            return super().to_python(value.strip() if isinstance(value, str) else value)
        except get_user_model().MultipleObjectsReturned:
            raise ValidationError(self.error_messages["several"], code="several") from None


class UserSearch(AutocompleteSelect):
    """The admin's own search, with a name that a screen reader can read while nobody is chosen."""

    def build_attrs(self, base_attrs: Any, extra_attrs: Any = None) -> dict[str, Any]:
        attrs: dict[str, Any] = super().build_attrs(base_attrs, extra_attrs)
        return {**attrs, "data-placeholder": str(_("Find a user"))}


def way_to_find(admin_site: AdminSite, request: HttpRequest) -> Literal["search", "lookup", "name"]:
    """By the search of the admin of users, by its list, or by the name where the viewer may not see that list."""
    model = get_user_model()
    if not admin_site.is_registered(model):
        return "name"
    model_admin = admin_site.get_model_admin(model)
    if not model_admin.has_view_permission(request):
        return "name"
    return "search" if model_admin.get_search_fields(request) else "lookup"


class UserFieldAdmin(AdminBase):
    """The foreign key ``user`` of its model is chosen in the way that fits."""

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "user":
            kwargs |= self._options(db_field, request, kwargs.get("using"))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def _options(self, db_field: Any, request: HttpRequest, using: str | None) -> dict[str, Any]:
        match way_to_find(self.admin_site, request):
            case "search":
                return {"widget": UserSearch(db_field, self.admin_site, using=using)}
            case "lookup":
                return {"widget": ForeignKeyRawIdWidget(db_field.remote_field, self.admin_site, using=using)}
        return {
            "form_class": UserByName, "to_field_name": get_user_model().USERNAME_FIELD, "widget": AdminTextInputWidget,
            "help_text": _("The name with which the user logs in. It cannot be changed later."),
        }  # fmt: skip
