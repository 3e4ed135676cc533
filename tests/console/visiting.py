"""People who look at the pages of the console."""

from __future__ import annotations

import html
import re
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.test import Client

from mcp_django.audit.recorder import recorder
from mcp_django.models import Call


def client_of(user: User, **options: Any) -> Client:
    """The browser of somebody who is logged in."""
    client = Client(**options)
    client.force_login(user)
    return client


def text_of(part: str) -> str:
    """What a part of a page says, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).split())


def content_of(response: Any) -> str:
    """What a page of ours says, without what is around it."""
    assert response.status_code == 200
    page = response.content.decode()
    return text_of(page[page.index('id="content-main"') :])


def lines(name: str) -> QuerySet[Call]:
    """The lines of the trail about a tool."""
    recorder.flush()
    return Call.objects.filter(name=name)
