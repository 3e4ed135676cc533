"""What changes without a transaction, or cannot be told in one."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from django.conf import LazySettings
from django.db import connection, transaction
from django.test import TestCase

import mcp_django
from mcp_django.core.events import bus as buses
from mcp_django.core.events import postgresql
from mcp_django.core.events.postgresql import PostgreSQLBus
from tests.end_to_end.servers import wait_for
from tests.push.channels import (
    Channel,
    end_own_connections,
    listening,
    own_connections,
    wrote,
)
from tests.push.postgresql.conftest import all_that_was_told
from tests.shop.models import Tag

pytestmark = [
    pytest.mark.every_database,
    pytest.mark.skipif(connection.vendor != "postgresql", reason="the bus of PostgreSQL: TEST_DATABASE=postgresql"),
    pytest.mark.django_db(transaction=True),
]


# Without a transaction, and beside it.


def test_a_save_without_a_transaction_is_told_by_the_publisher(channel: Channel) -> None:
    Tag.objects.create(name="a")

    assert all_that_was_told(channel) == [wrote("shop.tag", "a")]


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_what_changes_on_another_database_is_told_once_that_is_committed(channel: Channel) -> None:
    with transaction.atomic(using="other"):
        Tag(name="lost").save(using="other")
        transaction.set_rollback(True, using="other")
    with transaction.atomic(using="other"):
        Tag(name="there").save(using="other")

    [event] = all_that_was_told(channel)
    assert event["changes"] == [{**wrote("shop.tag", "there")["changes"][0], "alias": "other"}]


def test_a_test_case_that_never_commits_is_told_by_its_callbacks(channel: Channel) -> None:
    with transaction.atomic():
        with TestCase.captureOnCommitCallbacks(execute=True):
            Tag.objects.create(name="a")
        told = all_that_was_told(channel)
        transaction.set_rollback(True)

    assert told == [wrote("shop.tag", "a")]
    assert all_that_was_told(channel) == []


def test_what_cannot_be_told_in_the_transaction_is_told_after_it(
    channel: Channel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue of notifications is full, as when a listening connection stays in a transaction."""
    monkeypatch.setattr(postgresql, "_FULL", -1.0)
    for name in "ab":
        with transaction.atomic():
            Tag.objects.create(name=name)
    assert all_that_was_told(channel) == [wrote("shop.tag", "a"), wrote("shop.tag", "b")]
    assert "PostgreSQL's queue of notifications is filled by 0 %" in caplog.text

    monkeypatch.setattr(postgresql, "_FULL", 0.5)
    Tag.objects.create(name="c")
    told = all_that_was_told(channel)
    with transaction.atomic():
        Tag.objects.create(name="d")
        inside = threading.active_count()

    assert told == [wrote("shop.tag", "c")]
    assert inside == threading.active_count()
    assert channel.events() == [wrote("shop.tag", "d")]


def test_the_publisher_tells_again_after_its_connection_was_ended(channel: Channel) -> None:
    Tag.objects.create(name="a")
    told = all_that_was_told(channel)
    assert end_own_connections() == 1

    Tag.objects.create(name="b")

    assert (told, all_that_was_told(channel)) == ([wrote("shop.tag", "a")], [wrote("shop.tag", "b")])


def test_what_could_not_be_told_lets_everybody_look_as_soon_as_it_can(
    channel: Channel, bus: PostgreSQLBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.close()
    with monkeypatch.context() as away:
        away.setattr(postgresql, "_parameters", lambda alias: {"host": "127.0.0.1", "port": 1, "connect_timeout": 1})
        with pytest.raises(psycopg.OperationalError):
            bus.publish({"publisher": "x", "started": 0.0, "number": 1, **wrote("shop.tag", "a")})

    bus.publish({"publisher": "x", "started": 0.0, "number": 1})
    bus.publish({"publisher": "x", "started": 0.0, "number": 2, **wrote("shop.tag", "b")})

    assert channel.events() == [{"lost": True}, wrote("shop.tag", "b")]


def test_the_publisher_gives_its_connection_back_when_it_has_nothing_to_tell(bus: PostgreSQLBus) -> None:
    Tag.objects.create(name="a")
    assert mcp_django.flush(60)
    kept = own_connections()

    assert len(kept) == 1
    wait_for(lambda: own_connections() == [], "the end of the publisher's connection", 60)


def bus_of(**options: str) -> dict[str, Any]:
    return {"BACKEND": "mcp_django.buses.PostgreSQLBus", "OPTIONS": options}


def test_projects_with_channels_of_their_own_do_not_hear_each_other(
    transactional_db: None, settings: LazySettings
) -> None:
    settings.MCP = {**settings.MCP, "BUS": bus_of(channel='it\'s "mine"')}
    with listening() as others, listening('it\'s ""mine""') as mine:
        with transaction.atomic():
            Tag.objects.create(name="a")
        Tag.objects.create(name="b")
        assert mcp_django.flush(60)
        # The name that LISTEN was given has its quotes doubled, that of pg_notify has not.
        mine.name = 'it\'s "mine"'

        assert (mine.events(), others.events()) == ([wrote("shop.tag", "a"), wrote("shop.tag", "b")], [])
    bus = buses.get_bus()
    assert isinstance(bus, PostgreSQLBus)
    bus.close()


# Settings.


@pytest.mark.parametrize("option", ["database", "listen_database"])
def test_a_save_does_not_fail_where_the_bus_cannot_be_made(
    settings: LazySettings, caplog: pytest.LogCaptureFixture, option: str
) -> None:
    settings.MCP = {**settings.MCP, "BUS": bus_of(**{option: "other"})}

    with transaction.atomic():
        Tag.objects.create(name="a")

    assert Tag.objects.get().pk == "a"
    assert f"The {option} of MCP['BUS'] is 'other', which is no PostgreSQL database of DATABASES." in caplog.text
