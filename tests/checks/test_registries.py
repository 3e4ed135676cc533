"""Whatever a project or a package registers in the admin, our checks and our lists do not fail on it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from mcp_django import site
from mcp_django.checks.sites import check_sites
from tests.shop.models import Remark, Tag
from tests.support.asking import DirectPeer
from tests.support.base import MODERN
from tests.support.declared import Declared

pytestmark = pytest.mark.django_db


class Meta:
    app_label, model_name, object_name, verbose_name, verbose_name_plural = "constance", "config", "Config", "c", "c"
    abstract = swapped = is_composite_pk = False

    def get_ordered_objects(self) -> bool:
        return False


class NoModel:
    """What django-constance registers: it has a _meta, and is no model."""

    _meta = Meta()


class WithoutModel(admin.TabularInline[Any, Any]):
    pass


class OfNoModel(admin.TabularInline[Any, Any]):
    model = NoModel  # type: ignore[assignment]


class OfAnother(admin.TabularInline[Any, Any]):
    model = Remark
    fk_name = "nope"


class Failing(admin.TabularInline[Any, Any]):
    model = Remark

    def __init__(self, *args: Any) -> None:
        raise RuntimeError


WRONG: dict[str, Any] = {
    "inlines": ["abc", None, 5, [object], ["x"], [WithoutModel], [OfNoModel], [OfAnother], [Failing]],
    "ordering": ["name", ["nope"], [None], [5], 5, ["name__nope"], ["?"], ["nope__nope"]],
    "list_display": [None, "name", ["nope"], [5], 5],
    "search_fields": [None, "name", ["nope"], [5]],
    "fields": ["name", ["nope"], [5], 5],
    "fieldsets": ["name", [5], [("x", {})], [(None, {"fields": [5]})]],
    "exclude": ["name", ["nope"], 5],
    "readonly_fields": [None, "name", ["nope"], [5]],
    "list_select_related": ["name", ["nope"], 5],
    "actions": ["abc", ["nope"], [5], 5],
    "list_filter": [["nope"], 5], "date_hierarchy": ["nope"], "list_display_links": [["nope"], 5],
    "autocomplete_fields": [["nope"], 5], "raw_id_fields": [["nope"], 5], "prepopulated_fields": [5],
    "form": [5, object], "paginator": [5], "sortable_by": [5],
}  # fmt: skip


@pytest.mark.parametrize("attribute", WRONG)
def test_a_modeladmin_that_is_declared_wrongly_is_told_by_djangos_own_check(attribute: str, declared: Declared) -> None:
    root = DirectPeer(User.objects.create_superuser("root"))
    for number, value in enumerate(WRONG[attribute]):
        declared.admin(Tag, type("Wrong", (admin.ModelAdmin,), {attribute: value}))

        assert isinstance(check_sites(None), list), (number, value)
        assert root.result(MODERN, "tools/list")["tools"]
        assert root.result(MODERN, "resources/list")["resources"]
        for call in ({"name": "describe_models", "arguments": {"model": "shop.tag"}}, {
            "name": "find_records", "arguments": {"model": "shop.tag"},
        }):  # fmt: skip
            root.result(MODERN, "tools/call", call)


def test_what_is_no_model_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(admin.site._registry, NoModel, admin.ModelAdmin(NoModel, admin.site))  # type: ignore[type-var, arg-type]
    site._forget()
    try:
        assert NoModel not in site.model_admins
        assert check_sites(None) == check_sites(None)
        root = DirectPeer(User.objects.create_superuser("root"))
        assert root.result(MODERN, "tools/list")["tools"]
    finally:
        monkeypatch.undo()
        site._forget()
