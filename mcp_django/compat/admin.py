"""What the admin shows of a row, as its own pages find it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.exceptions import NotRegistered
from django.contrib.admin.utils import flatten_fieldsets, label_for_field, lookup_field
from django.db import models
from django.forms.utils import pretty_name

Model = type[models.Model]


if TYPE_CHECKING:
    _Admins = Mapping[Model, ModelAdmin[Any]]
else:
    _Admins = Mapping


class ModelAdmins(_Admins):
    """The ModelAdmins of a site, as they are registered now: a public way where there was ``AdminSite._registry``."""

    def __init__(self, admin_site: AdminSite) -> None:
        # Told once from what is lazy: they are asked for often.
        self._find: Callable[[Model], ModelAdmin[Any]] = admin_site.get_model_admin
        self._is_registered: Callable[[Model], bool] = admin_site.is_registered

    def __getitem__(self, model: Model) -> ModelAdmin[Any]:
        try:
            return self._find(model)
        except NotRegistered:
            raise KeyError(model) from None

    def get(self, model: Model, default: Any = None) -> Any:
        return self._find(model) if self._is_registered(model) else default

    def __contains__(self, model: object) -> bool:
        return isinstance(model, type) and self._is_registered(model)

    def __iter__(self) -> Iterator[Model]:
        return filter(self._is_registered, apps.get_models(include_auto_created=True))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def names_in_fieldsets(fieldsets: Any) -> list[str]:
    """The names of the fields in fieldsets, also of those that stand in one line.

    Private: ``django.contrib.admin.utils.flatten_fieldsets``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return [name for name in flatten_fieldsets(fieldsets) if isinstance(name, str)]


def title_of(item: Any, model: Model, owner: Any) -> str:
    """The heading of a column of ``list_display``: a name, or a function.

    Private: ``django.contrib.admin.utils.label_for_field``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    title: Any = label_for_field(item, model, owner)
    return str(title)


def title_of_display(function: Any, name: str) -> str | None:
    """The heading of ``get_status_display`` and the like, which Django makes of a field with choices; None for others.

    Private: ``Model._get_FIELD_display`` is a ``partialmethod``, whose function is named ``_method``;
    ``django.forms.utils.pretty_name``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    if not name.startswith("get_") or getattr(function, "__name__", "") != "_method":
        return None
    return pretty_name(name.removeprefix("get_").removesuffix("_display"))


def value_in(item: Any, row: models.Model, owner: Any) -> Any:
    """What a column of ``list_display`` holds for a row. Raises what the project's function raises.

    Private: ``django.contrib.admin.utils.lookup_field``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return lookup_field(item, row, owner)[2]


def excluded_by_form(form: type[Any]) -> Sequence[str]:
    """The fields that the form of a ModelAdmin declares in ``Meta.exclude``.

    Private: ``ModelForm._meta``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``Meta``, which a form inherits
    otherwise.
    """
    return getattr(getattr(form, "_meta", None), "exclude", None) or ()
