"""What Django's database connections know and do not say: their transaction, and how they reach the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from django.core.cache import close_caches as _close_caches
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

# The transaction.


def before_commit(connection: BaseDatabaseWrapper, call: Callable[[BaseDatabaseWrapper], None]) -> None:
    """Call a function before each COMMIT of the connection, as long as the object lives. A second one is not taken.

    Private: ``BaseDatabaseWrapper._commit``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; what is given to
    ``on_commit`` is called after the COMMIT.
    """
    if "_mcp_commit" in vars(connection):
        return
    commit = connection._commit  # type: ignore[attr-defined]

    def call_and_commit() -> None:
        call(connection)
        commit()

    vars(connection).update(_mcp_commit=commit, _commit=call_and_commit)


def on_commit_functions(connection: BaseDatabaseWrapper) -> Iterator[Any]:
    """What is called if the present transaction commits, in that order.

    Private: the tuples in ``BaseDatabaseWrapper.run_on_commit``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return (entry[1] for entry in connection.run_on_commit)


def on_commit_place(connection: BaseDatabaseWrapper, function: object, guess: int) -> int | None:
    """The place of a function among those of ``on_commit_functions``, looked for at ``guess`` first; None: it has none.

    Private: the tuples in ``BaseDatabaseWrapper.run_on_commit``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    entries: list[Any] = connection.run_on_commit
    if guess < len(entries) and entries[guess][1] is function:
        return guess
    return next((place for place, entry in enumerate(entries) if entry[1] is function), None)


def on_commit_count(connection: BaseDatabaseWrapper) -> int:
    """How many functions ``on_commit_functions`` gives.

    Private: ``BaseDatabaseWrapper.run_on_commit``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return len(connection.run_on_commit)


def savepoint_branch(connection: BaseDatabaseWrapper) -> tuple[str, ...]:
    """The savepoints that are open, outermost first: a rollback to one of them undoes what was done since.

    Private: ``BaseDatabaseWrapper.savepoint_ids``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return tuple(connection.savepoint_ids)


# Its state.


def has_failed(connection: BaseDatabaseWrapper) -> bool:
    """Whether a statement has failed since the connection was opened, or ``clear_failure`` was called.

    Private: ``BaseDatabaseWrapper.errors_occurred``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.errors_occurred)


def clear_failure(connection: BaseDatabaseWrapper) -> None:
    """Let ``has_failed`` be false again.

    Private: ``BaseDatabaseWrapper.errors_occurred``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    connection.errors_occurred = False


def close_at(connection: BaseDatabaseWrapper, moment: float) -> None:
    """Let ``close_if_unusable_or_obsolete`` end the connection from a moment of ``time.monotonic()`` on.

    Private: ``BaseDatabaseWrapper.close_at``. Seen with: Django 5.2, 6.0, 6.1. Public way: CONN_MAX_AGE, which holds
    for the connections of all threads.
    """
    connection.close_at = moment


def close_caches() -> None:
    """Close the caches of this thread, as the end of a request does.

    Private: ``django.core.cache.close_caches``. Seen with: Django 5.2, 6.0, 6.1. Public way: the signal
    ``request_finished``, which ends the database connections too.
    """
    _close_caches()


@contextmanager
def executed_by(connection: BaseDatabaseWrapper, wrapper: Callable[..., Any]) -> Iterator[None]:
    """Let the connection execute by a wrapper, whatever wrappers are added meanwhile.

    Private: ``BaseDatabaseWrapper.execute_wrappers``. Seen with: Django 5.2, 6.0, 6.1. Public way:
    ``execute_wrapper()``, which takes the last one away in the end: a receiver of ``connection_created`` may have added
    that.
    """
    connection.execute_wrappers.append(wrapper)
    try:
        yield
    finally:
        connection.execute_wrappers.remove(wrapper)


# The driver.


def driver_cursor(context: Mapping[str, Any]) -> Any:
    """The driver's own cursor, of the context that an execute wrapper is given.

    Private: ``CursorWrapper.cursor``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return context["cursor"].cursor


def driver_errors(connection: BaseDatabaseWrapper) -> AbstractContextManager[None]:
    """Raise errors of the driver as Django's, for statements that do not pass Django's cursor.

    Private: ``BaseDatabaseWrapper.wrap_database_errors``. Seen with: Django 5.2, 6.0, 6.1. Public way: Django's cursor,
    which counts and logs each statement as a query of the project's, and gives it to its wrappers.
    """
    return cast("AbstractContextManager[None]", connection.wrap_database_errors)


def connection_parameters(connection: BaseDatabaseWrapper) -> dict[str, Any]:
    """What the driver is given to connect: made from DATABASES.

    Private: ``BaseDatabaseWrapper.get_connection_params``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    parameters: dict[str, Any] = connection.get_connection_params()
    return parameters


def connect_again(connection: BaseDatabaseWrapper) -> Any:
    """One more connection of the driver's to the same database, which belongs to the caller.

    Private: ``BaseDatabaseWrapper.get_new_connection``. Seen with: Django 5.2, 6.0, 6.1. Public way: none;
    ``connections[alias]`` is the thread's one connection.
    """
    return connection.get_new_connection(connection.get_connection_params())


# The database.


def is_mariadb(connection: BaseDatabaseWrapper) -> bool:
    """Of a connection whose vendor is "mysql": whether it is MariaDB. Asks the server, on a new connection.

    Private: ``DatabaseWrapper.mysql_is_mariadb``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.mysql_is_mariadb)  # type: ignore[attr-defined]


def has_uuid_type(connection: BaseDatabaseWrapper) -> bool:
    """Whether the database has a type of its own for UUIDs.

    Private: ``DatabaseFeatures.has_native_uuid_field``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.features.has_native_uuid_field)


def sorts_nulls_last(connection: BaseDatabaseWrapper) -> bool:
    """Whether an ascending order has its nulls at the end.

    Private: ``DatabaseFeatures.nulls_order_largest``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.features.nulls_order_largest)


def integer_range(connection: BaseDatabaseWrapper, internal_type: str) -> tuple[int | None, int | None]:
    """The least and the greatest number that a field of integers holds; None where there is no bound.

    Private: ``DatabaseOperations.integer_field_range``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    low, high = connection.ops.integer_field_range(internal_type)
    return low, high


def quoted(connection: BaseDatabaseWrapper, name: str) -> str:
    """The name of a table or a column in SQL.

    Private: ``DatabaseOperations.quote_name``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return str(connection.ops.quote_name(name))


def in_test_transaction() -> Iterator[BaseDatabaseWrapper]:
    """The connections whose open transactions are those of a TestCase alone.

    Private: ``atomic_blocks`` of a connection, and ``_from_testcase`` of ``Atomic``. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none; ``TestCase.captureOnCommitCallbacks`` needs to be told where it is wanted.
    """
    for connection in connections.all(initialized_only=True):
        blocks: Any = connection.atomic_blocks
        if blocks and all(getattr(block, "_from_testcase", False) for block in blocks):
            yield connection
