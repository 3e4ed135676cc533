"""The documentation is complete: its tables agree with the code, and its links lead somewhere."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

import mcp_django
from mcp_django import ModelMCP
from mcp_django.conf import Conf
from mcp_django.exchange.scopes import SCOPES, SINGLE_SCOPES
from tests.support.pages import PAGES, ROOT, anchors, blocks, cells, links

PACKAGE = ROOT / "mcp_django"


def names_in(page: str, heading: str = "") -> list[str]:
    """The names in the first column of a table."""
    return [name for row in cells(page, heading) for name in re.findall(r"`([^`]+)`", row[0])]


def test_every_setting_stands_once_on_its_page_with_its_default() -> None:
    rows = [(key.strip("`"), ast.literal_eval(default.strip("`"))) for key, default, _ in cells("docs/settings.md")]

    declared = {field.name: getattr(Conf(), field.name) for field in dataclasses.fields(Conf)}

    assert [key for key, _ in rows] == list(declared)
    assert {key: tuple(value) if isinstance(value, list) else value for key, value in rows} == declared


def test_every_setting_is_said_to_do_something() -> None:
    for key, _, meaning in cells("docs/settings.md"):
        assert len(meaning) > 10, key


def test_every_scope_stands_in_the_table() -> None:
    assert [row[0].strip("`") for row in cells("docs/access.md", "## Scopes")] == [*SCOPES, *SINGLE_SCOPES]


def test_every_check_stands_once_on_its_page() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))

    declared = set(re.findall(r'"(mcp_django\.[EW]\d{3})"', source))

    assert names_in("docs/checks.md") == sorted(declared)


def test_every_option_of_a_model_stands_once_in_the_table() -> None:
    options = {name for name in ModelMCP.__annotations__ if not name.startswith("_")}

    named = names_in("docs/models.md", "## ModelMCP")

    assert sorted(named) == sorted(options)


@pytest.mark.parametrize("name", mcp_django.__all__)
def test_every_name_that_a_project_imports_is_there_and_documented(name: str) -> None:
    assert hasattr(mcp_django, name)
    assert any(re.search(rf"\b{name}\b", text) for text in PAGES.values())


def test_every_command_is_documented() -> None:
    commands = [path.stem for path in PACKAGE.glob("management/commands/mcp_*.py")]

    assert commands
    for command in commands:
        assert any(command in text for text in PAGES.values()), command


def test_every_page_is_listed() -> None:
    pages = {Path(page).name for page in PAGES if page.startswith("docs/")} - {"README.md"}

    listed = [link for link in links("docs/README.md") if "/" not in link]

    assert sorted(listed) == sorted(pages)


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 250


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(str(target.relative_to(ROOT))), link


@pytest.mark.parametrize("page", PAGES)
def test_every_python_example_can_be_read(page: str) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)
