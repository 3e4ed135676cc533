"""Bytes in, bytes out: HTTP, WebSocket and stdio. They know nothing of tools or models."""
