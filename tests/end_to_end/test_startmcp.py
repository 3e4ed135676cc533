"""``startmcp`` in a project outside of this repository: the file that it writes is imported with the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.projects import install, replace, start_project
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


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = start_project(tmp_path)
    install(made)
    store = made.folder / "store"
    (store / "migrations").mkdir(parents=True)
    for name in ("__init__.py", "migrations/__init__.py"):
        (store / name).touch()
    (store / "models.py").write_text(MODELS)
    # The admin of the app is in another one.
    (made.folder / "project/admin.py").write_text(ADMIN)
    replace(made.folder / "project/settings.py", "'mcp_django',\n", "'mcp_django',\n    'store',\n    'project',\n")
    return made


def test_the_file_is_imported_and_changes_nothing_but_who_declares_it(project: Project) -> None:
    read = "from django.core.management import call_command as call; call('mcp_inventory', json=True)"
    before = project.run(read)

    assert "It changes nothing before you edit it." in project.manage("startmcp", "store")

    text = (project.folder / "store/mcp.py").read_text()
    assert "from .models import Order, Refund\n" in text
    assert "# Line is shown by the inline LineInline, and takes its options from it.\n" in text
    assert "# Draft is not shown: " in text
    assert '    # last_modified_field = "changed"\n' in text
    assert project.manage("check") == "System check identified no issues (0 silenced).\n"
    after = project.run(read)
    for name in ("Order", "Refund"):
        after = after.replace(f'"declared_by": "{name}MCP"', f'"declared_by": "{name}Admin"')
    assert after.replace('"RefundAdmin"', '"ModelAdmin"') == before

    command = ["manage.py", "startmcp", "store"]
    again = forkserver.run(command, cwd=project.folder, env=project.environment)
    assert again.returncode == 1 and "exists already, and is left as it is" in again.stderr
    assert (project.folder / "store/mcp.py").read_text() == text
