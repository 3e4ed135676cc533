"""Settings of the year of flights that the questions are asked over: those of the demo, on the database that
``AGENTS_DATABASE`` names, ``sqlite`` (the default) or ``postgresql``. ``DEMO_DIR`` is where SQLite's is.
"""

import os
from pathlib import Path

os.environ.setdefault("DEMO_DIR", str(Path(__file__).resolve().parents[2] / ".agents"))

from demo_project.settings import *  # noqa: F403

DEBUG = False
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "daphne"]  # noqa: F405

if os.environ.get("AGENTS_DATABASE") == "postgresql":
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "mcp_django_agents",
            "HOST": "127.0.0.1",
            "USER": os.environ.get("PGUSER", "postgres"),
        }
    }
