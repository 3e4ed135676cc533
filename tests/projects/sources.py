"""Django's own tests, which no package holds: unpacked from its source distribution, and kept."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import django

from tests.matrix import ROOT

#: The applications, and the templates that they share.
_FOLDERS = (
    "admin_inlines",
    "admin_views",
    "custom_pk",
    "model_fields",
    "proxy_models",
    "templates",
    "unmanaged_models",
)


def folder() -> Path:
    """Where the tests of the installed Django are, or would be."""
    return ROOT / ".projects" / f"django-{django.__version__}" / "tests"


def fetch() -> None:
    """Download and unpack them, unless they are there. Raises OSError with the reason where that fails."""
    if folder().exists():
        return
    with tempfile.TemporaryDirectory() as downloads:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        wanted = ["--no-binary", "django", f"django=={django.__version__}", "--dest", downloads]
        done = subprocess.run([*pip, *wanted], capture_output=True, text=True, check=False)
        archives = list(Path(downloads).glob("*.tar.gz"))
        if done.returncode != 0 or not archives:
            raise OSError(
                f"the source of Django {django.__version__} cannot be downloaded: {done.stderr[-300:].strip()}"
            )
        _unpack(archives[0])


def _unpack(archive: Path) -> None:
    target = folder().parent
    target.parent.mkdir(exist_ok=True)
    # The rename comes last, so that what was unpacked by half is unpacked again.
    with tempfile.TemporaryDirectory(dir=target.parent) as unpacked, tarfile.open(archive) as packed:
        [top] = {member.name.partition("/")[0] for member in packed.getmembers()}
        wanted = tuple(f"{top}/tests/{name}/" for name in _FOLDERS)
        packed.extractall(unpacked, [one for one in packed if one.name.startswith(wanted)], filter="data")
        (Path(unpacked) / top).rename(target)
