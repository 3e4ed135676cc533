"""The documentation is complete: its tables agree with the code, and its links lead somewhere."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

from mcp_django import ModelMCP
from mcp_django.conf import Conf
from mcp_django.exchange.scopes import SCOPES, SINGLE_SCOPES
from tests.support.pages import PAGES, ROOT, anchors, cells, links

PACKAGE = ROOT / "mcp_django"
SETTINGS = [field.name for field in dataclasses.fields(Conf)]


def names_in(page: str, heading: str = "") -> list[str]:
    """The names in the first column of a table."""
    return [name for row in cells(page, heading) for name in re.findall(r"`([^`]+)`", row[0])]


def test_every_setting_scope_check_and_option_stands_once_on_its_page() -> None:
    source = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    options = {name for name in ModelMCP.__annotations__ if not name.startswith("_")}

    assert names_in("docs/settings.md") == SETTINGS
    assert [row[0].strip("`") for row in cells("docs/access.md", "## Scopes")] == [*SCOPES, *SINGLE_SCOPES]
    assert names_in("docs/checks.md") == sorted(set(re.findall(r'"(mcp_django\.[EW]\d{3})"', source)))
    assert sorted(names_in("docs/models.md", "## ModelMCP")) == sorted(options)


def test_no_page_names_a_setting_or_command_that_does_not_exist() -> None:
    commands = {path.stem for path in PACKAGE.glob("**/management/commands/mcp_*.py")}

    for page, text in PAGES.items():
        keys = re.findall(r"MCP(?: = \{|\[)\"([A-Z_]+)\"", text)
        assert set(keys) <= set(SETTINGS), page
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


def test_every_link_leads_somewhere() -> None:
    found = [(page, link) for page in PAGES for link in links(page)]

    for page, link in found:
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
        assert target.exists(), (page, link)
        assert not anchor or anchor in anchors(str(target.relative_to(ROOT))), (page, link)
