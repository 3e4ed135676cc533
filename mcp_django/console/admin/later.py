"""ModelAdmins whose classes are imported once something is asked of them.

The admin makes its ModelAdmins at every start of the project, also for commands that open no page.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.db.models import Model
from django.utils.module_loading import import_string


def later(path: str) -> type[ModelAdmin[Any]]:
    """A class that stands for the ModelAdmin of this path: its instances become that one's."""
    return type(path.rpartition(".")[2], (_Later,), {"mcp_path": path})


def imported(model_admin: type[ModelAdmin[Any]]) -> type[ModelAdmin[Any]]:
    """The class for which ``later`` has made another one."""
    found: type[ModelAdmin[Any]] = import_string(model_admin.mcp_path)  # type: ignore[attr-defined]
    return found


class _Later(ModelAdmin):  # type: ignore[type-arg]
    def __init__(self, model: type[Model], admin_site: AdminSite) -> None:
        self._mcp_arguments = model, admin_site

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        if name == "__dict__":
            return own
        cls = imported(type(self))
        # Whole before it is one of the class: another thread may ask meanwhile.
        own.update(vars(cls(*own["_mcp_arguments"])))
        self.__class__ = cls  # type: ignore[assignment]
        return getattr(self, name)
