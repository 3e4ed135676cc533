"""A database that is away is told from a hook that fails, by what has failed just now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from asgiref.sync import async_to_sync
from django.conf import LazySettings
from django.db import DatabaseError, connection, connections, transaction

from mcp_django.core.db.interrupts import Interruptible
from mcp_django.core.db.outages import is_database_away, is_outage
from mcp_django.core.running.workers import get_workers

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    connections["other"].errors_occurred = False


def lose() -> bool:
    """As where a second database could not be reached, and nobody has asked it since."""
    other = connections["other"]
    other.close()
    other.errors_occurred = True
    return is_database_away()


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_what_failed_in_an_earlier_job_of_the_thread_is_forgotten(settings: LazySettings) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 1}

    before, after = (async_to_sync(get_workers().run)(function) for function in (lose, is_database_away))

    assert (before, after) == (True, False)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_what_failed_in_an_earlier_request_of_the_thread_is_forgotten() -> None:
    before = lose()

    with Interruptible().answering():
        after = is_database_away()

    assert (before, after) == (True, False)


@pytest.mark.django_db
def test_a_transaction_that_has_failed_is_no_outage() -> None:
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        try:
            cursor.execute("SELECT * FROM what_is_not_there")
        finally:
            # PostgreSQL answers nothing in it.
            is_away = is_database_away()

    assert connection.errors_occurred
    assert not is_away


def test_what_ends_a_process_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.core.db.outages.is_database_away", lambda: True)

    assert not is_outage(SystemExit()) and not is_outage(KeyboardInterrupt())
