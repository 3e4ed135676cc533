"""The tenant in which a change was proposed: it is shown, decided and made there, and nowhere else."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from django.db.models import Model

from mcp_django.core.hooks import call_hook

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.exchange.site import Site

_HOSTS = ("HTTP_HOST", "HTTP_X_FORWARDED_HOST")
#: How the name of a tenant begins which nobody but the host could tell.
BY_HOST = "host:"


def tenant_of(site: Site, request: HttpRequest) -> str:
    """A name for the tenant of a request, in the context of its call; empty where nothing may choose a tenant.

    It is made of what ``MCPSite.remember_key`` says. Where that is None, something may choose a tenant by the host.
    """
    key = call_hook(lambda: site.remember_key(request), None, "remember_key")
    if key is None:
        return BY_HOST + _digest([request.META.get(name) for name in _HOSTS])
    return _digest(key) if key != "" else ""


def _digest(known: object) -> str:
    return hashlib.sha256(repr(_plain(known)).encode()).hexdigest()[:32]


def _plain(key: object) -> object:
    """What names a key in each process: a row by its model and primary key, whatever it is called."""
    match key:
        case Model():
            return key._meta.label_lower, str(key.pk)
        case str():
            # Also one that is lazy, or safe for HTML.
            return "str", str(key)
        case tuple() | list():
            return [_plain(one) for one in key]
        case set() | frozenset():
            return sorted(repr(_plain(one)) for one in key)
    return type(key).__qualname__, key
