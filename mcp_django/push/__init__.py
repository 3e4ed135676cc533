"""Decides which clients are notified of a change: the hub of a process, its listeners, and the checks of their rights.

It may import sites and everything below: sessions, tools, tasks, resources, access, models and events. It writes to no
socket: the transports do.
"""

from mcp_django.events.publisher import flush

__all__ = ["flush"]
