"""Settings that the projects share. ``PROJECT_FOLDER`` names the folder of a run, where the database lies."""

import os
from pathlib import Path
from typing import Any

_FOLDER = Path(os.environ["PROJECT_FOLDER"])

SECRET_KEY = "insecure-key-of-a-test-project-never-use-it-for-a-real-site"
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS: list[str] = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "mcp_django",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
CONTEXT_PROCESSORS = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": CONTEXT_PROCESSORS},
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": _FOLDER / "db.sqlite3",
        # No process reads it after the run.
        "OPTIONS": {"init_command": "PRAGMA synchronous = OFF"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en-us"
USE_TZ = True
STATIC_URL = "/static/"
MEDIA_ROOT = _FOLDER / "media"
# The thread of the audit trail would hold a connection when the database is dropped, and write beside what is compared.
MCP: dict[str, Any] = {"AUDIT": "off"}
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"


class _NoMigrations:
    """Tables are made from the models: the migrations of all packages would take a minute."""

    def __contains__(self, app: str) -> bool:
        return True

    def __getitem__(self, app: str) -> None:
        return None


MIGRATION_MODULES = _NoMigrations()
# Pages and hooks that fail are among the differences.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"nowhere": {"class": "logging.NullHandler"}},
    "loggers": {
        name: {"handlers": ["nowhere"], "propagate": False}
        for name in ("django.request", "django.security", "mcp_django")
    },
}
