"""An inventory that is held against its lock where there is no database at all."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import forkserver

ROOT = Path(__file__).parents[4]


@pytest.mark.slow
def test_a_fresh_checkout_without_any_database_is_held_against_its_lock(tmp_path: Path) -> None:
    """As in CI: nothing is migrated, and no file is made where the database would be."""
    environment = {**os.environ, "DEMO_DIR": str(tmp_path / "demo"), "DJANGO_SETTINGS_MODULE": "demo_project.settings"}
    path = tmp_path / "exposure.json"

    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        return forkserver.run(["manage.py", "mcp_inventory", *arguments], cwd=ROOT, env=environment)

    written, checked = manage("--lock", str(path)), manage("--lock", str(path), "--check")
    files = list((tmp_path / "demo").iterdir())
    lock = json.loads(path.read_text())
    lock["models"]["flights.flight"]["fields"].pop("notes")
    path.write_text(json.dumps(lock))
    changed, printed = manage("--lock", str(path), "--check"), manage()

    assert (written.returncode, checked.returncode, files) == (0, 0, [])
    assert checked.stdout == f"{path} is up to date.\n"
    assert changed.returncode == 1
    assert "+ field flights.flight.notes\n" in changed.stderr
    assert (printed.returncode, printed.stderr) == (0, "")
    assert "starts off" in printed.stdout and "switched" not in printed.stdout
