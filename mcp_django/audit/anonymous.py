"""Counts the requests of callers who are not let in: a row for each address, reason, ended token and minute.

Anybody can send such requests, so neither their number nor their texts may fill the database.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import Any

from django.db import connections, transaction
from django.db.models import F

from mcp_django.audit import table
from mcp_django.audit.lines import Line, as_dict, line
from mcp_django.models import Call

#: Rows of one minute in one process. What comes beyond them is counted without an address.
MAX_ROWS = 1_000
_MINUTE = 60
#: The columns by which a row is found, beside its minute. The values are ours, and the address is an IP address.
NAMES = ("site", "kind", "outcome", "transport", "reason", "address")
#: A minute, as minutes since 1970, the values of NAMES, and the columns of a caller whose token has ended.
Key = tuple[int, tuple[str, ...], tuple[tuple[str, Any], ...]]


class AnonymousCounts:
    """What came in the present minute, by the columns of its row."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        #: How often each came and is not written yet.
        self._new: dict[Key, int] = {}
        #: The keys that have a row in their minute, with its primary key once it is written.
        self._rows: dict[Key, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._new)

    def add(self, *named: str, **about: Any) -> None:
        """Count one more, by the values of NAMES, and by the columns ``about`` whoever sent a token that has ended."""
        minute = int(time.time()) // _MINUTE
        with self._lock:
            if self._rows and next(reversed(self._rows))[0] != minute:
                self._rows = {key: row for key, row in self._rows.items() if key in self._new}
            key: Key = (minute, named, tuple(about.items()))
            if key not in self._rows and len(self._rows) >= MAX_ROWS:
                key = (minute, (*named[:4], "TOO_MANY_ADDRESSES", ""), ())
            self._rows.setdefault(key, None)
            self._new[key] = self._new.get(key, 0) + 1

    def write(self) -> list[Line]:
        """Write the new counts, and return the lines of new rows. Raises Away."""
        with self._lock:
            taken, self._new = self._new, {}
        if not taken:
            return []
        alias = table.database()
        try:
            with transaction.atomic(using=alias):
                written = [(key, *self._write(key, count)) for key, count in taken.items()]
        except Exception as error:
            connections[alias].close_if_unusable_or_obsolete()
            with self._lock:
                self._new = {key: taken.get(key, 0) + self._new.get(key, 0) for key in taken | self._new}
            raise table.Away from error
        with self._lock:
            self._rows.update({key: row for key, row, _ in written if key in self._rows})
        return [made for _, _, made in written if made is not None]

    def _write(self, key: Key, count: int) -> tuple[Any, Line | None]:
        """Add to the row of the key, or make it. Returns its primary key, and its line if it is new."""
        row = self._rows.get(key)
        if row is not None and Call.objects.filter(pk=row).update(count=F("count") + count):
            return row, None
        minute, values, about = key
        made = line(minute * _MINUTE, **dict(zip(NAMES, values, strict=True)), **dict(about), count=count)
        return Call.objects.create(**as_dict(made)).pk, made
