"""The URL of the endpoint: whether there is one, and whether a request to it comes there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.core.checks import CheckMessage, Warning
from django.urls import Resolver404, resolve

from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.writes.pages import below_prefix
from mcp_django.conf import URL_LINE
from mcp_django.oauth.paths import endpoints


def check_endpoints(sites: Iterable[MCPSite]) -> Iterator[CheckMessage]:
    """Check the URLs by which clients reach the sites."""
    if not any(site.is_served for site in sites):
        yield Warning(
            "The URLconf has no endpoint, so no client gets an answer over HTTP or WebSocket.",
            hint=f"Add {URL_LINE} to it. If agents use stdio or gRPC alone, add 'mcp_django.W033' to "
            "SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W033",
        )
    for path in endpoints():
        try:
            found = resolve(below_prefix(path))
        except Resolver404:
            continue
        if "mcp_django" not in found.app_names:
            yield Warning(
                f"Requests to the endpoint {path} come to the view {found.view_name}: its pattern {found.route!r} "
                "stands before the endpoint and takes its path too.",
                hint=f"Move {URL_LINE} before that pattern.",
                id="mcp_django.W034",
            )
