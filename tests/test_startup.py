"""A command that serves nothing imports no more than models, registrations and signals."""

from __future__ import annotations

from tests.support.started import COMMANDS, started

#: Of these a command that serves nothing has no use, nor of most of our own packages.
_HEAVY = {
    "channels",
    "daphne",
    "gevent",
    "grpc",
    "jsonschema",
    "psycopg",
    "pydantic",
    "pydantic_core",
    "rest_framework",
}
#: Modules beside those of Django with its admin. There were 69 in November 2026.
_MOST = 120


def test_a_command_that_serves_nothing_imports_little() -> None:
    command = COMMANDS["a command that serves nothing"]

    added = started(command, ours=True).modules - started(command, ours=False).modules

    assert not _HEAVY & {name.partition(".")[0] for name in added}
    assert "mcp_django.bridge.sites" not in added
    assert len(added) <= _MOST, sorted(added)


def test_a_wsgi_file_that_imports_the_urls_leaves_next_to_nothing_for_the_first_call() -> None:
    called, warm = (started([command], ours=True).modules for command in ("wsgi", "warm"))

    late = {name for name in called - warm if name.startswith("mcp_django.")}
    assert len(late) <= 10, sorted(late)
