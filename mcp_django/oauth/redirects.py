"""Where a client may be answered: which redirect URIs are usable, and when one is a registered one."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, quote_plus, urlsplit

from mcp_django.core.secret import Secret

#: Redirects to programs with a scheme of their own, one by one: any program may claim a scheme.
PRIVATE = frozenset({
    "claude://claude.ai/mcp-auth-callback/sdk",
    "cursor://anysphere.cursor-mcp/oauth/callback",
})  # fmt: skip
_USUAL_PORTS = {"http": ":80", "https": ":443"}
_MAX_LENGTH = 2_000
#: The characters of a URI (RFC 3986 §2), without ``#`` and ``*``.
_LEGAL = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()+,;=%-]+")
#: A host that is shown as what a browser makes of it: a name or an address, and maybe a port.
_HOST = re.compile(r"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
#: The address of a loopback redirect (RFC 8252 §7.3), of which the port is free, and the rest.
_LOCAL = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?].*)?)")


class InvalidRedirect(ValueError):
    """A redirect URI that no client may have, with a sentence for its developer."""


def check(uri: str) -> None:
    """Raises InvalidRedirect, unless the URI is https, http on the person's own machine, or one of ``PRIVATE``.

    RFC 6749 §3.1.2 and RFC 8252 §7.
    """
    if uri in PRIVATE:
        return
    if len(uri) > _MAX_LENGTH or not _LEGAL.fullmatch(uri):
        raise InvalidRedirect(
            "A redirect URI has at most 2,000 characters, those of RFC 3986, no fragment and no wildcard."
        )
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise InvalidRedirect("A redirect URI is not a URL.") from None
    if port == 0 or not _HOST.fullmatch(parts.netloc):
        raise InvalidRedirect("A redirect URI has a host, a port from 1 to 65535 if it has one, and no user.")
    if parts.scheme != "https" and not is_loopback(uri):
        raise InvalidRedirect("A redirect URI is https, or http on localhost, 127.0.0.1 or [::1].")


def is_usable(uri: str) -> bool:
    """Whether ``check`` finds nothing wrong."""
    try:
        check(uri)
    except InvalidRedirect:
        return False
    return True


def matches(registered: str, asked: str) -> bool:
    """Whether a redirect that is asked for is the registered one, character by character.

    The port is free on the person's own machine, where a program takes the one it gets (RFC 8252 §7.3).
    """
    return registered == asked or (
        is_loopback(registered) and is_usable(asked) and portless(registered) == portless(asked)
    )


def is_loopback(uri: str) -> bool:
    """Whether the redirect goes to a program that listens on the person's own machine."""
    return _LOCAL.fullmatch(uri) is not None


def is_local(uri: str) -> bool:
    """Whether the redirect stays on the person's machine or network, by its scheme, its name or its address."""
    parts = urlsplit(uri)
    host = (parts.hostname or "").removesuffix(".")
    if parts.scheme != "https" or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        # Browsers read numbers of many forms as addresses, such as 127.1.
        return not ip_address(host if ":" in host else socket.inet_aton(host)).is_global
    except (ValueError, OSError):
        return False


def portless(uri: str) -> str:
    """A loopback redirect without its port; any other one unchanged."""
    found = _LOCAL.fullmatch(uri)
    return uri if found is None else f"{found[1]}{found[2]}"


def host_of(uri: str) -> str:
    """What people are shown of a redirect: its host, with a port that is not the usual one, or a program's scheme."""
    parts = urlsplit(uri)
    usual = _USUAL_PORTS.get(parts.scheme)
    return f"{parts.scheme}://{parts.netloc}" if usual is None else parts.netloc.removesuffix(usual)


def with_params(uri: str, params: Mapping[str, str]) -> Secret:
    """The URI with parameters added to those that it has (RFC 6749 §3.1.2). One of them may be a code."""
    parts: SplitResult = urlsplit(uri)
    added = Secret("&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in params.items()))
    return Secret(uri.partition("?")[0] + "?" + "&".join(part for part in (parts.query, added) if part))
