"""The project with its rows, and requests to it in this process."""

from __future__ import annotations

import json
import os
from importlib import import_module
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import django


def set_up() -> SimpleNamespace:
    """The rows of the project, in a new database."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.apis.settings"
    django.setup()
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)
    rows: SimpleNamespace = import_module("tests.api.project.rows").make_rows()
    return rows


def cookie(user: Any) -> str:
    """The cookie of a user who is logged in."""
    from django.test import Client

    browser = Client()
    browser.force_login(user)
    return "; ".join(f"{name}={one.value}" for name, one in browser.cookies.items())


def get(application: Any, path: str, cookie: str) -> bytes:
    """The body of a page of a WSGI application."""
    environ = {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": "",
        "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": "localhost", "HTTP_ACCEPT": "application/json", "HTTP_COOKIE": cookie,
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": BytesIO(), "wsgi.errors": BytesIO(),
        "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False,
    }  # fmt: skip
    response = application(environ, lambda status, headers: None)
    body = b"".join(response)
    response.close()
    return body


def size(tools: Any) -> int:
    """Bytes of a list of tools as compact JSON."""
    return len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())
