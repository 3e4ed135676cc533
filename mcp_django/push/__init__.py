"""Decides which clients are notified of a change: the hub of a process, its listeners, and the checks of their rights.

It imports sites and the rooms below it. The hub writes to no socket: the transport of each listener does.
"""

from mcp_django.events.publisher import flush

__all__ = ["flush"]
