"""The network address that a request came from, behind as many proxies as the project trusts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

from mcp_django.conf import get_conf

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest


def client_address(request: MCPRequest) -> str:
    """The client's IP address in its canonical text; empty where there is none, as on stdio and on a Unix socket."""
    return address_in(request.META)


def address_in(meta: Mapping[str, Any]) -> str:
    """The same by the META of a request.

    Each proxy adds the address of its own client at the end of X-Forwarded-For. So with ``TRUSTED_PROXIES`` of them
    the last but so many counts, and whatever a client wrote before it is not read.
    """
    trusted = get_conf().TRUSTED_PROXIES
    address = str(meta.get("REMOTE_ADDR") or "")
    if trusted:
        forwarded = [part.strip() for part in str(meta.get("HTTP_X_FORWARDED_FOR") or "").split(",") if part.strip()]
        # With fewer entries than proxies, the request came past one of them, and the farthest known address counts.
        hops = [*forwarded, address][-trusted - 1 :]
        address = hops[0]
    return canonical(address)


@lru_cache(maxsize=1_000)
def canonical(address: str) -> str:
    """An IP address in the one text that stands for it, without port and zone; empty for anything else."""
    host, _, port = address.rpartition(":")
    if address.startswith("["):
        address = address[1:].partition("]")[0]
    elif "." in host and port.isdigit() and host.count(":") == 0:
        address = host
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)
