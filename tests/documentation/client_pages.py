"""What the pages of the clients show: what our pages print for each client, and commands that start the server."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from itertools import pairwise
from typing import Any

from django.core.management import load_command_class

from mcp_django.console.pages.connecting import client_setups
from tests.support.pages import PAGES

FOLDER = "docs/clients/"
#: The five headings that each page has.
HEADINGS = ["Connect with a login", "Connect with a token", "Over stdio", "What it shows", "What we have tried"]
#: Pages of what ``mcp_connect`` prints nothing for, and the one that leads to the others.
WITHOUT_SETUP = ("overview", "inspector", "sdks", "frameworks")
#: What it prints, and no page is about.
WITHOUT_PAGE = ("windsurf", "curl")


def pages() -> dict[str, str]:
    """The pages by the names of their files."""
    return {
        page.removeprefix(FOLDER).removesuffix(".md"): text for page, text in PAGES.items() if page.startswith(FOLDER)
    }


@cache
def printed() -> dict[str, set[str]]:
    """The key of each client → what is pasted for it, with a login and with a token."""
    found: dict[str, set[str]] = {}
    for logs_in in (True, False):
        for setup in client_setups("https://example.com/mcp", "shop", logs_in=logs_in):
            found.setdefault(setup.key, set()).add(setup.plain_text())
    return found


def is_printed(text: str) -> bool:
    return any(text.rstrip("\n") in texts for texts in printed().values())


def starts_server(text: str) -> bool:
    """Whether it starts ``mcp_stdio`` with arguments that this command has."""
    words = _words(json.loads(text)) if text.startswith("{") else shlex.split(re.sub(r'"(,? ?)', r"\1", text))
    words = [word.strip("[],") for word in words]
    if "mcp_stdio" not in words:
        return False
    given = [word for word in words[words.index("mcp_stdio") + 1 :] if word != "--"]
    pairs = [[name, value] for name, value in pairwise(given) if name in ("--user", "--scopes")]
    parser = load_command_class("mcp_django", "mcp_stdio").create_parser("manage.py", "mcp_stdio")
    parser.parse_args([word for pair in pairs for word in pair])
    return bool(pairs)


def _words(value: Any) -> list[str]:
    """The texts of a list anywhere in a JSON value."""
    if isinstance(value, list):
        return [one for one in value if isinstance(one, str)]
    return [word for one in value.values() for word in _words(one)] if isinstance(value, dict) else []
