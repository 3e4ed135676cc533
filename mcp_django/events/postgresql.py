"""PostgreSQL as the bus: what a transaction changed is given to NOTIFY in that transaction itself.

So it is told if, and only if, it was committed, whatever becomes of the process. NOTIFY reaches whoever listens at that
moment: a connection that was lost is joined again, and its hub takes it that it missed something.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import connections
from psycopg import sql
from psycopg.pq import Escaping, PipelineStatus, TransactionStatus

from mcp_django.events import payloads
from mcp_django.events.bus import Bus, get_bus
from mcp_django.events.changes import Changes
from mcp_django.events.transaction import untold
from mcp_django.types import JSON

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("mcp_django")

#: How often a quiet connection is tried, and how long the database may take to answer.
_HEARTBEAT_SECONDS, _ANSWER_SECONDS = 30.0, 10.0
#: The publisher's connection is given back after as long: DROP DATABASE, as of a test, waits 5 seconds for it.
_IDLE_SECONDS = 1.5
#: PostgreSQL fails the commit of whoever notifies while its queue (8 GB) is full, as when somebody who listens stays in
#: a transaction. So it is looked at now and then, and above this part of it no transaction carries events any more.
_FULL, _LOOK_SECONDS = 0.5, 10.0
_LOOK = b"SELECT pg_notification_queue_usage()"


class PostgreSQLBus(Bus):
    """NOTIFY on one connection to a database, LISTEN on another one to the same database.

    ``alias`` is that of the connections whose transactions carry what they change. What is saved without a transaction,
    and on other databases, is told by the publisher's thread on a connection of its own.
    """

    def __init__(self, alias: str, listen_alias: str, channel: str) -> None:
        self._alias = alias
        self._listen_alias = listen_alias
        self._channel = channel
        #: When the queue was last looked at, and whether there is no room in it.
        self._looked_at = float("-inf")
        self._full = False
        self._lock = Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._used_at = 0.0
        #: Whether what was to be published was not.
        self._lost = False

    # In the thread that saves.

    def ride_with(self, connection: BaseDatabaseWrapper) -> None:
        """Tell before each COMMIT of the connection. Django has no hook there; once is enough for all its time."""
        if connection.alias != self._alias or "_mcp_commit" in vars(connection):
            return
        commit = connection._commit  # type: ignore[attr-defined]

        def tell_and_commit() -> None:
            bus = _bus()
            if bus is not None and connection.alias == bus._alias:
                bus._tell(connection)
            commit()

        vars(connection).update(_mcp_commit=commit, _commit=tell_and_commit)

    def _tell(self, connection: BaseDatabaseWrapper) -> None:
        """Give what the transaction has changed to NOTIFY, and commit. Raises what COMMIT raises.

        What cannot be told here, the publisher is given after the commit.
        """
        change_sets, raw = untold(connection), connection.connection
        if not change_sets or raw is None or self._full:
            return
        status = raw.info.transaction_status
        if status == TransactionStatus.INERROR:
            # An error was caught that Django was not told of: COMMIT rolls back, and says nothing.
            for change_set in change_sets:
                change_set.told = True
        if status != TransactionStatus.INTRANS or raw.pgconn.pipeline_status != PipelineStatus.OFF:
            return
        try:
            changes, controls = Changes(), set[str]()
            for change_set in change_sets:
                changes.absorb(change_set.changes)
                controls |= change_set.controls
            statement = self._notify(raw, _event(changes.as_json(), sorted(controls)))
        except Exception:
            logger.exception("A transaction cannot tell what it has changed; it is told afterwards")
            return
        looks = time.monotonic() - self._looked_at > _LOOK_SECONDS
        # In one trip to the database: what it does for the COMMIT of Django, which follows, is nothing.
        # Not by Django's cursor: it would count, log and wrap it as a query of the project's.
        with connection.wrap_database_errors, psycopg.ClientCursor(raw) as cursor:
            cursor.execute(b"; ".join([statement, *([_LOOK] if looks else []), b"COMMIT"]))
            for change_set in change_sets:
                change_set.told = True
            if looks:
                cursor.nextset()
                self._note_usage(cursor.fetchone())

    def _notify(self, raw: Any, event: JSON) -> bytes:
        """The statement that gives the event to NOTIFY."""
        escape = Escaping(raw.pgconn).escape_literal
        channel = escape(self._channel.encode(raw.info.encoding))
        told = (b"pg_notify(%s, %s)" % (channel, escape(payload.encode())) for payload in payloads.cut(event))
        return b"SELECT " + b", ".join(told)

    def _note_usage(self, row: Any) -> None:
        self._looked_at = time.monotonic()
        if self._full != (row[0] > _FULL):
            self._full = not self._full
            logger.warning(
                "PostgreSQL's queue of notifications is full by %d %%: does who listens hold a transaction?",
                row[0] * 100,
            )

    # In the publisher's thread.

    def publish(self, event: JSON) -> None:
        """Give the event to NOTIFY. It needs no number: who listens loses nothing, and what was not sent is known."""
        changes, controls = event.get("changes", []), event.get("controls", [])
        with self._lock:
            if changes or controls or self._lost:
                told = _event(changes, controls)
                self._send({**told, "lost": True} if self._lost else told)
            elif time.monotonic() - self._used_at > _IDLE_SECONDS:
                self._give_back()

    def close(self) -> None:
        """Give back the publisher's connection."""
        with self._lock:
            self._give_back()

    def _send(self, event: JSON) -> None:
        was_lost, self._lost = self._lost, True
        kept = self._connection is not None
        try:
            self._execute(event)
        except psycopg.OperationalError:
            self._give_back()
            if not kept:
                raise
            # The database may have ended what was kept, as it does when it starts again.
            self._execute(event)
        self._lost = False
        if was_lost:
            logger.info("Events are told again")

    def _execute(self, event: JSON) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(
                **_parameters(self._alias), autocommit=True, cursor_factory=psycopg.ClientCursor
            )
        self._used_at = time.monotonic()
        cursor = self._connection.execute(b"; ".join([self._notify(self._connection, event), _LOOK]))
        cursor.nextset()
        self._note_usage(cursor.fetchone())

    def _give_back(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # On the hub's loop.

    async def subscribe(self, joined: Callable[[], None] = lambda: None) -> AsyncGenerator[JSON, None]:
        connection = await psycopg.AsyncConnection.connect(**_parameters(self._listen_alias), autocommit=True)
        try:
            heard: deque[Any] = deque()
            connection.add_notify_handler(heard.append)
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            joined()
            while True:
                # All that came together is handed over together: of one transaction each subscriber is told once.
                while heard:
                    event = payloads.read(heard.popleft().payload)
                    if event is not None:
                        yield event
                await _read(connection)
        finally:
            await connection.close()


def _bus() -> PostgreSQLBus | None:
    with contextlib.suppress(Exception):
        bus = get_bus()
        return bus if isinstance(bus, PostgreSQLBus) else None
    return None


def _event(changes: list[JSON], controls: list[str]) -> JSON:
    return {name: value for name, value in (("changes", changes), ("controls", controls)) if value}


def _parameters(alias: str) -> JSON:
    """How a connection of our own reaches the database: never by Django's pool."""
    parameters = connections[alias].get_connection_params()
    for name in ("context", "cursor_factory", "prepare_threshold"):
        parameters.pop(name, None)
    return {"connect_timeout": 10, "fallback_application_name": "mcp_django", **parameters}


async def _read(connection: psycopg.AsyncConnection[Any]) -> None:
    """Wait for notifications, and hand them to the connection's handlers. Raises what a lost connection raises.

    psycopg's own ``notifies()`` wakes up ten times a second.
    """
    loop = asyncio.get_running_loop()
    readable, pgconn = asyncio.Event(), connection.pgconn
    loop.add_reader(pgconn.socket, readable.set)
    try:
        # Not wait_for: on Python 3.11 it swallows a cancellation that comes together with a notification.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEARTBEAT_SECONDS):
                await readable.wait()
    finally:
        loop.remove_reader(pgconn.socket)
    if readable.is_set():
        pgconn.consume_input()
        while pgconn.notify_handler is not None and (notification := pgconn.notifies()):
            pgconn.notify_handler(notification)
    else:
        # A connection that a firewall has forgotten looks as one does on which nothing happens.
        async with asyncio.timeout(_ANSWER_SECONDS):
            await connection.execute("SELECT 1")
