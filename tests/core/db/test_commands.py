"""Commands that use the database, where migrations are applied and where they are not."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, ProgrammingError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from mcp_django.core.db.commands import DatabaseCommand


class Failing(DatabaseCommand):
    requires_system_checks = ()

    def __init__(self, error: Exception, cause: Exception | None = None) -> None:
        super().__init__()
        self.error, self.cause = error, cause

    def handle(self, *args: Any, **options: Any) -> None:
        raise self.error from self.cause


def test_an_error_stays_what_it_is_where_every_migration_is_applied(db: None) -> None:
    for error in (OperationalError("away"), ProgrammingError("wrong"), ValueError("ours"), CommandError("said")):
        with pytest.raises(type(error), match=str(error)):
            call_command(Failing(error))


def test_an_error_of_the_database_is_told_in_a_line_where_a_migration_is_not_applied(db: None) -> None:
    [newest] = MigrationExecutor(connection).loader.graph.leaf_nodes("mcp_django")
    MigrationRecorder(connection).record_unapplied(*newest)
    missing = ProgrammingError('column "new" does not exist\nLINE 1: SELECT new')

    for command in (Failing(missing), Failing(RuntimeError("no trail"), missing)):
        with pytest.raises(CommandError) as told:
            call_command(command)
        assert str(told.value) == ('Migrations are not applied (column "new" does not exist). Run: manage.py migrate')
    for error in (ValueError("ours"), CommandError("said")):
        with pytest.raises(type(error), match=str(error)):
            call_command(Failing(error))
