"""Whom administrators have paused: all agents, or those of a user, a token or an app.

Every transport calls this: ``check`` before a request is handled, and ``among`` for what is open. A pause is a row of
Restriction, which is read with the overrides: so a process trusts what it has read for a second at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcp_django.access import overrides
from mcp_django.models import Restriction
from mcp_django.protocol.errors import Paused
from mcp_django.protocol.names import printable

if TYPE_CHECKING:
    from mcp_django.access.overrides import Override
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.site import Site

#: Kind and name of what is paused → the reason.
Pauses = Mapping[tuple[str, str], str]

_Kind = Restriction.Kind
#: Kind of a pause → the beginning of the sentence that an agent reads. The first that holds is told.
_WHOM: Mapping[str, str] = {
    _Kind.ALL: "All agents are",
    _Kind.USER: "The agents of your user are",
    _Kind.APP: "Your app is",
    _Kind.TOKEN: "Your token is",
}


def check(site: Site, principal: Principal) -> None:
    """Raises Paused. Where the database must be asked and does not answer, raises what it raised."""
    _refuse(principal, overrides.tools.restrictions(site).pauses)


def check_exchange(exchange: Exchange, decided: Mapping[str, Override] | None = None) -> None:
    """As ``check``, for a request, by the overrides that were read for it if there are any."""
    if not exchange.connection.is_of_agent:
        return
    if decided is None:
        decided = overrides.tools.of_call(exchange)
    _refuse(exchange.principal, overrides.restrictions_in(decided).pauses)


def _refuse(principal: Principal, pauses: Pauses) -> None:
    if pauses and (paused := find(principal, pauses)) is not None:
        raise paused


def find(principal: Principal, pauses: Pauses) -> Paused | None:
    """What stops the principal, if anything does."""
    names = set(_names_of(principal))
    for kind, whom in _WHOM.items():
        for name in sorted(name for one, name in names if one == kind):
            if (why := pauses.get((kind, name))) is not None:
                return Paused(whom, printable(why))
    return None


def _names_of(principal: Principal) -> Iterator[tuple[str, str]]:
    """Kind and name of each pause that would stop the principal."""
    yield _Kind.ALL, ""
    if principal.user.pk is not None:
        yield _Kind.USER, str(principal.user.pk)
    if principal.token_id is None:
        return
    token = principal.auth
    # A class of the project may let a token act as another user than its own.
    yield _Kind.USER, str(token.user_id)
    # A token and those that replace it have the same line; those of a grant are replaced every hour.
    yield _Kind.TOKEN, str(token.line)
    if token.client:
        yield _Kind.APP, token.client


# What is open.


class Open(Protocol):
    """Something that belongs to a principal, and stays open: a stream, a socket, a call."""

    @property
    def site(self) -> Site: ...

    @property
    def principal(self) -> Principal: ...


T = TypeVar("T", bound=Open)


def among(found: Collection[T]) -> list[tuple[T, Paused]]:
    """Those that are paused now, as the database says."""
    known = stored()
    if not known:
        return []
    of_sites = {name: {**known.get("", {}), **known.get(name, {})} for name in {one.site.name for one in found}}
    asked = ((one, find(one.principal, of_sites[one.site.name])) for one in found)
    return [(one, paused) for one, paused in asked if paused is not None]


def of_user(site: Site, user: Any) -> tuple[str, str] | None:
    """Kind and reason of a pause that stops every agent of the user on the site, as the database says."""
    known = stored()
    pauses = {**known.get("", {}), **known.get(site.name, {})}
    named = ((_Kind.ALL, ""), (_Kind.USER, str(user.pk)))
    return next(((kind, pauses[kind, name]) for kind, name in named if (kind, name) in pauses), None)


def stored() -> Mapping[str, Pauses]:
    """The pauses by the name of their site, read with one statement; those of an empty name hold on each."""
    rows = Restriction.objects.pauses().order_by()
    found: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for site, kind, name, reason in rows.values_list("site", "kind", "name", "reason"):
        found[site][kind, name] = reason
    return found
