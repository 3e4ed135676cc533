"""``manage.py startmcp``: a file of declarations that changes nothing before it is edited."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.apps import apps
from django.contrib import admin
from django.core.checks import ERROR, run_checks
from django.core.management import CommandError, call_command
from django.db import models

from demo_project.flights.admin import AirlineAdmin
from demo_project.flights.models import Airline
from mcp_django import ModelMCP, site
from mcp_django.console.review import inventory
from mcp_django.exchange.scopes import SCOPES
from mcp_django.management.starting import write
from tests.shop import models as shop
from tests.support.declared import Declared

#: Apps of many kinds: with an admin, with few models in it, with users and rights, without models.
APPS = ("flights", "shop", "auth", "messages")


def run(*arguments: Any) -> str:
    printed = StringIO()
    call_command("startmcp", *arguments, stdout=printed)
    return printed.getvalue()


def refused(*arguments: Any) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


@contextmanager
def imported(text: str) -> Iterator[dict[str, Any]]:
    """The names of a module of this text, whose registrations hold within the block."""
    before, functions = dict(site._declared), dict(site._functions)
    found: dict[str, Any] = {"__name__": "started"}
    try:
        exec(compile(text, "mcp.py", "exec"), found)
        yield found
    finally:
        site._declared, site._functions = before, functions
        site._forget()


def lock() -> Any:
    """What agents reach, without the names of the classes that say so."""
    found = inventory.lock(inventory.build(site, None, SCOPES))
    models = {label: {**model, "declared_by": None} for label, model in found["models"].items()}
    return {**found, "models": models}


def uncommented(text: str) -> str:
    """The file with every option that it suggests."""
    return re.sub(r'^    # (\w+ = (?:\[|\{|").*)$', r"    \1", text, flags=re.MULTILINE)


@pytest.mark.parametrize("label", APPS)
@pytest.mark.every_case
def test_the_file_changes_nothing_of_what_agents_reach_and_check_says_nothing_new(label: str, db: None) -> None:
    text = run(label, "--print")
    before, said = lock(), run_checks()

    with imported(text):
        assert lock() == before
        assert run_checks() == said


@pytest.mark.parametrize("label", APPS)
@pytest.mark.every_case
def test_every_suggestion_can_be_uncommented(label: str, db: None) -> None:
    text = run(label, "--print")
    said = [one for one in run_checks() if one.level >= ERROR]

    with imported(uncommented(text)) as found:
        classes = [one for one in found.values() if isinstance(one, type) and issubclass(one, ModelMCP)]
        assert [one for one in run_checks() if one.level >= ERROR] == said
        assert bool(classes) == ("@mcp_django.register" in re.sub("#.*", "", text))
        for cls in classes:
            assert cls.description and cls.writable == ["create"], cls


def test_a_commented_class_can_be_uncommented_too(db: None) -> None:
    text = run("shop", "--print")
    blocks = re.findall(r"^# (@mcp_django\.register\((\w+)\))\n# (class .*)\n# (    fields = .*)$", text, re.MULTILINE)

    # Other tests declare models of this app in functions, where nothing can be imported from.
    blocks = [block for block in blocks if hasattr(shop, block[1])]
    assert blocks
    for decorator, name, line, fields in blocks:
        source = f"import mcp_django\nfrom tests.shop.models import {name}\n{decorator}\n{line}\n{fields}\n"
        with imported(source) as found:
            label = f"shop.{name.lower()}"
            assert set(found[f"{name}MCP"].fields) <= set(lock()["models"][label]["fields"]), name


@pytest.mark.parametrize("label", APPS)
@pytest.mark.every_case
def test_the_file_passes_ruff_as_it_is_and_with_its_suggestions(label: str, tmp_path: Path) -> None:
    app, file = apps.get_app_config(label), tmp_path / "mcp.py"
    made = write(app, site)
    ways: list[tuple[str, list[str]]] = [
        (made, []),
        # Where its imports stand among others depends on where it is put.
        (write(app, site, is_inside=False), ["--ignore", "I001"]),
        # A ModelMCP has lists as a ModelAdmin has them.
        (uncommented(made), ["--ignore", "RUF012"]),
    ]
    for text, more in ways:
        file.write_text(text)
        for command in (["check", *more], ["format", "--check"]):
            ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", file]
            done = subprocess.run(ruff, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


def test_a_model_is_told_by_what_shows_it(db: None) -> None:
    flights, shop, auth = (run(label, "--print") for label in ("flights", "shop", "auth"))

    assert "from demo_project.flights.models import (\n    Airline,\n" in flights
    assert "    # Agents read: carrier, name, flights.\n" in flights
    assert "    # flights_flight_mark_cancelled, flights_flight_mark_on_time,\n" in flights
    assert "# Apikey is not shown: its primary key token looks like a secret;" in shop
    assert "# CheapProduct is not shown: it has no ModelAdmin. To show it:\n" in shop
    assert "# Permission is not shown: it holds users, or says what they may do." in auth
    assert "@mcp_django.register(Permission)" not in auth


def test_an_admin_that_is_registered_elsewhere_counts_and_an_own_registration_is_left_alone(
    db: None, declared: Declared
) -> None:
    class Elsewhere(AirlineAdmin):
        list_display = ["name"]
        search_fields: Any = []

    declared.admin(Airline, Elsewhere)
    text = run("flights", "--print")

    assert '    """airlines, as Elsewhere shows them."""\n' in text
    assert '    # search_fields = ["carrier", "name"]\n' in text or '    # search_fields = ["name"]\n' in text
    declared.model(Airline, fields=["carrier"])
    assert "# Airline is registered already, with AirlineMCP.\n" in run("flights", "--print")


def test_a_proxy_and_a_model_of_another_module_are_imported_from_where_they_are(db: None) -> None:
    text = run("shop", "--print")
    tree = ast.parse(text)
    imports = {
        alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    with imported(text) as found:
        for name in imports:
            model = found[name]
            assert issubclass(model, models.Model) and model._meta.app_label == "shop"
            assert admin.site.is_registered(model)


def test_what_the_project_calls_its_things_ends_no_text_and_no_line(db: None) -> None:
    hostile = 'x"""\nimport os\n# \\" \x1b[2J'
    named: Any = Airline._meta, apps.get_app_config("flights")

    with (
        patch.object(named[0], "verbose_name", hostile),
        patch.object(named[0], "verbose_name_plural", hostile),
        patch.object(named[1], "verbose_name", hostile),
    ):
        text = run("flights", "--print")

    assert "\nimport os" not in text and "\x1b" not in text
    for source in (text, uncommented(text)):
        imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)]
        assert [alias.name for node in imports for alias in node.names] == ["mcp_django"]


def test_an_app_is_found_by_its_label_and_by_its_path() -> None:
    by_label = run("flights", "--print")

    assert run("demo_project.flights", "--print") == by_label
    config = type(apps.get_app_config("flights"))
    assert run(f"{config.__module__}.{config.__qualname__}", "--print") == by_label
    assert "There is no installed app 'flihgts'. Did you mean flights?" in refused("flihgts")
    assert "Did you mean demo_project.flights?" in refused("demo_projct.flights")


def test_no_file_is_overwritten_and_none_written_into_a_package_of_others(tmp_path: Path) -> None:
    before = Path(apps.get_app_config("flights").path, "mcp.py").read_text()

    assert "exists already, and is left as it is" in refused("flights")
    assert "is an installed package" in refused("auth")
    assert "are never exposed" in refused("mcp_django")
    assert Path(apps.get_app_config("flights").path, "mcp.py").read_text() == before
    assert not Path(apps.get_app_config("auth").path, "mcp.py").exists()
    with patch.object(apps.get_app_config("messages"), "path", str(tmp_path)):
        assert "is written" in run("messages")
        (tmp_path / "mcp.py").unlink()
        (tmp_path / "mcp").mkdir()
        assert "exists already" in refused("messages")
    with patch.object(apps.get_app_config("messages"), "path", str(tmp_path / "absent")):
        assert "cannot be written: No such file" in refused("messages")


def test_nothing_is_left_of_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    with (
        patch.object(apps.get_app_config("messages"), "path", str(tmp_path)),
        patch("mcp_django.management.commands.startmcp.write", side_effect=RuntimeError),
        pytest.raises(RuntimeError),
    ):
        run("messages")

    assert list(tmp_path.iterdir()) == []
