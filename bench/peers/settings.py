"""Settings of the other servers: the demo's models and middleware, as they would be deployed."""

from bench.peers import PEER, TOKENS, database
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

DATABASES["default"] = database(DATABASES["default"])  # noqa: F405

# django-mcp-server.
DJANGO_MCP_GLOBAL_SERVER_CONFIG = {"name": "bench", "stateless": True}
DJANGO_MCP_AUTHENTICATION_CLASSES = ["rest_framework.authentication.TokenAuthentication"] if TOKENS else []
