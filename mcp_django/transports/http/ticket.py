"""``POST /mcp/ticket``: a ticket for a socket, for whoever has an access token and can set no header there."""

from __future__ import annotations

from mcp_django.access import tickets
from mcp_django.exchange.principals import Principal
from mcp_django.protocol.jsonrpc import encode
from mcp_django.transports.http.answering import Answering
from mcp_django.transports.http.incoming import Answer


class TicketDesk(Answering):
    """Answers ``{"ticket": ..., "expires_in": seconds}``. What is wrong is said as at the endpoint."""

    def _serve(self, principal: Principal) -> Answer:
        issued = {"ticket": tickets.issue(principal), "expires_in": tickets.SECONDS}
        return Answer.of(encode(issued), headers={"Cache-Control": "no-store"})
