"""The URLs of a site: how a request to each is answered, in a thread of its own or on an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_django.conf import get_conf
from mcp_django.sites import MCPSite
from mcp_django.transports.http import runner, sse
from mcp_django.transports.http.core import Conversation
from mcp_django.transports.http.incoming import Answer, Incoming
from mcp_django.transports.http.ticket import TicketDesk


@dataclass(frozen=True)
class Place:
    """One URL, without the slash that may follow it."""

    route: str
    #: Its name in the namespace ``mcp_django``.
    name: str
    answer: Callable[[Incoming], Answer]
    answer_on_loop: Callable[[Incoming], Awaitable[Answer]]
    #: Whether it is there: where it is not, the URL may be the project's own.
    is_open: Callable[[], bool] = lambda: True


def places(site: MCPSite) -> list[Place]:
    return [
        Place(
            "mcp",
            "endpoint",
            lambda incoming: Conversation(site, incoming).answer(),
            lambda incoming: runner.answer(site, incoming),
        ),
        Place(
            "mcp/ticket",
            "ticket",
            lambda incoming: TicketDesk(site, incoming).answer(),
            lambda incoming: runner.answer_in_worker(TicketDesk(site, incoming)),
        ),
        Place(
            "sse",
            "sse",
            lambda incoming: sse.Unserved(site, incoming).answer(),
            lambda incoming: sse.open_stream(site, incoming),
            _serves_sse,
        ),
        Place(
            "sse/messages",
            "sse-messages",
            lambda incoming: sse.Unserved(site, incoming).answer(),
            lambda incoming: runner.answer_in_worker(sse.Posting(site, incoming)),
            _serves_sse,
        ),
    ]


def _serves_sse() -> bool:
    return get_conf().SSE_TRANSPORT
