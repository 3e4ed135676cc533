"""Rows of the model Prompt for every prompt that is declared, so that administrators find them."""

from __future__ import annotations

from mcp_django.access import overrides
from mcp_django.models import Prompt
from mcp_django.sites import MCPSite


def make_rows(using: str) -> int:
    """Add the rows that are missing, each switched on; returns how many they were."""
    return overrides.add_missing(Prompt, using, _declared)


def _declared(site: MCPSite) -> dict[str, bool]:
    return dict.fromkeys(site.prompts, True)
