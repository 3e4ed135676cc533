"""Change sets: what a transaction told, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection, transaction

from mcp_django.events.changes import ModelChange
from mcp_django.events.transaction import current
from tests.push.conftest import Heard
from tests.shop.models import Tag

TAG = ("default", "shop.tag")
TWO_DATABASES = pytest.mark.django_db(transaction=True, databases=["default", "other"])


def told(*written: str, deleted: tuple[str, ...] = ()) -> dict[tuple[str, str], ModelChange]:
    return {TAG: ModelChange(set(written), set(deleted))}


def test_a_transaction_is_told_when_it_commits_and_not_before(heard: Heard) -> None:
    with transaction.atomic():
        Tag.objects.create(name="a")
        before = heard.changes()

    assert before == {}
    assert heard.changes() == told("a")


def test_a_rolled_back_transaction_is_never_told_and_what_follows_it_is(heard: Heard) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        Tag.objects.create(name="a")
        raise RuntimeError
    assert heard.events == []

    with transaction.atomic():
        Tag.objects.create(name="b")

    assert heard.changes() == told("b")


def test_a_row_that_is_saved_ten_times_is_one_change(heard: Heard) -> None:
    tag = Tag(name="a")

    with transaction.atomic():
        for _ in range(10):
            tag.save()

    assert len(heard.events) == 1
    assert heard.changes() == told("a")


def test_the_writes_of_nested_blocks_are_told_together(heard: Heard) -> None:
    with transaction.atomic():
        Tag.objects.create(name="before")
        with transaction.atomic():
            Tag.objects.create(name="inside")
            with transaction.atomic(savepoint=False):
                Tag.objects.create(name="deeper")
        Tag.objects.create(name="after")

    assert heard.changes() == told("before", "inside", "deeper", "after")


def test_a_rolled_back_savepoint_is_not_told_and_the_rest_is(heard: Heard) -> None:
    with transaction.atomic():
        Tag.objects.create(name="before")
        with pytest.raises(RuntimeError), transaction.atomic():
            Tag.objects.create(name="inside")
            raise RuntimeError
        Tag.objects.create(name="after")

    assert heard.changes() == told("before", "after")


def test_only_the_savepoint_that_was_rolled_back_is_forgotten(heard: Heard) -> None:
    with transaction.atomic():
        with transaction.atomic():
            Tag.objects.create(name="kept")
            with pytest.raises(RuntimeError), transaction.atomic():
                Tag.objects.create(name="lost")
                raise RuntimeError
        with transaction.atomic():
            Tag.objects.create(name="next")

    assert heard.changes() == told("kept", "next")


def test_what_was_released_within_a_rolled_back_savepoint_is_not_told(heard: Heard) -> None:
    with transaction.atomic():
        Tag.objects.create(name="kept")
        with pytest.raises(RuntimeError), transaction.atomic():
            with transaction.atomic():
                Tag.objects.create(name="released")
            raise RuntimeError

    assert heard.changes() == told("kept")


def test_a_released_savepoint_is_not_told_where_the_transaction_is_rolled_back(heard: Heard) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        with transaction.atomic():
            Tag.objects.create(name="a")
        raise RuntimeError

    assert heard.events == []


def test_a_row_that_is_saved_again_after_its_savepoint_was_rolled_back_is_told(heard: Heard) -> None:
    with transaction.atomic():
        with pytest.raises(RuntimeError), transaction.atomic():
            Tag.objects.create(name="a")
            raise RuntimeError
        with transaction.atomic():
            Tag.objects.create(name="a")

    assert heard.changes() == told("a")


def test_a_save_in_an_on_commit_callback_is_told(heard: Heard) -> None:
    with transaction.atomic():
        Tag.objects.create(name="a")
        transaction.on_commit(lambda: Tag(name="b").save())

    assert heard.changes() == told("a", "b")


def test_a_transaction_in_an_on_commit_callback_is_told(heard: Heard) -> None:
    def callback() -> None:
        with transaction.atomic():
            Tag.objects.create(name="b")

    with transaction.atomic():
        transaction.on_commit(callback)
        Tag.objects.create(name="a")

    assert heard.changes() == told("a", "b")


def test_a_transaction_that_an_on_commit_callback_rolls_back_is_never_told(heard: Heard) -> None:
    def callback() -> None:
        with transaction.atomic():
            Tag.objects.create(name="lost")
            transaction.set_rollback(True)

    with transaction.atomic():
        transaction.on_commit(callback)
        Tag.objects.create(name="kept")

    assert heard.changes() == told("kept")


@TWO_DATABASES
def test_a_change_names_the_database_that_it_happened_on(heard: Heard) -> None:
    Tag(name="here").save()
    Tag(name="there").save(using="other")

    assert heard.changes() == {**told("here"), ("other", "shop.tag"): ModelChange({"there"}, set())}


@TWO_DATABASES
def test_a_rollback_on_one_database_does_not_silence_the_other(heard: Heard) -> None:
    with transaction.atomic(using="other"):
        Tag(name="there").save(using="other")
        with transaction.atomic():
            Tag(name="here").save()
            transaction.set_rollback(True)

    assert heard.changes() == {("other", "shop.tag"): ModelChange({"there"}, set())}


def test_loaddata_is_told(heard: Heard, tmp_path: Path) -> None:
    fixture = tmp_path / "tags.json"
    fixture.write_text(json.dumps([{"model": "shop.tag", "pk": name, "fields": {}} for name in ("a", "b")]))

    call_command("loaddata", str(fixture), verbosity=0)

    assert heard.changes() == told("a", "b")


def test_a_raw_save_is_told_without_a_query_of_ours(heard: Heard, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        Tag(name="a").save_base(raw=True, force_insert=True)

    assert heard.changes() == told("a")


def test_more_rows_than_max_changed_keys_are_told_as_the_model(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.events.changes.MAX_CHANGED_KEYS", 5)
    heard.join()

    with transaction.atomic():
        for number in range(6):
            Tag.objects.create(name=str(number))

    assert heard.changes() == {TAG: ModelChange(None, set())}


def test_as_many_rows_as_max_changed_keys_are_told_by_their_keys(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.events.changes.MAX_CHANGED_KEYS", 5)
    heard.join()

    with transaction.atomic():
        for number in range(5):
            Tag.objects.create(name=str(number))

    assert heard.changes() == told("0", "1", "2", "3", "4")


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
