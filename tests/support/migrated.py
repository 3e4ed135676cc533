"""SQLite databases that begin as copies of one that ``migrate`` has made before, in another process or an earlier run.

To migrate takes seconds of processor time, and every worker of every run would do it.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import django
from django.apps import apps
from django.conf import settings
from django.db import connections

ROOT = Path(__file__).resolve().parents[2]
#: How old a database may be in seconds that another run may still copy.
_DAY = 86_400


def copy_databases() -> bool:
    """Put a migrated database where each test database on SQLite will be; False where there is none yet.

    ``migrate`` is run on the copies too, and finds nothing to do.
    """
    template = _template()
    if not template.exists():
        return False
    for database in _on_sqlite():
        shutil.copyfile(template, database["TEST"]["NAME"])
    return True


def keep_database() -> None:
    """Keep the default database, which has the rows of ``migrate`` now, for later processes."""
    template, name = _template(), connections["default"].settings_dict["NAME"]
    unfinished = Path(f"{name}.unfinished")
    with closing(sqlite3.connect(name)) as made, closing(sqlite3.connect(unfinished)) as kept:
        made.backup(kept)
    unfinished.rename(template)
    for old in template.parent.glob("migrated-*.sqlite3"):
        if old.stat().st_mtime < time.time() - _DAY:
            old.unlink(missing_ok=True)


def remove_databases() -> None:
    for database in _on_sqlite():
        for end in ("", "-wal", "-shm"):
            Path(database["TEST"]["NAME"] + end).unlink(missing_ok=True)


def _on_sqlite() -> list[dict[str, Any]]:
    return [connection.settings_dict for connection in connections.all() if connection.vendor == "sqlite"]


def _template() -> Path:
    """Its name says what the database was made of: the versions, and the code of every app of this project."""
    made_of = hashlib.sha256(f"{sys.version} {django.VERSION}".encode())
    for app in apps.get_app_configs():
        made_of.update(app.name.encode())
        if Path(app.path).is_relative_to(ROOT) and "site-packages" not in app.path:
            for file in sorted(Path(app.path).rglob("*.py")):
                made_of.update(file.read_bytes())
    return settings.DEMO_DIR / f"migrated-{made_of.hexdigest()[:16]}.sqlite3"
