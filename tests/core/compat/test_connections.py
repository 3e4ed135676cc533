"""The private parts of Django's connections, on the database of the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import caches
from django.db import DatabaseError, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import atomic

from mcp_django.core.compat.connections import (
    add_execute_wrapper,
    always_marking,
    before_commit,
    can_lock_rows,
    can_skip_locked,
    clear_failure,
    close_at,
    close_caches,
    connect_again,
    connection_parameters,
    datetime_parameter,
    driver_cursor,
    driver_errors,
    has_failed,
    has_uuid_type,
    in_test_transaction,
    integer_range,
    is_fault_of_driver,
    is_mariadb,
    is_nested_durable,
    marking,
    moves_beyond_calendar,
    on_commit_count,
    on_commit_functions,
    on_commit_place,
    quoted,
    remove_execute_wrapper,
    savepoint_branch,
    sorts_nulls_last,
    without_waiting,
)
from tests.shop.models import Tag


@pytest.fixture
def other(transactional_db: None) -> BaseDatabaseWrapper:
    """The connection of the test's thread."""
    found: BaseDatabaseWrapper = connections["default"]
    return found


@pytest.fixture
def connection(other: BaseDatabaseWrapper) -> Iterator[BaseDatabaseWrapper]:
    """A connection for this test alone, under the alias "default", so that no other test sees its changes."""
    connections["default"] = own = connections.create_connection("default")
    yield own
    own.close()
    connections["default"] = other


def _count(connection: BaseDatabaseWrapper) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {Tag._meta.db_table}")
        return int(cursor.fetchone()[0])


def _ask(connection: BaseDatabaseWrapper, sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def test_before_commit_calls_one_function_before_each_commit_and_not_before_a_rollback(
    connection: BaseDatabaseWrapper, other: BaseDatabaseWrapper
) -> None:
    seen: list[tuple[int, int]] = []
    before_commit(connection, lambda mine: seen.append((_count(mine), _count(other))))
    before_commit(connection, lambda _: seen.append((-1, -1)))

    for name in ("first", "second"):
        with atomic():
            Tag.objects.create(name=name)
    with pytest.raises(ZeroDivisionError), atomic():
        Tag.objects.create(name="gone")
        _ = 1 / 0

    assert seen == [(1, 0), (2, 1)]
    assert _count(other) == 2


def _first() -> None: ...
def _second() -> None: ...


def test_on_commit_functions_places_and_count_are_those_of_the_transaction(connection: BaseDatabaseWrapper) -> None:
    with atomic():
        connection.on_commit(_first, robust=True)
        sid = connection.savepoint()
        connection.savepoint_commit(sid)
        with pytest.raises(ZeroDivisionError), atomic():
            connection.on_commit(_second)
            within = list(on_commit_functions(connection))
            places = [on_commit_place(connection, _second, guess) for guess in (0, 1, 5)]
            count = on_commit_count(connection)
            _ = 1 / 0
        after = list(on_commit_functions(connection))
        gone = on_commit_place(connection, _second, 1)

    assert (within, places, count) == ([_first, _second], [1, 1, 1], 2)
    assert (after, gone) == ([_first], None)
    assert list(on_commit_functions(connection)) == []


def test_savepoint_branch_differs_in_each_branch(connection: BaseDatabaseWrapper) -> None:
    branches = []
    with atomic():
        branches.append(savepoint_branch(connection))
        for _ in range(2):
            with atomic():
                branches.append(savepoint_branch(connection))

    assert branches[0] == ()
    assert [len(branch) for branch in branches] == [0, 1, 1]
    assert len(set(branches)) == 3


def test_has_failed_until_clear_failure_also_by_driver_errors(connection: BaseDatabaseWrapper) -> None:
    connection.ensure_connection()
    raw: Any = connection.connection
    found = [has_failed(connection)]
    with pytest.raises(DatabaseError):
        _ask(connection, "SELECT nothing FROM nowhere")
    found.append(has_failed(connection))
    clear_failure(connection)
    found.append(has_failed(connection))
    with pytest.raises(DatabaseError), driver_errors(connection):
        raw.cursor().execute("SELECT nothing FROM nowhere")
    found.append(has_failed(connection))

    assert found == [False, True, False, True]


def test_close_at_says_when_a_connection_is_obsolete(connection: BaseDatabaseWrapper) -> None:
    connection.ensure_connection()

    close_at(connection, time.monotonic() + 60)
    connection.close_if_unusable_or_obsolete()
    kept = connection.connection is not None
    close_at(connection, time.monotonic())
    connection.close_if_unusable_or_obsolete()

    assert kept
    assert connection.connection is None


def test_close_caches_closes_those_of_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr(caches["default"], "close", lambda **_: closed.append("default"), raising=False)

    close_caches()

    assert closed == ["default"]


def test_execute_wrapper_is_removed_whatever_was_added_meanwhile(connection: BaseDatabaseWrapper) -> None:
    """Receivers of ``connection_created`` add wrappers in this way, at the first query."""
    by: list[str] = []

    def noting(name: str) -> Any:
        return lambda execute, *args: (by.append(name), execute(*args))[1]

    ours = noting("ours")
    connection.ensure_connection()
    add_execute_wrapper(connection, ours)
    _ask(connection, "SELECT 1")
    connection.execute_wrappers.append(noting("theirs"))
    _ask(connection, "SELECT 2")
    remove_execute_wrapper(connection, ours)
    _ask(connection, "SELECT 3")

    assert sorted(by) == ["ours", "ours", "theirs", "theirs"]
    assert by[-1] == "theirs"


def test_driver_cursor_is_one_of_the_drivers_connection(connection: BaseDatabaseWrapper) -> None:
    found = []

    def look(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        found.append(driver_cursor(context).connection)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        _ask(connection, "SELECT 1")

    # A new connection may have run other statements first.
    assert found
    assert all(one is connection.connection for one in found)


def test_connect_again_is_a_second_connection_to_the_database_that_connection_parameters_name(
    connection: BaseDatabaseWrapper,
) -> None:
    Tag.objects.create(name="new")

    raw = connect_again(connection)

    cursor = raw.cursor()
    cursor.execute(f"SELECT count(*) FROM {Tag._meta.db_table}")
    found = cursor.fetchone()[0]
    raw.close()
    assert found == 1
    assert raw is not connection.connection
    name = {"sqlite": "database", "postgresql": "dbname", "mysql": "database"}[connection.vendor]
    assert str(connection_parameters(connection)[name]) == str(connection.settings_dict["NAME"])


@pytest.mark.skipif(connections["default"].vendor != "mysql", reason="MariaDB: TEST_DATABASE=mariadb")
def test_is_mariadb_as_the_server_says(connection: BaseDatabaseWrapper) -> None:
    [[version]] = _ask(connection, "SELECT VERSION()")

    assert is_mariadb(connection) == ("MariaDB" in version)


def test_what_is_known_of_a_database_is_what_it_does(connection: BaseDatabaseWrapper) -> None:
    rows = _ask(connection, "SELECT x FROM (SELECT NULL AS x UNION ALL SELECT 1) AS both_of_them ORDER BY x")
    locking = str(Tag.objects.using(connection.alias).select_for_update().query)
    ranges = [integer_range(connection, name) for name in ("SmallIntegerField", "BigIntegerField")]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 AS {quoted(connection, 'order by')}")
        column = cursor.description[0][0]

    assert sorts_nulls_last(connection) == (rows[-1][0] is None)
    assert can_lock_rows(connection) == ("FOR UPDATE" in locking)
    assert can_skip_locked(connection) == can_lock_rows(connection)
    assert has_uuid_type(connection) == (models.UUIDField().db_type(connection) == "uuid")
    assert ranges in ([(-(2**15), 2**15 - 1), (-(2**63), 2**63 - 1)], [(-(2**63), 2**63 - 1)] * 2, [(None, None)] * 2)
    assert connection.vendor == "sqlite" or ranges[0] == (-(2**15), 2**15 - 1)
    assert column == "order by"


def test_datetime_parameter_is_read_back_as_the_same_time(connection: BaseDatabaseWrapper) -> None:
    moment = datetime(2026, 11, 23, 12, 30, 0, 250_000, tzinfo=UTC)

    parameter = datetime_parameter(connection, moment)

    user = get_user_model()._default_manager.create(username="somebody")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE auth_user SET last_login = %s WHERE id = %s", [parameter, user.pk])
    user.refresh_from_db()
    assert user.last_login == moment


@pytest.mark.skipif(connections["default"].vendor != "sqlite", reason="SQLite has one lock for all rows")
def test_without_waiting_fails_at_once_and_waits_again_after(connection: BaseDatabaseWrapper) -> None:
    before = _ask(connection, "PRAGMA busy_timeout")

    with without_waiting(connection):
        inside = _ask(connection, "PRAGMA busy_timeout"), connection.transaction_mode  # type: ignore[attr-defined]
        with atomic():
            Tag.objects.create(name="new")

    assert inside == ([(0,)], "EXCLUSIVE")
    assert _ask(connection, "PRAGMA busy_timeout") == before
    assert connection.transaction_mode == "IMMEDIATE"  # type: ignore[attr-defined]


@pytest.mark.django_db
def test_the_transaction_of_a_test_is_told_from_one_of_its_own() -> None:
    assert [connection.alias for connection in in_test_transaction()] == ["default"]

    with atomic():
        assert list(in_test_transaction()) == []


#: An expression whose value no driver can load.
UNLOADABLE = {"postgresql": "DATE 'infinity'", "mysql": "TIME '25:00:00'", "sqlite": "CAST(x'ff41' AS TEXT)"}


@pytest.mark.every_database
def test_marking_stands_for_values_that_the_driver_cannot_load(db: None) -> None:
    connection, mark = connections["default"], object()

    def read() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT 1, {UNLOADABLE[connection.vendor]}")
            return tuple(cursor.fetchone())

    with marking(connection, mark):
        marked = read()

    assert marked == (1, mark)
    if connection.vendor == "mysql":
        with always_marking(connection, mark):
            assert read() == (1, mark)
        return
    with pytest.raises(DatabaseError) as raised, always_marking(connection, mark):
        read()
    assert is_fault_of_driver(raised.value)


@pytest.mark.every_database
def test_an_error_of_the_database_is_no_fault_of_the_driver(db: None) -> None:
    with pytest.raises(DatabaseError) as raised, connections["default"].cursor() as cursor:
        cursor.execute("SELECT nothing")

    assert not is_fault_of_driver(raised.value)


@pytest.mark.skipif(connections["default"].vendor != "sqlite", reason="of SQLite")
def test_moves_beyond_calendar_lets_the_statement_be_sent_again(connection: Any, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    users = get_user_model()._default_manager
    users.create(username="ann", last_login=last)
    hours = users.values_list("last_login__hour", "username")

    with pytest.raises(DatabaseError) as failed:
        list(hours.all())

    assert not moves_beyond_calendar(connection, DatabaseError("no such table"))
    assert moves_beyond_calendar(connection, failed.value)
    assert list(hours.all()) == [(None, "ann")]
    # It does not help twice.
    assert not moves_beyond_calendar(connection, failed.value)


def test_is_nested_durable_knows_the_error_of_django(db: None) -> None:
    with atomic(), pytest.raises(RuntimeError) as raised, atomic(durable=True):
        raise AssertionError("it began")

    assert is_nested_durable(raised.value)
    assert not is_nested_durable(RuntimeError("other"))
