"""What the admin says to its user, without the texts of rows, which may hold what an agent must not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from html import unescape
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.db import models
from django.utils.html import strip_tags

from mcp_django.bridge.tools.action_responses import read_messages
from mcp_django.bridge.writes.pages import Refused
from mcp_django.core.hooks import call_hook
from mcp_django.exceptions import ToolError

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.exchange.requests import MCPRequest

#: A row's text of this many characters or more is found within words too.
_LONG = 4


def names_of(label: str, objects: Iterable[models.Model]) -> dict[str, str]:
    """The texts of rows, each with the words that stand for it. A text that is HTML is in messages without its tags."""
    texts = {call_hook(partial(str, one), "", type(one), "__str__"): f"{label} {one.pk}" for one in objects}
    plain = {unescape(strip_tags(text)): words for text, words in texts.items()}
    # From Django 6.1 on, the admin leaves out spaces at the ends.
    return {**texts, **plain, **{text.strip(): words for text, words in {**texts, **plain}.items()}}


def said_by(request: MCPRequest, names: Mapping[str, str]) -> list[str]:
    """The messages of a request, in which rows are named by their model and key."""
    lines, _ = read_messages(request)
    texts = sorted(filter(None, names), key=len, reverse=True)
    if not texts:
        return lines
    # A short text may be a part of any word.
    parts = (rf"(?<!\w){re.escape(text)}(?!\w)" if len(text) < _LONG else re.escape(text) for text in texts)
    named = re.compile("|".join(parts))
    return [named.sub(lambda found: names[found[0]], line) for line in lines]


@contextmanager
def refusals(rights: ModelRights, keys: Iterable[Any]) -> Iterator[None]:
    """Turns what the admin answers in the place of its form into a ToolError."""
    try:
        yield
    except PermissionDenied:
        raise ToolError("You may not do this. Nothing was changed.") from None
    except Refused as error:
        found = rights.model._base_manager.filter(pk__in=[key for key in keys if key is not None])
        said = said_by(error.request, names_of(rights.label, found))
        text = " ".join(["The admin does not show its form for this.", *said, "Nothing was changed."])
        raise ToolError(text) from None
