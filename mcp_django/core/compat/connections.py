"""Private parts of Django's database connections: their transactions, state and drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, cast

from django.core.cache import close_caches as _close_caches
from django.db import DataError, Error, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

# The transaction.


def before_commit(connection: BaseDatabaseWrapper, call: Callable[[BaseDatabaseWrapper], None]) -> None:
    """Call a function before each COMMIT of the connection, as long as the object lives. A second function is ignored.

    Private: ``BaseDatabaseWrapper._commit``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; functions of
    ``on_commit`` are called after the COMMIT.
    """
    if "_mcp_commit" in vars(connection):
        return
    commit = connection._commit  # type: ignore[attr-defined]

    def call_and_commit() -> None:
        call(connection)
        commit()

    vars(connection).update(_mcp_commit=commit, _commit=call_and_commit)


def on_commit_functions(connection: BaseDatabaseWrapper) -> Iterator[Any]:
    """The functions that are called if the present transaction commits, in their order.

    Private: the tuples in ``BaseDatabaseWrapper.run_on_commit``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return (entry[1] for entry in connection.run_on_commit)


def on_commit_place(connection: BaseDatabaseWrapper, function: object, guess: int) -> int | None:
    """The index of a function in ``on_commit_functions``, or None. The index ``guess`` is tried first.

    Private: the tuples in ``BaseDatabaseWrapper.run_on_commit``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    entries: list[Any] = connection.run_on_commit
    if guess < len(entries) and entries[guess][1] is function:
        return guess
    return next((place for place, entry in enumerate(entries) if entry[1] is function), None)


def on_commit_count(connection: BaseDatabaseWrapper) -> int:
    """The number of functions in ``on_commit_functions``.

    Private: ``BaseDatabaseWrapper.run_on_commit``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return len(connection.run_on_commit)


def savepoint_branch(connection: BaseDatabaseWrapper) -> tuple[str, ...]:
    """The open savepoints, outermost first. A rollback to one of them undoes everything that was done since.

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
    """Reset ``has_failed`` to False.

    Private: ``BaseDatabaseWrapper.errors_occurred``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    connection.errors_occurred = False


def close_at(connection: BaseDatabaseWrapper, moment: float) -> None:
    """Let ``close_if_unusable_or_obsolete`` close the connection after a moment of ``time.monotonic()``.

    Private: ``BaseDatabaseWrapper.close_at``. Seen with: Django 5.2, 6.0, 6.1. Public way: CONN_MAX_AGE, which applies
    to the connections of all threads.
    """
    connection.close_at = moment


def close_caches() -> None:
    """Close the caches of this thread, as the end of a request does.

    Private: ``django.core.cache.close_caches``. Seen with: Django 5.2, 6.0, 6.1. Public way: the signal
    ``request_finished``, which closes the database connections too.
    """
    _close_caches()


def add_execute_wrapper(connection: BaseDatabaseWrapper, wrapper: Callable[..., Any]) -> None:
    """Install an execute wrapper until ``remove_execute_wrapper``, whatever wrappers are added meanwhile.

    Private: ``BaseDatabaseWrapper.execute_wrappers``. Seen with: Django 5.2, 6.0, 6.1. Public way:
    ``execute_wrapper()``, which removes the last wrapper at its end. A receiver of ``connection_created`` may have
    added another one by then.
    """
    connection.execute_wrappers.append(wrapper)


def remove_execute_wrapper(connection: BaseDatabaseWrapper, wrapper: Callable[..., Any]) -> None:
    """Remove what ``add_execute_wrapper`` installed.

    Private: ``BaseDatabaseWrapper.execute_wrappers``. Seen with: Django 5.2, 6.0, 6.1. Public way: see above.
    """
    connection.execute_wrappers.remove(wrapper)


# The driver.


def driver_cursor(context: Mapping[str, Any]) -> Any:
    """The driver's own cursor, from the context of an execute wrapper.

    Private: ``CursorWrapper.cursor``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return context["cursor"].cursor


def driver_errors(connection: BaseDatabaseWrapper) -> AbstractContextManager[None]:
    """Turn the driver's errors into Django's, for statements that do not use Django's cursor.

    Private: ``BaseDatabaseWrapper.wrap_database_errors``. Seen with: Django 5.2, 6.0, 6.1. Public way: Django's cursor,
    which counts and logs each statement as a query of the project, and calls the execute wrappers.
    """
    return cast("AbstractContextManager[None]", connection.wrap_database_errors)


def connection_parameters(connection: BaseDatabaseWrapper) -> dict[str, Any]:
    """The parameters that the driver connects with, made from DATABASES.

    Private: ``BaseDatabaseWrapper.get_connection_params``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    parameters: dict[str, Any] = connection.get_connection_params()
    return parameters


def connect_again(connection: BaseDatabaseWrapper) -> Any:
    """Another connection of the driver to the same database. The caller owns it.

    Private: ``BaseDatabaseWrapper.get_new_connection``. Seen with: Django 5.2, 6.0, 6.1. Public way: none;
    ``connections[alias]`` is the thread's one connection.
    """
    return connection.get_new_connection(connection.get_connection_params())


# The database.


def is_mariadb(connection: BaseDatabaseWrapper) -> bool:
    """Whether a connection with the vendor "mysql" is to MariaDB. This asks the server if the connection is new.

    Private: ``DatabaseWrapper.mysql_is_mariadb``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.mysql_is_mariadb)  # type: ignore[attr-defined]


def can_lock_rows(connection: BaseDatabaseWrapper) -> bool:
    """Whether the database knows SELECT … FOR UPDATE.

    Private: ``features.has_select_for_update``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.features.has_select_for_update)


def can_skip_locked(connection: BaseDatabaseWrapper) -> bool:
    """Whether the database knows SELECT … FOR UPDATE SKIP LOCKED.

    Private: ``features.has_select_for_update_skip_locked``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.features.has_select_for_update_skip_locked)


def has_uuid_type(connection: BaseDatabaseWrapper) -> bool:
    """Whether the database has a type for UUIDs.

    Private: ``DatabaseFeatures.has_native_uuid_field``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.features.has_native_uuid_field)


def sorts_nulls_last(connection: BaseDatabaseWrapper) -> bool:
    """Whether an ascending order puts nulls last.

    Private: ``DatabaseFeatures.nulls_order_largest``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return bool(connection.features.nulls_order_largest)


def integer_range(connection: BaseDatabaseWrapper, internal_type: str) -> tuple[int | None, int | None]:
    """The least and the greatest number of an integer field. None means no bound.

    Private: ``DatabaseOperations.integer_field_range``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    low, high = connection.ops.integer_field_range(internal_type)
    return low, high


def quoted(connection: BaseDatabaseWrapper, name: str) -> str:
    """The quoted name of a table or a column, for SQL.

    Private: ``DatabaseOperations.quote_name``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    return str(connection.ops.quote_name(name))


def datetime_parameter(connection: BaseDatabaseWrapper, value: datetime) -> Any:
    """A time as the parameter of a statement that we write ourselves, in the zone that the database keeps times in.

    Private: ``DatabaseOperations.adapt_datetimefield_value``. Seen with: Django 5.2, 6.0, 6.1. Public way: the ORM,
    which builds the statement anew for each row.
    """
    return connection.ops.adapt_datetimefield_value(value)


@contextmanager
def without_waiting(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """On SQLite, begin each transaction of the block with the only lock there is, or fail at once if it is taken.

    So we never make a connection fail that has read and is about to write. Other databases have no such conflict.

    Private: ``DatabaseWrapper.transaction_mode`` of SQLite. Seen with: Django 5.2, 6.0, 6.1. Public way: the option
    ``transaction_mode`` of DATABASES, which applies to every connection.
    """
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        yield
        return
    with suppress(Error):  # The first statement of the block will say so.
        connection.ensure_connection()
    raw: Any = connection.connection
    if raw is None:
        yield
        return
    mode, [[milliseconds]] = connection.transaction_mode, raw.execute("PRAGMA busy_timeout").fetchall()  # type: ignore[attr-defined]
    connection.transaction_mode = "EXCLUSIVE"  # type: ignore[attr-defined]
    raw.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        connection.transaction_mode = mode  # type: ignore[attr-defined]
        # After an error it may be closed.
        if connection.connection is raw:
            raw.execute(f"PRAGMA busy_timeout = {milliseconds}")


def in_test_transaction() -> Iterator[BaseDatabaseWrapper]:
    """The connections whose only open transactions are those of a TestCase.

    Private: ``atomic_blocks`` of a connection, and ``_from_testcase`` of ``Atomic``. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none; ``TestCase.captureOnCommitCallbacks`` needs to be told where it is wanted.
    """
    for connection in connections.all(initialized_only=True):
        blocks: Any = connection.atomic_blocks
        if blocks and all(getattr(block, "_from_testcase", False) for block in blocks):
            yield connection


# What its driver makes of stored values.


def marking(connection: BaseDatabaseWrapper, mark: object) -> AbstractContextManager[None]:
    """A context in which the driver gives ``mark`` for a value that it cannot load: a date of the year 12345, say.

    Private: ``text_factory`` of sqlite3's connections is public, ``decoders`` and ``converter`` of those of PyMySQL and
    mysqlclient are not documented. Seen with: PyMySQL 1.2. Public way: none; an error of one value ends the reading.
    """
    if connection.vendor == "postgresql":
        is_psycopg2 = connection.Database.__name__ == "psycopg2"  # type: ignore[attr-defined]
        return connection.execute_wrapper(partial(_with_marking_types if is_psycopg2 else _with_marking_loaders, mark))
    connection.ensure_connection()
    raw: Any = connection.connection
    if connection.vendor == "sqlite":
        return _replaced(raw, "text_factory", _marked(bytes.decode, mark))
    if connection.vendor == "mysql":
        name = "decoders" if hasattr(raw, "decoders") else "converter"
        decoders = {kind: _marked(one, mark) if callable(one) else one for kind, one in getattr(raw, name).items()}
        return _replaced(raw, name, decoders)
    return nullcontext()


def always_marking(connection: BaseDatabaseWrapper, mark: object) -> AbstractContextManager[None]:
    """``marking`` for the first reading too, where an error would cost more than the rows.

    Private: PyMySQL leaves the rest of a result unread where a value cannot be loaded, so that the connection can send
    no further statement. Seen with: PyMySQL 1.2. Public way: a new connection, which loses the transaction.
    """
    return marking(connection, mark) if connection.vendor == "mysql" else nullcontext()


def is_fault_of_driver(error: Exception) -> bool:
    """Whether the driver failed to load a value, and not the database.

    Private: ``sqlstate`` of psycopg's errors (``pgcode`` of psycopg2's), which those that the server sends have, and
    sqlite3's message. Seen with: psycopg 3.3, psycopg2 2.9, Python 3.11 to 3.14. Public way: none.
    """
    if isinstance(error, DataError):
        return getattr(error.__cause__, "sqlstate", getattr(error.__cause__, "pgcode", "")) is None
    return isinstance(error, OperationalError) and "Could not decode to UTF-8" in str(error)


#: SQLite's functions of Django that move a moment into a time zone: name → number of arguments.
_MOVING = {
    "date_trunc": 4, "datetime_cast_date": 3, "datetime_cast_time": 3, "datetime_extract": 4, "datetime_trunc": 4,
}  # fmt: skip


def moves_beyond_calendar(connection: BaseDatabaseWrapper, error: Exception) -> bool:
    """Whether a statement failed since a time zone moves a moment beyond the year 9999, and can be sent again.

    From then on, what Django's functions for SQLite make of such a moment is null on this connection.

    Private: ``django.db.backends.sqlite3._functions``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; the error
    ends the reading of all rows.
    """
    raw: Any = connection.connection
    # Of an OverflowError, sqlite3 says the first.
    texts = ("string or blob too big", "user-defined function raised exception")
    is_ours = connection.vendor == "sqlite" and any(text in str(error) for text in texts)
    if not is_ours or vars(connection).get("_mcp_calendar") is raw:
        return False
    functions = import_module("django.db.backends.sqlite3._functions")
    for name, count in _MOVING.items():
        own = partial(_or_null, getattr(functions, f"_sqlite_{name}"))
        raw.create_function(f"django_{name}", count, own, deterministic=True)
    vars(connection)["_mcp_calendar"] = raw
    return True


def _or_null(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (OverflowError, ValueError):
        return None


def _with_marking_loaders(mark: object, execute: Any, *call: Any) -> Any:
    """An execute wrapper: the loaders of psycopg's cursor are replaced by such as mark what they cannot load."""
    *_, context = call
    adapters: Any = getattr(driver_cursor(context), "adapters", None)
    for info in () if adapters is None else adapters.types:
        for oid in filter(None, (info.oid, info.array_oid)):
            if (loader := adapters.get_loader(oid, 0)) is not None:
                adapters.register_loader(oid, _marking_loader(loader, mark))
    return execute(*call)


def _with_marking_types(mark: object, execute: Any, *call: Any) -> Any:
    """The same for psycopg2."""
    from psycopg2 import extensions  # type: ignore[import-untyped]

    *_, context = call
    cursor: Any = driver_cursor(context)
    for oid, load in {**extensions.string_types, **(cursor.connection.string_types or {})}.items():
        extensions.register_type(extensions.new_type((oid,), load.name, _marked(load, mark)), cursor)
    return execute(*call)


@lru_cache(maxsize=1_000)
def _marking_loader(loader: Any, mark: object) -> Any:
    from psycopg.adapt import Loader

    class Marking(Loader):
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._load = _marked(loader(oid, context).load, mark)

        def load(self, data: Any) -> Any:
            return self._load(data)

    return Marking


def _marked(load: Callable[..., Any], mark: object) -> Callable[[Any], Any]:
    def load_or_mark(*data: Any) -> Any:
        try:
            return load(*data)
        except Exception:  # noqa: BLE001 - whatever it raises, the value cannot be loaded
            return mark

    return load_or_mark


def is_nested_durable(error: RuntimeError) -> bool:
    """Whether Django refused to begin a durable transaction within another one.

    Private: the text of the error in ``django.db.transaction.Atomic.__enter__``. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none.
    """
    return str(error).startswith("A durable atomic block cannot be nested")


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute has this value within the block."""
    given = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, given)
