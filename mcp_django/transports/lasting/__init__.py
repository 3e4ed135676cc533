"""Connections that last: what WebSocket, stdio, gRPC and streams have in common."""
