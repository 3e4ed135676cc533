"""How changes reach other processes, and what the databases must have for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.core import mail
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router

from mcp_django.bridge.sites import all_sites
from mcp_django.checks.settings import problem_of_admin_site
from mcp_django.conf import unknown_keys
from mcp_django.core.events.bus import CORE, PUBSUB, ChannelLayerBus, LocalBus, configured_bus

#: App → the second and the last of its migrations from before the first release, which brought one for each app.
_BEFORE_RELEASE = {
    "mcp_django": ("0002_audit", "0024_operations_of_apis"),
    "mcp_django_oauth": ("0002_client_without_last_use", "0004_lent"),
}
#: A commit that has them.
_COMMIT_BEFORE_RELEASE = "f2a54bdf7d08"


def check_bus(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check how changes reach other processes."""
    if unknown_keys(getattr(settings, "MCP", {})) or problem_of_admin_site() is not None:
        return []
    try:
        bus = configured_bus()
    except ImproperlyConfigured:
        return []  # check_settings reports it.
    is_watched = any(model.watch for site in all_sites() for model in site.models.values())
    if is_watched and isinstance(bus, ChannelLayerBus) and bus.layer == CORE:
        return [
            Warning(
                f"Changes go from process to process through {CORE}, which drops messages above its capacity: "
                "subscribers then learn of the change only some time later.",
                hint='Add a layer for these changes: CHANNEL_LAYERS["mcp"] with the same hosts and '
                f"{PUBSUB}, which has no capacity.",
                id="mcp_django.W012",
            )
        ]
    reason = _several_processes() if isinstance(bus, LocalBus) else None
    if reason is None:
        return []
    return [
        Warning(
            f"Changes are pushed only within one process, and {reason}: a client that listens to one process does not "
            "learn what is saved in another, nor which tools are switched on or off there.",
            hint=f"Name Redis in CHANNEL_LAYERS ({PUBSUB}), or a NATS server or PostgreSQL in MCP['BUS']. If one "
            "process serves the site and nothing else saves, add 'mcp_django.W011' to SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W011",
        )
    ]


def _several_processes() -> str | None:
    """Why more than one process probably serves the project and pushes its changes, or None if only one does."""
    if getattr(settings, "ASGI_APPLICATION", None) is None:
        return None  # Under WSGI nothing is pushed.
    workers = os.environ.get("WEB_CONCURRENCY", "")
    if workers.isdigit() and int(workers) > 1:
        return f"WEB_CONCURRENCY is {workers}"
    # In a test run DEBUG is off, whatever the project's settings say.
    return None if settings.DEBUG or hasattr(mail, "outbox") else "DEBUG is off"


def check_databases(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check what only the database itself knows. ``check --database`` and ``migrate`` run this."""
    found: list[CheckMessage] = []
    for alias in databases or ():
        found += [*_check_time_zones(alias), *_check_migrations(alias)]
    return [*found, *_check_triggers(databases or ())]


def _check_time_zones(alias: str) -> Iterator[CheckMessage]:
    if connections[alias].vendor != "mysql" or not settings.USE_TZ:
        return
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT CONVERT_TZ('2013-01-01', 'UTC', %s)", [settings.TIME_ZONE])
        if cursor.fetchone() == (None,):
            yield Warning(
                f"The database {alias!r} has no time zone tables: filters by parts of a datetime find nothing.",
                hint="Load them: mariadb-tzinfo-to-sql /usr/share/zoneinfo | mariadb mysql",
                id="mcp_django.W003",
            )


def _check_migrations(alias: str) -> Iterator[CheckMessage]:
    """Check that a database from before the first release has all of its tables.

    ``0001_initial`` is applied there, which makes them all today, so ``migrate`` would find nothing to do.
    """
    from django.db.migrations.recorder import MigrationRecorder

    connection = connections[alias]
    every = MigrationRecorder(connection).applied_migrations()
    for app, (second, last) in _BEFORE_RELEASE.items():
        applied = {name for of, name in every if of == app}
        is_first = applied == {"0001_initial"}
        absent = _first_tables(app, alias).difference(connection.introspection.table_names()) if is_first else ()
        if absent or (second in applied and last not in applied):
            yield Error(
                f"The database {alias!r} has some of the migrations of {app} from before its release, and not all.",
                hint=(
                    f"Install the commit {_COMMIT_BEFORE_RELEASE} of the repository, migrate to {last}, and install "
                    "this version then."
                ),
                id="mcp_django.E034",
            )


def _first_tables(app: str, alias: str) -> set[str]:
    """The tables that ``0001_initial`` makes in the database: none for an app that is absent or lives elsewhere."""
    if app not in apps.app_configs:
        return set()
    from django.db.migrations.operations import CreateModel

    first = import_module(f"{apps.get_app_config(app).name}.migrations.0001_initial").Migration
    made = [one for one in first.operations if isinstance(one, CreateModel)]
    made = [one for one in made if router.allow_migrate(alias, app, model_name=one.name_lower)]
    return {one.options.get("db_table", f"{app}_{one.name_lower}") for one in made}


def _check_triggers(databases: Sequence[str]) -> Iterator[CheckMessage]:
    """Check that the installed triggers report changes of every model that is watched now."""
    try:
        database = configured_bus().database
    except ImproperlyConfigured:
        return  # check_settings reports it.
    if database is None or database not in databases:
        return
    from mcp_django.push import triggers  # Needs psycopg.

    state = triggers.state(connections[database])
    if state.is_installed and state.problems:
        yield Warning(
            f"The triggers of the database {database!r} are out of date. {' '.join(state.problems)}",
            hint="Make them again: manage.py mcp_triggers --install",
            id="mcp_django.W010",
        )
