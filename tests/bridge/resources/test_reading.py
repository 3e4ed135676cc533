"""How long the database may take for a question, and that it only reads where the project wants that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, connections, transaction
from django.db.models import BooleanField, IntegerField, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from mcp_django import ModelMCP
from mcp_django.core.db.bounds import bounded, fetch
from mcp_django.core.db.interrupts import Interruptible
from mcp_django.protocol.errors import TooSlow
from mcp_django.push.subscriptions import watch
from tests.shop.models import Tag
from tests.support.asking import DirectPeer, keys, request_of, text_of
from tests.support.base import MODERN
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="of PostgreSQL")
mysql = pytest.mark.skipif(connection.vendor != "mysql", reason="of MariaDB")
sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="of SQLite")

#: An expression that takes a minute, unless it is stopped.
A_MINUTE = {
    "sqlite": "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 4000000000) SELECT max(i) FROM n)",
    "postgresql": "(SELECT 1 FROM pg_sleep(60))",
    "mysql": "SLEEP(60)",
}[connection.vendor]

QUICK = {"STATEMENT_SECONDS": 0.1}
#: Quick enough to wait for, and time enough for what is answered at once.
FAIR = {"STATEMENT_SECONDS": 1.0}
PATIENT = {"STATEMENT_SECONDS": 30.0}

MESSAGE = (
    "The query was stopped: it took longer than the server allows (STATEMENT_SECONDS). Narrow it: "
    "filter by the key or by another indexed field, over a smaller range, and through fewer relations."
)


def slow(rows: QuerySet[Any] | None = None) -> QuerySet[Any]:
    """Tags, by a question that takes a minute."""
    return (Tag.objects.all() if rows is None else rows).annotate(
        slept=RawSQL(A_MINUTE, (), output_field=IntegerField())
    )


def wait(seconds: float) -> None:
    """What the project itself asks, and takes so long."""
    if connection.vendor == "sqlite":
        connection.connection.create_function("nap", 1, time.sleep)
        rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500) SELECT"
        question = f"{rows} count(nap({seconds / 500})) FROM n"
    else:
        question = f"SELECT {A_MINUTE.replace('60', str(seconds))}"
    with connection.cursor() as cursor:
        cursor.execute(question)
        cursor.fetchall()


def tags() -> list[str]:
    return sorted(Tag.objects.values_list("name", flat=True))


@pytest.fixture(params=[False, True] if connection.vendor == "postgresql" else [False])
def way(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[None]:
    """How the bounds are sent: PostgreSQL has two ways, by what the driver can do."""
    if not request.param:
        yield
        return
    options = connection.settings_dict["OPTIONS"]
    connection.close()
    options["server_side_binding"] = True
    yield
    connection.close()
    del options["server_side_binding"]


@pytest.fixture
def tag(way: None) -> Tag:
    return Tag.objects.create(name="here")


@pytest.fixture
def writing(way: None) -> Iterator[RawSQL]:
    """An expression that adds a tag to the database whenever it is read."""
    insert = "INSERT INTO shop_tag (name) VALUES ('written')"
    create, call, drop = {
        "postgresql": (
            f"CREATE FUNCTION write_tag() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN {insert}; RETURN true; END$$",
            "write_tag()",
            "DROP FUNCTION write_tag()",
        ),
        "mysql": (
            f"CREATE FUNCTION write_tag() RETURNS INT MODIFIES SQL DATA BEGIN {insert}; RETURN 1; END",
            "write_tag()",
            "DROP FUNCTION write_tag",
        ),
        "sqlite": ("", "write_tag()", ""),
    }[connection.vendor]
    with connection.cursor() as cursor:
        if create:
            cursor.execute(create)
        else:
            raw = connection.connection
            raw.create_function("write_tag", 0, lambda: raw.execute(insert).rowcount)
    yield RawSQL(call, (), output_field=BooleanField())
    with connection.cursor() as cursor:
        if drop:
            cursor.execute(drop)
        else:
            connection.connection.create_function("write_tag", 0, None)


def read_through(writing: RawSQL) -> list[Any]:
    """What a queryset of the project's would ask that writes."""
    return fetch(User.objects.annotate(wrote=writing).values_list("username", "wrote"))


# The limit in time.


@override_settings(MCP=QUICK)
def test_a_question_that_takes_too_long_ends_and_its_connection_goes_on(tag: Tag) -> None:
    before = connection.connection
    with pytest.raises(TooSlow) as raised:
        fetch(slow())

    assert raised.value.message == MESSAGE
    assert connection.connection is before and connection.is_usable()
    Tag.objects.create(name="after")
    assert tags() == ["after", "here"]


@override_settings(MCP=PATIENT)
def test_a_question_in_time_is_answered(tag: Tag) -> None:
    rows = Tag.objects.order_by("name")

    assert fetch(rows) == [tag]
    assert fetch(rows.filter(name__startswith="he%").values_list("name", flat=True)) == []
    assert fetch(rows.filter(name__contains="er").values_list("name", flat=True)) == ["here"]
    with bounded(rows.db):
        assert rows.count() == 1
        assert rows.exists()
        assert rows.first() == tag
    with transaction.atomic():
        assert fetch(rows) == [tag]
        assert fetch(rows.none()) == []


@pytest.mark.parametrize("read_only", [False, True])
def test_a_combined_question_is_bounded(tag: Tag, read_only: bool) -> None:
    rows = Tag.objects.filter(name="here").union(Tag.objects.filter(name="there"))

    with override_settings(MCP={**PATIENT, "READ_ONLY_TRANSACTIONS": read_only}):
        assert fetch(rows) == [tag]
    with override_settings(MCP={**QUICK, "READ_ONLY_TRANSACTIONS": read_only}), pytest.raises(TooSlow):
        fetch(slow().union(slow(Tag.objects.exclude(name="there"))))


@override_settings(MCP=FAIR)
def test_each_question_within_the_bounds_has_its_own_time(tag: Tag) -> None:
    with pytest.raises(TooSlow), bounded("default"):
        assert fetch(Tag.objects.all()) == [tag]
        Tag.objects.create(name="between")
        slow().count()
        list(slow())

    assert tags() == ["between", "here"]


def stop() -> None:
    """Ask a question that is stopped soon."""
    with override_settings(MCP=QUICK), pytest.raises(TooSlow):
        fetch(slow())


@override_settings(MCP=PATIENT)
def test_what_the_project_did_in_its_transaction_outlives_a_question_that_took_too_long(tag: Tag) -> None:
    with transaction.atomic():
        stop()
        Tag.objects.create(name="between")
        stop()
        Tag.objects.create(name="after")
        assert fetch(Tag.objects.filter(name="between").values_list("name", flat=True)) == ["between"]

    assert tags() == ["after", "between", "here"]


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_query_of_the_project_is_not_limited_by_a_question_before_it(tag: Tag, atomic: bool, read_only: bool) -> None:
    def ask() -> None:
        with pytest.raises(TooSlow):
            fetch(slow())
        wait(0.3)
        with bounded("default"):
            Tag.objects.create(name="after")
        wait(0.3)

    with override_settings(MCP={**QUICK, "READ_ONLY_TRANSACTIONS": read_only}):
        if atomic:
            with transaction.atomic():
                ask()
        else:
            ask()

    assert tags() == ["after", "here"]


@pytest.mark.parametrize("atomic", [False, True])
@postgresql
def test_settings_of_the_connection_are_as_before(tag: Tag, atomic: bool) -> None:
    def shown() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('statement_timeout'), current_setting('transaction_read_only')")
            return cursor.fetchall()

    def ask() -> list[Any]:
        before = shown()
        fetch(Tag.objects.all())
        return [before, shown()]

    with override_settings(MCP={**PATIENT, "READ_ONLY_TRANSACTIONS": True}):
        if atomic:
            with transaction.atomic():
                before, after = ask()
                assert connection.connection.info.transaction_status == 2
        else:
            before, after = ask()
            assert connection.connection.info.transaction_status == 0

    assert before == after == [("0", "off")]


@pytest.mark.skipif(connection.vendor == "sqlite", reason="knows no limit of its own")
@override_settings(MCP=PATIENT)
def test_a_shorter_limit_of_the_project_holds_on(tag: Tag) -> None:
    name, value = ("statement_timeout", "100") if connection.vendor == "postgresql" else ("max_statement_time", "0.1")
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION {name} = {value}")
    try:
        with pytest.raises(TooSlow):
            fetch(slow())
        with pytest.raises(TooSlow), transaction.atomic():
            fetch(slow())
    finally:
        connection.close()


@override_settings(MCP=PATIENT)
def test_a_question_behind_a_comment_is_limited(tag: Tag) -> None:
    """As packages put it there that tell the database's log where a statement comes from."""

    def comment(execute: Any, sql: str, *rest: Any) -> Any:
        return execute(f"/* view=mcp */\n-- of the project\n{sql} -- and more", *rest)

    with connection.execute_wrapper(comment):
        stop()
        with transaction.atomic():
            assert fetch(Tag.objects.all()) == [tag]


def test_nothing_is_done_where_nothing_is_asked_for(tag: Tag) -> None:
    with override_settings(MCP={"STATEMENT_SECONDS": 0}), bounded("default"):
        assert connection.execute_wrappers == []
    with override_settings(MCP={"STATEMENT_SECONDS": 0, "READ_ONLY_TRANSACTIONS": True}), bounded("default"):
        assert len(connection.execute_wrappers) == 1
    assert connection.execute_wrappers == []


def test_another_error_is_told_as_it_is(tag: Tag) -> None:
    wrong = Tag.objects.annotate(wrong=RawSQL("nobody_knows_this(1)", ()))
    with override_settings(MCP={**PATIENT, "READ_ONLY_TRANSACTIONS": True}):
        with pytest.raises(DatabaseError, match="nobody_knows_this"):
            fetch(wrong)
        with transaction.atomic():
            Tag.objects.create(name="before")
            with pytest.raises(DatabaseError, match="nobody_knows_this"):
                fetch(wrong)

    assert tags() == ["before", "here"]


# Who else stops a question.


def stopped_by(end: Callable[[], object], over: threading.Event | None = None) -> None:
    """Ask for a minute, and stop it as soon as it has begun. ``over`` is set then."""
    begun = threading.Event()
    thread = threading.Thread(target=lambda: begun.wait(60) and end())
    thread.start()

    def tell(execute: Any, *args: Any) -> Any:
        begun.set()
        return execute(*args)

    try:
        with connection.execute_wrapper(tell):
            fetch(slow())
    finally:
        begun.set()
        if over is not None:
            over.set()
        thread.join(60)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_question_of_a_cancelled_request_is_not_told_as_too_slow(tag: Tag, read_only: bool) -> None:
    queries = Interruptible()
    with override_settings(MCP={**PATIENT, "READ_ONLY_TRANSACTIONS": read_only}), queries.answering():
        with pytest.raises(DatabaseError):
            stopped_by(queries.interrupt)
        # The interrupt is sent several times, and may meet what SQLite is told before the next query.
        with pytest.raises(DatabaseError, match=r"The request was cancelled\.|interrupted"):
            fetch(Tag.objects.all())

    assert queries.interrupted
    assert tags() == ["here"]


@postgresql
def test_a_question_that_an_administrator_stops_is_not_told_as_too_slow(tag: Tag) -> None:
    raw, over = connection.connection, threading.Event()

    def cancel() -> None:
        # One that comes before its query meets nothing.
        while not over.wait(0.05):
            raw.cancel_safe(timeout=60)

    with override_settings(MCP=PATIENT), pytest.raises(DatabaseError, match="user request"):
        stopped_by(cancel, over)


# Only reading.


def test_without_the_setting_a_question_may_write(writing: RawSQL) -> None:
    User.objects.create_user("ada")
    with override_settings(MCP=PATIENT):
        read_through(writing)

    assert tags() == ["written"]


def test_a_question_that_writes_is_refused(writing: RawSQL) -> None:
    User.objects.create_user("ada")
    for limits in (PATIENT, {"STATEMENT_SECONDS": 0}):
        with override_settings(MCP={**limits, "READ_ONLY_TRANSACTIONS": True}), pytest.raises(DatabaseError):
            read_through(writing)

    assert tags() == []
    Tag.objects.create(name="after")
    assert tags() == ["after"]


@pytest.mark.skipif(connection.vendor == "sqlite", reason="knows no transaction that only reads")
def test_in_a_transaction_of_the_project_a_question_may_do_what_the_project_may(writing: RawSQL) -> None:
    User.objects.create_user("ada")
    with override_settings(MCP={**PATIENT, "READ_ONLY_TRANSACTIONS": True}), transaction.atomic():
        read_through(writing)

    assert tags() == ["written"]


def test_a_hook_may_write_and_take_its_time(tag: Tag, declared: Declared) -> None:
    class TagMCP(ModelMCP):
        fields = ["name"]

        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            if obj is not None:
                Tag.objects.get_or_create(name="seen")
                wait(1.5)
            return True

    declared.admin(Tag, None)
    declared.model(Tag, TagMCP)
    root = DirectPeer(User.objects.create_superuser("root"))
    with override_settings(MCP={**FAIR, "READ_ONLY_TRANSACTIONS": True}):
        found = keys(root, "shop.tag", limit=1)

    assert found == ["here"]
    assert tags() == ["here", "seen"]


@sqlite
def test_a_database_that_the_project_closed_for_writing_stays_closed(tag: Tag) -> None:
    connection.connection.execute("PRAGMA query_only = ON")
    try:
        with override_settings(MCP={"READ_ONLY_TRANSACTIONS": True}):
            fetch(Tag.objects.all())

        with pytest.raises(DatabaseError, match="readonly"):
            Tag.objects.create(name="x")
    finally:
        connection.connection.execute("PRAGMA query_only = OFF")


# What is sent.


def test_one_statement_is_logged_for_one_question(tag: Tag) -> None:
    with (
        override_settings(MCP={**PATIENT, "READ_ONLY_TRANSACTIONS": True}),
        CaptureQueriesContext(connection) as queries,
    ):
        fetch(Tag.objects.all())

    assert len(queries) == 1


@mysql
@pytest.mark.parametrize("read_only", [False, True])
def test_mysql_is_told_in_a_hint(tag: Tag, monkeypatch: pytest.MonkeyPatch, read_only: bool) -> None:
    """What MySQL is sent; MariaDB takes the hint for a comment."""
    monkeypatch.setitem(connections["default"].__dict__, "mysql_is_mariadb", False)
    with (
        override_settings(MCP={"STATEMENT_SECONDS": 1.5, "READ_ONLY_TRANSACTIONS": read_only}),
        CaptureQueriesContext(connection) as queries,
    ):
        assert fetch(Tag.objects.values_list("name", flat=True)) == ["here"]
        assert fetch(Tag.objects.filter(name="here").union(Tag.objects.filter(name="x"))) == [tag]

    hint = "SELECT /*+ MAX_EXECUTION_TIME(1500) */ `shop_tag`.`name`"
    assert queries[0]["sql"].startswith(f"{hint} AS `name` FROM")
    assert queries[1]["sql"].startswith(f"({hint} AS `col1` FROM")


# How it is told.


@pytest.fixture
def slow_tags(tag: Tag, declared: Declared) -> DirectPeer:
    """A user for whom every question about tags takes a minute."""

    class TagMCP(ModelMCP):
        fields = ["name"]

        def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
            return Tag.objects.filter(RawSQL(f"{A_MINUTE} IS NOT NULL", (), output_field=BooleanField()))

    declared.admin(Tag, None)
    declared.model(Tag, TagMCP)
    return DirectPeer(User.objects.create_superuser("root"))


@override_settings(MCP=QUICK)
def test_an_agent_is_told_which_limit_and_what_to_do(slow_tags: DirectPeer) -> None:
    found = slow_tags.call("find_records", model="shop.tag")
    got = slow_tags.call("get_record", model="shop.tag", id="here")

    assert found["isError"] is got["isError"] is True
    assert text_of(found) == text_of(got) == MESSAGE
    for revision, uri in (
        (MODERN, "db://shop/tag"), (MODERN, "db://shop/tag/here"), (MODERN, "db://shop/tag?name=here"),
        ("2025-11-25", "db://shop/tag"),
    ):  # fmt: skip
        error = slow_tags.error(revision, "resources/read", {"uri": uri})
        assert error == {"code": -32603, "message": MESSAGE, "data": {"reason": "TOO_SLOW"}}, (revision, uri)


def test_looking_at_what_is_watched_ends_too(slow_tags: DirectPeer) -> None:
    request = request_of(slow_tags.user)
    subscription = watch(slow_tags.site, "db://shop/tag")
    assert subscription is not None

    with override_settings(MCP=QUICK), pytest.raises(TooSlow):
        subscription.look(slow_tags.site, request)
