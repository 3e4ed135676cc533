"""Fills the tables of time zones on a MariaDB server, which the tests need."""

from __future__ import annotations

import subprocess
import zoneinfo
from pathlib import Path

from django.conf import settings
from django.db import connection

_LOCK = "mcp_django_time_zones"
_LOCK_SECONDS = 120


def load_time_zones() -> None:
    """Fill the server's time zone tables where they are empty: lookups by parts of a datetime find nothing without.

    The processes of a parallel run share the server, and only one of them may fill the tables.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, %s)", [_LOCK, _LOCK_SECONDS])
        try:
            cursor.execute("SELECT CONVERT_TZ('2013-01-01', 'UTC', %s)", [settings.TIME_ZONE])
            if cursor.fetchone() == (None,):
                _fill()
        finally:
            cursor.execute("SELECT RELEASE_LOCK(%s)", [_LOCK])


def _fill() -> None:
    folder = next(path for path in zoneinfo.TZPATH if Path(path).exists())
    sql = subprocess.run(["mariadb-tzinfo-to-sql", folder], check=True, capture_output=True).stdout
    database = settings.DATABASES["default"]
    client = ["mariadb", f"--host={database['HOST']}", f"--port={database.get('PORT') or 3306}"]
    subprocess.run([*client, f"--user={database['USER']}", "mysql"], input=sql, check=True)
