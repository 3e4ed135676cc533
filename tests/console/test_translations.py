"""Whatever a person reads on a page of the console can be translated, unless data or a program says it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.utils import translation
from django.utils.text import capfirst

from mcp_django import site
from mcp_django.console.review import inventory
from mcp_django.exchange.scopes import SCOPES
from mcp_django.models import Tool
from tests.console.test_rights import MARK, things  # noqa: F401 - a fixture
from tests.console.visiting import client_of
from tests.oauth.test_flow import Texts
from tests.support.console import pages
from tests.support.data import Users

pytestmark = pytest.mark.usefixtures("transactional_db")

#: Numbers, moments, ends of tokens, keys, and signs for nothing.
_NO_WORDS = re.compile(rf"[-\d.: ]*|({MARK} )?…\w{{4}}|a{{22}}|None")


def test_every_text_of_the_console_can_be_translated(
    users: Users,
    things: dict[Any, Any],  # noqa: F811 - a fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marked = {"gettext": lambda text: f"«{text}»", "pgettext": lambda _, text: f"«{text}»"}
    marked["ngettext"] = lambda one, many, count: f"«{one if count == 1 else many}»"  # type: ignore[assignment,misc]
    client = client_of(users.admin)
    urls = [url for _, url in pages(admin.site, {model: row.pk for model, row in things.items()})]
    said = said_by_programs()
    for name, function in marked.items():
        monkeypatch.setattr(translation._trans, name, function)  # type: ignore[attr-defined]
    found: dict[str, set[str]] = {}
    for url in urls:
        answer = client.get(url)
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            page = answer.content.decode()
            read = {text.strip() for text in Texts(page[page.index('<div id="content') :]).found}
            plain = {text for text in read - said if "«" not in text and not _NO_WORDS.fullmatch(text)}
            found |= {url: plain} if plain else {}

    assert len(urls) > 25
    assert found == {}


def said_by_programs() -> set[str]:
    """Names, rows of the test, what agents read, and the inventory, which is compared with one of another day."""
    built = inventory.build(site, None, SCOPES)
    tools = [*site.tools.values()]
    said = {
        MARK,
        "nightly",
        f"{MARK}.it",
        f"{MARK}_query",
        "mcp",
        "http://testserver/mcp",
        "old-client",
        "{}",
        "filter.tailnum",
        *SCOPES,
    }
    said |= {*User.objects.values_list("username", flat=True), *Group.objects.values_list("name", flat=True)}
    said |= {*built["models"], *(tool.name for tool in tools), *site.prompts}
    said |= {f"{tool.name} {tool.get_title()}" for tool in tools} | {f"{MARK}_query {MARK.title()} query"}
    said |= {str(capfirst(one.model._meta.verbose_name_plural)) for one in site.models.values()}
    said |= {tool.get_description(None) for tool in tools}
    said |= {tool.get_description(None).strip() for tool in tools}
    said |= {prompt.get_description() for prompt in site.prompts.values()}
    said |= {f"{name}: {why}" for name, why in inventory.unexposed(site).items()}
    query = Tool.objects.get(name=f"{MARK}_query").query
    return said | {json.dumps(json.loads(query), indent=2), "next_cursor of the page before; all else unchanged."}
