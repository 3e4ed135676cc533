"""Functions of the project: which of them is behind a hook, and which module wrote it."""

from __future__ import annotations

import functools
from types import MethodType
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.utils.decorators import method_decorator

from mcp_django.core.hooks import home_of

Admin: Any = admin.ModelAdmin


class Own(UserAdmin):
    def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
        return []


def unchanged(function: Any) -> Any:
    return function


@pytest.mark.parametrize(("admin_class", "hook", "module"), [
    (admin.ModelAdmin, "get_search_results", "django.contrib.admin.options"),
    (UserAdmin, "get_fieldsets", "django.contrib.auth.admin"),
    (type("Mine", (UserAdmin,), {}), "get_fieldsets", "django.contrib.auth.admin"),
    (Own, "get_fieldsets", __name__),
    (UserAdmin, "no_such_hook", ""),
])  # fmt: skip
def test_the_home_of_a_hook_is_the_module_that_wrote_its_function(admin_class: Any, hook: str, module: str) -> None:
    assert home_of(admin_class(User, admin.site), hook) == module


@functools.wraps(admin.ModelAdmin.get_search_results)
def wrapper(self: Any, request: Any, queryset: Any, search_term: Any) -> Any:
    return queryset.filter(password__startswith=search_term), False


@pytest.mark.parametrize("function", [
    wrapper, admin.ModelAdmin.get_search_results, method_decorator(unchanged)(admin.ModelAdmin.get_search_results),
    functools.partialmethod(admin.ModelAdmin.get_search_results),
])  # fmt: skip
def test_posing_as_the_function_of_a_package(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a class of the project, on the class of the package, and on the instance."""
    own = type("Own", (Admin,), {"get_search_results": function})(User, admin.site)
    packaged, patched = UserAdmin(User, admin.site), UserAdmin(User, admin.site)
    patched.get_search_results = MethodType(wrapper, patched)  # type: ignore[method-assign]
    assert home_of(patched, "get_search_results") == ""
    monkeypatch.setattr(UserAdmin, "get_search_results", function, raising=False)

    assert home_of(own, "get_search_results") in ("", __name__)
    assert home_of(packaged, "get_search_results") == ""
