"""Settings of the project that the official conformance suite is run against: everything is offered to everybody.

People can log clients in as well, by the login page of the admin.
``CONFORMANCE_DIR`` is the folder of its database.
"""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parents[2]
DATA_DIR = Path(os.environ.get("CONFORMANCE_DIR", BASE_DIR / ".conformance"))
DATA_DIR.mkdir(parents=True, exist_ok=True)

SECRET_KEY = "of-a-project-that-holds-nothing"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_tasks",
    "django_tasks_db",
    "mcp_django",
    "mcp_django.oauth",
    "tests.conformance.fixtures",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

STATIC_URL = "static/"

ROOT_URLCONF = "tests.conformance.urls"
ASGI_APPLICATION = "tests.conformance.asgi.application"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "db.sqlite3",
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}

MCP = {
    # The suite can send no credentials.
    "ANONYMOUS_SCOPES": ("read", "actions"),
    "SERVER_NAME": "mcp-django-conformance",
    "EXPOSE_ADMIN": False,
}
