"""``manage.py mcp_triggers``: let PostgreSQL report changes of rows, whatever program makes them."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connections, transaction

from mcp_django.core.events.bus import configured_bus


class Command(BaseCommand):
    help = (
        "Install triggers in the database that is the bus, which report every change in the tables of exposed "
        "models, also those by raw SQL, cascades and other programs."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        wanted = parser.add_mutually_exclusive_group()
        wanted.add_argument("--install", action="store_true", help="Make the triggers that are missing or stale.")
        wanted.add_argument("--remove", action="store_true", help="Remove all triggers.")
        wanted.add_argument("--check", action="store_true", help="Fail if a trigger is missing or stale. The default.")
        parser.add_argument(
            "--sql", action="store_true", help="Only print the SQL, for a migration that runs on any database."
        )
        parser.add_argument(
            "--database", metavar="ALIAS", help="The alias of a user who owns the tables. Default: that of the bus."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            database = configured_bus().database
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
        if database is None:
            raise CommandError("Triggers would have no receiver: name mcp_django.buses.PostgreSQLBus in MCP['BUS'].")
        alias = options["database"] or database
        if alias not in connections or connections[alias].vendor != "postgresql":
            raise CommandError(f"--database: {alias!r} is no PostgreSQL database of DATABASES.")
        if options["sql"]:
            self._print(remove=options["remove"])
        elif options["install"]:
            self._install(alias)
        elif options["remove"]:
            self._remove(alias)
        else:
            self._check(alias)

    def _print(self, *, remove: bool) -> None:
        from mcp_django.push import triggers

        self.stdout.write(triggers.drop_function() if remove else triggers.create_all())

    def _install(self, alias: str) -> None:
        from mcp_django.push import triggers

        state = triggers.state(connections[alias])
        self._run(alias, triggers.create_function())
        # Each table is locked until its transaction ends.
        for one in state.stale:
            self._run(alias, one.create())
            self.stdout.write(f"{one.table} reports its changes.")
        for one in state.left_over:
            self._run(alias, one.drop())
            self.stdout.write(f"{one.table} no longer reports its changes.")
        for table in state.impossible:
            self.stderr.write(f"{table} is no table of this database, so no trigger can report its changes.")
        self.stdout.write("The triggers are as they should be.")

    def _remove(self, alias: str) -> None:
        from mcp_django.push import triggers

        for one in triggers.installed(connections[alias]):
            self._run(alias, one.drop())
            self.stdout.write(f"{one.table} no longer reports its changes.")
        self._run(alias, triggers.drop_function())
        self.stdout.write("There are no triggers.")

    def _check(self, alias: str) -> None:
        from mcp_django.push import triggers

        state = triggers.state(connections[alias])
        problems = state.problems if state.is_installed else ["There are no triggers."]
        if problems:
            raise CommandError("\n".join([*problems, "To fix this: manage.py mcp_triggers --install"]))
        self.stdout.write("The triggers are as they should be.")

    def _run(self, alias: str, statements: str) -> None:
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(statements)
