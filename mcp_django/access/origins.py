"""The check of Origin and Host, which the specification demands on every connection: it says which pages may call."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest

from mcp_django.conf import get_conf
from mcp_django.protocol.errors import Forbidden

_DEFAULT_PORTS = {"http": 80, "https": 443}


def check(request: HttpRequest, *, required: bool = False) -> None:
    """Raise Forbidden for a Host that ALLOWED_HOSTS lacks, and for an Origin that is neither ours nor allowed.

    Clients other than browsers send no Origin. They pass, unless an Origin is ``required``.
    """
    try:
        host = HttpRequest.get_host(request)  # Ours trusts BASE_URL.
    except DisallowedHost:
        raise Forbidden("The Host header names a host that this server does not serve (ALLOWED_HOSTS).") from None
    origin = request.META.get("HTTP_ORIGIN")
    if origin is None:
        if required:
            raise Forbidden("A login cookie needs an Origin header of this site.")
        return
    if origin in get_conf().ALLOWED_ORIGINS and not required:
        return
    triple = _triple(origin)
    if not triple[1] or triple != _triple(f"{request.scheme}://{host}"):
        raise Forbidden("Requests from this origin are not allowed (MCP['ALLOWED_ORIGINS']).")


def _triple(origin: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port of an origin. A text that is no origin equals no host of ours."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return ("", None, None)
    # An origin is these three alone (RFC 6454 §6.2): no user, path, query or fragment.
    if "@" in parts.netloc or origin.lower() != f"{parts.scheme}://{parts.netloc}".lower():
        return ("", None, None)
    return parts.scheme, parts.hostname, port
