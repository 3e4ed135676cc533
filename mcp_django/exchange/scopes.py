"""The scopes of a token. A scope narrows what its user may do; it never adds to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

READ = "read"
ACTIONS = "actions"

#: Scope → what it lets an agent do, as people read it in the admin.
SCOPES: dict[str, str] = {
    READ: "Read what the user may view",
    ACTIONS: "Run tools and admin actions that may change data",
}


def parse(names: Iterable[str]) -> list[str]:
    """The scopes in their fixed order. Raises ValueError that names an unknown one."""
    wanted = {name.strip() for name in names if name.strip()}
    unknown = sorted(wanted - SCOPES.keys())
    if unknown:
        raise ValueError(f"unknown scope {unknown[0]!r}; the scopes are {', '.join(SCOPES)}")
    return [name for name in SCOPES if name in wanted]


def granted_by(credential: Any, default: Iterable[str]) -> frozenset[str]:
    """The scopes that a credential carries: a list ``scopes``, or a string ``scope`` as OAuth libraries have it."""
    scopes = getattr(credential, "scopes", None)
    if scopes is None:
        scopes = getattr(credential, "scope", None)
    if isinstance(scopes, str):
        scopes = scopes.split()
    return frozenset(default if scopes is None else scopes)
