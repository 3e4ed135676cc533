"""The URLs of the authorization server, which stand beside those of each site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import URLPattern, path

from mcp_django.exchange.audience import ENDPOINT
from mcp_django.oauth import authorize, paths, views

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


def url_patterns(site: MCPSite) -> list[URLPattern]:
    """Each URL with a slash behind it and without: a redirect between them would lose the body of a POST."""
    own = {
        f"{paths.RESOURCE_METADATA}/{ENDPOINT}": (views.resource_metadata, "oauth-resource"),
        paths.RESOURCE_METADATA: (views.resource_metadata, "oauth-resource-root"),
        paths.SERVER_METADATA: (views.server_metadata, "oauth-server"),
        paths.OPENID_METADATA: (views.server_metadata, "oauth-openid"),
        paths.KEYS: (views.keys, "oauth-keys"),
        paths.TOKEN: (views.token, "oauth-token"),
        paths.REGISTER: (views.register, "oauth-register"),
        paths.REVOKE: (views.revoke, "oauth-revoke"),
        paths.AUTHORIZE: (authorize.authorize, "oauth-authorize"),
    }
    return [
        pattern
        for url, (view, name) in own.items()
        for pattern in (path(url, view, {"site": site}, name=name), path(f"{url}/", view, {"site": site}))
    ]
