"""The pages about the architecture are true: the list is the import contract, and the files and names exist."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

from tests.support.pages import PAGES, ROOT, blocks, cells

PAGE = "docs/architecture.md"
WALKS_PAGE = "docs/walks.md"
PACKAGE = ROOT / "mcp_django"

_FILE = re.compile(r"`((?:[\w.]+/)*[\w.]+\.(?:py|md|toml)|(?:[\w.]+/)+)`")
_NAME = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)`")


def layers(container: str = "mcp_django") -> list[str]:
    """The floors of the import contract of a package, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [found] = [contract["layers"] for contract in contracts if contract.get("containers") == [container]]
    return list(found)


def packages(container: str = "mcp_django") -> list[str]:
    return [package for layer in layers(container) for package in re.split(r" [:|] ", layer)]


def steps(walk: str) -> list[str]:
    section = PAGES[WALKS_PAGE].partition(f"\n## {walk}\n")[2].partition("\n#")[0]
    return re.findall(r"^\d+\. (.+)$", section, re.MULTILINE)


WALKS = re.findall(r"^## (.+)$", PAGES[WALKS_PAGE], re.MULTILINE)
CHANGES = [" ".join(row[1:]) for row in cells(PAGE, "## Where to change what")]
ITEMS = [step for walk in WALKS for step in steps(walk)] + CHANGES


def path_of(file: str) -> Path:
    """Files of the package are named without its folder, others from the root of the project."""
    return ROOT / file if file.startswith(("tests/", "docs/", "pyproject")) else PACKAGE / file


@cache
def defined_in(path: Path) -> frozenset[str]:
    """The names that a module defines, and those of its classes as ``Class.name``."""
    return frozenset(_names(ast.parse(path.read_text()).body, ""))


def _names(body: list[ast.stmt], prefix: str) -> set[str]:
    found: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(prefix + name)
            case ast.ClassDef(name=name):
                found.add(prefix + name)
                found |= _names(node.body, f"{prefix}{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(prefix + name)
    return found


def test_the_list_and_the_tables_of_the_packages_are_the_import_contracts() -> None:
    _, listed = blocks(PAGE, "text")

    assert listed.splitlines() == layers()
    assert [name.strip("`") for name, _ in cells(PAGE, "## The packages")] == packages()
    assert [name.strip("`") for name, _ in cells(PAGE, "### Within the bridge")] == packages("mcp_django.bridge")


def test_the_package_can_be_held_in_the_head() -> None:
    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file()]
    entries = {path.parts[0] for path in files if "__pycache__" not in path.parts}

    assert len(entries) <= 30
    assert len(layers()) <= 14


def test_every_file_on_the_pages_exists() -> None:
    prose = PAGES[WALKS_PAGE] + PAGES[PAGE].partition("\n## Where to change what\n")[2]

    files = _FILE.findall(prose)

    assert len(files) > 50
    assert [file for file in files if not path_of(file).exists()] == []


def test_every_test_that_a_page_names_exists() -> None:
    named = {file for page in PAGES.values() for file in re.findall(r"\btests/[\w/]+\.py\b", page)}

    assert len(named) > 40
    assert [file for file in sorted(named) if not (ROOT / file).exists()] == []


def test_every_name_is_defined_in_a_file_beside_it() -> None:
    missing = {}
    for item in ITEMS:
        names = {name for name in _NAME.findall(item) if not name.endswith((".py", ".md"))}
        modules = [path_of(file) for file in _FILE.findall(item) if file.endswith(".py")]
        missing[item] = names - frozenset[str]().union(*map(defined_in, modules))

    assert len(ITEMS) > 40
    assert {item: names for item, names in missing.items() if names} == {}
