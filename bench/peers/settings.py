"""Settings of the other servers: the demo's models and middleware, as they would be deployed.

Read from the environment: `BENCH_DATABASE_FILE`, and what the package reads.
"""

import os

from bench.peers import PEER, TOKENS
from demo_project.settings import *  # noqa: F403

DEBUG = False

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "demo_project.flights",
    {"mcpz": "django_mcpz.bearer_tokens"}.get(PEER, "rest_framework.authtoken"),
]
ROOT_URLCONF = f"bench.peers.{PEER}"
WSGI_APPLICATION = "bench.peers.wsgi.application"

DATABASES["default"] |= {"NAME": os.environ["BENCH_DATABASE_FILE"], "CONN_MAX_AGE": 600}  # noqa: F405

# django-mcp-server.
DJANGO_MCP_GLOBAL_SERVER_CONFIG = {"name": "bench", "stateless": True}
DJANGO_MCP_AUTHENTICATION_CLASSES = ["rest_framework.authentication.TokenAuthentication"] if TOKENS else []
