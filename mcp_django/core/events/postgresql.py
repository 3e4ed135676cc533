"""PostgreSQL as the bus: a transaction gives its changes to NOTIFY before it commits.

So changes are published if, and only if, they are committed, whatever becomes of the process. NOTIFY reaches only the
connections that listen at that moment. After a lost connection is made again, the hub resyncs.
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
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from psycopg import sql
from psycopg.pq import Escaping, PipelineStatus, TransactionStatus

from mcp_django.core.compat.connections import before_commit, connection_parameters, driver_errors
from mcp_django.core.events import payloads
from mcp_django.core.events.bus import CHANNEL, BaseBus, get_bus
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import ControlSet
from mcp_django.core.events.transaction import unpublished
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("mcp_django")

#: A name in PostgreSQL has 63 bytes, and triggers have names that begin with the channel's.
MAX_CHANNEL_BYTES = 48
#: How often a quiet connection is checked, and how long the database may take to answer.
_HEARTBEAT_SECONDS, _ANSWER_SECONDS = 30.0, 10.0
#: The publisher's connection is closed after this time: DROP DATABASE, as in a test, waits only 5 seconds for it.
_IDLE_SECONDS = 1.5
#: PostgreSQL fails commits that notify while its queue (8 GB) is full, as when a listening connection stays in a
#: transaction. So we look at the queue now and then. Above this part of its size, transactions carry no events.
_FULL, _LOOK_SECONDS = 0.5, 10.0
_LOOK = b"SELECT pg_notification_queue_usage()"


class PostgreSQLBus(BaseBus):
    """NOTIFY on one connection to a database, LISTEN on another one to the same database.

    ``database`` is the alias of the connections whose transactions carry their own changes. Changes without a
    transaction, and those on other databases, are published by the publisher's thread, on a connection of its own.
    ``listen_database`` is an alias of the same database that no pool stands before.
    """

    def __init__(self, database: str = "default", listen_database: str | None = None, channel: str = CHANNEL) -> None:
        for name, alias in {"database": database, "listen_database": listen_database or database}.items():
            is_there = isinstance(alias, str) and alias in connections
            if not is_there or connections[alias].vendor != "postgresql":
                raise ImproperlyConfigured(
                    f"The {name} of MCP['BUS'] is {alias!r}, which is no PostgreSQL database of DATABASES."
                )
        if not isinstance(channel, str) or not 0 < len(channel.encode()) <= MAX_CHANNEL_BYTES:
            raise ImproperlyConfigured(
                f"The channel of MCP['BUS'] must be a name of at most {MAX_CHANNEL_BYTES} bytes."
            )
        self.database: str = database
        self.channel = channel
        self._listen_alias = listen_database or database
        #: When the queue was last looked at, and whether it is too full.
        self._looked_at = float("-inf")
        self._full = False
        self._lock = Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._used_at = 0.0
        #: Whether an event could not be published.
        self._lost = False

    # In the thread that saves.

    def publish_with_commit(self, connection: BaseDatabaseWrapper) -> None:
        """Publish before each COMMIT of the connection, for as long as it lives. Django has no hook for that."""
        if connection.alias == self.database:
            before_commit(connection, _publish_before)

    def _publish_and_commit(self, connection: BaseDatabaseWrapper) -> None:
        """Give the changes of the transaction to NOTIFY, and commit. Raises what COMMIT raises.

        Changes that cannot be published here go to the publisher after the commit.
        """
        change_sets, raw = unpublished(connection), connection.connection
        if not change_sets or raw is None or self._full:
            return
        status = raw.info.transaction_status
        if status == TransactionStatus.INERROR:
            # An error was caught that Django does not know of: COMMIT rolls back in silence.
            for change_set in change_sets:
                change_set.published = True
        if status != TransactionStatus.INTRANS or raw.pgconn.pipeline_status != PipelineStatus.OFF:
            return
        try:
            changes, controls = Changes(), ControlSet()
            for change_set in change_sets:
                changes.absorb(change_set.changes)
                controls.absorb(change_set.controls)
            statement = self._notify(raw, _event(changes.as_json(), controls.as_json()))
        except Exception:
            logger.exception("A transaction cannot publish its changes; they are published after it")
            return
        looks = time.monotonic() - self._looked_at > _LOOK_SECONDS
        # One trip to the database: Django's own COMMIT, which follows, finds nothing to do.
        # Django's cursor would count, log and wrap this as a query of the project's.
        with driver_errors(connection), psycopg.ClientCursor(raw) as cursor:
            cursor.execute(b"; ".join([statement, *([_LOOK] if looks else []), b"COMMIT"]))
            for change_set in change_sets:
                change_set.published = True
            if looks:
                cursor.nextset()
                self._note_usage(cursor.fetchone())

    def _notify(self, raw: Any, event: JSON) -> bytes:
        """The statement that gives the event to NOTIFY."""
        escape = Escaping(raw.pgconn).escape_literal
        channel = escape(self.channel.encode(raw.info.encoding))
        calls = (b"pg_notify(%s, %s)" % (channel, escape(payload.encode())) for payload in payloads.cut(event))
        return b"SELECT " + b", ".join(calls)

    def _note_usage(self, row: Any) -> None:
        self._looked_at = time.monotonic()
        if self._full != (row[0] > _FULL):
            self._full = not self._full
            level = logging.WARNING if self._full else logging.INFO
            ask = ": does a listener hold a transaction?" if self._full else " again."
            logger.log(level, "PostgreSQL's queue of notifications is filled by %d %%%s", row[0] * 100, ask)

    # In the publisher's thread.

    def publish(self, event: JSON) -> None:
        """Give the event to NOTIFY. It needs no number: a listener loses no event, and a failed send is known here."""
        changes, controls = event.get("changes", []), event.get("controls", [])
        with self._lock:
            if changes or controls or self._lost:
                sent = _event(changes, controls)
                self._send({**sent, "lost": True} if self._lost else sent)
            elif time.monotonic() - self._used_at > _IDLE_SECONDS:
                self._give_back()

    def close(self) -> None:
        """Close the publisher's connection."""
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
            # The database may have ended the kept connection, as it does when it restarts.
            self._execute(event)
        self._lost = False
        if was_lost:
            logger.info("Events are published again")

    def _execute(self, event: JSON) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(
                **_parameters(self.database), autocommit=True, cursor_factory=psycopg.ClientCursor
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
            received: deque[Any] = deque()
            connection.add_notify_handler(received.append)
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
            joined()
            while True:
                # Notifications that came together are handed over together: a transaction notifies each client once.
                while received:
                    event = payloads.read(received.popleft().payload)
                    if event is not None:
                        yield event
                await _read(connection)
        finally:
            await connection.close()


def _publish_before(connection: BaseDatabaseWrapper) -> None:
    """Publish what the connection commits now, if the bus of the settings is for its database."""
    bus = _bus()
    if bus is not None and connection.alias == bus.database:
        bus._publish_and_commit(connection)


def _bus() -> PostgreSQLBus | None:
    with contextlib.suppress(Exception):
        bus = get_bus()
        return bus if isinstance(bus, PostgreSQLBus) else None
    return None


def _event(changes: list[JSON], controls: list[JSON]) -> JSON:
    return {name: value for name, value in (("changes", changes), ("controls", controls)) if value}


def _parameters(alias: str) -> JSON:
    """How a connection of our own reaches the database: never by Django's pool."""
    parameters = connection_parameters(connections[alias])
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
        # A connection that a firewall has dropped looks like a quiet one.
        async with asyncio.timeout(_ANSWER_SECONDS):
            await connection.execute("SELECT 1")
