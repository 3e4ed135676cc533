"""The project that is measured: its database, made once and used again, and the two users who ask."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

from demo_project.flights.management.commands.demo import create_users, switch_on_tools
from mcp_django.models import AccessToken
from tests.support.mariadb import load_time_zones

_TOKEN = "bench"


@dataclass(frozen=True, slots=True)
class Caller:
    """One who asks: a user of the demo, with a token of theirs."""

    user: User
    token: str
    credential: AccessToken


def set_up(rows: str) -> None:
    """Make the database, its tables and its users, and load the flights, as far as they are not there."""
    _make_database()
    call_command("migrate", verbosity=0)
    # What is loaded is told, and how far it is, beside the results.
    call_command("load_flights", f"--rows={rows}", stdout=sys.stderr, stderr=sys.stderr)
    if not User.objects.exists():
        switch_on_tools()
    create_users()
    with connection.cursor() as cursor:
        # A server that has just been filled would plan by numbers that it has not counted yet.
        table = connection.ops.quote_name("flights_flight")
        cursor.execute(f"ANALYZE TABLE {table}" if connection.vendor == "mysql" else f"ANALYZE {table}")
    if connection.vendor == "mysql":
        load_time_zones()


def caller(username: str) -> Caller:
    """The user of that name, with a new token that may read; those of earlier runs go."""
    user = User.objects.get(username=username)
    AccessToken.objects.filter(user=user, name=_TOKEN).delete()
    credential, token = AccessToken.objects.create_token(user=user, name=_TOKEN, scopes=["read"])
    return Caller(user, token, credential)


def _make_database() -> None:
    if connection.vendor == "sqlite":
        return
    name = connection.settings_dict["NAME"]
    with connection._nodb_cursor() as cursor:  # What Django's own test runner makes databases with.
        if connection.vendor == "mysql":
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {connection.ops.quote_name(name)} CHARACTER SET utf8mb4")
            return
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if cursor.fetchone() is None:
            cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(name)}")
