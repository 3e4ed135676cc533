"""MCP over WebSocket: one message a text frame, both eras on one socket, subprotocol ``mcp``.

The specification leaves custom transports to their makers (2026-07-28 basic/transports#custom-transports). Framing,
cancellation and listens are those of stdio; a legacy session is the socket. It imports what transports may.
"""

from mcp_django.transports.websocket.consumer import MCPConsumer
from mcp_django.transports.websocket.handshake import SUBPROTOCOL

__all__ = ["SUBPROTOCOL", "MCPConsumer"]
