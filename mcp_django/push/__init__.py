"""Who is notified of a change: the hub of a process, its listeners, and what each of them may see.

Imports sites, sessions, resources and what stands below them. It writes to no socket: transports do.
"""

from mcp_django.events.publisher import flush

__all__ = ["flush"]
