"""MCP over gRPC: the service of ``mcp_django/protocol/mcp.proto``. It needs the extra ``grpc``.

``Session`` is one conversation, as a WebSocket is; ``Call`` is one request without a session. The specification leaves
custom transports to their makers (2026-07-28 basic/transports#custom-transports). It imports what transports may.
"""

from mcp_django.transports.grpc.server import GRPCServer

__all__ = ["GRPCServer"]
