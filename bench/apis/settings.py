"""Settings of the project, with the apps that the server of `BENCH_PEER` needs."""

import os
from pathlib import Path
from typing import Any

from bench.apis import PEER
from tests.api.project import settings_extra

SECRET_KEY = "not-secret-it-serves-this-machine-alone"
DEBUG = False
ALLOWED_HOSTS = ["localhost"]
USE_TZ = True
TIME_ZONE = "America/New_York"

#: The app of each server. That of django-mcp-server would look for declarations, which are made by hand.
_APPS = {
    "": ["mcp_django"],
    "frisian": ["frisian_mcp"],
    "rest": ["djangorestframework_mcp"],
    "fast": ["drf_spectacular"],
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    *_APPS.get(PEER, []),
    *settings_extra.INSTALLED_APPS,
]
MIDDLEWARE = settings_extra.MIDDLEWARE
ROOT_URLCONF = "bench.apis.urls" if PEER else settings_extra.ROOT_URLCONF
TEMPLATES: list[dict[str, Any]] = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
#: Connections are kept. Every process has its own cache.
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["BENCH_DATABASE_FILE"],
        "CONN_MAX_AGE": 600,
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    }
}
#: Files go with the database.
MEDIA_ROOT = Path(os.environ["BENCH_DATABASE_FILE"]).parent
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

MCP = {"AUDIT": os.environ.get("BENCH_AUDIT", "on")}

#: By it each of the others knows its caller.
_BEARER = "tests.api.project.authentication.BearerAuthentication"

# frisian-mcp: users may do all that the API lets them.
FRISIAN_MCP_AUTHENTICATION_CLASSES = [_BEARER]
FRISIAN_MCP_PERMISSION_CLASSES = ["rest_framework.permissions.IsAuthenticated"]
FRISIAN_MCP_TOKEN_TIER_MAP = {"default": "admin"}
FRISIAN_MCP_STARTUP_PRINT = False

# django-rest-framework-mcp: its endpoint knows the caller, so that the viewsets need not.
DJANGORESTFRAMEWORK_MCP = {"BYPASS_VIEWSET_AUTHENTICATION": True}

# django-mcp-server.
DJANGO_MCP_GLOBAL_SERVER_CONFIG = {"name": "bench", "stateless": True}
DJANGO_MCP_AUTHENTICATION_CLASSES = [_BEARER]

# FastMCP, for the OpenAPI document.
if PEER == "fast":
    REST_FRAMEWORK = {"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"}
