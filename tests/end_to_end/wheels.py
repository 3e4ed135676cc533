"""The package as people install it: built as a release is, and put into an environment without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.servers import ROOT

BUILD_SECONDS = 280


@dataclass(frozen=True)
class Built:
    """What ``python -m build`` has made, and the sources that it was made from."""

    source: Path
    sdist: Path
    wheel: Path


def build(folder: Path) -> Built:
    """Build the sdist, and the wheel from the sdist, of a copy: a build leaves files beside the sources."""
    source, made = folder / "source", folder / "dist"
    shutil.copytree(ROOT / "mcp_django", source / "mcp_django", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "pytest_mcp_django.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", made, source]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [sdist], [wheel] = made.glob("*.tar.gz"), made.glob("*.whl")
    return Built(source, sdist, wheel)


def packages_of(environment: Path) -> Path:
    """The folder of a virtual environment that holds its packages."""
    [found] = environment.glob("lib/python*/site-packages")
    return found


def lend_packages(environment: Path) -> None:
    """Let a virtual environment import what this interpreter has installed, behind what it has itself.

    Nothing of the checkout comes with it: a ``.pth`` file adds folders, and those in them that it names in turn are not
    added.
    """
    lent = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    packages_of(environment).joinpath("lent_by_the_tests.pth").write_text("\n".join(lent))
