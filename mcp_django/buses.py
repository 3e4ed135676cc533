"""The buses that ``MCP["BUS"]`` may name as its BACKEND, and the class from which a project makes another one."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from mcp_django.core.events.bus import BaseBus, ChannelLayerBus

if TYPE_CHECKING:
    from mcp_django.core.events.nats import NATSBus
    from mcp_django.core.events.postgresql import PostgreSQLBus

__all__ = ["BaseBus", "ChannelLayerBus", "NATSBus", "PostgreSQLBus"]

#: Bus → its module, what that imports, the name of that package, and what pip installs it by.
_NEEDING = {
    "NATSBus": ("mcp_django.core.events.nats", "nats", "nats-py", "django-admin-mcp-server[nats]"),
    "PostgreSQLBus": ("mcp_django.core.events.postgresql", "psycopg", "psycopg 3", "psycopg[binary,pool]"),
}


def __getattr__(name: str) -> Any:
    if name not in _NEEDING:
        raise AttributeError(f"module 'mcp_django.buses' has no attribute {name!r}")
    module, imported, package, requirement = _NEEDING[name]
    if find_spec(imported) is None:
        raise ImproperlyConfigured(f"The {name} of MCP['BUS'] needs {package}: python -m pip install '{requirement}'")
    return getattr(import_module(module), name)
