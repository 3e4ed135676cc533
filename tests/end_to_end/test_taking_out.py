"""The app is taken out of a project as docs/decide.md says: its tables go, and may come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.projects import install, start_project

_TABLES = """
from django.db import connection
print([name for name in connection.introspection.table_names() if name.startswith("mcp_django")])
"""


@pytest.mark.more("the migration of the app, and back")
def test_the_tables_of_the_app_go_and_come_back(tmp_path: Path) -> None:
    project = start_project(tmp_path)
    install(project)

    for target in ("zero", "0001", "zero"):
        project.manage("migrate", "mcp_django", target, "-v0")

    assert project.run(_TABLES).strip() == "[]"
    project.manage("migrate", "-v0")
    assert "mcp_django_accesstoken" in project.run(_TABLES)
