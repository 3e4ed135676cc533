"""Who makes a token: whoever holds its plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.http import HttpRequest

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


def maker_of(site: MCPSite, request: HttpRequest, owner: Any) -> Any:
    """The owner; or somebody else who makes a token for the owner, or acts as the owner."""
    others = site.persons_of(request) - {str(owner.pk)}
    if not others:
        return owner
    return get_user_model()._default_manager.filter(pk__in=others).first() or request.user
