"""The resource that a request goes to: the URL of the endpoint, for which alone an OAuth token is issued (RFC 8707)."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from mcp_django.conf import get_conf

#: The page *My agent* of each person, and its parameter that names a change, whose page it then is.
CONNECTED, CHANGE = "mcp/connected", "change"
_UPLOAD = "mcp/upload"
#: The paths of our URLs below the prefix at which a project includes them, the longest first.
PATHS = (CONNECTED, "mcp/ticket", _UPLOAD, "sse/messages", "mcp", "sse")
#: The path that names the resource, whichever path is asked for.
ENDPOINT = "mcp"
#: An upload, which has a path of its own.
_UPLOAD_KEY = re.compile(rf"/{_UPLOAD}/[^/]+$")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def has_logins() -> bool:
    """Whether the project has the middleware without which nobody can log in, also by a name of its own."""
    return all(any(name in entry for entry in settings.MIDDLEWARE) for name in ("Session", "Authentication"))


def own_page_path(site: str | None = None, change: str = "") -> str | None:
    """The path of *My agent*, or of a change there, at the endpoint of a site. None where nobody can open it."""
    try:
        path = reverse("mcp_django:connected", current_app=site, query={CHANGE: change} if change else None)
    except NoReverseMatch:
        return None
    return path if has_logins() else None


def resource_of(request: HttpRequest) -> str:
    """The endpoint's URL, as ``https://example.com/mcp``. Raises DisallowedHost for a Host that is not served."""
    return f"{base_url(request, PATHS)}/{ENDPOINT}"


def base_url(request: HttpRequest, paths: tuple[str, ...]) -> str:
    """The URL below which a project includes our URLs, without the slash at its end, as ``https://example.com``.

    ``paths`` are the paths below it that the request may have.
    """
    return origin(request) + _prefix(request.path, paths)


def origin(request: HttpRequest) -> str:
    """Scheme and host under which clients know this server: OAUTH_ORIGIN, or those of the request.

    Raises DisallowedHost for a Host that ALLOWED_HOSTS lacks.
    """
    if get_conf().OAUTH_ORIGIN:
        return get_conf().OAUTH_ORIGIN
    try:
        return normal_origin(f"{request.scheme}://{request.get_host()}")
    except ValueError as error:
        # Django lets any digits pass for a port.
        raise DisallowedHost(str(error)) from None


@lru_cache(maxsize=100)
def normal_origin(url: str) -> str:
    """Scheme and host of a URL in lower case, with the port where it is not the scheme's own."""
    parts = urlsplit(url)
    port = None if parts.port == _DEFAULT_PORTS.get(parts.scheme) else parts.port
    host = parts.netloc.rpartition("@")[2].lower()
    if parts.port is not None:
        host = host.rpartition(":")[0]
    return f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")


@lru_cache(maxsize=100)
def _prefix(path: str, paths: tuple[str, ...]) -> str:
    path = _UPLOAD_KEY.sub(rf"/{_UPLOAD}", path.removesuffix("/"))
    for ours in paths:
        if path.endswith(f"/{ours}"):
            return path.removesuffix(f"/{ours}")
    return path
