"""The suite and a Node.js that is new enough for it, as package-lock.json pins them, in a folder that git ignores."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".node"
#: Where the Inspector's command is in the folder of a suite.
INSPECTOR = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
PINS = ("package.json", "package-lock.json")


class NPMMissing(Exception):
    """npm is not on the machine."""


@dataclass(frozen=True)
class Suite:
    """The installed suite, or other packages that the files of a folder pin beside Node.js."""

    folder: Path
    pins: Path = HERE

    @property
    def node(self) -> Path:
        return self.folder / "node_modules/node/bin/node"

    @property
    def command(self) -> list[str]:
        script = self.folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
        return [str(self.node), str(script)]


def install(pins: Path = HERE) -> Suite:
    """The suite, or what the files in the folder ``pins`` name, installed unless it is there as pinned.

    Raises NPMMissing, and RuntimeError with what npm wrote where the installation failed.
    """
    suite = Suite(FOLDER / pins.name, pins)
    with alone_in(FOLDER):
        if not is_current(suite):
            npm = shutil.which("npm")
            if npm is None:
                raise NPMMissing("npm is missing; it comes with Node.js, of any version since 18")
            print(f"installing Node.js and what {pins.name}/package.json names", flush=True)
            # Elsewhere first: a folder of that name is a whole installation.
            with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
                fresh = Path(folder, pins.name)
                _install(npm, pins, fresh)
                shutil.rmtree(suite.folder, ignore_errors=True)
                fresh.rename(suite.folder)
    return suite


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """No other process of the tests installs anything into the folder meanwhile."""
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_current(suite: Suite) -> bool:
    return all(
        (suite.folder / name).exists() and (suite.folder / name).read_bytes() == (suite.pins / name).read_bytes()
        for name in PINS
    )


def _install(npm: str, pins: Path, folder: Path) -> None:
    folder.mkdir()
    for name in PINS:
        shutil.copyfile(pins / name, folder / name)
    # Node.js comes by a script of its package.
    command = [npm, "ci", "--no-audit", "--no-fund", "--no-ignore-scripts"]
    environment = {**os.environ, "npm_config_update_notifier": "false", "npm_config_fetch_retries": "5"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not Suite(folder).node.exists():
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
