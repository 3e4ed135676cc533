"""What a start of the smallest project with an admin costs: a command that runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.pages import ROOT

#: Runs a command of a project with these apps, or asks its WSGI application for two pages, and says what that took.
_PROJECT = """
import sys, time
begun = time.perf_counter()
import json
from django.conf import settings
apps, command = json.loads(sys.argv[1]), sys.argv[2:]
processors = ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
              "django.contrib.messages.context_processors.messages"]
settings.configure(
    SECRET_KEY="x" * 50, ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], USE_TZ=True, INSTALLED_APPS=apps,
    MIDDLEWARE=[f"django.contrib.{one}Middleware" for one in
                ("sessions.middleware.Session", "auth.middleware.Authentication", "messages.middleware.Message")],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
                "OPTIONS": {"context_processors": processors}}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
urlpatterns = []

def add_urls():
    from django.contrib import admin
    from django.urls import include, path
    urlpatterns.append(path("admin/", admin.site.urls))
    if "mcp_django" in apps:
        urlpatterns.append(path("", include("mcp_django.urls")))

if command == ["warm"]:
    import django
    django.setup()
    add_urls()
elif command == ["wsgi"]:
    import django
    django.setup()
    from django.core.handlers.wsgi import WSGIHandler
    from django.test import RequestFactory
    handler = WSGIHandler()
    add_urls()
    handler(RequestFactory().get("/admin/login/").environ, lambda *args: None).close()
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    made = RequestFactory().post("/mcp", body, content_type="application/json", headers={"Accept": "application/json"})
    handler(made.environ, lambda *args: None).close()
else:
    from django.core.management import execute_from_command_line
    if command[0] == "check":
        import django
        django.setup()
        add_urls()
    execute_from_command_line(["manage.py", *command])
seconds = time.perf_counter() - begun
with open("/proc/self/status") as status:
    kilobytes = int(status.read().partition("VmRSS:")[2].split()[0])
print(json.dumps([seconds, kilobytes * 1024, sorted(sys.modules)]))
"""
DJANGO = ("admin", "auth", "contenttypes", "sessions", "messages")
#: The commands that are measured, by the words of the tables.
COMMANDS = {
    "a command that serves nothing": ("shell", "--verbosity=0", "--command=pass"),
    "`check`": ("check",),
    "a WSGI process after its first call": ("wsgi",),
}


@dataclass(frozen=True)
class Started:
    seconds: float
    bytes: int
    modules: frozenset[str]


def started(command: Sequence[str], *, ours: bool, python: str = sys.executable) -> Started:
    """Start the project, with the app or without it. Raises AssertionError with what it says where it fails."""
    apps = [*(f"django.contrib.{app}" for app in DJANGO), *(["mcp_django"] if ours else [])]
    done = subprocess.run(
        [python, "-c", _PROJECT, json.dumps(apps), *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seconds, size, modules = json.loads(done.stdout.splitlines()[-1])
    return Started(seconds, size, frozenset(modules))
