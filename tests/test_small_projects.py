"""The smallest projects: one without the Django admin, and one that has the admin and a single line of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.push.processes import ROOT
from tests.support import forkserver

#: Checks and migrates the project, and says what an agent and a person are answered.
_PROJECT = """
import json, sys
import django
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.urls import include, path

apps, database = json.loads(sys.argv[1]), sys.argv[2]
processors = ["django.template.context_processors.request"]
if "django.contrib.admin" in apps:
    processors += ["django.contrib.auth.context_processors.auth", "django.contrib.messages.context_processors.messages"]
middleware = ["sessions.middleware.Session", "auth.middleware.Authentication", "messages.middleware.Message"]
settings.configure(
    SECRET_KEY="x" * 50, ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], INSTALLED_APPS=apps, USE_TZ=True,
    MIDDLEWARE=[f"django.contrib.{one}Middleware" for one in middleware if "django.contrib.admin" in apps],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
                "OPTIONS": {"context_processors": processors}}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database}},
)
django.setup()
urlpatterns = [path("", include("mcp_django.urls"))]
if "django.contrib.admin" in apps:
    from django.contrib import admin
    urlpatterns.append(path("admin/", admin.site.urls))

import mcp_django
from django.contrib.auth.models import User
from mcp_django.models import AccessToken, Tool

@mcp_django.tool(read_only=True)
def add(request, a: int, b: int) -> int:
    "Adds two numbers."
    return a + b

call_command("check", fail_level="WARNING")
call_command("migrate", verbosity=0)
Tool.objects.update(enabled=True)
root = User.objects.create_superuser("root")
token = AccessToken.objects.create_token(user=root)[1]
client = Client(headers={"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"})

def ask(method, params, **headers):
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return client.post("/mcp", message, content_type="application/json", headers=headers)

begun = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
session = ask("initialize", begun).headers["Mcp-Session-Id"]
called = ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, **{"Mcp-Session-Id": session}).json()
person = Client(headers={"Accept": "text/html"})
landing = person.get("/mcp").status_code
pages = {}
if "django.contrib.admin" in apps:
    person.force_login(root)
    pages = {name: person.get(f"/admin/mcp_django/{name}/").status_code for name in ("tool", "accesstoken", "call")}
print(json.dumps([called["result"]["content"][0]["text"], landing, pages]))
"""
#: A shop without the admin, messages and context processors, whose customers log in and are no staff: what a customer
#: reads, makes and agrees to, and what the agent is answered.
_SHOP = """
import json, re, sys
import django
from django.conf import settings
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client
from django.urls import include, path

settings.configure(
    SECRET_KEY="x" * 50, ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], USE_TZ=True, LOGIN_URL="/enter/",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "mcp_django"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    MCP={"SELF_SERVICE": ["read", "actions"]},
)
django.setup()
urlpatterns = [path("", include("mcp_django.urls")), path("enter/", HttpResponse), path("", HttpResponse)]

import mcp_django
from django.contrib.auth.models import User

ordered = []

@mcp_django.tool(consent="ask")
def order(request, what: str) -> str:
    "Order something."
    ordered.append((request.user.username, what))
    return "Ordered."

call_command("check", fail_level="WARNING")
call_command("migrate", verbosity=0)
ann = User.objects.create_user("ann")
person = Client()
entered = person.get("/mcp/connected")["Location"]
person.force_login(ann)
first = person.get("/mcp/connected").content.decode()
nonce = re.search(r'name="nonce" value="([^"]+)"', first)[1]
made = person.post("/mcp/connected", {"do": "make", "name": "laptop", "scopes": ["read", "actions"], "lifetime": "30",
                                      "nonce": nonce}).content.decode()
token = re.search(r"mcpdj_[0-9A-Za-z]{49}", made)[0]
agent = Client(headers={"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"})

def call(session, **arguments):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "order", "arguments": arguments}}
    answer = agent.post("/mcp", message, content_type="application/json", headers=session).json()
    return answer["result"]["structuredContent"]

begun = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begun}
session = {"Mcp-Session-Id": agent.post("/mcp", message, content_type="application/json")["Mcp-Session-Id"]}
waits = call(session, what="tea", confirm=call(session, what="tea")["confirm"])
url = waits["url"].removeprefix("http://testserver")
before = list(ordered)
shown = person.get(url).content.decode()
digest = re.search(r'name="digest" value="([^"]+)"', shown)[1]
listed = person.get("/mcp/connected").content.decode()
agreed = person.post("/mcp/connected", {"do": "decide", "change": waits["change"], "digest": digest, "agree": "1"})
eve = Client()
eve.force_login(User.objects.create_user("eve"))
from mcp_django.audit.recorder import recorder
recorder.flush()
print(json.dumps({
    "login": entered, "connect": "claude mcp add" in first, "form": "Make the token" in first,
    "waits": "Waiting for you" in listed, "shown": "tea" in shown, "before": before,
    "url": url == f"/mcp/connected?change={waits['change']}",
    "agreed": agreed.status_code, "ordered": ordered, "after": "applied" in person.get(url).content.decode(),
    "calls": "order" in person.get("/mcp/connected").content.decode().split("Last calls")[1],
    "other": eve.get(url).status_code, "admin": "mcp_django.console.admin" in sys.modules,
}))
"""
#: Runs every command of ours before there is a table, each with arguments that need one.
_UNMIGRATED = """
import io, json, sys
import django
from django.conf import settings
from django.core.management import CommandError, call_command, get_commands
from django.urls import include, path

settings.configure(
    SECRET_KEY="x" * 50, ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], USE_TZ=True,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "mcp_django",
                    "mcp_django.oauth"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
)
django.setup()
urlpatterns = [path("", include("mcp_django.urls"))]

said = {name: [] for name, app in get_commands().items() if app.startswith("mcp_django")}
for name, *arguments in json.loads(sys.argv[2]):
    try:
        call_command(name, *arguments, stdout=io.StringIO(), stderr=io.StringIO())
    except Exception as error:
        said[name].append(f"{type(error).__name__}: {error}")
    else:
        said[name].append("")
print(json.dumps(said))
"""
_APPS = ["django.contrib.auth", "django.contrib.contenttypes"]
_ADMIN = ["django.contrib.admin", "django.contrib.messages", "django.contrib.sessions"]


def said(tmp_path: Path, apps: list[str]) -> Any:
    return run(_PROJECT, json.dumps(apps), str(tmp_path / f"{apps[0]}.sqlite3"))


def run(project: str, *values: str) -> Any:
    """What a project said in its last line."""
    done = forkserver.run(["-c", project, *values], cwd=ROOT, env={})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_project_without_the_admin_passes_its_checks_and_answers(tmp_path: Path) -> None:
    assert said(tmp_path, [*_APPS, "mcp_django"]) == ["3", 200, {}]


def test_one_line_brings_the_tools_into_the_admin_before_it_or_behind_it(tmp_path: Path) -> None:
    pages = {"tool": 200, "accesstoken": 200, "call": 200}

    assert said(tmp_path, [*_APPS, *_ADMIN, "mcp_django"]) == ["3", 200, pages]
    assert said(tmp_path, ["mcp_django", *_APPS, *_ADMIN]) == ["3", 200, pages]


def test_a_command_that_needs_tables_says_before_migrate_that_they_are_missing(tmp_path: Path) -> None:
    needing = {
        "mcp_token": [["nobody"], ["--roll", "1"], ["--clear", "9"], ["--token", "1", "--made-by", "nobody"]],
        "mcp_audit": [[], ["--follow"], ["--clear"], ["--forget", "shop.order:1"]],
        "mcp_due": [[], ["--loop", "1"]],
        "mcp_pause": [[], ["--resume"], ["--user", "nobody"]],
        "mcp_inventory": [["--user", "nobody"], ["--scopes", "tool:nothing"]],
        "mcp_tools": [[], ["--on", "find_records"], ["--export", "-"]],
        "mcp_call": [["find_records", "--user", "nobody"]],
        "mcp_stdio": [["--user", "nobody"]],
        "mcp_oauth": [["check"]],
    }
    calls = [[name, *arguments] for name, lines in needing.items() for arguments in lines]

    done = forkserver.run(["-c", _UNMIGRATED, str(tmp_path / "empty.sqlite3"), json.dumps(calls)], cwd=ROOT, env={})

    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    # The rest serve, or look at PostgreSQL alone.
    assert set(said) == {*needing, "mcp_connect", "mcp_grpc", "mcp_triggers", "startmcp"}
    for name, lines in needing.items():
        assert len(said[name]) == len(lines)
        for line in said[name]:
            assert line.startswith("CommandError: Migrations are not applied (no such table: "), (name, line)
            assert line.endswith("). Run: manage.py migrate") and "\n" not in line
    assert "Traceback" not in done.stderr


def test_customers_of_a_project_without_the_admin_connect_an_agent_and_agree_to_what_it_asks(tmp_path: Path) -> None:
    assert run(_SHOP, str(tmp_path / "shop.sqlite3")) == {
        "login": "/enter/?next=%2Fmcp%2Fconnected", "connect": True, "form": True, "waits": True, "shown": True,
        "before": [], "url": True, "agreed": 302, "ordered": [["ann", "tea"]], "after": True, "calls": True,
        "other": 404, "admin": False,
    }  # fmt: skip
