"""Keeps the keys that a PostgreSQL server makes apart from those that tests name."""

from __future__ import annotations

from typing import Any

#: Within the range of each kind of AutoField.
_FIRST = 10_001


def begin_keys_high(connection: Any) -> None:
    """Let each sequence begin with ``_FIRST``.

    A row that a test makes with a key of its own leaves the sequence as it is, so that the next row would get the same
    key in whichever process no row was made before. SQLite and MariaDB go on after the highest key.
    """
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            for found in connection.introspection.get_sequences(cursor, table):
                cursor.execute(f"ALTER SEQUENCE {quote(found['name'])} RESTART WITH {_FIRST}")
