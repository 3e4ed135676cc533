"""What a transaction changes is told in the transaction itself."""

from __future__ import annotations

import asyncio
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypothesis
import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from hypothesis import strategies as st

from mcp_django.core.events.controls import ControlKind
from mcp_django.core.events.postgresql import PostgreSQLBus
from mcp_django.core.events.transaction import note, note_control
from tests.push.channels import (
    Channel,
    changed,
    connect,
    removed,
    wrote,
)
from tests.push.postgresql.conftest import all_that_was_told
from tests.shop.models import Tag, Visit

pytestmark = [
    pytest.mark.every_database,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="the bus of PostgreSQL: TEST_DATABASE=postgresql"),
    pytest.mark.django_db(transaction=True),
]


def test_a_transaction_tells_by_itself_what_it_changes(channel: Channel) -> None:
    with transaction.atomic():
        Tag.objects.create(name="b")
        Tag.objects.create(name="a").save()
        note_control("default", ControlKind.TOOLS)
        before = channel.events()

    assert before == []
    assert channel.events() == [{**wrote("shop.tag", "a", "b"), "controls": [{"kind": "tools"}]}]
    assert all_that_was_told(channel) == []


def test_it_is_told_once_by_a_connection_that_is_kept_and_by_one_that_is_made_anew(channel: Channel) -> None:
    for name in "ab":
        with transaction.atomic():
            Tag.objects.create(name=name)
    connection.close()
    with transaction.atomic():
        Tag.objects.create(name="c")

    assert all_that_was_told(channel) == [wrote("shop.tag", name) for name in "abc"]


@pytest.mark.parametrize("keyword", [{"durable": True}, {"savepoint": False}, {}])
def test_every_kind_of_block_is_told_and_what_was_rolled_back_is_not(
    channel: Channel, keyword: dict[str, bool]
) -> None:
    with pytest.raises(RuntimeError), transaction.atomic(**keyword):
        Tag.objects.create(name="lost")
        raise RuntimeError
    with transaction.atomic(**keyword):
        Tag.objects.create(name="lost")
        transaction.set_rollback(True)
    with transaction.atomic(**keyword):
        Tag.objects.create(name="a")
        with pytest.raises(RuntimeError), transaction.atomic():
            Tag.objects.create(name="lost")
            raise RuntimeError
        with transaction.atomic():
            Tag.objects.create(name="b")
    with transaction.atomic(**keyword):
        Tag.objects.get(name="a").delete()

    assert all_that_was_told(channel) == [wrote("shop.tag", "a", "b"), removed("shop.tag", "a")]


def test_a_commit_that_a_deferred_constraint_refuses_is_not_told(channel: Channel) -> None:
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        Tag.objects.create(name="a")
        Visit.objects.create(person_id="nobody's badge")

    assert isinstance(refused.value.__cause__, psycopg.errors.ForeignKeyViolation)
    assert all_that_was_told(channel) == []
    assert Tag.objects.count() == 0
    with transaction.atomic():
        Tag.objects.create(name="b")
    assert channel.events() == [wrote("shop.tag", "b")]


def test_what_the_database_rolls_back_at_a_commit_without_a_word_is_not_told(channel: Channel) -> None:
    with transaction.atomic():
        Tag.objects.create(name="a")
        # An error that neither the block nor Django's cursor was told of.
        with pytest.raises(psycopg.Error):
            connection.connection.execute("SELECT 1 / 0")

    assert Tag.objects.count() == 0
    assert all_that_was_told(channel) == []


def test_a_commit_that_the_connection_does_not_survive_is_not_told(channel: Channel) -> None:
    with pytest.raises(OperationalError), transaction.atomic():
        Tag.objects.create(name="a")
        with connect() as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])

    with transaction.atomic():
        Tag.objects.create(name="b")
    assert all_that_was_told(channel) == [wrote("shop.tag", "b")]
    assert [tag.pk for tag in Tag.objects.all()] == ["b"]


#: What a block does: it saves a row (True), or has blocks within it; and whether it is rolled back in the end.
BLOCKS = st.recursive(st.just(True), lambda inner: st.tuples(st.lists(inner, max_size=4), st.booleans()), max_leaves=15)


@hypothesis.given(blocks=st.tuples(st.lists(BLOCKS, max_size=4), st.booleans()))
def test_what_is_told_is_what_is_there(channel: Channel, blocks: Any) -> None:
    Tag.objects.all()._raw_delete("default")
    names = itertools.count()

    def run(block: Any) -> None:
        if block is True:
            Tag.objects.create(name=str(next(names)))
            return
        steps, is_rolled_back = block
        with transaction.atomic():
            for step in steps:
                run(step)
            transaction.set_rollback(is_rolled_back)

    run(blocks)

    there = set(Tag.objects.values_list("pk", flat=True))
    assert channel.events() == ([wrote("shop.tag", *there)] if there else [])


def test_a_transaction_without_autocommit_tells_at_its_commit(channel: Channel) -> None:
    transaction.set_autocommit(False)
    try:
        with transaction.atomic():
            Tag.objects.create(name="lost")
        transaction.rollback()
        with transaction.atomic():
            Tag.objects.create(name="a")
        before = channel.events()
        transaction.commit()
        after = channel.events()
    finally:
        transaction.set_autocommit(True)

    assert (before, after) == ([], [wrote("shop.tag", "a")])
    assert all_that_was_told(channel) == []


def test_async_code_and_a_transaction_in_an_on_commit_callback_are_told(channel: Channel) -> None:
    def callback() -> None:
        with transaction.atomic():
            Tag.objects.create(name="b")

    @transaction.atomic
    def save() -> None:
        transaction.on_commit(callback)
        Tag.objects.create(name="a")

    async def main() -> None:
        await sync_to_async(save)()
        await Tag.objects.acreate(name="c")
        await sync_to_async(connections.close_all)()

    asyncio.run(main())

    assert all_that_was_told(channel) == [wrote("shop.tag", name) for name in "abc"]


def test_threads_are_told(channel: Channel) -> None:
    def save(number: int) -> None:
        with transaction.atomic():
            Tag.objects.create(name=str(number))
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(20)))

    told = sorted(channel.events(), key=lambda event: int(event["changes"][0]["written"][0]))
    assert told == [wrote("shop.tag", number) for number in range(20)]
    assert all_that_was_told(channel) == []


def test_it_costs_no_query_that_the_project_could_count(bus: PostgreSQLBus, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(3) as before, transaction.atomic():
        Tag.objects.create(name="a")

    assert [query["sql"].split()[0] for query in before] == ["BEGIN", "INSERT", "COMMIT"]


def test_a_key_that_is_sql_is_only_text(channel: Channel) -> None:
    keys = ["a', 'b'); DROP TABLE shop_tag; --", "it's", 'a"b', "back\\slash", "Zürich 東京 🛫"]
    for key in keys:
        with transaction.atomic():
            Tag.objects.create(name=key)

    assert channel.events() == [wrote("shop.tag", key) for key in keys]


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_backslashes_are_text_whatever_the_database_takes_strings_for(channel: Channel, conforming: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL standard_conforming_strings = {conforming}")
        note("default", "shop.tag", written=["\\' \\", "\x00\ud800"])

    assert channel.events() == [wrote("shop.tag", "\\' \\", "\x00\ud800")]


def test_100_000_rows_of_one_transaction_are_told_as_the_model(channel: Channel) -> None:
    with transaction.atomic():
        for number in range(100_000):
            note("default", "shop.tag", written=[str(number)])
        Tag.objects.create(name="a")

    assert channel.events() == [changed("shop.tag")]


def test_a_transaction_of_many_long_keys_is_told_by_their_keys_in_several_payloads(channel: Channel) -> None:
    names = [f"{number:ü>50}" for number in range(400)]

    with transaction.atomic():
        for name in names:
            Tag.objects.create(name=name)

    payloads = channel.payloads()
    told = [key for payload in payloads for key in json.loads(payload)["changes"][0]["written"]]
    assert len(payloads) > 1
    assert max(len(payload.encode()) for payload in payloads) < 8_000
    assert sorted(told) == sorted(names)
