"""What the tests need of a MariaDB server."""

from __future__ import annotations

import subprocess
import zoneinfo
from pathlib import Path

from django.conf import settings
from django.db import connection


def load_time_zones() -> None:
    """Fill the server's time zone tables where they are empty: lookups by parts of a datetime find nothing without."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONVERT_TZ('2013-01-01', 'UTC', %s)", [settings.TIME_ZONE])
        if cursor.fetchone() != (None,):
            return
    folder = next(path for path in zoneinfo.TZPATH if Path(path).exists())
    sql = subprocess.run(["mariadb-tzinfo-to-sql", folder], check=True, capture_output=True).stdout
    database = settings.DATABASES["default"]
    client = ["mariadb", f"--host={database['HOST']}", f"--user={database['USER']}", "mysql"]
    subprocess.run(client, input=sql, check=True)
