"""The names that a project imports: each exists and is documented, and no example imports anything else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path

import pytest

import mcp_django
from mcp_django import buses, content, exceptions, test

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/reference-imports.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
#: Each public module, and its public names.
PUBLIC: dict[str, list[str]] = {
    "mcp_django": mcp_django.__all__,
    "mcp_django.admin": ["AccessTokenAdmin", "CallAdmin", "PromptAdmin", "ToolAdmin", "register"],
    "mcp_django.audit.logs": ["JSONFormatter"],
    "mcp_django.audit.signals": ["call_recorded"],
    "mcp_django.buses": buses.__all__,
    "mcp_django.console.pages.connecting": ["client_setups"],
    "mcp_django.console.pages.project_name": ["server_name", "title_of"],
    "mcp_django.content": content.__all__,
    "mcp_django.exceptions": exceptions.__all__,
    "mcp_django.models": ["AccessToken", "Call", "Prompt", "Tool", "change_waits"],
    "mcp_django.routing": ["get_asgi_application"],
    "mcp_django.server.due": ["due"],
    "mcp_django.test": test.__all__,
    "mcp_django.urls": [],
}
#: What the demo's boards need beside: they show what another user sees, which no project should do.
OF_THE_BOARDS = {
    "mcp_django.access.tickets",
    "mcp_django.access.trail.acting",
    "mcp_django.exchange.principals.Principal",
    "mcp_django.core.web_pages.guarded",
}


def section(module: str) -> str:
    """The section of the page about a module."""
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    [found] = [text for text in sections if f"`{module}`" in text.partition("\n")[0]]
    return found


def named(text: str) -> set[str]:
    """The names that stand in backticks, alone or with arguments."""
    return set(re.findall(r"`([A-Za-z_]+)(?:\([^`]*\))?`", text))


def imports(text: str) -> Iterator[tuple[str, str]]:
    """The imports from our modules in the examples of a page, as module and name."""
    for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # An example writes "..." for omitted code.
        for node in ast.walk(ast.parse(block.replace("{...,", "{"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mcp_django":
                yield from ((str(node.module), alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((item.name, "") for item in node.names if item.name.partition(".")[0] == "mcp_django")
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "mcp_django":
                yield "mcp_django", node.attr


def in_table(section: str) -> set[str]:
    """The names in the first column of the table of a section."""
    lines = section.rpartition("| Name |")[2].splitlines()[2:]
    return set().union(*(named(line.split("|")[1]) for line in lines if line.startswith("|")))


def test_every_public_name_is_there_and_documented_and_the_tables_hold_no_other() -> None:
    for module, names in PUBLIC.items():
        loaded = import_module(module)
        assert [name for name in names if not hasattr(loaded, name)] == []
        assert set(names) <= named(section(module))
    for module in ("mcp_django", "mcp_django.exceptions"):
        assert in_table(section(module)) == set(PUBLIC[module])


def test_request_mcp_has_every_name_of_its_table() -> None:
    from mcp_django.exchange.exchange import Exchange

    names = in_table(PAGE.partition("\n## The request\n")[2].partition("\n## ")[0])

    assert {"principal", "elicit", "progress", "cancelled"} <= names
    assert not [name for name in names if not hasattr(Exchange, name)]


def test_the_examples_and_the_demo_import_public_names_only() -> None:
    texts = {page: page.read_text() for page in PAGES}
    texts |= {file: f"```python\n{file.read_text()}\n```" for file in (ROOT / "demo_project").rglob("*.py")}

    for file, text in texts.items():
        for module, name in imports(text):
            if file in PAGES or f"{module}.{name}" not in OF_THE_BOARDS:
                assert module in PUBLIC, (file, module, name)
                assert not name or name in PUBLIC[module], (file, module, name)


def test_the_version_is_that_of_the_installed_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(mcp_django), "__version__", raising=False)
    monkeypatch.setattr(metadata, "version", {"django-admin-mcp-server": "1.2.3"}.__getitem__)

    assert mcp_django.__version__ == "1.2.3"


def test_a_checkout_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.delitem(vars(mcp_django), "__version__", raising=False)
    monkeypatch.setattr(metadata, "version", not_found)

    assert mcp_django.__version__ == "0+source"
