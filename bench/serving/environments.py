"""An environment of its own for each server, since their requirements exclude each other."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = ROOT / ".venv-bench"
_REQUIREMENTS = ROOT / "bench" / "requirements"


def python_of(name: str) -> Path:
    """The interpreter of the environment with what ``bench/requirements/<name>.txt`` asks for, made at first use.

    Raises CalledProcessError where pip fails.
    """
    folder = _FOLDER / name
    python, stamp = folder / "bin" / "python", folder / "stamp"
    file = _REQUIREMENTS / f"{name}.txt"
    wanted = hashlib.sha256(file.read_bytes() + (ROOT / "requirements.txt").read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"Installing {name} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", file], check=True, cwd=ROOT)
        stamp.write_text(wanted)
    return python
