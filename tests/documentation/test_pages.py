"""The documentation is complete: its tables agree with the code, and its links lead somewhere."""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

import mcp_django
from mcp_django import ModelMCP
from mcp_django.conf import Conf
from mcp_django.exchange.scopes import SCOPES, SINGLE_SCOPES
from tests.support.pages import PAGES, ROOT, anchors, blocks, cells, links, prose

PACKAGE = ROOT / "mcp_django"


def names_in(page: str, heading: str = "") -> list[str]:
    """The names in the first column of a table."""
    return [name for row in cells(page, heading) for name in re.findall(r"`([^`]+)`", row[0])]


def test_a_default_in_the_table_is_that_of_the_code() -> None:
    rows = [(key.strip("`"), ast.literal_eval(default.strip("`"))) for key, default, _ in cells("docs/settings.md")]

    declared = {field.name: getattr(Conf(), field.name) for field in dataclasses.fields(Conf)}

    assert [key for key, _ in rows] == list(declared)
    assert {key: tuple(value) if isinstance(value, list) else value for key, value in rows} == declared


def test_the_first_settings_are_twenty_five() -> None:
    first = PAGES["docs/settings.md"].partition("\n## Limits, and the other settings\n")[0]

    assert len(re.findall(r"^\| `", first, re.MULTILINE)) == 25


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


def test_nothing_else_is_said_to_be_in_the_interface() -> None:
    assert sorted(names_in("docs/reference-imports.md", "## `mcp_django`")) == sorted(mcp_django.__all__)


def test_no_page_names_a_setting_or_command_that_does_not_exist() -> None:
    settings = {field.name for field in dataclasses.fields(Conf)}
    commands = {path.stem for path in PACKAGE.glob("**/management/commands/mcp_*.py")}

    for page, text in PAGES.items():
        keys = re.findall(r"MCP(?: = \{|\[)\"([A-Z_]+)\"", text)
        assert set(keys) <= settings, page
        assert set(re.findall(r"manage\.py (mcp_\w+)", text)) <= commands, page


def test_the_menu_of_the_site_is_the_table_of_the_first_page() -> None:
    pages = {Path(page).name for page in PAGES if page.startswith("docs/")}
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    menu = [
        page for entry in nav for found in entry.values() for page in ([found] if isinstance(found, str) else found)
    ]

    listed = [re.findall(r"\((.+)\)", row[0])[0] for row in cells("docs/README.md")]

    assert menu == ["README.md", *listed]
    assert sorted(menu) == sorted(pages)


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 200


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_a_page_is_read_in_ten_minutes(page: str) -> None:
    """Adults read some 238 words of English prose in a minute (Brysbaert 2019, doi:10.1016/j.jml.2019.104047)."""
    assert len(prose(page).split()) <= 2380


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
