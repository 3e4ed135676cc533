"""The tools that are converted: those of the demo for a member of staff who may do everything in it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import Permission
from django.test import override_settings

from mcp_django.exchange.scopes import SCOPES
from mcp_django.models import Tool
from tests.support.asking import DirectPeer
from tests.support.data import make_staff
from tests.support.peers import MODERN

#: The tools as they are listed, and as they are for clients that close objects.
Tools = dict[str, list[dict[str, Any]]]


def listed_tools() -> Tools:
    """All tools, each switched on, without and with TEXT_ARGUMENTS. No model of the tests is among their choices."""
    Tool.objects.filter(site="mcp").update(enabled=True)
    member = make_staff("converted")
    member.user_permissions.set(Permission.objects.filter(content_type__app_label="flights"))
    peer, found = DirectPeer(member, *SCOPES), {}
    for name, has_texts in {"plain": False, "texts": True}.items():
        with override_settings(MCP={**settings.MCP, "TEXT_ARGUMENTS": has_texts}):
            found[name] = peer.result(MODERN, "tools/list")["tools"]
    return found
