"""What a project needs of this machine, beside packages: each function says what is missing, or nothing."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit


def postgresql() -> str:
    host, port = os.environ.get("PGHOST", "127.0.0.1"), int(os.environ.get("PGPORT", "5432"))
    return "" if _answers(host, port) else f"there is no PostgreSQL at {host}:{port}"


def redis() -> str:
    url = urlsplit(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/14"))
    host, port = url.hostname or "127.0.0.1", url.port or 6379
    return "" if _answers(host, port) else f"there is no Redis at {host}:{port}"


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True
