"""The wheel holds what the pages are made of."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_wheel_has_every_template_and_static_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "mcp_django", source / "mcp_django", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "pytest_mcp_django.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source]

    subprocess.run(command, check=True, capture_output=True)

    [wheel] = tmp_path.glob("*.whl")
    packed = set(ZipFile(wheel).namelist())
    files = {str(path.relative_to(source)) for path in (source / "mcp_django").rglob("*") if path.is_file()}
    assert files - packed == set()
    assert any(name.endswith("console.css") for name in packed)
    assert "pytest_mcp_django.py" in packed
    [entry_points] = [name for name in packed if name.endswith("entry_points.txt")]
    assert "[pytest11]\nmcp_django = pytest_mcp_django\n" in ZipFile(wheel).read(entry_points).decode()
