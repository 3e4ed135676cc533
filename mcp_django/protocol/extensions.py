"""The extensions of the protocol that we support."""

from __future__ import annotations

from mcp_django.protocol.types import JSON

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
#: The ClientCapabilities that a client with support for tasks declares.
TASKS_CAPABILITY: JSON = {"extensions": {TASKS_EXTENSION: {}}}
