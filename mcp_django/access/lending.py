"""Rights for a while: a credential is lent scopes that end by themselves, or once somebody ends them.

What is lent stands in the row of the token, or of the grant, so that whoever reads the row knows it. It adds scopes and
no permission: what the user may not do, no scope allows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import router, transaction
from django.utils import timezone

from mcp_django.access import signals, trail
from mcp_django.access.permissions import can_be_granted
from mcp_django.conf import get_conf
from mcp_django.exchange import scopes as grammar
from mcp_django.exchange.principals import WITHHELD
from mcp_django.models import AccessToken, Grant, Lending

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.site import Site
    from mcp_django.models import Change

#: Lendings that ``mark_over`` looks at in one run.
_AT_ONCE = 200


class NotLendable(ValueError):
    """The scopes cannot be lent. The text says why, to whoever asked for it."""


@dataclass(frozen=True, slots=True)
class Borrower:
    """Whom scopes are lent to: the tokens of a credential line, or the grant by which a client has it."""

    lineage: str
    grant_id: int | None
    user: Any

    @classmethod
    def of(cls, principal: Principal) -> Borrower:
        """Raises NotLendable for a caller without a token of its user."""
        if not principal.has_own_token:
            raise NotLendable("Scopes are lent to tokens and to connected apps, and these credentials are neither.")
        return cls(principal.lineage, principal.grant_id, principal.user)


def most_hours(scope: str) -> float | None:
    """For how many hours the scope may be lent at most, as LENDABLE says; None if it may not be lent."""
    allowed = get_conf().LENDABLE.items()
    # A part of a scope that may be lent may be lent too.
    each = [
        max((hours for name, hours in allowed if grammar.grant(grammar.expand([name]), one)), default=None)
        for one in grammar.expand([scope])
    ]
    return None if None in each else min((hours for hours in each if hours is not None), default=None)


def check(site: Site, borrower: Borrower, scopes: Iterable[str], hours: float) -> list[str]:
    """The scopes in their fixed order, if they may be lent for so many hours. Raises NotLendable."""
    try:
        names = grammar.parse(scopes)
    except ValueError as error:
        raise NotLendable(str(error)) from None
    if not names:
        raise NotLendable("Name a scope.")
    if not math.isfinite(hours) or hours <= 0:
        raise NotLendable("hours must be more than 0.")
    for name in names:
        most = most_hours(name)
        # What an OAuth client may never get, it is not lent either.
        if most is None or (borrower.grant_id is not None and not can_be_granted(site, name)):
            raise NotLendable(f"The scope {name} is not lent here.")
        if hours > most:
            raise NotLendable(f"The scope {name} is lent for {most:g} hours at most.")
    return names


def lend(
    site: Site,
    borrower: Borrower,
    scopes: Iterable[str],
    hours: float,
    *,
    agreed_by: str,
    reason: str = "",
    change: Change | None = None,
) -> Lending:
    """Lend the scopes from now on, within LENDABLE. Raises NotLendable.

    ``agreed_by`` names the people who agreed, and ``change`` is the change by which an agent asked for it.
    """
    names = check(site, borrower, scopes, hours)
    until = timezone.now() + timedelta(hours=hours)
    return begin(borrower, names, until, agreed_by=agreed_by, reason=reason, change=change)


def begin(
    borrower: Borrower,
    scopes: Collection[str],
    until: datetime,
    *,
    agreed_by: str,
    reason: str = "",
    change: Change | None = None,
) -> Lending:
    """As ``lend``, until a moment that a person has chosen, whatever LENDABLE says. Raises NotLendable."""
    alias, now = _alias(), timezone.now()
    with transaction.atomic(using=alias):
        if until <= now or not _locked(borrower):
            raise NotLendable("The time is over, or the credential has ended.")
        lending = Lending.objects.using(alias).create(
            lineage=borrower.lineage, grant_id=borrower.grant_id, user=borrower.user, scopes=list(scopes),
            reason=reason[:500], agreed_by=agreed_by[:300], starts_at=now, until=until, change=change,
        )  # fmt: skip
        _write(borrower)
        trail.note_lending(lending, "lent", alias)
    return lending


def end(lending: Lending, by: str) -> bool:
    """End it before its time. ``by`` names the person. Returns False if it has ended already."""
    alias, now = _alias(), timezone.now()
    borrower = _borrower_of(lending)
    with transaction.atomic(using=alias):
        _locked(borrower)
        if not Lending.objects.using(alias).filter(pk=lending.pk).end(now, by[:150]):
            return False
        _write(borrower)
        trail.note_lending(lending, "lending ended", alias)
    return True


def mark_over() -> int:
    """Mark lendings whose time is over, or whose credential is, and take them out of its row. Returns their number."""
    alias, now = _alias(), timezone.now()
    marked = 0
    for lending in Lending.objects.using(alias).over().order_by("pk")[:_AT_ONCE]:
        with transaction.atomic(using=alias):
            _locked(_borrower_of(lending))
            mine = Lending.objects.using(alias).filter(pk=lending.pk, ended_at=None)
            marked += mine.update(ended_at=min(lending.until, now))
            _write(_borrower_of(lending))
    return marked


def _borrower_of(lending: Lending) -> Borrower:
    return Borrower(str(lending.lineage), lending.grant_id, lending.user)


def _locked(borrower: Borrower) -> bool:
    """Lock the rows of the credential until the end of the transaction. Whether there are any that hold."""
    alias = _alias()
    grants, tokens = Grant.objects.using(alias), AccessToken.objects.using(alias)
    if borrower.grant_id is not None:
        held: Any = grants.filter(pk=borrower.grant_id, user=borrower.user.pk, line=borrower.lineage)
    elif _is_lineage(borrower.lineage):
        held = tokens.filter(line=borrower.lineage, grant=None, user=borrower.user.pk).order_by("pk")
    else:
        return False
    return any(one.is_current() for one in held.select_for_update())


def _write(borrower: Borrower) -> None:
    """Write what the lendings come to into the rows of the credential, and let every process read it anew."""
    alias = _alias()
    running = Lending.objects.using(alias).of(borrower.lineage, borrower.grant_id).running()
    lent: dict[str, float] = {}
    # A read that locks sees what another transaction has committed meanwhile, on every database.
    for one in running.select_for_update():
        for scope in one.scopes:
            lent[scope] = max(lent.get(scope, 0.0), one.until.timestamp())
    tokens = AccessToken.objects.using(alias)
    if borrower.grant_id is None:
        tokens.filter(line=borrower.lineage, grant=None).update(lent=lent)
    else:
        _write_into_grant(borrower.grant_id, lent)
    signals.announce_access_change(alias, {borrower.user.pk})


def _write_into_grant(key: int, lent: dict[str, float]) -> None:
    alias = _alias()
    grants, tokens = Grant.objects.using(alias), AccessToken.objects.using(alias)
    grants.filter(pk=key).update(lent=lent)
    scopes = grants.filter(pk=key).values_list("scopes", flat=True).first()
    if scopes is None:
        return  # It was deleted, and its tokens with it.
    held = set(scopes)
    for token in AccessToken.objects.db_manager(alias).current().filter(grant=key):
        # A token for which its client asked for less gets no more by this.
        own = {one: end if token.lent.get(one, held <= set(token.scopes)) else WITHHELD for one, end in lent.items()}
        tokens.filter(pk=token.pk).update(lent=own)


def _is_lineage(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _alias() -> str:
    return router.db_for_write(AccessToken)
