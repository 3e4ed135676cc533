"""From a saved model to a notification: change set, publisher, bus, hub, listeners."""

from mcp_django.events.publisher import flush

__all__ = ["flush"]
