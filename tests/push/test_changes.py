"""Change sets: what a transaction told, and when."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection, transaction

from mcp_django.core.events.changed_rows import ModelChange
from mcp_django.core.events.transaction import current
from tests.push.conftest import Heard
from tests.shop.models import Tag

TAG = ("default", "shop.tag")
TWO_DATABASES = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def told(*written: str, deleted: tuple[str, ...] = ()) -> dict[tuple[str, str], ModelChange]:
    return {TAG: ModelChange(set(written), set(deleted))}


def save(*names: str) -> None:
    for name in names:
        Tag(name=name).save()


@contextmanager
def rolled_back() -> Iterator[None]:
    """A block whose writes are lost by an error."""
    with suppress(InterruptedError), transaction.atomic():
        yield
        raise InterruptedError


@contextmanager
def marked() -> Iterator[None]:
    """A block whose writes are lost without an error."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def ten_saves_of_a_row() -> None:
    for _ in range(10):
        save("a")


def nested_blocks() -> None:
    save("before")
    with transaction.atomic():
        save("inside")
        with transaction.atomic(savepoint=False):
            save("deeper")
    save("after")


def a_rolled_back_savepoint_among_others() -> None:
    save("before")
    with transaction.atomic():
        save("kept")
        with rolled_back():
            save("lost")
    with transaction.atomic():
        save("next")
    with rolled_back():
        save("lost too")
    save("after")


def a_savepoint_that_was_released_within_a_rolled_back_one() -> None:
    save("kept")
    with rolled_back(), transaction.atomic():
        save("released")


def a_row_that_is_saved_again_after_its_savepoint_was_rolled_back() -> None:
    with rolled_back():
        save("a")
    with transaction.atomic():
        save("a")


def callbacks_that_save_and_begin_transactions() -> None:
    def in_transactions() -> None:
        with transaction.atomic():
            save("in a transaction")
        with marked():
            save("lost")

    transaction.on_commit(in_transactions)
    save("a")
    transaction.on_commit(lambda: save("b"))


COMMITTED: dict[Callable[[], None], set[str]] = {
    ten_saves_of_a_row: {"a"},
    nested_blocks: {"before", "inside", "deeper", "after"},
    a_rolled_back_savepoint_among_others: {"before", "kept", "next", "after"},
    a_savepoint_that_was_released_within_a_rolled_back_one: {"kept"},
    a_row_that_is_saved_again_after_its_savepoint_was_rolled_back: {"a"},
    callbacks_that_save_and_begin_transactions: {"a", "b", "in a transaction"},
}


def test_exactly_what_was_committed_is_told_and_not_before(heard: Heard) -> None:
    committed, early = {}, []
    for block in COMMITTED:
        for lost in (rolled_back, marked):
            with lost():
                block()
            early += heard.events
        with transaction.atomic():
            block()
            early += heard.events
        committed[block] = heard.changes()

    assert early == []
    assert committed == {block: told(*names) for block, names in COMMITTED.items()}


def test_a_row_that_is_saved_ten_times_is_told_in_one_event(heard: Heard) -> None:
    with transaction.atomic():
        ten_saves_of_a_row()

    assert len(heard.events) == 1


@TWO_DATABASES
def test_a_change_names_its_database_and_a_rollback_on_another_does_not_silence_it(heard: Heard) -> None:
    there = {("other", "shop.tag"): ModelChange({"there"}, set())}

    save("here")
    Tag(name="there").save(using="other")
    both = heard.changes()
    with transaction.atomic(using="other"):
        Tag(name="there").save(using="other")
        with marked():
            save("lost")

    assert both == {**told("here"), **there}
    assert heard.changes() == there


def test_loaddata_is_told(heard: Heard, tmp_path: Path) -> None:
    fixture = tmp_path / "tags.json"
    fixture.write_text(json.dumps([{"model": "shop.tag", "pk": name, "fields": {}} for name in ("a", "b")]))

    call_command("loaddata", str(fixture), verbosity=0)

    assert heard.changes() == told("a", "b")


def test_a_raw_save_is_told_without_a_query_of_ours(heard: Heard, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        Tag(name="a").save_base(raw=True, force_insert=True)

    assert heard.changes() == told("a")


@pytest.mark.parametrize(("rows", "change"), [(6, ModelChange(None, set())), (5, told(*"01234")[TAG])])
def test_more_rows_than_max_changed_keys_are_told_as_the_model(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, rows: int, change: ModelChange
) -> None:
    monkeypatch.setattr("mcp_django.core.events.changed_rows.MAX_CHANGED_KEYS", 5)
    heard.join()

    with transaction.atomic():
        save(*(str(number) for number in range(rows)))

    assert heard.changes() == {TAG: change}


def test_without_autocommit_nothing_is_told_since_nobody_sees_the_commit(heard: Heard) -> None:
    transaction.set_autocommit(False)
    try:
        Tag.objects.create(name="a")
        noted = current(connection)
        transaction.commit()
    finally:
        transaction.set_autocommit(True)

    assert noted is None
    assert heard.events == []


def test_a_save_does_not_fail_where_the_channel_layer_cannot_be_made(
    transactional_db: None, settings: LazySettings
) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "no.such.ChannelLayer"}}

    Tag.objects.create(name="a")

    assert Tag.objects.filter(name="a").exists()
