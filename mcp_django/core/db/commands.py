"""The base of management commands that use the database: before ``migrate`` they say so in a line."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import Error, connections, router
from django.db.migrations.executor import MigrationExecutor


class DatabaseCommand(BaseCommand):
    """A command that ends with CommandError where it fails because migrations are not applied."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except Exception as error:
            failed = _error_of_database(error)
            if failed is None or not _waits_for_migrations():
                raise
            first_line = str(failed).partition("\n")[0]
            raise CommandError(f"Migrations are not applied ({first_line}). Run: manage.py migrate") from error


def _error_of_database(error: BaseException | None) -> Error | None:
    """The error of the database that this one is, or comes from."""
    while error is not None and not isinstance(error, Error):
        error = error.__cause__ or error.__context__
    return error


def _waits_for_migrations() -> bool:
    """Whether migrations are not applied in the databases of our tables and of the users. False where one is away."""
    used = {router.db_for_read(model) for model in (apps.get_model("mcp_django", "AccessToken"), get_user_model())}
    with suppress(Error):
        for alias in used:
            executor = MigrationExecutor(connections[alias])
            if executor.migration_plan(executor.loader.graph.leaf_nodes()):
                return True
    return False
