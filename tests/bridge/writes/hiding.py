"""ModelAdmins that hide rows, for the tests of what agents must not learn by writing."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin import ModelAdmin, TabularInline

from tests.shop.models import Making, Part, Supplier, Tag
from tests.support.declared import Declared

#: What no agent may read, in the columns of hidden rows and in hidden columns.
HIDDEN = "sk-hidden"


class OpenOnly(ModelAdmin[Any]):
    """Shows the rows that are open, and not whether they are."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(open=True)


class NothingHidden(ModelAdmin[Any]):
    """Shows the rows whose key does not begin as what is hidden."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(pk__startswith=HIDDEN)


class Makings(TabularInline[Any, Any]):
    """Shows every row to a person."""

    model = Making
    extra = 0


class PartForm(forms.ModelForm[Any]):
    """Nothing but the name must be filled in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self.fields.keys() - {"name"}:
            self.fields[name].required = False


class PartAdmin(OpenOnly):
    form = PartForm
    fields = ["name", "weight", "supplier", "tags"]
    inlines = [Makings]


def declare_hiding(declared: Declared) -> None:
    """Rows of the shop that are not open are hidden, and so are tags and keys that begin with HIDDEN."""
    declared.admin(Supplier, OpenOnly)
    declared.admin(Part, PartAdmin)
    declared.admin(Making, OpenOnly)
    declared.admin(Tag, NothingHidden)
    for model in (Supplier, Part, Making):
        declared.model(model, exclude=["open"], consent={"delete": "preview"})
