"""The servers of ``MCP["BUS"]``: one NATS server, or several of one cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from mcp_django.conf import get_conf

_PORT = 4222
_SCHEMES = ("nats", "tls")
#: The characters that https://docs.nats.io/nats-concepts/subjects recommends. A ``$`` would be the server's own.
_SUBJECT = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


@dataclass(frozen=True)
class Address:
    """Where a server is, and whether it must speak TLS."""

    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        """The address as nats-py takes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"


@dataclass(frozen=True)
class Servers:
    """The addresses of a cluster, and the user of all of them."""

    addresses: tuple[Address, ...]
    #: As CONNECT carries them: ``user`` and ``pass``, or ``auth_token``, or nothing.
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


def named_servers() -> Servers | None:
    """The servers that the settings name, or None. Raises ImproperlyConfigured, and never quotes credentials."""
    conf = get_conf()
    if not conf.BUS:
        return None
    if conf.PUSH_DATABASE is not None:
        raise ImproperlyConfigured("MCP['BUS'] and MCP['PUSH_DATABASE'] both carry changes: leave one of them out.")
    if find_spec("nats") is None:
        raise ImproperlyConfigured(
            "MCP['BUS'] needs nats-py: python -m pip install 'django-admin-mcp-server[nats]'",
        )
    if _SUBJECT.fullmatch(conf.PUSH_CHANNEL) is None:
        raise ImproperlyConfigured(
            "MCP['PUSH_CHANNEL'] must be a subject of NATS: letters, digits, - and _, in parts divided by dots."
        )
    return read_urls(conf.BUS)


def read_urls(urls: Any) -> Servers:
    """The servers of a text with URLs. Raises ImproperlyConfigured."""
    if not isinstance(urls, str):
        raise ImproperlyConfigured("MCP['BUS'] must be a text: the URL of a NATS server, or several divided by commas.")
    addresses, found = [], []
    for number, url in enumerate(urls.split(","), 1):
        try:
            address, credentials = _read_url(url.strip())
        except ValueError as error:
            # Without its cause, which may quote a password.
            raise ImproperlyConfigured(
                f"URL {number} in MCP['BUS'] {error}. Write nats://host:4222, tls://user:password@host:4222 or "
                "nats://token@host:4222, and other characters in a user, password or token as %40."
            ) from None
        addresses.append(address)
        if credentials and credentials not in found:
            found.append(credentials)
    if len(found) > 1:
        raise ImproperlyConfigured(
            "The URLs in MCP['BUS'] must have the same credentials: their servers are a cluster."
        )
    return Servers(tuple(addresses), *found)


def _read_url(url: str) -> tuple[Address, dict[str, str]]:
    """The address and the credentials of a URL. Raises ValueError with a text that quotes none of it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("has no host and port that can be read") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError("begins with neither nats:// nor tls://")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("has more than a host and a port")
    try:
        # The codec is loaded here. If the publisher's thread loaded it first, a process forked in that moment would
        # keep it half loaded.
        (host or "").encode("idna")
    except UnicodeError:
        host = None
    if not host or port == 0 or re.search(r"\s", host):
        raise ValueError("has no host and port that can be read")
    return Address(host, port or _PORT, parts.scheme == "tls"), _credentials(parts.username, parts.password)


def _credentials(username: str | None, password: str | None) -> dict[str, str]:
    if not username:
        return {}
    if password is None:
        return {"auth_token": unquote(username)}
    return {"user": unquote(username), "pass": unquote(password)}
