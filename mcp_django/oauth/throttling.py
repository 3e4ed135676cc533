"""What one address may ask of the authorization server.

Documents that say how to log in are never limited.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from mcp_django.access.throttling.budgets import Limit, network_of
from mcp_django.access.throttling.throttles import take
from mcp_django.exchange.addresses import client_address
from mcp_django.exchange.rates import LOGINS, login_rates


def admit(request: HttpRequest) -> None:
    """Count a request to log in, to register or for a token. Raises Throttled.

    All users of one hosted client may share two addresses, so the limit is generous.
    """
    ours: Any = request
    network = network_of(client_address(ours))
    if network:
        take([Limit(LOGINS, "address", f"address:{network}", rate) for rate in login_rates()], {LOGINS: 1})
