"""System checks: problems in how the project uses mcp_django, each with its remedy.

It imports any of the packages below it.
"""

from mcp_django.checks.bus import check_bus, check_databases
from mcp_django.checks.settings import NEWEST_DJANGO, check_distributions, check_django, check_settings
from mcp_django.checks.sites import check_sites

__all__ = [
    "NEWEST_DJANGO",
    "check_bus",
    "check_databases",
    "check_distributions",
    "check_django",
    "check_settings",
    "check_sites",
]
