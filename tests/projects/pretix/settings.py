"""Pretix as its own tests run it, with our tools beside it."""

import os
from pathlib import Path
from typing import Any

_FOLDER = Path(os.environ["PROJECT_FOLDER"])
os.environ["DATA_DIR"] = str(_FOLDER)

from pretix.testutils.settings import *  # noqa: E402, F403

from tests.projects import base  # noqa: E402

DEBUG = DEBUG_PROPAGATE_EXCEPTIONS = False
ALLOWED_HOSTS = ["localhost", "testserver"]
INSTALLED_APPS = [*INSTALLED_APPS, "mcp_django"]  # noqa: F405
DATABASES = base.DATABASES
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
MIGRATION_MODULES = base.MIGRATION_MODULES
# What it logs as a warning is no difference.
LOGGING = {**base.LOGGING, "root": {"handlers": ["nowhere"]}}
MCP: dict[str, Any] = {"AUDIT": "off", "ANONYMOUS_SCOPES": ["read", "write"]}
