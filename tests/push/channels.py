"""PostgreSQL's notifications, as somebody hears them who is no part of the project."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection

Event = dict[str, Any]


def connect(**more: Any) -> psycopg.Connection[Any]:
    """A connection to the test's database that Django knows nothing of."""
    settings = connection.settings_dict
    given = {"dbname": settings["NAME"], "host": settings["HOST"], "user": settings["USER"], **more}
    return psycopg.connect(**given, autocommit=True)


class Channel:
    """What is notified on a channel from now on."""

    def __init__(self, name: str = "mcp_django") -> None:
        self.name = name
        self._connection = connect()
        self._connection.execute(f'LISTEN "{name}"')

    def notify(self, payload: str) -> None:
        self._connection.execute("SELECT pg_notify(%s, %s)", [self.name, payload])

    def payloads(self) -> list[str]:
        """All that was committed since the last question: commits are told in their order, and this one is the last."""
        end = uuid.uuid4().hex
        self.notify(end)
        found: list[str] = []
        for notification in self._connection.notifies(timeout=60):
            if notification.payload == end:
                return found
            found.append(notification.payload)
        raise AssertionError("the channel is silent")

    def events(self) -> list[Event]:
        return [json.loads(payload) for payload in self.payloads()]

    def close(self) -> None:
        self._connection.close()


@contextmanager
def listening(name: str = "mcp_django") -> Iterator[Channel]:
    channel = Channel(name)
    try:
        yield channel
    finally:
        channel.close()


def wrote(label: str, *keys: Any) -> Event:
    """The event that says that rows were written."""
    return _changed(label, sorted(str(key) for key in keys), [])


def removed(label: str, *keys: Any) -> Event:
    """The event that says that rows were deleted."""
    return _changed(label, [], sorted(str(key) for key in keys))


def changed(label: str) -> Event:
    """The event that says that a model changed, and not where."""
    return _changed(label, None, [])


def _changed(label: str, written: list[str] | None, deleted: list[str]) -> Event:
    return {"changes": [{"alias": "default", "label": label, "written": written, "deleted": deleted}]}


def own_connections() -> list[str]:
    """The last statement of each connection to the test's database that the bus has made, in any process."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT query FROM pg_stat_activity WHERE datname = %s AND application_name = 'mcp_django' ORDER BY query",
            [connection.settings_dict["NAME"]],
        )
        return [query for (query,) in cursor.fetchall()]


def end_own_connections() -> int:
    """Let the database end them, as its administrator may, or its restart does. Returns how many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s AND "
            "application_name = 'mcp_django'",
            [connection.settings_dict["NAME"]],
        )
        return int(cursor.fetchone()[0])
