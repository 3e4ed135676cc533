"""Below django-unfold our ModelAdmins are its own, and their forms have its widgets; elsewhere they are Django's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.push.processes import ROOT
from tests.support import forkserver

#: Opens each page of ours as a superuser, and says what the forms are made of.
_PROJECT = """
import json, sys
import django
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.urls import include, path

apps, site = json.loads(sys.argv[1]), sys.argv[2]
settings.configure(
    SECRET_KEY="x" * 50, ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], INSTALLED_APPS=apps, USE_TZ=True,
    STATIC_URL="static/", MIDDLEWARE=[
        f"django.contrib.{one}Middleware"
        for one in ("sessions.middleware.Session", "auth.middleware.Authentication", "messages.middleware.Message")
    ],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {
        "context_processors": [f"django.{one}" for one in (
            "template.context_processors.request", "contrib.auth.context_processors.auth",
            "contrib.messages.context_processors.messages")]}}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    # Tables as the models have them, which is quicker.
    MIGRATION_MODULES=dict.fromkeys((one.rpartition(".")[2] for one in [*apps, "mcp_django_oauth"]), None),
)
django.setup()
from django.contrib import admin
from django.contrib.admin import AdminSite
from mcp_django.admin import register

if site:
    from django.utils.module_loading import import_string
    admin.site = admin.sites.site = import_string(site)()
    register(admin.site)
urlpatterns = [path("", include("mcp_django.urls")), path("admin/", admin.site.urls)]
call_command("check", fail_level="WARNING")
call_command("migrate", run_syncdb=True, verbosity=0)

from django.contrib.admin import helpers
from django.test.utils import setup_test_environment
from django.contrib.auth.models import User
from django.utils import timezone
from mcp_django.models import AccessToken, Call, Change, Prompt, Tool
from tests.support.console import pages

setup_test_environment()
root = User.objects.create_superuser("root")
client = Client()
client.force_login(root)
client.get("/admin/mcp_django/tool/")
later = timezone.now().replace(year=2100)
keys = {
    AccessToken: AccessToken.objects.create_token(user=root, name="mine")[0].pk, Tool: Tool.objects.first().pk,
    Call: Call.objects.create(at=timezone.now(), site="mcp", kind="call", outcome="done").pk,
    Prompt: Prompt.objects.create(name="p", text="{{ a }}").pk,
    Change: Change.objects.create(
        key="a" * 22, confirmed_by="b" * 64, user=root, user_name="root", operation="update", model="auth.group",
        state="applied", keys='["1"]', arguments="{}", created_at=timezone.now(), expires_at=later).pk,
}
opened, failed = [], {}
for model, url in pages(admin.site, keys):
    status = client.get(url).status_code
    opened += [url] if status == 200 else []
    failed |= {url: status} if status >= 500 else {}
own = admin.site.get_model_admin(AccessToken)
request = client.get("/admin/mcp_django/accesstoken/add/").wsgi_request
widgets = {name: type(field.widget).__module__ for name, field in own.get_form(request)().fields.items()}
page = client.get("/admin/mcp_django/accesstoken/add/").context["adminform"].form
# A site that has no page of users has a field for a name.
person = root.pk if User in admin.site._registry else "root"
form = {name: page[name].value() or "" for name in page.fields} | {"user": person, "name": "made", "scopes": ["read"]}
made = client.post("/admin/mcp_django/accesstoken/add/", form).status_code
print(json.dumps({
    "failed": failed, "opened": len(opened), "is_unfolds": "unfold" in str(type(own).__mro__),
    "unfolds": sorted(name for name, module in widgets.items() if module.startswith("unfold")),
    "made": [made, AccessToken.objects.filter(name="made").count()],
    "helpers": helpers.AdminForm.__module__,
}))
"""
_ADMIN = "django.contrib.admin"
_OTHERS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "django.contrib.messages",
           "django.contrib.staticfiles", "mcp_django", "mcp_django.oauth"]  # fmt: skip
_BASIC = "unfold.apps.BasicAppConfig"


@pytest.mark.parametrize(("apps", "site", "is_unfolded"), [
    (["unfold", _ADMIN], "", True),
    ([_BASIC, _ADMIN], "unfold.sites.UnfoldAdminSite", True),
    ([_ADMIN, _BASIC], "", False),
    ([_ADMIN, _BASIC], "unfold.sites.UnfoldAdminSite", False),
    ([_ADMIN], "", False),
], ids=["its site", "a site of its class", "behind the admin", "its site, behind the admin", "absent"])  # fmt: skip
def test_each_page_opens_and_forms_have_the_widgets_of_the_pages_around(
    apps: list[str], site: str, is_unfolded: bool
) -> None:
    pytest.importorskip("unfold")
    arguments = ["-c", _PROJECT, json.dumps([*apps, *_OTHERS]), site]

    done = forkserver.run(arguments, cwd=ROOT, env={})

    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (found["failed"], found["opened"] > 25, found["made"]) == ({}, True, [200, 1])
    assert found["is_unfolds"] is is_unfolded
    assert bool(found["unfolds"]) is is_unfolded
    # It replaces a part of the admin for each ModelAdmin of the process, as soon as one of its own shows a form.
    assert found["helpers"].startswith("unfold") is is_unfolded
