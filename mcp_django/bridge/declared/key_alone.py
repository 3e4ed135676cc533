"""Models that are not exposed, and whose keys agents see where a foreign key of an exposed model holds them."""

from __future__ import annotations

from mcp_django.bridge.declared.options import ModelMCP


class KeyMCP(ModelMCP):
    """How users and groups are seen without a registration: by their keys alone, and only from other models.

    Their ModelAdmin still decides who sees the keys, and of which rows.
    """

    fields = ()
    rows = False
    writable = False
