"""Settings of our own server: the demo, as it would be deployed.

Read from the environment, beside what `bench.peers` reads: `BENCH_AUDIT` (AUDIT), `BENCH_CACHE_SECONDS`
(TOKEN_CACHE_SECONDS), `BENCH_URLCONF` (ROOT_URLCONF) and `BENCH_CALL_CONTEXT` (whether call_context is overridden).
"""

import os

from bench.peers import TOKENS, database
from demo_project.settings import *  # noqa: F403

DEBUG = False

INSTALLED_APPS = [*INSTALLED_APPS, "bench.served"]  # noqa: F405
ASGI_APPLICATION = "bench.served.asgi.application"
WSGI_APPLICATION = "bench.served.wsgi.application"
ROOT_URLCONF = os.environ.get("BENCH_URLCONF", ROOT_URLCONF)  # noqa: F405
DATABASES["default"] = database(DATABASES["default"])  # noqa: F405

if not TOKENS:
    AUTHENTICATION_BACKENDS = ["bench.served.backends.EverybodyMayView"]

MCP = {
    "ANONYMOUS_SCOPES": [] if TOKENS else ["read"],
    "AUDIT": os.environ.get("BENCH_AUDIT", "on"),
    "TOKEN_CACHE_SECONDS": float(os.environ.get("BENCH_CACHE_SECONDS", "1")),
}
