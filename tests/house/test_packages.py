"""The packages below ``mcp_django``, and what each may import. ``lint-imports`` checks the floors themselves."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import mcp_django

ROOT = Path(mcp_django.__file__).parent

#: File → our modules that it imports by a name in a text, which no import contract sees. The first are the names that a
#: project imports from ``mcp_django``, whose modules stand above.
NAMED_IN_TEXT = {
    "__init__.py": {
        "mcp_django.push",
        "mcp_django.exchange.questions",
        "mcp_django.exchange.requests",
        "mcp_django.bridge.declared.project_hooks",
        "mcp_django.bridge.declared.consent",
        "mcp_django.bridge.declared.object_actions",
        "mcp_django.bridge.declared.options",
        "mcp_django.bridge.prompts.messages",
        "mcp_django.push.bulk",
        "mcp_django.routing",
        "mcp_django.bridge.decorators",
        "mcp_django.bridge.sites",
        "mcp_django.bridge.tools.actions",
    },
    # What a bus needs is imported where that bus is named.
    "buses.py": {"mcp_django.core.events.nats", "mcp_django.core.events.postgresql"},
    "core/events/bus.py": {"mcp_django.buses.NATSBus"},
    # Before the first message, which would wait for it.
    "routing.py": {
        "mcp_django.protocol.json_schema.validation",
        "mcp_django.push.presence",
        "mcp_django.server.readiness",
    },
    # The path of an authentication class is a setting of the project's.
    "conf.py": {"mcp_django.oauth", "mcp_django.access.authentication.TokenAuthentication"},
}

_WITHOUT_DJANGO = """
import importlib, pkgutil
import mcp_django.protocol
for module in pkgutil.walk_packages(mcp_django.protocol.__path__, "mcp_django.protocol."):
    importlib.import_module(module.name)

from django.apps import apps
from django.conf import settings
assert not settings.configured and not apps.ready

from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import MethodNotFound
from mcp_django.protocol.projection import project
from mcp_django.protocol.revisions import LEGACY

request = jsonrpc.parse(jsonrpc.decode(b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'))
assert request == jsonrpc.Request(id=1, method="tools/list", params={}), request
error = jsonrpc.error_message(1, MethodNotFound("tools/lists"), LEGACY)
assert error["error"]["code"] == -32601, error
tools = {"tools": [{"name": "t", "title": "T", "inputSchema": {"type": "object"}}]}
assert "title" not in project("tools/list", tools, "2024-11-05")["tools"][0]
"""


def _packages() -> list[Path]:
    return [path for path in ROOT.rglob("__init__.py") if "migrations" not in path.parts]


def _texts(path: Path) -> set[str]:
    """The texts in a file that name a module of ours, or something in one."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = node.value.split(".")
            if parts[0] == "mcp_django" and len(parts) > 1 and all(map(str.isidentifier, parts)):
                base = ROOT.joinpath(*parts[1:2])
                if base.is_dir() or base.with_suffix(".py").is_file():
                    found.add(node.value)
    return found


def test_a_command_does_not_load_the_shapes_of_messages() -> None:
    """They take a seventh of the time of every command in a project that has us installed."""
    code = """
import sys
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "check"])
print("mcp_types" in sys.modules)
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "demo_project.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT.parent, env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "False"


def test_the_protocol_is_spoken_without_django_being_set_up() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_DJANGO], cwd=ROOT.parent, check=True)


def test_a_package_says_what_it_is() -> None:
    said = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in _packages()}

    assert [path for path, docstring in said.items() if not docstring.partition("\n")[0].endswith(".")] == []


def test_a_package_says_truly_what_it_imports() -> None:
    below = {path.stem for path in ROOT.iterdir()}
    for name in [path.parent.name for path in _packages() if path.parent.parent == ROOT]:
        imported = set().union(*map(_imported, (ROOT / name).rglob("*.py"))) & below - {name}
        docstring = ast.get_docstring(ast.parse((ROOT / name / "__init__.py").read_text())) or ""
        [sentence] = re.findall(r"\b(?:It|They) imports?\b[^.]*\.", docstring)

        beyond, _, excepted = sentence.partition(" except ")
        named = set(re.findall(r"[a-z_]+", beyond)) & below

        assert named <= imported, name
        assert "packages below" in sentence or imported == named, name
        assert not set(re.findall(r"[a-z_]+", excepted)) & imported, name


def _imported(file: Path) -> set[str]:
    """Our packages that a file imports at run time."""
    tree = ast.parse(file.read_text())
    checked = (
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    left_out = {id(node) for block in checked for line in block.body for node in ast.walk(line)}
    return {
        package
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in left_out
        if node.module.split(".")[0] == "mcp_django"
        for package in (node.module.split(".")[1:2] or [name.name for name in node.names])
    }


def test_modules_that_only_a_text_names_are_listed() -> None:
    found = {path.relative_to(ROOT).as_posix(): _texts(path) for path in ROOT.rglob("*.py")}

    # Salts of signatures, names of channels and of settings look like modules and import nothing.
    assert {name: texts for name, texts in found.items() if texts and _imports_by_name(ROOT / name)} == NAMED_IN_TEXT


def _imports_by_name(path: Path) -> bool:
    text = path.read_text()
    return path.name == "conf.py" or any(word in text for word in ("import_module(", "import_string(", "__getattr__("))
