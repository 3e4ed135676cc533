"""What the pages say of settings, commands and methods is what the code says."""

from __future__ import annotations

import re

import pytest

from tests.documentation.generated import COMMANDS, PARTS, TRANSPORTS, generate
from tests.support.pages import PAGES, ROOT


@pytest.mark.parametrize("page", PAGES)
def test_the_generated_parts_are_of_today(page: str) -> None:
    """If this fails, run ``python -m tests.documentation``."""
    assert generate(PAGES[page]) == PAGES[page]


def test_each_part_stands_on_one_page() -> None:
    marks = [mark for text in PAGES.values() for mark in re.findall(r"<!-- generated: (\w+) -->", text)]

    assert sorted(marks) == sorted(PARTS)


def test_an_old_table_is_written_anew() -> None:
    page = PAGES["docs/protocol.md"]

    assert generate(page.replace("| `ping`", "| `pong`")) == page


def test_every_command_is_described() -> None:
    found = {path.stem for path in (ROOT / "mcp_django").glob("**/management/commands/mcp_*.py")}

    assert {name for names in COMMANDS.values() for name in names} == found


def test_every_letter_is_one_transport() -> None:
    assert len({transport.letter for transport in TRANSPORTS}) == len(TRANSPORTS)
