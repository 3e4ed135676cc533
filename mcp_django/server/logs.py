"""logging/setLevel: a legacy session chooses the level of its log lines (2025-11-25 server/utilities/logging)."""

from __future__ import annotations

from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import SessionRequired
from mcp_django.types import JSON


def set_level(exchange: Exchange) -> JSON:
    if exchange.session is None:
        raise SessionRequired(exchange.method)
    exchange.session.set_log_level(exchange.params["level"])
    return {}
