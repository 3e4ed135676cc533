from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache

from mcp_django import expose
from mcp_django.bridge.sites import MCPSite
from tests.api.ninja_project import rows as rows_of_workshop
from tests.api.project import settings_extra
from tests.api.project.rows import make_rows
from tests.support.declared import Declared


@pytest.fixture(autouse=True)
def own_files(settings: Any, tmp_path: Path) -> None:
    """Files of the same names are written by other processes too, which test at the same time."""
    settings.MEDIA_ROOT = tmp_path


@pytest.fixture
def shop(settings: Any, db: None) -> Iterator[SimpleNamespace]:
    """The rows of the project, which the URLconf of the test serves below its middleware."""
    settings.ROOT_URLCONF = settings_extra.ROOT_URLCONF
    settings.MIDDLEWARE = settings_extra.MIDDLEWARE
    cache.clear()
    yield make_rows()
    cache.clear()


@pytest.fixture
def workshop(settings: Any, db: None) -> SimpleNamespace:
    """The rows of the project with an API of django-ninja, which the URLconf of the test serves."""
    settings.ROOT_URLCONF = "tests.api.ninja_project.urls"
    return rows_of_workshop.make_rows()


@pytest.fixture
def declared_api(shop: SimpleNamespace, declared: Declared) -> None:
    """The API on the default site, which the URLconf serves."""
    declared.expose("api/")


@pytest.fixture
def api(shop: SimpleNamespace) -> MCPSite:
    """A site that exposes the API of the project, beside the models of its admin."""
    site = MCPSite("api")
    expose("api/", site=site)
    return site
