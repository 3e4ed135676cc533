"""Many processes that call a tool, each through the WSGI application, and the rows that they leave.

    .venv/bin/python -m tests.audit.processes [--calls 100000] [--processes 8]

makes a database of its own, and exits with 1 where rows are missing or there are too many.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Calls the tool so many times, and ends as any process does.
_CALLING = """
import io, json, os, sys
import django
django.setup()
from django.conf import settings
from django.core.wsgi import get_wsgi_application
settings.MCP = {**settings.MCP, "AUDIT": "on"}
application, count, token = get_wsgi_application(), int(sys.argv[1]), sys.argv[2]
from tests.support.base import MODERN, meta
params = {"name": "describe_models", "arguments": {}, "_meta": meta()}
for number in range(count):
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()
    environ = {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
        "HTTP_HOST": "localhost", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body),
        "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/json",
        "HTTP_ACCEPT": "application/json, text/event-stream",
        "HTTP_MCP_PROTOCOL_VERSION": MODERN, "HTTP_MCP_METHOD": "tools/call", "HTTP_MCP_NAME": "describe_models",
        "HTTP_AUTHORIZATION": f"Bearer {token}", "REMOTE_ADDR": "192.0.2.1",
    }
    status: list[str] = []
    answer = b"".join(application(environ, lambda text, headers: status.append(text)))
    assert status == ["200 OK"] and b'"isError":true' not in answer, (status, answer)
"""


def call(processes: int, calls: int, token: str, environment: Mapping[str, str]) -> None:
    """Let the processes call the tool so many times together. Raises AssertionError where one fails."""
    shares = [calls // processes + (number < calls % processes) for number in range(processes)]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _CALLING, str(share), token],
            cwd=ROOT, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for share in shares
    ]  # fmt: skip
    for process in running:
        output, _ = process.communicate()
        assert process.returncode == 0 and "Traceback" not in output, output


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit.processes", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DEMO_DIR": folder, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        os.environ["TEST_DATABASE_NAME"] = str(Path(folder, "audit.sqlite3"))
        return _count(options.processes, options.calls)


def _count(processes: int, calls: int) -> int:
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from mcp_django.models import AccessToken, Call

    call_command("migrate", verbosity=0)
    user = User.objects.create_superuser("caller")
    _, token = AccessToken.objects.create_token(user=user)
    began = time.monotonic()
    call(processes, calls, token, os.environ)
    seconds = time.monotonic() - began
    rows = Call.objects.filter(kind="call", outcome="done").count()
    others = list(Call.objects.exclude(kind__in=["call", "token"]).values_list("kind", "count"))
    print(f"{calls:,} calls by {processes} processes in {seconds:.0f} s: {rows:,} rows; others: {others or 'none'}")
    return 0 if rows == calls and not others else 1


if __name__ == "__main__":
    sys.exit(main())
