"""The value of WWW-Authenticate: it tells a client where to log in (RFC 9728 §5.1), or to ask for a token."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from django.apps import apps
from django.core.exceptions import DisallowedHost

from mcp_django.access.permissions import scopes_to_ask_for
from mcp_django.conf import OAUTH_APP
from mcp_django.core.db.interrupts import is_on_loop
from mcp_django.core.running.workers import get_workers
from mcp_django.exchange.audience import ENDPOINT, PATHS, base_url
from mcp_django.protocol.errors import Overloaded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

_LOOK_AGAIN_SECONDS = 1.0
#: By site: when its scopes were looked at, and what they were.
_found: dict[str, tuple[float, list[str]]] = {}

#: Where the metadata of the endpoint is, below the prefix at which a project includes our URLs.
METADATA = f".well-known/oauth-protected-resource/{ENDPOINT}"


def complete(challenge: str, site: Site, request: MCPRequest, needed: Iterable[str] = ()) -> str:
    """Complete a challenge for one of our tokens: where to log in, and which scopes to ask for.

    Those are the ``needed`` ones, or else all that a client may ever need. On the event loop, which does not ask the
    database, the first challenge of a process may have none: clients find them in the metadata too.
    """
    if not challenge.startswith("Bearer") or not apps.is_installed(OAUTH_APP):
        return challenge
    try:
        metadata = f"{base_url(request, PATHS)}/{METADATA}"
    except DisallowedHost:
        return challenge
    scope = " ".join(needed or _scopes(site))
    return f'{challenge}, resource_metadata="{metadata}"' + (f', scope="{scope}"' if scope else "")


def _scopes(site: Site) -> list[str]:
    """The scopes to ask for. The loop has those that were found last, while a worker looks for the present ones."""
    if not is_on_loop():
        _found[site.name] = time.monotonic(), scopes_to_ask_for(site)
        return _found[site.name][1]
    looked_at, known = _found.get(site.name, (None, []))
    if looked_at is None or looked_at <= time.monotonic() - _LOOK_AGAIN_SECONDS:
        # Once for many refusals.
        _found[site.name] = time.monotonic(), known
        with contextlib.suppress(Overloaded):
            get_workers().submit(_scopes, site)
    return known
