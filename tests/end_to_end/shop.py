"""The tests' project in a process of its own, on the database of the test, with settings that a test needs there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from django.db import connection

from tests.end_to_end.servers import ROOT, Project, Served


def served_shop(server: str, folder: Path, settings: str, module: str = "") -> AbstractContextManager[Served]:
    """Serve it until the block ends. ``settings`` follow those of the tests, and ``module`` declares more."""
    (folder / "settings_of_shop.py").write_text(f"from tests.settings import *\n\n{settings}\n")
    variables = {
        "DJANGO_SETTINGS_MODULE": "settings_of_shop",
        "PYTHONPATH": f"{ROOT}:{folder}",
        "TEST_DATABASE_NAME": str(connection.settings_dict["NAME"]),
        "TEST_MODULE": module,
        "DEMO_DIR": str(folder),
    }
    return Project(ROOT, "tests", folder, variables).served(server)
