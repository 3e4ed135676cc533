"""Restores the rows of the test databases: removes the rows of a test, and adds those that many tests begin with.

A test in a transaction that is rolled back leaves the rows that it began with, so that the next test that begins with
the same rows costs nothing. After a test that commits, the rows are put back when the next test begins: at once those
that it begins with, which costs half of going by way of the rows of ``migrate``.
"""

from __future__ import annotations

import pickle
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connections, transaction
from django.test import TransactionTestCase

T = TypeVar("T")

#: The names of the rows that were added after ``migrate``, in their order: ("users", "12 flights").
Kind = tuple[str, ...]
MIGRATED: Kind = ()
#: Ends the kind of rows that a test has written itself.
_NOW: Kind = ("now",)

_stores: dict[str, Store] = {}


def keep_as_migrated(aliases: list[str]) -> None:
    """From now on each test begins with the rows that ``migrate`` has made, at a cost that depends on what was written.

    Django's own flush asks for each table of each app and makes permissions and content types anew: 30 ms and more.
    """
    for alias in aliases:
        # A flush ends with signals whose receivers write rows. Tests begin with these rows.
        call_command("flush", verbosity=0, interactive=False, database=alias)
        connection = connections[alias]
        _stores[alias] = SQLiteStore(connection) if connection.vendor == "sqlite" else ServerStore(connection)
    flush = TransactionTestCase._fixture_teardown

    def put_back(self: Any) -> None:
        names = self._databases_names(include_mirrors=False)
        if not _stores.keys() >= set(names):
            flush(self)
            return
        for alias in names:
            if alias == "default":
                _stores[alias].is_used = True  # Until ``begin_with``.
            else:
                _stores[alias].put_back(MIGRATED)
        ContentType.objects.clear_cache()

    TransactionTestCase._fixture_teardown = put_back  # type: ignore[method-assign]


def begin_with(wanted: Mapping[str, Callable[[], Any]]) -> None:
    """Make the rows of the default database those of these names, in their order, before a test opens its transaction.

    Before the first test of a process, which makes the databases, it does nothing.
    """
    store, kind = _stores.get("default"), tuple(wanted)
    if store is None or (store.kind == kind and not store.is_used):
        return
    known = next(kind[:end] for end in range(len(kind), -1, -1) if kind[:end] in store.made or not end)
    store.put_back(known)
    store.is_used = False
    for name in kind[len(known) :]:
        _add(store, name, wanted[name])


def begun_with(name: str, make: Callable[[], T]) -> T:
    """What ``make`` made of the rows of that name, which are only made now where the test did not begin with them."""
    store = _stores.get("default")
    return once(name, make) if store is None or name not in store.kind else store.made_of(name)


def once(name: str, make: Callable[[], T]) -> T:
    """The rows that ``make`` makes in the default database. They are made once in each process, and copied later.

    Rows are only copied onto rows that are known; where a test has written others before, they are made again.
    """
    store = _stores.get("default")
    if store is None or connections["default"].in_atomic_block or not store.is_as_left():
        return make()
    _add(store, name, make)
    made: T = store.made_of(name)
    return made


@contextmanager
def put_back() -> Iterator[None]:
    """Put the rows of the default database back at the end, whoever has committed others."""
    store = _stores["default"]
    kind = store.kind if store.kind[-1:] == _NOW else store.kind + _NOW
    store.keep(kind)
    try:
        yield
    finally:
        store.put_back(kind)


def _add(store: Store, name: str, make: Callable[[], Any]) -> None:
    """Add the rows of that name to those of a store that is as it was left."""
    kind = (*store.kind, name)
    if kind in store.made:
        store.put_back(kind)
    else:
        store.made[kind] = pickle.dumps(make())
        store.keep(kind)


class Store(ABC):
    """The rows of one test database, as they were at several times."""

    def __init__(self) -> None:
        self.kind = MIGRATED
        #: Whether a test has ended that may have committed.
        self.is_used = False
        #: The return value of ``make``, pickled, because a test may change it.
        self.made: dict[Kind, bytes] = {}
        self.keep(MIGRATED)

    def made_of(self, name: str) -> Any:
        """What was returned when the rows of that name were made."""
        return pickle.loads(self.made[self.kind[: self.kind.index(name) + 1]])

    @abstractmethod
    def keep(self, kind: Kind) -> None:
        """Remember the rows that there are now."""

    @abstractmethod
    def put_back(self, kind: Kind) -> None:
        """Make the rows those that were kept, whichever connection or process has written others."""

    @abstractmethod
    def is_as_left(self) -> bool:
        """Whether nobody has written since rows were kept or put back."""


class SQLiteStore(Store):
    """Whole databases in memory, copied page by page: one to two milliseconds."""

    def __init__(self, connection: Any) -> None:
        name = connection.settings_dict["NAME"]
        # A separate connection notices the writes of all others, also of other processes. It does not wait for a disk.
        self._file = sqlite3.connect(name, timeout=20, check_same_thread=False, isolation_level=None)
        self._file.execute("PRAGMA synchronous = OFF")
        self._copies: dict[Kind, sqlite3.Connection] = {}
        super().__init__()

    def keep(self, kind: Kind) -> None:
        self._copies[kind] = sqlite3.connect(":memory:", check_same_thread=False)
        self._file.backup(self._copies[kind])
        self._left(kind)

    def put_back(self, kind: Kind) -> None:
        if kind != self.kind or not self.is_as_left():
            self._copies[kind].backup(self._file, sleep=0.01)
            self._left(kind)

    def is_as_left(self) -> bool:
        return self._version() == self._seen

    def _left(self, kind: Kind) -> None:
        self.kind = kind
        self._seen = self._version()

    def _version(self) -> Any:
        """A number that changes when another connection commits."""
        return self._file.execute("PRAGMA data_version").fetchone()


#: The rows of a table, and the names of its columns.
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]


class ServerStore(Store):
    """The rows of a database on a server: only tables that hold other rows than they shall are written."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        names = connection.introspection.django_table_names(only_existing=True, include_views=False)
        self._quoted = {name: connection.ops.quote_name(name) for name in sorted(names)}
        #: Many rows, which nobody changes: their number and the last of their keys say whether they are as they were.
        self._constant = {model._meta.db_table for model in (Permission, ContentType)}
        self._kept: dict[Kind, dict[str, Rows]] = {}
        self._marks: dict[str, Any] = {}
        super().__init__()
        self._marks = {table: self._mark(table) for table in self._constant}

    def keep(self, kind: Kind) -> None:
        self._kept[kind] = {table: self._read(table) for table in self._filled()}
        self.kind = kind

    def put_back(self, kind: Kind) -> None:
        wanted = self._kept[kind]
        # Django's foreign keys are looked at when the transaction ends, or not at all, so that the order is no matter.
        with self._connection.constraint_checks_disabled(), transaction.atomic(using=self._connection.alias):
            for table in self._filled() | wanted.keys():
                if self._differs(table, wanted):
                    self._write(table, wanted.get(table))
        self.kind = kind

    def is_as_left(self) -> bool:
        wanted = self._kept[self.kind]
        return not any(self._differs(table, wanted) for table in self._filled() | wanted.keys())

    def _differs(self, table: str, wanted: dict[str, Rows]) -> bool:
        if table in self._marks:
            return self._mark(table) != self._marks[table]
        return table not in wanted or self._read(table) != wanted[table]

    def _filled(self) -> set[str]:
        """The tables that hold rows."""
        asked = (
            f"SELECT '{name}' FROM (SELECT 1) AS one WHERE EXISTS (SELECT 1 FROM {quoted})"
            for name, quoted in self._quoted.items()
        )
        return {name for (name,) in self._fetch(" UNION ALL ".join(asked))[1]}

    def _read(self, table: str) -> Rows:
        return self._fetch(f"SELECT * FROM {self._quoted[table]}")

    def _mark(self, table: str) -> Any:
        return self._fetch(f"SELECT COUNT(*), MAX(id) FROM {self._quoted[table]}")

    def _fetch(self, sql: str) -> Rows:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return tuple(column[0] for column in cursor.description), sorted(cursor.fetchall(), key=repr)

    def _write(self, table: str, rows: Rows | None) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {self._quoted[table]}")
            if rows is None:
                return
            columns, values = rows
            names = ", ".join(map(self._connection.ops.quote_name, columns))
            one = f"({', '.join(['%s'] * len(columns))})"
            every = [value for row in values for value in row]
            cursor.execute(
                f"INSERT INTO {self._quoted[table]} ({names}) VALUES {', '.join([one] * len(values))}", every
            )
