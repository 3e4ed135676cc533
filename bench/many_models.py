"""What many models cost: the list of tools, calls, the list in the admin, the start and the memory.

.venv/bin/python -m bench.many_models [--models N ...] [--rounds N] [--check]

A project of so many models, with two or three actions each, is made in a temporary folder, and asked in a process of
its own: milliseconds are the least of the processor. A start is that of a WSGI process up to its first answers, with
the app and without it in turns.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

MODELS, ROUNDS = (10, 100, 400), 10
#: Models of an app.
_PER_APP = 10
#: How much more than linear anything may grow, and how much anything that does not depend on the number of models.
MOST, MOST_BYTES = 1.3, 1.02

_SETTINGS = """
import os
from pathlib import Path
SECRET_KEY = "x" * 50
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *(f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes", "sessions", "messages")),
    *([] if "WITHOUT_APP" in os.environ else ["mcp_django"]), *{apps},
]
MIDDLEWARE = [
    f"django.contrib.{one}Middleware"
    for one in ("sessions.middleware.Session", "auth.middleware.Authentication", "messages.middleware.Message")
]
TEMPLATES = [{
    "BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
    "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages",
    ]},
}]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parent / "db.sqlite3",
    "OPTIONS": {"init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF"},
}}
MCP = {"AUDIT": "off"}
"""
_URLS = """
from django.apps import apps
from django.contrib import admin
from django.urls import include, path
urlpatterns = [path("admin/", admin.site.urls)]
if apps.is_installed("mcp_django"):
    urlpatterns.append(path("", include("mcp_django.urls")))
"""
_MODEL = """
class Model{number}(models.Model):
    name = models.CharField(max_length=50)
    status = models.CharField(max_length=10, choices=[("open", "open"), ("closed", "closed")], default="open")
    amount = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    parent = models.ForeignKey("Model{parent}", models.CASCADE, null=True, related_name="children{number}")
"""
_ADMIN = """
@admin.register(models.Model{number})
class Model{number}Admin(admin.ModelAdmin):
    list_display = ["name", "status", "amount", "created_at"]
    list_filter = ["status"]
    search_fields = ["name"]
    actions = {actions}

    @admin.action(description="Open", permissions=["change"])
    def open(self, request, queryset):
        queryset.update(status="open")

    @admin.action(description="Close", permissions=["change"])
    def close(self, request, queryset):
        queryset.update(status="closed")

    @admin.action(description="Count")
    def count(self, request, queryset):
        self.message_user(request, str(queryset.count()))
"""
_TOOLS = """
from mcp_django import tool

@tool(read_only=True)
def greet(request, name: str) -> str:
    "Greet somebody."
    return f"Hello, {name}."
"""

#: A start up to the first answers of the admin and of the endpoint.
_START = """
import sys, time
begun = time.process_time()
import json, os
import django
django.setup()
from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory
handler = WSGIHandler()
requests = [RequestFactory().get("/admin/login/")]
if "WITHOUT_APP" not in os.environ:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json", "Authorization": f"Bearer {sys.argv[1]}"}
    requests.append(RequestFactory().post("/mcp", body, content_type="application/json", headers=headers))
for request in requests:
    handler(request.environ, lambda *args: None).close()
seconds = time.process_time() - begun
with open("/proc/self/status") as status:
    kilobytes = int(status.read().partition("VmRSS:")[2].split()[0])
print(json.dumps([seconds, kilobytes / 1000]))
"""

#: What is asked of each project, by the words of the table.
_ASKED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "tools/list": ("tools/list", {}),
    "a trivial call": ("tools/call", {"name": "greet", "arguments": {"name": "x"}}),
    "find 20 rows": ("tools/call", {"name": "find_records", "arguments": {"model": "app0.model0"}}),
    "describe a model": ("tools/call", {"name": "describe_models", "arguments": {"model": "app0.model0"}}),
    "describe_models": ("tools/call", {"name": "describe_models", "arguments": {}}),
}
_MODELS_PAGE = "Models in the admin"
#: Milliseconds that this page may take with however many models.
_MODELS_PAGE_MS = 500
#: What depends on no other model, so that it may not grow.
_OF_ONE = ("a trivial call, ms", "find 20 rows, ms", "describe a model, ms")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.many_models", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", type=int, nargs="+", default=MODELS, help="how many, in turn (10 100 400)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is asked ({ROUNDS})")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    found = {number: _measured(number, options.rounds) for number in options.models}
    rows = list(next(iter(found.values())))
    print(f"| {'models':<24} |", " | ".join(f"{number:>9}" for number in found), "|")
    print(f"|{'-' * 26}|", "|".join("-" * 10 + ":" for _ in found), "|", sep="")
    for row in rows:
        print(
            f"| {row:<24} |",
            " | ".join(f"{one[row]:>9,.{0 if one[row] >= 100 else 2}f}" for one in found.values()),
            "|",
        )
    goals = list(_goals(found))
    print("\nGoals", *goals, sep="\n")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


def _goals(found: Mapping[int, Mapping[str, float]]) -> Iterator[Any]:
    """Each number of models is held against the smallest one."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "bench.settings"

    import django

    django.setup()

    from bench.goals import Goal

    (least, first), *more = sorted(found.items())
    for number, measured in more:
        yield Goal(
            f"{number} models: tools/list, bytes",
            measured["tools/list, bytes"] / first["tools/list, bytes"],
            MOST_BYTES,
        )
        page = f"{_MODELS_PAGE}, ms"
        yield Goal(f"{number} models: {page}", measured[page], _MODELS_PAGE_MS, "ms")
        for row, value in measured.items():
            if row != "tools/list, bytes":
                most = MOST if row in _OF_ONE else MOST * number / least
                yield Goal(f"{number} models: {row}", value / first[row], most)


def _measured(number: int, rounds: int) -> dict[str, float]:
    """What a project of so many models takes, by the words of the table."""
    with tempfile.TemporaryDirectory() as folder:
        _make(Path(folder), number)
        paths = os.pathsep.join([folder, str(Path.cwd())])
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": paths}
        asking = f"from bench.many_models import ask; ask({rounds})"
        asked = _run(environment, asking)
        starts: dict[bool, list[list[float]]] = {True: [], False: []}
        for _ in range(max(2, rounds // 3)):
            for ours, env in ((False, {**environment, "WITHOUT_APP": "1"}), (True, environment)):
                starts[ours].append(_run(env, _START, asked["token"]))
        seconds, size = (min(one[at] for one in starts[True]) - min(one[at] for one in starts[False]) for at in (0, 1))
        return {**asked["measured"], "start, added ms": seconds * 1e3, "memory, added MB": size}


def _run(environment: Mapping[str, str], code: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def _make(folder: Path, number: int) -> None:
    """The project, in apps of some models each. A model has two actions or three."""
    apps = [f"app{place}" for place in range(-(-number // _PER_APP))]
    (folder / "settings.py").write_text(_SETTINGS.replace("{apps}", repr(apps)))
    (folder / "urls.py").write_text(_URLS)
    for place, app in enumerate(apps):
        (folder / app).mkdir()
        own = range(place * _PER_APP, min(number, (place + 1) * _PER_APP))
        models = [_MODEL.replace("{number}", str(one)).replace("{parent}", str(own[0])) for one in own]
        actions = (["open", "close"], ["open", "close", "count"])
        admins = [_ADMIN.replace("{number}", str(one)).replace("{actions}", repr(actions[one % 2])) for one in own]
        (folder / app / "__init__.py").write_text("")
        (folder / app / "models.py").write_text("from django.db import models\n" + "".join(models))
        (folder / app / "admin.py").write_text(
            "from django.contrib import admin\n\nfrom . import models\n" + "".join(admins)
        )
    (folder / apps[0] / "mcp.py").write_text(_TOOLS)


# In the process of the project.


def ask(rounds: int) -> None:
    """Print what was measured within this process, and a token, as JSON."""
    import django

    django.setup()

    from django.apps import apps
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from mcp_django.models import AccessToken

    call_command("migrate", run_syncdb=True, verbosity=0)
    user = User.objects.create_superuser("admin")
    _, token = AccessToken.objects.create_token(user=user, name="bench", scopes=["read"])
    model: Any = apps.get_app_config("app0").get_model("Model0")
    model.objects.bulk_create(model(name=f"row {number}") for number in range(100))
    browser = Client()
    browser.force_login(user)

    ways = {name: _request(token, *asked) for name, asked in _ASKED.items()}
    ways["Tools in the admin"] = lambda: browser.get("/admin/mcp_django/tool/")
    ways[_MODELS_PAGE] = lambda: browser.get("/admin/mcp_django/restriction/")
    sizes = {name: len(answer().content) for name, answer in ways.items()}
    measured = {f"{name}, ms": min(_taken(answer) for _ in range(rounds)) * 1e3 for name, answer in ways.items()}
    print(json.dumps({"token": token, "measured": {"tools/list, bytes": sizes["tools/list"], **measured}}))


def _taken(answer: Callable[[], Any]) -> float:
    """Seconds of the processor, which other programs have little part in."""
    gc.collect()
    begun = thread_time()
    answer()
    return thread_time() - begun


def _request(token: str, method: str, params: Mapping[str, Any]) -> Callable[[], Any]:
    """Sends a request to the endpoint under WSGI. Raises ValueError where it fails."""
    from django.test import RequestFactory
    from django.urls import resolve

    revision = "2025-11-25"
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)})
    headers = {
        "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}", "Host": "localhost",
        "MCP-Protocol-Version": revision,
    }  # fmt: skip
    view = resolve("/mcp").func

    def send() -> Any:
        response = view(RequestFactory().post("/mcp", body, content_type="application/json", headers=headers))
        if b'"result"' not in response.content or b'"isError":true' in response.content:
            raise ValueError(response.content[:500])
        return response

    return send


if __name__ == "__main__":
    sys.exit(main())
