"""The pages of the clients have what ``mcp_connect`` prints, the same headings, and say what was tried."""

from __future__ import annotations

import re

from tests.documentation.client_pages import HEADINGS, WITHOUT_PAGE, WITHOUT_SETUP, pages, printed
from tests.support.pages import cells

#: The page of a client that has none of its own name.
_ON = {"claude-code": "claude", "claude-desktop": "claude"}


def test_each_page_has_what_mcp_connect_prints_for_its_clients() -> None:
    texts = {key: texts for key, texts in printed().items() if key not in WITHOUT_PAGE}

    missing = [
        (key, text)
        for key, found in texts.items()
        for text in found
        if "\n".join(line.strip() for line in text.splitlines())
        not in "\n".join(line.strip() for line in pages()[_ON.get(key, key)].splitlines())
    ]

    assert missing == []
    assert {_ON.get(key, key) for key in texts} == pages().keys() - {*WITHOUT_SETUP}


def test_each_page_has_the_same_headings_and_names_the_day_of_its_sources() -> None:
    for name, text in pages().items():
        if name != "overview":
            assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS, name
            assert re.search(r"Seen on \d{4}-\d\d-\d\d: https://", text), name


def test_the_table_leads_to_each_page() -> None:
    linked = {link for row in cells("docs/clients/overview.md") for link in re.findall(r"\((\S+)\.md\)", row[0])}

    assert linked == pages().keys() - {"overview"}
