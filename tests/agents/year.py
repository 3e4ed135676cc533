"""The database of a whole year of flights, made once and kept."""

from __future__ import annotations

from typing import Any

import psycopg
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

from demo_project.flights.management.commands.demo import ACTIONS, create_users, switch_on_tools
from mcp_django.models import AccessToken
from tests.support.data import token_of

_TOKEN = "make agents"


def set_up() -> None:
    """Load what is not there yet. Raises psycopg.OperationalError if no server listens."""
    if connection.vendor == "postgresql":
        _create_database(connection.settings_dict)
    call_command("migrate", verbosity=0)
    call_command("load_flights", "--rows=all")
    switch_on_tools(*ACTIONS, "update_record", "delete_record")
    create_users()
    if connection.vendor == "postgresql":
        # As the server does by itself, but it may not have come to it yet.
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def tokens() -> dict[str, str]:
    """A new token for each of the demo's users. Those of the run before are deleted."""
    AccessToken.objects.filter(name=_TOKEN).delete()
    return {user.username: token_of(user, "read", "actions", "write", name=_TOKEN) for user in User.objects.all()}


def _create_database(wanted: dict[str, Any]) -> None:
    name = wanted["NAME"]
    server = psycopg.connect(host=wanted["HOST"], user=wanted["USER"], dbname="postgres", autocommit=True)
    with server, server.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if cursor.fetchone() is None:
            cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(name)}".encode())
