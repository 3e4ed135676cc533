"""Settings of the processes that faults are tried on: the demo project, on services that the environment names."""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("DEMO_DIR", str(Path(tempfile.gettempdir(), "mcp_django_tests")))

from demo_project.settings import *  # noqa: F403

DEBUG = False
ROOT_URLCONF = "tests.faults.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": os.environ["FAULTS_POSTGRESQL_PORT"],
        "USER": "postgres",
        "NAME": "faults",
        "OPTIONS": {"application_name": os.environ.get("FAULTS_NAME", "faults"), "connect_timeout": 5},
    }
}

MCP = {"SWEEP_SECONDS": 0.5, "KEEPALIVE_SECONDS": 2.0, "WRITE_SECONDS": 5.0}

if os.environ["FAULTS_BUS"] == "postgresql":
    MCP["BUS"] = {"BACKEND": "mcp_django.buses.PostgreSQLBus"}
elif os.environ["FAULTS_BUS"] == "nats":
    MCP["BUS"] = os.environ["FAULTS_NATS"]
else:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": os.environ["FAULTS_LAYER"],
            "CONFIG": {
                "hosts": [os.environ["FAULTS_REDIS"]],
                # The pub/sub layer has none.
                **({"capacity": int(os.environ["FAULTS_CAPACITY"])} if os.environ.get("FAULTS_CAPACITY") else {}),
            },
        }
    }
