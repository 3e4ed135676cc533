"""The network address that a request came from, behind as many proxies as the project trusts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Protocol

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import get_conf

#: No address is longer. What a client writes is cut, since addresses are remembered.
_LONGEST = 64


class HasMeta(Protocol):
    """A request of Django, of DRF, or of ours."""

    META: Any


def client_address(request: HasMeta) -> str:
    """The client's IP address in its canonical text; empty where there is none, as on stdio and on a Unix socket."""
    return address_in(request.META)


def address_in(meta: Mapping[str, Any]) -> str:
    """As ``client_address``, from the META of a request.

    Each proxy adds the address of its own client at the end of X-Forwarded-For. So the entry that counts is number
    ``TRUSTED_PROXIES`` from the end, and what a client wrote before it is not read.
    """
    address, forwarded = meta.get("REMOTE_ADDR"), meta.get("HTTP_X_FORWARDED_FOR")
    return canonical(address_behind(get_conf().TRUSTED_PROXIES, str(address or ""), str(forwarded or "")))


def address_behind(proxies: int, address: str, forwarded: str) -> str:
    """The address of the client of so many proxies, of which the nearest has the ``address``."""
    hops = [*(part.strip() for part in forwarded.split(",") if part.strip()), address] if proxies else [address]
    # With fewer entries than proxies, the request came past one of them, and the farthest known address counts.
    return hops[-proxies - 1 :][0][:_LONGEST]


def problem_of_grpc() -> str | None:
    """What is unknown of the proxies before gRPC, in words; None where nothing is."""
    conf = get_conf()
    if not conf.TRUSTED_PROXIES or conf.GRPC_TRUSTED_PROXIES is not None:
        return None
    return (
        "MCP['TRUSTED_PROXIES'] counts the proxies before HTTP, and MCP['GRPC_TRUSTED_PROXIES'] is not set. Over gRPC "
        "X-Forwarded-For is not read, so callers behind a proxy all have its address."
    )


def parse_networks(texts: Iterable[str]) -> list[str]:
    """Addresses and networks, each in the one text that stands for it. Raises ValueError that names a wrong one."""
    return list(dict.fromkeys(str(_network(text.strip())) for text in texts if text.strip()))


def is_within(address: str, networks: Iterable[str]) -> bool:
    """Whether an address, as ``client_address`` gives it, is in one of the networks. An unknown address is in none."""
    if not address:
        return False
    found = ip_address(address)
    # A network that cannot be read, and one of the other version of IP, holds no address.
    return any(found in network for network in map(_network_or_none, networks) if network is not None)


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        network = ip_network(text)
    except ValueError as error:
        said = _("{text} is no address and no network, such as 192.0.2.0/24: {error}")
        raise ValueError(format_lazy(said, text=repr(text[:60]), error=error)) from None
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    # ``canonical`` turns mapped addresses into those of version 4, so a network of mapped ones would never match.
    return network if mapped is None else ip_network(f"{mapped}/{network.prefixlen - 96}")


@lru_cache(maxsize=1_000)
def _network_or_none(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return _network(text)
    except ValueError:
        return None


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
