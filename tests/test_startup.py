"""A process imports what it uses, and nothing before that. Modules are counted, whose number no machine changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.started import OURS, OURS_WITH_TOOL, SHELL, Started, started

Start = Callable[..., Started]

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
#: Of these neither a check nor an ordinary call has any use, where a project declares no functions.
_LATE = {"channels", "daphne", "google", "grpc", "jsonschema", "mcp_types", "psycopg", "pydantic", "referencing"}
#: The most modules beside those of Django with its admin. In November 2026 there were 70, 476, 463 and 570.
_MOST = {"shell": 120, "check": 485, "wsgi": 475, "asgi": 595}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Starts a project whose tables are there."""
    database = tmp_path_factory.mktemp("startup") / "db.sqlite3"
    started("migrate", "--verbosity=0", server=OURS, database=database)
    return lambda *command, server=OURS: started(*command, server=server, database=database)


def _packages(modules: frozenset[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_a_command_that_serves_nothing_imports_little(start: Start) -> None:
    added = start(*SHELL).modules - start(*SHELL, server="").modules

    assert not _HEAVY & _packages(added)
    assert "mcp_django.bridge.sites" not in added
    assert len(added) <= _MOST["shell"], sorted(added)


@pytest.mark.parametrize("command", ["check", "wsgi", "asgi"])
def test_a_check_and_a_first_call_import_no_more_than_they_use(start: Start, command: str) -> None:
    added = start(command).modules - start(command, server="").modules

    assert len(added) <= _MOST[command], sorted(added)
    # Under ASGI nothing may come late, since it would hold up the loop.
    assert command == "asgi" or not _LATE & _packages(added)


def test_a_function_tool_brings_pydantic_and_no_jsonschema(start: Start) -> None:
    packages = _packages(start("wsgi", server=OURS_WITH_TOOL).modules)

    assert "pydantic" in packages
    assert not {"jsonschema", "mcp_types"} & packages


def test_a_wsgi_file_that_imports_the_urls_leaves_next_to_nothing_for_the_first_call(start: Start) -> None:
    called, warm = start("wsgi").modules, start("warm").modules

    late = {name for name in called - warm if name.startswith("mcp_django.")}
    assert len(late) <= 10, sorted(late)


def test_an_asgi_server_leaves_nothing_for_the_first_call(start: Start) -> None:
    process = start("asgi", server=OURS_WITH_TOOL)

    # The page of Django's that is opened too has templates of its own.
    late = {name for name in process.modules - process.warm if not name.startswith(("django.", "encodings."))}
    assert late <= {"mcp_django.templatetags", "mcp_django.templatetags.mcp_console"}
