"""Settings of the measurements: the demo project, as it would be deployed, with a database of its own.

Read from the environment: `DEMO_DIR` (where the file of SQLite lies; default `.demo/bench`), and what ``bench.data``
puts there: `BENCH_DATABASE` (sqlite, postgresql or mariadb), `BENCH_ROWS` (which flights it holds) and
`BENCH_READ_ONLY` (whether the tools' questions run in transactions that only read). From ``bench.push``: `BENCH_FANOUT`
(which application is served) and `BENCH_BUS` (what carries changes: postgresql, or what `REDIS_URL` says). From
``bench.cluster``: `BENCH_URLCONF` (ROOT_URLCONF) and `BENCH_MCP` (further keys of MCP, as JSON). From ``bench.soak``:
`BENCH_SOAK` (whether there are tasks and uploads).
"""

import json
import os
from pathlib import Path

os.environ.setdefault("DEMO_DIR", str(Path(__file__).resolve().parent.parent / ".demo" / "bench"))

from demo_project.settings import *  # noqa: F403

DEBUG = False

match os.environ.get("BENCH_DATABASE", "sqlite"), os.environ.get("BENCH_ROWS", "all"):
    case "postgresql", rows:
        DATABASES["default"] = {  # noqa: F405
            "ENGINE": "django.db.backends.postgresql",
            "NAME": f"mcp_django_bench_{rows}",
            "HOST": "127.0.0.1",
            "USER": os.environ.get("PGUSER", "postgres"),
        }
    case "mariadb", rows:
        import pymysql

        pymysql.install_as_MySQLdb()
        DATABASES["default"] = {  # noqa: F405
            "ENGINE": "django.db.backends.mysql",
            "NAME": f"mcp_django_bench_{rows}",
            "HOST": "127.0.0.1",
            "USER": "root",
            "OPTIONS": {"charset": "utf8mb4"},
        }
    case _, rows:
        DATABASES["default"]["NAME"] = Path(os.environ["DEMO_DIR"], f"flights-{rows}.sqlite3")  # noqa: F405

MCP = {
    "READ_ONLY_TRANSACTIONS": "BENCH_READ_ONLY" in os.environ,
    # Thousands of sockets listen with one token.
    "MAX_LISTENS": 100_000,
    # As is advised for a server whose workers would connect to PostgreSQL anew for each event.
    "CONN_MAX_AGE": 60,
} | json.loads(os.environ.get("BENCH_MCP", "{}"))

ROOT_URLCONF = os.environ.get("BENCH_URLCONF", ROOT_URLCONF)  # noqa: F405

if os.environ.get("BENCH_BUS") == "postgresql":
    MCP["BUS"] = {"BACKEND": "mcp_django.buses.PostgreSQLBus"}

if os.environ.get("BENCH_FANOUT") == "group_send":
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

if "BENCH_SOAK" in os.environ:
    INSTALLED_APPS = [*INSTALLED_APPS, "django_tasks_db", "bench.soaked"]  # noqa: F405
    TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
        "mcp_uploads": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": Path(os.environ["DEMO_DIR"], "uploads")},
        },
    }
