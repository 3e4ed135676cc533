"""Who makes a token: whoever holds its plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


def maker_of(site: MCPSite, request: HttpRequest, owner: Any) -> str:
    """The key of the owner; or of somebody else who makes a token for the owner, or acts as the owner."""
    return min(site.persons_of(request) - {str(owner.pk)}, default=str(owner.pk))
