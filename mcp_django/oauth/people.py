"""Who may connect clients (OAUTH_USERS), and what one address may ask of the authorization server.

Documents that say how to log in are never limited.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest

from mcp_django.access.throttling.budgets import Limit, network_of
from mcp_django.access.throttling.throttles import take
from mcp_django.conf import get_conf
from mcp_django.exchange.addresses import client_address
from mcp_django.exchange.rates import LOGINS, login_rates


def may_connect(user: Any) -> bool:
    """Whether the user may connect clients (OAUTH_USERS)."""
    rule: str | Callable[[Any], bool] = get_conf().OAUTH_USERS
    if not user.is_active:
        return False
    if callable(rule):
        return bool(rule(user))
    return not rule or bool(user.has_perm(rule))


def admit(request: HttpRequest) -> None:
    """Count a request to log in, to register or for a token. Raises Throttled.

    All users of one hosted client may share two addresses, so the limit is generous.
    """
    ours: Any = request
    network = network_of(client_address(ours))
    if network:
        take([Limit(LOGINS, "address", f"address:{network}", rate) for rate in login_rates()], {LOGINS: 1})
