"""A project with an app of orders, as ``startproject`` makes it, with the lines of the README or before them."""

from __future__ import annotations

from tests.end_to_end.projects import PASSWORD, replace
from tests.end_to_end.servers import Project
from tests.support import forkserver

MODELS = """
from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=20)
    changed = models.DateTimeField(auto_now=True, db_index=True)


class Line(models.Model):
    order = models.ForeignKey(Order, on_delete=models.CASCADE)
    text = models.TextField()


class Refund(Order):
    class Meta:
        proxy = True


class Draft(models.Model):
    text = models.TextField()
"""

ADMIN = """
from django.contrib import admin

from store.models import Line, Order, Refund


class LineInline(admin.TabularInline):
    model = Line


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    list_display = ["number", "changed"]
    inlines = [LineInline]


admin.site.register(Refund)
"""

_SET_UP = """
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("makemigrations", "store", verbosity=0)
call_command("migrate", verbosity=0)
User.objects.create_superuser("admin", password="{password}")
from store.models import Order
Order.objects.create(number="A1")
"""


def write_store(project: Project) -> Project:
    """An app whose admin is in another one, and ours, without its endpoint."""
    store = project.folder / "store"
    (store / "migrations").mkdir(parents=True)
    for name in ("__init__.py", "migrations/__init__.py"):
        (store / name).touch()
    (store / "models.py").write_text(MODELS)
    (project.folder / "project/admin.py").write_text(ADMIN)
    apps = "'django.contrib.staticfiles',\n"
    added = "".join(f"    '{app}',\n" for app in ("mcp_django", "store", "project"))
    replace(project.folder / "project/settings.py", apps, f"{apps}{added}")
    return project


def set_up(project: Project) -> None:
    """Tables, a superuser and an order."""
    project.run(_SET_UP.format(password=PASSWORD))


def refused(project: Project, *command: str) -> str:
    """What a command says that fails."""
    done = forkserver.run(["manage.py", *command], cwd=project.folder, env=project.environment)
    assert done.returncode == 1, done.stdout
    return done.stderr
