"""The extensions of the protocol that we speak."""

from __future__ import annotations

from typing import Any

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
#: What a client declares that knows tasks, as an object of ClientCapabilities.
TASKS_CAPABILITY: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}
