"""Certificates for servers of a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

_MAKE = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1"


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    files = ["-keyout", key, "-out", certificate]
    subprocess.run([*_MAKE.split(), "-addext", "subjectAltName=IP:127.0.0.1", *files], check=True, capture_output=True)
    return certificate, key
