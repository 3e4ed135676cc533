"""An AdminSite of the test, an endpoint over it, and a superuser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.admin.sites import all_sites
from django.contrib.auth.models import User
from django.urls import clear_url_caches, path

from mcp_django import MCPSite
from tests.bridge.writes.lab.comparing import Laboratory, LabSite, Model


class Lab(Laboratory):
    """A laboratory of a test, which declares its ModelAdmins."""

    def admin(self, model: Model, admin_class: type[ModelAdmin[Any]] | None = None, **options: Any) -> None:
        """The model's ModelAdmin, in the place of an earlier one."""
        [admin_site] = self.site.admin_sites
        if admin_site.is_registered(model):
            admin_site.unregister(model)
        admin_site.register(model, admin_class, **options)
        self.site._forget()
        clear_url_caches()


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def lab(root: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    admin_site = LabSite("lab")
    urls: Any = ModuleType("tests.lab_urls")
    # Pages of each ModelAdmin, whichever the test declares later.
    urls.__getattr__ = lambda name: [path("lab/", admin_site.urls)] if name == "urlpatterns" else None
    monkeypatch.setitem(sys.modules, urls.__name__, urls)
    settings.ROOT_URLCONF = urls.__name__
    settings.MEDIA_ROOT = tmp_path / "media"
    yield Lab(MCPSite("lab", admin_site=admin_site), root, settings.MEDIA_ROOT)
    all_sites.discard(admin_site)
    clear_url_caches()
