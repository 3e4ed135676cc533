"""The rooms of the package, and what each may import. ``lint-imports`` checks the floors themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_django

ROOT = Path(mcp_django.__file__).parent

#: File → our modules that it imports by a name in a text, which no import contract sees. The first are the names that a
#: project imports from ``mcp_django``, whose modules stand above.
NAMED_IN_TEXT = {
    "__init__.py": {
        "mcp_django.push",
        "mcp_django.exchange.questions",
        "mcp_django.exchange.requests",
        "mcp_django.options.model_mcp",
        "mcp_django.prompts.messages",
        "mcp_django.push.bulk",
        "mcp_django.routing",
        "mcp_django.sites",
        "mcp_django.tools.actions",
    },
    # The name of the group in the channel layer.
    "events/bus.py": {"mcp_django.events"},
    # The path of an authentication class is a setting of the project's.
    "conf.py": {"mcp_django.access.authentication.TokenAuthentication"},
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


def test_the_protocol_is_spoken_without_django_being_set_up() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_DJANGO], cwd=ROOT.parent, check=True, timeout=60)


@pytest.mark.parametrize("package", _packages(), ids=lambda path: path.parent.relative_to(ROOT.parent).as_posix())
def test_a_package_says_what_it_is(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse(package.read_text()))

    if package.read_text():
        assert docstring is not None
        assert docstring.partition("\n")[0].endswith(".")


def test_modules_that_only_a_text_names_are_listed() -> None:
    found = {path.relative_to(ROOT).as_posix(): _texts(path) for path in ROOT.rglob("*.py")}

    # Salts of signatures, names of channels and of settings look like modules and import nothing.
    assert {name: texts for name, texts in found.items() if texts and _imports_by_name(ROOT / name)} == NAMED_IN_TEXT


def _imports_by_name(path: Path) -> bool:
    text = path.read_text()
    return path.name == "conf.py" or any(word in text for word in ("import_module(", "import_string(", "__getattr__("))
