"""What the pages say of settings, commands and methods is what the code says."""

from __future__ import annotations

import re

from tests.documentation.generated import COMMANDS, PARTS, generate
from tests.support.pages import PAGES, ROOT


def test_the_generated_parts_are_of_today_and_each_stands_on_one_page() -> None:
    """If this fails, run ``python -m tests.documentation``."""
    marks = [mark for text in PAGES.values() for mark in re.findall(r"<!-- generated: (\w+) -->", text)]

    assert [page for page, text in PAGES.items() if generate(text) != text] == []
    assert sorted(marks) == sorted(PARTS)


def test_every_command_is_described() -> None:
    found = {path.stem for path in (ROOT / "mcp_django").glob("**/management/commands/*mcp*.py")}

    assert {name for names in COMMANDS.values() for name in names} == found
