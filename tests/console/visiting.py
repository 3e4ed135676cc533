"""People who look at the pages of the console."""

from __future__ import annotations

import datetime
import html
import re
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from mcp_django.audit.recorder import recorder
from mcp_django.models import Call, Task
from tests.support.peers import MODERN

#: What each page says that gives rights, where MCP["READ_ONLY"] is True.
READ_ONLY = 'At present no agent can change data here, because MCP["READ_ONLY"] is True.'


def client_of(user: User, **options: Any) -> Client:
    """The browser of somebody who is logged in."""
    client = Client(**options)
    client.force_login(user)
    return client


def text_of(part: str) -> str:
    """What a part of a page says, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", part)).split())


def offered(page: str) -> set[str]:
    """The scopes that a page has boxes for."""
    return set(re.findall(r'type="checkbox" name="scopes" value="([^"]+)"', page))


def ticked(page: str) -> set[str]:
    return set(re.findall(r'name="scopes" value="([^"]+)"(?: aria-label="[^"]+")? checked', page))


def content_of(response: Any) -> str:
    """What a page of ours says, without what is around it."""
    assert response.status_code == 200
    page = response.content.decode()
    return text_of(page[page.index('id="content-main"') :])


def lines(name: str) -> QuerySet[Call]:
    """The lines of the trail about a tool."""
    recorder.flush()
    return Call.objects.filter(name=name)


def make_task(user: User, **more: Any) -> Task:
    now = timezone.now()
    values = {
        "key": "secret-task", "state": Task.State.ASKING, "expires_at": now + datetime.timedelta(hours=1), **more,
    }  # fmt: skip
    return Task.objects.create(
        site="mcp", principal_key=f"user:{user.pk}", user=user, line=f"user:{user.pk}", tool="recount",
        revision=MODERN, params="{}", origin="{}", answers="{}", queued_at=now, created_at=now, updated_at=now,
        **values,
    )  # fmt: skip
