"""Rows of the models Tool and Prompt for everything that sites declare, so that administrators find them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.db import router

from mcp_django.bridge.sites import MCPSite, all_sites
from mcp_django.models import AdminOverride, Prompt, Tool


def make_tool_rows(using: str) -> int:
    """Add a row for each tool that has none, on or off as the tool is declared. Returns how many were added."""
    return _add_missing(Tool, using, _declared_tools)


def make_prompt_rows(using: str) -> int:
    """Add a row for each declared prompt that has none, switched on. Returns how many were added."""
    return _add_missing(Prompt, using, _declared_prompts)


def _declared_tools(site: MCPSite) -> dict[str, bool]:
    return {tool.name: tool.enabled_by_default for tool in site.tools.values()}


def _declared_prompts(site: MCPSite) -> dict[str, bool]:
    return dict.fromkeys(site.prompts, True)


def _add_missing(model: type[AdminOverride], using: str, declared: Callable[[MCPSite], Mapping[str, bool]]) -> int:
    """Add the rows that are missing for the sites that are served. Returns how many were added.

    ``declared`` gives the names that a site declares, and whether each is on where no administrator has decided. Rows
    of names that are gone stay, so that a tool which comes back finds what the administrator decided.
    """
    manager: Any = model._default_manager.using(using)
    missing = []
    if router.allow_migrate_model(using, model):
        for site in all_sites():
            names = declared(site) if site.is_served else {}
            there = set(manager.filter(site=site.name).values_list("name", flat=True))
            missing += [
                model(site=site.name, name=name, enabled=enabled)
                for name, enabled in names.items()
                if name not in there
            ]
    manager.bulk_create(missing, ignore_conflicts=True)
    return len(missing)
