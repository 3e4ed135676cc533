"""Nautobot as its own tests run it, on PostgreSQL, with our tools beside it."""

import os
from pathlib import Path
from typing import Any

_FOLDER = Path(os.environ["PROJECT_FOLDER"])
os.environ["NAUTOBOT_ROOT"] = str(_FOLDER)

from nautobot.core.settings import *  # noqa: E402, F403

from tests.projects import base  # noqa: E402

SECRET_KEY = "insecure-key-of-a-test-project-never-use-it-for-a-real-site"
ALLOWED_HOSTS = ["localhost", "testserver"]
INSTALLED_APPS = [*INSTALLED_APPS, "mcp_django"]  # noqa: F405
MIGRATION_MODULES = base.MIGRATION_MODULES
#: The run makes it, and drops it at the end.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "mcp_django_nautobot",
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "USER": os.environ.get("PGUSER", "postgres"),
    }
}
#: A database of Redis that is emptied before each call.
CACHES["default"]["LOCATION"] = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/14")  # noqa: F405
CONSTANCE_BACKEND = "constance.backends.memory.MemoryBackend"
CONTENT_TYPE_CACHE_TIMEOUT = 0
CELERY_BROKER_URL = "memory://"
CELERY_TASK_ALWAYS_EAGER = True
INSTALLATION_METRICS_ENABLED = False
#: No page is recorded.
SILKY_INTERCEPT_PERCENT = 0
TEST_USE_FACTORIES = True
ROOT_URLCONF = "tests.projects.nautobot.urls"
MCP: dict[str, Any] = {"AUDIT": "off", "ANONYMOUS_SCOPES": ["read", "write"]}
# What it logs as a warning is no difference.
LOGGING = {**base.LOGGING, "root": {"handlers": ["nowhere"]}}
