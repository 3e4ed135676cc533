"""Triggers of PostgreSQL: what changes is told by the database, whoever changes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.conf import LazySettings
from django.core.checks import Tags, Warning, run_checks
from django.core.management import CommandError, call_command
from django.db import connection, models, transaction

import mcp_django
from demo_project.flights.models import Flight
from mcp_django.core.events import bus as buses
from mcp_django.core.events.changed_rows import Changes, ModelChange
from mcp_django.core.events.postgresql import PostgreSQLBus
from mcp_django.push import triggers
from tests.push.channels import Channel, Event, changed, connect, listening, removed, wrote
from tests.shop.models import Book, Making, Part, Product, Supplier, Tag
from tests.support.declared import Declared

pytestmark = [
    pytest.mark.every_database,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="of PostgreSQL: TEST_DATABASE=postgresql"),
    pytest.mark.django_db(transaction=True),
]


def run(*options: str) -> str:
    output = StringIO()
    call_command("mcp_triggers", *options, stdout=output, stderr=output)
    return output.getvalue()


@pytest.fixture
def bus(transactional_db: None, settings: LazySettings) -> Iterator[None]:
    settings.MCP = {**settings.MCP, "BUS": {"BACKEND": "mcp_django.buses.PostgreSQLBus"}}
    yield
    assert mcp_django.flush(60)
    bus = buses.get_bus()
    assert isinstance(bus, PostgreSQLBus)
    bus.close()


@pytest.fixture
def installed(bus: None, declared: Declared) -> Iterator[None]:
    """The triggers of all that is watched, also of models that the tests alone watch."""
    for model in (Part, Supplier, Making, Keyed):
        declared.model(model, fields="__all__")
    with connection.schema_editor() as editor:
        editor.create_model(Keyed)
    try:
        run("--install")
        yield
        run("--remove")
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(Keyed)


@pytest.fixture
def channel(installed: None) -> Iterator[Channel]:
    with listening() as channel:
        yield channel


@pytest.fixture
def other(installed: None) -> Iterator[psycopg.Connection[Any]]:
    """A program that knows nothing of Django."""
    with connect() as other:
        yield other


class Keyed(models.Model):  # noqa: DJ008
    """A table with quotes in its name, as Django takes it, and a key that PostgreSQL spells in hexadecimal digits."""

    number = models.UUIDField(primary_key=True)

    class Meta:
        app_label = "shop"
        managed = False
        db_table = '"odd""; DROP TABLE shop_tag; --"'


class Dated(models.Model):  # noqa: DJ008
    day = models.DateField(primary_key=True)

    class Meta:
        app_label = "shop"
        managed = False
        db_table = 'day\'s "table"'


ODD = '"odd""; DROP TABLE shop_tag; --"'
LEFT_OVER = (
    "CREATE TABLE IF NOT EXISTS left_over (); CREATE TRIGGER mcp_django_insert AFTER INSERT ON left_over "
    "FOR EACH STATEMENT EXECUTE FUNCTION mcp_django_notify('mcp_django', 'default')"
)


def said(events: list[Event]) -> dict[str, ModelChange]:
    """What the events say together, by label."""
    changes = Changes()
    for event in events:
        for one in event["changes"]:
            changes.note("default", one["label"], one["written"], one["deleted"])
    return {label: change for (_, label), change in changes.items()}


def either(change: ModelChange) -> dict[str, ModelChange]:
    """Of a product and of a book: the table of the parent does not say whether its row has a child."""
    return {"shop.product": change, "shop.book": change}


# Whoever changes it.


def test_what_another_program_changes_is_told(channel: Channel, other: psycopg.Connection[Any]) -> None:
    upsert = "INSERT INTO shop_tag (name) VALUES ('a'), ('c') ON CONFLICT (name) DO UPDATE SET name = excluded.name"
    all_rows = ModelChange(None, set())
    statements: dict[str, dict[str, ModelChange]] = {
        "INSERT INTO shop_tag (name) VALUES ('a'), ('b')": {"shop.tag": ModelChange({"a", "b"}, set())},
        "UPDATE shop_tag SET name = 'c' WHERE name = 'b'": {"shop.tag": ModelChange({"c"}, {"b"})},
        upsert: {"shop.tag": ModelChange({"a", "c"}, set())},
        "DELETE FROM shop_tag WHERE name = 'a'": {"shop.tag": ModelChange(set(), {"a"})},
        "DELETE FROM shop_tag": {"shop.tag": ModelChange(set(), {"c"})},
        "UPDATE shop_tag SET name = name": {},
        "DELETE FROM shop_tag WHERE true": {},
        "INSERT INTO shop_tag (name) SELECT generate_series(1, 100000)": {"shop.tag": all_rows},
        "UPDATE shop_tag SET name = name || ''": {"shop.tag": all_rows},
    }
    told = {}
    for statement in statements:
        other.execute(statement.encode())
        told[statement] = said(channel.events())
    other.execute("TRUNCATE shop_tag CASCADE")
    truncated = said(channel.events())
    with other.cursor().copy("COPY shop_tag (name) FROM STDIN") as copy:
        copy.write("a\nb\n")

    assert told == statements
    assert truncated["shop.tag"] == truncated["shop.part"] == all_rows
    assert channel.events() == [wrote("shop.tag", "a", "b")]


def test_a_rolled_back_statement_is_not_told(channel: Channel, other: psycopg.Connection[Any]) -> None:
    with other.transaction():
        other.execute("INSERT INTO shop_tag (name) VALUES ('kept')")
        with other.transaction(force_rollback=True):
            other.execute("INSERT INTO shop_tag (name) VALUES ('lost')")

    assert channel.events() == [wrote("shop.tag", "kept")]


def test_many_long_keys_are_told_in_payloads_that_fit(channel: Channel, other: psycopg.Connection[Any]) -> None:
    other.execute("INSERT INTO shop_tag (name) SELECT lpad(n::text, 50, 'ü\"') FROM generate_series(1, 900) AS n")

    payloads = channel.payloads()
    assert len(payloads) > 1
    assert max(len(payload.encode()) for payload in payloads) < 8_000
    assert said([json.loads(payload) for payload in payloads]) == {
        "shop.tag": ModelChange(set(Tag.objects.values_list("pk", flat=True)), set())
    }


def test_a_key_that_fits_into_no_payload_is_told_as_the_model(channel: Channel, other: psycopg.Connection[Any]) -> None:
    other.execute("ALTER TABLE shop_tag ALTER COLUMN name TYPE text")
    try:
        other.execute("INSERT INTO shop_tag (name) VALUES (repeat('x', 2500) || 'ü'), ('a')")
        fits = said(channel.events())
        other.execute("INSERT INTO shop_tag (name) VALUES (repeat(md5('x'), 70))")
        fits_not = channel.events()
        other.execute("DELETE FROM shop_tag")
    finally:
        other.execute("ALTER TABLE shop_tag ALTER COLUMN name TYPE varchar(50)")

    assert fits == {"shop.tag": ModelChange({"x" * 2500 + "ü", "a"}, set())}
    assert fits_not == [wrote("shop.tag", "9dd4e461268c8034f5c8564e155c67a6" * 70)]


def test_a_cascade_of_the_database_is_told(channel: Channel, other: psycopg.Connection[Any]) -> None:
    other.execute("INSERT INTO shop_tag (name) VALUES ('a')")
    other.execute("CREATE TABLE below (name varchar(50) REFERENCES shop_tag ON DELETE CASCADE ON UPDATE CASCADE)")
    arguments = "'mcp_django', 'default', 'shop.below', 'name', 'row'"
    for event, rows in triggers._ROWS.items():
        other.execute(
            f"CREATE TRIGGER t_{event} AFTER {event} ON below {rows} FOR EACH STATEMENT "
            f"EXECUTE FUNCTION mcp_django_notify({arguments})"
        )
    try:
        other.execute("INSERT INTO below VALUES ('a')")
        channel.events()
        other.execute("DELETE FROM shop_tag")
        told = said(channel.events())
    finally:
        other.execute("DROP TABLE below")

    assert told == {"shop.tag": ModelChange(set(), {"a"}), "shop.below": ModelChange(set(), {"a"})}


# What Django is silent about.


def test_what_django_is_silent_about_is_told_and_a_save_in_a_transaction_once(channel: Channel) -> None:
    Tag.objects.bulk_create([Tag(name="a"), Tag(name="b")])
    created = channel.events()
    Tag.objects.filter(name="a").update(name="c")
    updated = said(channel.events())
    Tag.objects.all()._raw_delete("default")
    deleted = channel.events()
    with transaction.atomic():
        Tag.objects.create(name="d")

    assert created == [wrote("shop.tag", "a", "b")]
    assert updated == {"shop.tag": ModelChange({"c"}, {"a"})}
    assert deleted == [removed("shop.tag", "b", "c")]
    assert channel.events() == [wrote("shop.tag", "d")]


def test_a_relation_that_is_set_to_null_is_told(channel: Channel) -> None:
    parent = Supplier.objects.create(name="parent", code="p")
    child = Supplier.objects.create(name="child", parent=parent)
    mcp_django.flush(60)
    channel.events()
    gone = parent.pk

    parent.delete()

    told = channel.events()
    assert wrote("shop.supplier", child.pk) in told
    assert removed("shop.supplier", gone) in told


# Inheritance and relations.


def test_a_row_of_a_parent_is_told_of_the_parent_and_of_its_children(
    channel: Channel, other: psycopg.Connection[Any]
) -> None:
    book = Book.objects.create(name="novel")
    mcp_django.flush(60)
    channel.events()

    other.execute("UPDATE shop_product SET name = 'x'")
    of_parent = said(channel.events())
    other.execute("UPDATE shop_book SET author = 'x'")
    of_child = channel.events()

    assert of_parent == either(ModelChange({str(book.pk)}, set()))
    assert of_child == [wrote("shop.book", book.pk)]


def test_a_table_that_connects_rows_is_told_of_both_sides(channel: Channel, other: psycopg.Connection[Any]) -> None:
    lamp, desk = Product.objects.create(name="lamp"), Product.objects.create(name="desk")
    Tag.objects.bulk_create([Tag(name="a"), Tag(name="b")])
    mcp_django.flush(60)
    channel.events()

    other.execute("INSERT INTO shop_product_tags (product_id, tag_id) VALUES (%s, 'a')", [lamp.pk])
    inserted = said(channel.events())
    other.execute("UPDATE shop_product_tags SET product_id = %s, tag_id = 'b'", [desk.pk])
    updated = said(channel.events())
    other.execute("DELETE FROM shop_product_tags")
    deleted = said(channel.events())

    def told(products: set[int], tags: set[str]) -> dict[str, ModelChange]:
        return {
            **either(ModelChange({str(key) for key in products}, set())),
            "shop.tag": ModelChange(tags, set()),
        }

    assert inserted == told({lamp.pk}, {"a"})
    assert updated == told({lamp.pk, desk.pk}, {"a", "b"})
    assert deleted == told({desk.pk}, {"b"})


def test_a_model_between_two_is_told_of_itself_and_of_both(channel: Channel, other: psycopg.Connection[Any]) -> None:
    part, maker = Part.objects.create(name="wheel"), Supplier.objects.create(name="maker")
    mcp_django.flush(60)
    channel.events()

    other.execute("INSERT INTO shop_making (part_id, maker_id, open) VALUES (%s, %s, true)", [part.pk, maker.pk])

    making = Making.objects.get()
    assert said(channel.events()) == {
        "shop.making": ModelChange({str(making.pk)}, set()),
        "shop.part": ModelChange({str(part.pk)}, set()),
        "shop.supplier": ModelChange({str(maker.pk)}, set()),
    }


# Names and keys.


def test_a_table_and_keys_with_quotes_are_only_names(channel: Channel, other: psycopg.Connection[Any]) -> None:
    key = UUID("12345678-1234-5678-1234-567812345678")

    Keyed.objects.create(number=key)
    mcp_django.flush(60)
    told = said(channel.events())
    other.execute(f"DELETE FROM {ODD}")
    other.execute("INSERT INTO shop_tag (name) VALUES (%s)", ["'); DROP TABLE shop_tag; --"])

    assert told == {"shop.keyed": ModelChange({str(key)}, set())}
    assert channel.events() == [removed("shop.keyed", key), wrote("shop.tag", "'); DROP TABLE shop_tag; --")]


def test_a_key_that_the_database_spells_in_its_own_way_is_told_as_the_model(
    installed: None, declared: Declared, other: psycopg.Connection[Any], channel: Channel
) -> None:
    declared.model(Dated, fields="__all__")
    other.execute('CREATE TABLE "day\'s ""table""" (day date PRIMARY KEY)')
    try:
        run("--install")
        other.execute('INSERT INTO "day\'s ""table""" VALUES (\'2013-01-31\')')
        told = channel.events()
    finally:
        other.execute('DROP TABLE "day\'s ""table"""')

    assert told == [changed("shop.dated")]


def test_a_statement_does_not_fail_because_of_a_stale_trigger(channel: Channel, other: psycopg.Connection[Any]) -> None:
    other.execute("ALTER TABLE shop_tag RENAME COLUMN name TO title")
    try:
        other.execute("INSERT INTO shop_tag (title) VALUES ('a')")
        told = channel.events()
    finally:
        other.execute("ALTER TABLE shop_tag RENAME COLUMN title TO name")

    assert told == [changed("shop.tag")]
    assert Tag.objects.count() == 1


def test_functions_that_somebody_puts_before_ours_are_not_called(
    channel: Channel, other: psycopg.Connection[Any]
) -> None:
    """Else whoever may make a function runs code as whoever writes to the table."""
    other.execute("CREATE FUNCTION public.to_json(text) RETURNS json LANGUAGE sql AS 'SELECT 1 / 0; SELECT null::json'")
    try:
        other.execute("SET search_path = public, pg_catalog")
        other.execute("INSERT INTO shop_tag (name) VALUES ('a')")
    finally:
        other.execute("DROP FUNCTION public.to_json(text)")

    assert channel.events() == [wrote("shop.tag", "a")]


def test_a_user_who_may_only_write_is_told_of(channel: Channel, other: psycopg.Connection[Any]) -> None:
    role = f"writer_{connection.settings_dict['NAME']}"
    other.execute(f'CREATE ROLE "{role}"')
    try:
        other.execute(f'GRANT INSERT ON shop_tag TO "{role}"')
        other.execute(f'SET ROLE "{role}"')
        other.execute("INSERT INTO shop_tag (name) VALUES ('a')")
    finally:
        other.execute("RESET ROLE")
        other.execute(f'DROP OWNED BY "{role}"')
        other.execute(f'DROP ROLE "{role}"')

    assert channel.events() == [wrote("shop.tag", "a")]


# The command, and the check.


def test_the_triggers_are_made_once_and_removed(installed: None) -> None:
    assert run("--check") == run() == run("--install") == "The triggers are as they should be.\n"

    removed = run("--remove").splitlines()

    assert removed[-1] == "There are no triggers."
    assert "shop_tag no longer reports its changes." in removed
    assert f"{ODD} no longer reports its changes." in removed
    with pytest.raises(CommandError) as failed:
        run("--check")
    assert str(failed.value) == "There are no triggers.\nTo fix this: manage.py mcp_triggers --install"
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'mcp%'")
        assert cursor.fetchone() == (0,)
        cursor.execute("SELECT count(*) FROM pg_proc WHERE proname LIKE 'mcp%'")
        assert cursor.fetchone() == (0,)


NOT_AS_IT_SHOULD = "shop_tag does not report its changes, or not as it should."
STALE = {
    "DROP TRIGGER mcp_django_update ON shop_tag": NOT_AS_IT_SHOULD,
    "ALTER TABLE shop_tag DISABLE TRIGGER USER": NOT_AS_IT_SHOULD,
    LEFT_OVER: "left_over reports changes that no client can watch any more.",
    "CREATE OR REPLACE FUNCTION mcp_django_notify() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'": (
        'The function "mcp_django_notify" is of another version.'
    ),
}


def test_w010_what_is_stale_is_told_and_made_anew(other: psycopg.Connection[Any]) -> None:
    failures, warnings, mended = [], [], []
    try:
        for statement in STALE:
            other.execute(statement.encode())
            with pytest.raises(CommandError) as failed:
                run()
            failures.append(str(failed.value))
            found = run_checks(tags=[Tags.database], databases=["default"])
            warnings += [warning for warning in found if "W010" in str(warning.id)]
            run("--install")
            mended.append((run(), run_checks(tags=[Tags.database], databases=["default"])))
    finally:
        other.execute("DROP TABLE IF EXISTS left_over")

    assert failures == [f"{problem}\nTo fix this: manage.py mcp_triggers --install" for problem in STALE.values()]
    assert warnings == [
        Warning(
            f"The triggers of the database 'default' are out of date. {problem}",
            hint="Make them again: manage.py mcp_triggers --install",
            id="mcp_django.W010",
        )
        for problem in STALE.values()
    ]
    assert mended == [("The triggers are as they should be.\n", [])] * len(STALE)


def test_w010_is_silent_where_nobody_wants_triggers(bus: None) -> None:
    assert run_checks(tags=[Tags.database], databases=["default"]) == []


@pytest.mark.parametrize("before", ["--remove", "--install"])
def test_the_sql_does_what_the_command_does(view: None, other: psycopg.Connection[Any], before: str) -> None:
    run(before)

    made = []
    try:
        for _ in range(2):
            other.execute(run("--sql").encode())
            made.append(run("--check"))
            other.execute(LEFT_OVER)
        other.execute(run("--sql", "--remove").encode())
    finally:
        other.execute("DROP TABLE left_over")

    assert made == ["The triggers are as they should be.\n"] * 2
    with pytest.raises(CommandError, match="There are no triggers"):
        run("--check")


@pytest.fixture
def view(declared: Declared, other: psycopg.Connection[Any]) -> Iterator[None]:
    """A watched model whose table is a view."""
    declared.model(Dated, fields="__all__")
    other.execute('CREATE VIEW "day\'s ""table""" AS SELECT current_date AS day')
    yield
    other.execute('DROP VIEW "day\'s ""table"""')


def test_a_view_cannot_tell_and_the_command_says_so(view: None) -> None:
    said = run("--install").splitlines()

    assert '"day\'s ""table""" is no table of this database, so no trigger can report its changes.' in said


def test_projects_on_one_table_have_triggers_of_their_own(
    channel: Channel, other: psycopg.Connection[Any], settings: LazySettings
) -> None:
    settings.MCP = {**settings.MCP, "BUS": {**settings.MCP["BUS"], "OPTIONS": {"channel": "another"}}}
    run("--install")
    try:
        with listening("another") as others:
            other.execute("INSERT INTO shop_tag (name) VALUES ('a')")
            told = others.events()
    finally:
        run("--remove")
        settings.MCP = {**settings.MCP, "BUS": {**settings.MCP["BUS"], "OPTIONS": {"channel": "mcp_django"}}}

    assert told == channel.events() == [wrote("shop.tag", "a")]


def test_keys_that_others_point_to_are_followed_to_where_they_are_spelt() -> None:
    assert triggers._spelt(Flight._meta.pk) == "id"
    assert triggers._spelt(Book._meta.pk) == "product_ptr_id"
    assert triggers._spelt(Dated._meta.pk) == ""
