"""``POST /mcp/ticket``: a ticket for a socket, for clients that have an access token and can set no header there."""

from __future__ import annotations

from mcp_django.access import throttles, tickets
from mcp_django.exchange.principals import Principal
from mcp_django.protocol.jsonrpc import encode
from mcp_django.transports.http.base import View
from mcp_django.transports.http.messages import HTTPResponse


class TicketView(View):
    """Answers ``{"ticket": ..., "expires_in": seconds}``. Errors are those of the endpoint."""

    def handle(self, principal: Principal) -> HTTPResponse:
        throttles.admit(principal, self.request)
        issued = {"ticket": tickets.issue(principal), "expires_in": tickets.SECONDS}
        return HTTPResponse.json(encode(issued))
