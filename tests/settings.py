"""Settings of the test suite: the demo project, on the database and the channel layer that the environment names.

``TEST_DATABASE`` is sqlite (a file, the default), postgresql or mariadb; ``TEST_REDIS`` adds a Redis channel layer,
whose prefix it is; ``TEST_LAYER`` names another class for it. ``TEST_PUSH_DATABASE`` is the alias of a database that
carries events instead; ``TEST_NATS`` is the subject on which NATS does.
"""

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ.setdefault("DEMO_DIR", str(Path(tempfile.gettempdir(), "mcp_django_tests")))

from django import VERSION

from demo_project.settings import *  # noqa: F403

# Without Daphne's runserver, for which every process would import Twisted: a quarter of its start.
INSTALLED_APPS = [
    *(app for app in INSTALLED_APPS if app != "daphne"),  # noqa: F405
    "django_tasks_db",
    "tests.shop",
    "tests.bridge.writes.lab",
    "rest_framework",
    "rest_framework.authtoken",
    "django_filters",
    "tests.api.project",
    "tests.api.ninja_project",
    "tests.api.forms_project",
]
if VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
if VERSION >= (6, 0):  # Before that, fields of PostgreSQL need it only for lookups that we do not use.
    INSTALLED_APPS.insert(0, "django.contrib.postgres")
_TASKS = "django.tasks" if find_spec("django.tasks") else "django_tasks"  # In Django itself from 6.0 on.
TASKS = {
    "default": {"BACKEND": f"{_TASKS}.backends.immediate.ImmediateBackend"},
    "database": {"BACKEND": "django_tasks_db.DatabaseBackend"},
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LANGUAGE_CODE = "en-us"
#: Files that are uploaded, but for the tests that name a folder of their own.
MEDIA_ROOT = Path(os.environ["DEMO_DIR"], "media")

#: Each process of each run has its own database, because others may test on this server.
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))[:12]
_SERVER_NAME = f"mcp_django_{_RUN}_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"

match os.environ.get("TEST_DATABASE", "sqlite"):
    case "sqlite":
        DATABASES["default"]["NAME"] = Path(os.environ["DEMO_DIR"], f"db-{os.getpid()}.sqlite3")  # noqa: F405
        DATABASES["default"]["TEST"] = {"NAME": str(Path(os.environ["DEMO_DIR"], f"test-{os.getpid()}.sqlite3"))}  # noqa: F405
        # As on the servers, no commit has to wait for the disk.
        DATABASES["default"]["OPTIONS"]["init_command"] += "; PRAGMA synchronous = OFF"  # noqa: F405
    case "postgresql":
        DATABASES = {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": _SERVER_NAME,
                "HOST": "127.0.0.1",
                "USER": os.environ.get("PGUSER", "postgres"),
                # No test ends the server, so that no commit has to wait for the disk.
                "OPTIONS": {"options": "-c synchronous_commit=off"},
            }
        }
    case "mariadb":
        import pymysql

        pymysql.install_as_MySQLdb()
        DATABASES = {
            "default": {
                "ENGINE": "django.db.backends.mysql",
                "NAME": _SERVER_NAME,
                "HOST": "127.0.0.1",
                "USER": "root",
                # Each connection would read all certificates of the machine, in 20 ms.
                "OPTIONS": {"charset": "utf8mb4", "ssl_disabled": True},
            }
        }

#: A second database, or a replica. It is made only for tests that are marked for it.
DATABASES["other"] = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": Path(os.environ["DEMO_DIR"], f"other-{os.getpid()}.sqlite3"),
    "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    "TEST": {"NAME": str(Path(os.environ["DEMO_DIR"], f"test-other-{os.getpid()}.sqlite3"))},
}

if "TEST_DATABASE_NAME" in os.environ:  # A server process of a test shares the database of the test.
    DATABASES["default"]["NAME"] = os.environ["TEST_DATABASE_NAME"]

if os.environ.get("TEST_REDIS"):
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": os.environ.get("TEST_LAYER", "channels_redis.pubsub.RedisPubSubChannelLayer"),
            "CONFIG": {"hosts": ["redis://127.0.0.1:6379"], "prefix": os.environ["TEST_REDIS"]},
        }
    }

MCP: dict[str, Any] = {"SWEEP_SECONDS": 0.2, "KEEPALIVE_SECONDS": 5.0, "SSE_TRANSPORT": True}
#: Only the tests of the audit trail write it.
MCP["AUDIT"] = os.environ.get("TEST_AUDIT", "off")

if "TEST_TOKEN_CACHE_SECONDS" in os.environ:
    MCP["TOKEN_CACHE_SECONDS"] = float(os.environ["TEST_TOKEN_CACHE_SECONDS"])

if "TEST_PUSH_DATABASE" in os.environ:
    options = {"database": os.environ["TEST_PUSH_DATABASE"]}
    MCP["BUS"] = {"BACKEND": "mcp_django.buses.PostgreSQLBus", "OPTIONS": options}

if "TEST_NATS" in os.environ:
    # By name: it is looked up in whatever state the process is.
    options = {"servers": "nats://localhost:4222", "channel": os.environ["TEST_NATS"]}
    MCP["BUS"] = {"BACKEND": "mcp_django.buses.NATSBus", "OPTIONS": options}
