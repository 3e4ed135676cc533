"""Environments of clients that cannot live in ours: older versions of the official Python SDK, made once and kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.conformance.node import alone_in

HERE = Path(__file__).parent
FOLDER = HERE.parents[2] / ".venv-clients"
#: The versions, each with a file of its pins.
VERSIONS = sorted(path.stem.removeprefix("requirements-") for path in HERE.glob("requirements-*.txt"))


def python_with(version: str) -> Path:
    """The interpreter of an environment that holds this version of the SDK, made unless it is there as pinned.

    Raises RuntimeError with what pip wrote where the installation failed.
    """
    pins = HERE / f"requirements-{version}.txt"
    folder = FOLDER / version
    if not _is_current(folder, pins):
        FOLDER.mkdir(exist_ok=True)
        with alone_in(FOLDER / f"of-{version}"):
            if not _is_current(folder, pins):
                _make(folder, pins)
    return _python(folder)


def _make(folder: Path, pins: Path) -> None:
    # The copy of its pins, which comes last, marks the environment as whole.
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    # The pins name all that is needed, so that there is nothing to resolve.
    pip = [sys.executable, "-m", "pip", "--python", str(_python(folder)), "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", "--retries=10", "--no-compile", "--no-deps", "--requirement", str(pins)])
    shutil.copyfile(pins, folder / pins.name)


def _is_current(folder: Path, pins: Path) -> bool:
    copy = folder / pins.name
    return copy.exists() and copy.read_bytes() == pins.read_bytes() and _python(folder).exists()


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
