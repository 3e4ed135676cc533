"""Settings of our own server: the demo, as it would be deployed.

Read from the environment: `BENCH_DATABASE_FILE`, `BENCH_TOKENS` (whether callers need a token), `BENCH_AUDIT` (AUDIT)
and `BENCH_CACHE_SECONDS` (TOKEN_CACHE_SECONDS).
"""

import os

from bench.peers import TOKENS
from demo_project.settings import *  # noqa: F403

DEBUG = False

INSTALLED_APPS = [*INSTALLED_APPS, "bench.served"]  # noqa: F405
ASGI_APPLICATION = "bench.served.asgi.application"
WSGI_APPLICATION = "bench.served.wsgi.application"
DATABASES["default"] |= {"NAME": os.environ["BENCH_DATABASE_FILE"], "CONN_MAX_AGE": 600}  # noqa: F405

if not TOKENS:
    AUTHENTICATION_BACKENDS = ["bench.served.backends.EverybodyMayView"]

MCP = {
    "ANONYMOUS_SCOPES": [] if TOKENS else ["read"],
    "AUDIT": os.environ.get("BENCH_AUDIT", "on"),
    "TOKEN_CACHE_SECONDS": float(os.environ.get("BENCH_CACHE_SECONDS", "1")),
}
