"""Decides which clients are notified of a change: the hub of a process, its listeners, and the checks of their rights.

It imports bridge and the packages below it. The hub writes to no socket: the transport of each listener does.
"""

from mcp_django.core.events.publisher import flush

__all__ = ["flush"]
