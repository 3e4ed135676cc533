"""Runs tests on each pair of Python and Django that we support.

    python -m tests.matrix [--newest [--even-here] | --lowest] PYTEST_ARGUMENTS

A pair has an environment of its own, ``.venv-PYTHON-DJANGO``, with the requirements of the main environment and another
Django. It is made where its Python is found (on PATH, or among those of pyenv), and again where the requirements have
changed. The pair that the main environment is needs no other. ``--lowest`` runs them with the lowest version of each
package that pyproject.toml asks for, on the oldest Python.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Pair:
    """A Python with the Django that it is tested with."""

    python: str
    django: str

    def __str__(self) -> str:
        return f"Python {self.python} with Django {self.django}"

    @property
    def series(self) -> str:
        return ".".join(self.django.split(".")[:2])

    @property
    def folder(self) -> Path:
        return ROOT / f".venv-{self.python}-{self.series}"

    @property
    def is_here(self) -> bool:
        """Whether this process runs in an environment of the pair."""
        return sys.version_info[:2] == tuple(map(int, self.python.split("."))) and version("django") == self.django


#: The oldest first, which requirements.txt pins.
PAIRS = (Pair("3.11", "5.2.19"), Pair("3.12", "6.0.10"), Pair("3.13", "6.1.3"), Pair("3.14", "6.1.3"))


def interpreter(python: str) -> str | None:
    """A Python of that version that can make environments; None if there is none."""
    return next((found for found in _candidates(python) if _can_make_environments(found, python)), None)


def _candidates(python: str) -> Iterator[str]:
    on_path = shutil.which(f"python{python}")
    if on_path is not None:
        yield on_path
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    # Not 3.13.0t, which is another build, nor names that people gave.
    found = [path for path in versions.glob(f"{python}.*") if re.fullmatch(r"[\d.]+", path.name)]
    for path in sorted(found, key=lambda path: int(path.name.rpartition(".")[2]), reverse=True):
        yield str(path / "bin/python")


def _can_make_environments(path: str, python: str) -> bool:
    """Asked of the program itself: a shim of pyenv may stand for nothing, and Debian's Python may have no venv."""
    code = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.')"
    try:
        asked = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return asked.returncode == 0 and asked.stdout.strip() == python


def requirements(pair: Pair) -> str:
    """What the environment of the pair holds. Django has the tasks framework in itself from 6.0 on."""
    replaced = ("Django==",) if pair.series == "5.2" else ("Django==", "django-tasks==")
    lines = [line for line in pins("requirements.txt", "requirements-dev.txt") if not line.startswith(replaced)]
    return "\n".join([*lines, f"Django=={pair.django}", ""])


def lowest() -> str:
    """What an environment holds that has the lowest version of each dependency and of each extra's packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [line for part in (project["dependencies"], *project["optional-dependencies"].values()) for line in part]
    named = dict.fromkeys(re.sub(r">=([\w.]+).*", r"==\1", line) for line in asked)
    ours = {_name(line) for line in named}
    lines = [line for line in pins("requirements.txt", "requirements-dev.txt") if _name(line) not in ours]
    # Each release of the SDK of OpenTelemetry asks for the same release of its API.
    lines = [_name(line) if _name(line) == "opentelemetry-sdk" else line for line in lines]
    return "\n".join([*lines, *named, ""])


def _name(line: str) -> str:
    """The package that a line asks for (PEP 503)."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0]).lower()


def pins(*files: str | Path) -> list[str]:
    """The lines of requirements files, without those that name another file."""
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
    return [line for line in lines if not line.startswith("-r ")]


def environment(name: object, folder: Path, found: str, text: str, *more: Path) -> str:
    """The Python of an environment that holds what ``text`` asks for, and of the files ``more`` that alone.

    It is made first if it is not there or holds something else. Raises CalledProcessError.
    """
    python, wanted, installed = folder / "bin/python", folder / "wanted.txt", folder / "installed.txt"
    if python.exists() and installed.exists() and installed.read_text() == text:
        return str(python)
    print(f"{name}: making {folder.name} with {found}", flush=True)
    subprocess.run([found, "-m", "venv", "--clear", folder], check=True)
    wanted.write_text(text)
    pip = [python, "-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", wanted], check=True)
    for file in more:
        subprocess.run([*pip, "--no-deps", "-r", file], check=True)
    wanted.rename(installed)  # Last, so that an environment that was made by half is made again.
    return str(python)


def python_of(pair: Pair, found: str) -> str:
    """The Python of the pair's environment, which is made first if it is not there. Raises CalledProcessError."""
    data = ROOT / "requirements-data.txt"
    return found if pair.is_here else environment(pair, pair.folder, found, requirements(pair), data)


def run(name: object, make: Callable[[], str], arguments: list[str]) -> bool:
    """Run the tests in the environment that is made, and say how it went."""
    try:
        python = make()
    except subprocess.CalledProcessError as error:
        print(f"{name}: FAILED, its environment could not be made: {error}", flush=True)
        return False
    print(f"{name}: {python} -m pytest {' '.join(arguments)}", flush=True)
    begun = time.monotonic()
    code = subprocess.run([python, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode
    outcome = "passed" if code == 0 else f"FAILED with exit code {code}"
    print(f"{name}: {outcome} after {time.monotonic() - begun:.0f} s", flush=True)
    return code == 0


def lowest_python() -> str:
    """The Python of the environment with the lowest versions. Raises CalledProcessError."""
    found = interpreter(PAIRS[0].python) or sys.executable
    return environment("lowest versions", ROOT / ".venv-lowest", found, lowest(), ROOT / "requirements-data.txt")


def _reason(pair: Pair, is_found: bool) -> str:
    """Why the pair was not run."""
    if not is_found:
        return f"there is no python{pair.python} that can make environments on PATH or in pyenv"
    return "it is the main environment" if pair.is_here else "make matrix runs it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--newest", action="store_true", help="run the newest pair alone, unless it is the one here")
    parser.add_argument("--even-here", action="store_true", help="run the newest pair even if it is the one here")
    parser.add_argument("--lowest", action="store_true", help="run the lowest versions that pyproject.toml allows")
    options, arguments = parser.parse_known_args()
    if options.lowest:
        return 0 if run("lowest versions", lowest_python, arguments) else 1
    found = {pair: sys.executable if pair.is_here else interpreter(pair.python) for pair in PAIRS}
    runnable = {pair: path for pair, path in found.items() if path is not None}
    chosen = list(runnable)
    if options.newest:
        chosen = [pair for pair in chosen[-1:] if options.even_here or not pair.is_here]
    passed = [run(pair, partial(python_of, pair, runnable[pair]), arguments) for pair in chosen]
    for pair in PAIRS:
        if pair not in chosen:
            print(f"{pair}: not run, {_reason(pair, pair in runnable)}")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
