"""The columns and values that the admin shows for a row, found as by its own pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.admin.sites import all_sites
from django.contrib.admin.utils import NestedObjects, flatten_fieldsets, label_for_field, lookup_field, quote, unquote
from django.db import models
from django.db.models.base import ModelBase
from django.forms.models import _get_foreign_key
from django.forms.utils import pretty_name
from django.urls import get_resolver

Model = type[models.Model]


def model_admins(admin_site: AdminSite) -> Mapping[Model, ModelAdmin[Any]]:
    """The registered ModelAdmins of a site, in the order of their registration.

    What is no model is left out: a package may register a class of its own to have a page.

    Private: ``AdminSite._registry``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``get_model_admin`` for one model;
    none that lists them all.
    """
    return {model: one for model, one in admin_site._registry.items() if isinstance(model, ModelBase)}


def existing_admin_sites() -> list[AdminSite]:
    """Every AdminSite that there is, whether or not it is served.

    Private: ``django.contrib.admin.sites.all_sites``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return sorted(all_sites, key=lambda site: site.name)


def served_admin_sites() -> list[AdminSite]:
    """Each AdminSite whose pages the URLconf of ROOT_URLCONF serves. Imports the URLconf.

    Private: the attribute ``admin_site`` of the views of ``AdminSite.get_urls``, and ``model_admin`` of those of
    ``ModelAdmin.get_urls``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    found: list[AdminSite] = []
    pending: list[Any] = list(get_resolver(settings.ROOT_URLCONF).url_patterns)
    while pending:
        pattern = pending.pop()
        pending.extend(getattr(pattern, "url_patterns", ()))
        view = getattr(pattern, "callback", None)
        site = getattr(view, "admin_site", None) or getattr(getattr(view, "model_admin", None), "admin_site", None)
        if site is not None and site not in found:
            found.append(site)
    return sorted(found, key=lambda site: site.name)


def names_in_fieldsets(fieldsets: Any) -> list[str]:
    """The names of the fields in fieldsets, including several fields in one line.

    Private: ``django.contrib.admin.utils.flatten_fieldsets``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return [name for name in flatten_fieldsets(fieldsets) if isinstance(name, str)]


def foreign_key_of_inline(inline: Any) -> models.ForeignKey[Any, Any]:
    """The foreign key by which the rows of an inline belong to their parent. Raises ValueError if there is none.

    Private: ``django.forms.models._get_foreign_key``. Seen with: Django 5.2, 6.0, 6.1. Public way: the attribute ``fk``
    of a formset class, which would have to be made.
    """
    found: models.ForeignKey[Any, Any] = _get_foreign_key(inline.parent_model, inline.model, inline.fk_name)
    return found


def title_of(item: Any, model: Model, owner: Any) -> str:
    """The heading of a column of ``list_display``, which is a name or a function.

    Private: ``django.contrib.admin.utils.label_for_field``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    title: Any = label_for_field(item, model, owner)
    return str(title)


def title_of_display(function: Any, name: str) -> str | None:
    """The heading of a ``get_<field>_display`` that Django makes for a field with choices. None for other functions.

    Private: ``Model._get_FIELD_display`` is a ``partialmethod``, whose function is named ``_method``;
    ``django.forms.utils.pretty_name``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    if not name.startswith("get_") or getattr(function, "__name__", "") != "_method":
        return None
    return pretty_name(name.removeprefix("get_").removesuffix("_display"))


def value_in(item: Any, row: models.Model, owner: Any) -> Any:
    """The value of a column of ``list_display`` for a row. Raises everything that the project's function raises.

    Private: ``django.contrib.admin.utils.lookup_field``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return lookup_field(item, row, owner)[2]


Rows = list[models.Model]


class _TooMany(Exception):
    """More rows than may be looked at."""


class _Cascade(NestedObjects):
    """Collects at most ``most`` rows. Raises _TooMany."""

    def __init__(self, using: str, most: int) -> None:
        super().__init__(using=using)
        self._most = most

    def collect(self, objs: Any, *args: Any, **kwargs: Any) -> Any:
        return super().collect(self._few(objs), *args, **kwargs)

    def related_objects(self, *args: Any) -> Any:
        return self._few(super().related_objects(*args))

    def add(self, *args: Any, **kwargs: Any) -> Any:
        added = super().add(*args, **kwargs)
        if sum(map(len, self.data.values())) > self._most:
            raise _TooMany
        return added

    def _few(self, objs: Any) -> Any:
        """Only as much of a queryset as shows that there are too many rows: all of them could fill the memory."""
        return objs[: self._most + 1] if isinstance(objs, models.QuerySet) else objs


def cascade_of(objects: Sequence[models.Model], using: str, *, most: int) -> tuple[Rows, Rows, Rows] | None:
    """The rows that go if these objects are deleted, those that lose a link, and those that prevent it.

    What the database does by itself is not among them. None where any of these are more than ``most``.

    Private: ``django.contrib.admin.utils.NestedObjects``, its ``collect``, ``related_objects``, ``add``, ``data``,
    ``field_updates`` and ``protected``. Seen with: Django 5.2, 6.0, 6.1. Public way: none;
    ``ModelAdmin.get_deleted_objects`` gives texts, and no rows that lose a link.
    """
    found = _Cascade(using, most)
    try:
        found.collect(objects)
    except _TooMany:
        return None
    updates: Any = found.field_updates.values()
    unlinked = list(islice(chain.from_iterable(chain.from_iterable(updates)), most + 1))
    if max(len(unlinked), len(found.protected)) > most:
        return None
    deleted = dict.fromkeys(chain.from_iterable(found.data.values()))
    # Where a database checks each statement, Django also empties links of rows that it deletes afterwards.
    return list(deleted), [one for one in unlinked if one not in deleted], list(found.protected)


def key_for_url(key: Any) -> str:
    """A primary key as the path of an admin page has it.

    Private: ``django.contrib.admin.utils.quote``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return quote(str(key))


def key_in_url(text: str) -> str:
    """The primary key that the path of an admin page has in quoted form.

    Private: ``django.contrib.admin.utils.unquote``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return unquote(text)


def object_tool_of(admin: Any, name: str) -> Mapping[str, Any]:
    """How django-object-actions shows an action on the page of a row.

    Private: ``BaseDjangoObjectActions._get_tool_dict``. Seen with: django-object-actions 5.1. Public way: none.
    """
    found: Mapping[str, Any] = admin._get_tool_dict(name)
    return found
