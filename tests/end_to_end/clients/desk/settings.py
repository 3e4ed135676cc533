"""Settings of the desk: ``DESK_DIR`` is the folder of its database, ``REDIS_URL`` and ``REDIS_PREFIX`` carry push."""

import os
from pathlib import Path

DESK_DIR = Path(os.environ["DESK_DIR"])

SECRET_KEY = "of-a-desk-at-which-nobody-works"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "mcp_django",
    "tests.end_to_end.clients.desk.apps.DeskConfig",
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

ROOT_URLCONF = "tests.end_to_end.clients.desk.urls"
ASGI_APPLICATION = "tests.end_to_end.clients.desk.asgi.application"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DESK_DIR / "db.sqlite3",
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = True

if REDIS_URL := os.environ.get("REDIS_URL"):
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL], "prefix": os.environ["REDIS_PREFIX"]},
        },
    }

# Its URLconf serves no admin.
MCP = {"SERVER_NAME": "desk", "SERVER_VERSION": "1.0", "SSE_TRANSPORT": True, "ADMIN_SITE": "django.contrib.admin.site"}
if MAX_RESULT_BYTES := os.environ.get("MAX_RESULT_BYTES"):
    MCP["MAX_RESULT_BYTES"] = int(MAX_RESULT_BYTES)
