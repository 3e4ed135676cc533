"""The URLs of the authorization server, below the prefix at which a project includes the URLs of a site."""

from __future__ import annotations

import contextlib

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from mcp_django.bridge.sites import all_sites
from mcp_django.exchange.audience import ENDPOINT, base_url

AUTHORIZE = "mcp/authorize"
TOKEN = "mcp/token"  # noqa: S105 - a path
REGISTER = "mcp/register"
REVOKE = "mcp/revoke"
KEYS = "mcp/keys"
#: What RFC 9728, RFC 8414 and OpenID Connect Discovery put between host and path.
RESOURCE_METADATA = ".well-known/oauth-protected-resource"
SERVER_METADATA = ".well-known/oauth-authorization-server"
OPENID_METADATA = ".well-known/openid-configuration"

#: All of them, the longest first.
PATHS = (
    f"{RESOURCE_METADATA}/{ENDPOINT}", RESOURCE_METADATA, SERVER_METADATA, OPENID_METADATA,
    AUTHORIZE, TOKEN, REGISTER, REVOKE, KEYS,
)  # fmt: skip


def endpoints() -> list[str]:
    """The path of each endpoint that the URLconf serves, that of the default site first."""
    names = ["mcp_django", *sorted(site.name for site in all_sites())]
    found: list[str] = []
    for name in names:
        with contextlib.suppress(NoReverseMatch):
            found.append(reverse(f"{name}:endpoint"))
    return list(dict.fromkeys(found))


def issuer_of(request: HttpRequest) -> str:
    """The issuer (RFC 8414 §2) of a request to one of ``PATHS``: the URL below which ours are, as
    ``https://example.com``. Raises DisallowedHost.
    """
    return base_url(request, PATHS)


def resource_at(issuer: str) -> str:
    """The resource that an issuer issues tokens for: the endpoint beside it."""
    return f"{issuer}/{ENDPOINT}"


def normalized(resource: str) -> str:
    """A resource as it is compared: the case of scheme and host does not count, nor does one slash at its end."""
    scheme, mark, rest = resource.strip().partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}{mark}{host.lower()}{slash}{path}".removesuffix("/")
