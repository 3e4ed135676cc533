"""The tools that are converted: those of the demo for a member of staff who may do everything in it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission

from mcp_django.exchange.scopes import SCOPES
from mcp_django.models import Tool
from tests.support.asking import DirectPeer
from tests.support.data import make_staff
from tests.support.peers import MODERN


def listed_tools() -> list[dict[str, Any]]:
    """All tools, each switched on. No model of the tests is among their choices."""
    Tool.objects.filter(site="mcp").update(enabled=True)
    member = make_staff("converted")
    member.user_permissions.set(Permission.objects.filter(content_type__app_label="flights"))
    tools: list[dict[str, Any]] = DirectPeer(member, *SCOPES).result(MODERN, "tools/list")["tools"]
    return tools
