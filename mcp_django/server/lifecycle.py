"""initialize, which opens a session (legacy), server/discover (modern), ping, and logging/setLevel (legacy)."""

from __future__ import annotations

from mcp_django.bridge.tasks.framework import is_offered
from mcp_django.bridge.tools.instructions import instructions
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import SessionRequired
from mcp_django.protocol.extensions import TASKS_EXTENSION
from mcp_django.protocol.revisions import LEGACY_REVISIONS, MODERN_REVISIONS, NEWEST_LEGACY
from mcp_django.protocol.types import JSON
from mcp_django.push.listeners import LISTS


def initialize(exchange: Exchange) -> JSON:
    """Agree on a legacy revision and open the session (SPEC 2025-11-25 basic/lifecycle#version-negotiation)."""
    requested = exchange.params["protocolVersion"]
    revision = requested if requested in LEGACY_REVISIONS else NEWEST_LEGACY
    # The answer is projected for the revision that it announces, and not for that of the request.
    exchange.revision = revision
    client = Client(info=exchange.params["clientInfo"], capabilities=exchange.params["capabilities"])
    exchange.connection.open_session(revision, client)
    return {
        "protocolVersion": revision,
        "capabilities": capabilities(exchange),
        "serverInfo": exchange.site.implementation(),
        **_instructions(exchange),
    }


def discover(exchange: Exchange) -> JSON:
    """The server's revisions, capabilities and instructions (SPEC 2026-07-28 server/discover)."""
    return {
        "supportedVersions": list(MODERN_REVISIONS),
        "capabilities": {**capabilities(exchange), **_extensions(exchange)},
        **_instructions(exchange),
    }


def ping(exchange: Exchange) -> JSON:
    return {}


def capabilities(exchange: Exchange) -> JSON:
    """The capabilities that this connection really has. Without push, none that needs it is announced."""
    offered: JSON = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
    if exchange.connection.push:
        offered |= {name: {"listChanged": True} for name in LISTS}
        offered["resources"]["subscribe"] = True
    return offered


def _extensions(exchange: Exchange) -> JSON:
    return {"extensions": {TASKS_EXTENSION: {}}} if is_offered(exchange.site) else {}


def _instructions(exchange: Exchange) -> JSON:
    text = instructions(exchange)
    return {"instructions": text} if text else {}


def set_level(exchange: Exchange) -> JSON:
    if exchange.session is None:
        raise SessionRequired(exchange.method)
    exchange.session.set_log_level(exchange.params["level"])
    return {}
