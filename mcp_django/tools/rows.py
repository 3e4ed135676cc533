"""Rows of the model Tool for every tool that exists, so that administrators find them."""

from __future__ import annotations

from mcp_django.access import overrides
from mcp_django.models import Tool
from mcp_django.sites import MCPSite


def make_rows(using: str) -> int:
    """Add the rows that are missing, each as its tool is declared; returns how many they were."""
    return overrides.add_missing(Tool, using, _declared)


def _declared(site: MCPSite) -> dict[str, bool]:
    return {tool.name: tool.enabled_by_default for tool in site.tools.values()}
