"""Who may connect clients (OAUTH_USERS)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_django.conf import get_conf


def may_connect(user: Any) -> bool:
    """Whether the user may connect clients (OAUTH_USERS)."""
    rule: str | Callable[[Any], bool] = get_conf().OAUTH_USERS
    if not user.is_active:
        return False
    if callable(rule):
        return bool(rule(user))
    return not rule or bool(user.has_perm(rule))
