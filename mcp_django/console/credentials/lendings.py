"""What is lent to the credentials that pages show: in words, and how a person ends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from mcp_django.access import lending
from mcp_django.exchange.principals import in_force
from mcp_django.models import AccessToken, Grant, Lending
from mcp_django.protocol.names import printable


def in_words(scopes: Iterable[str], until: datetime, agreed_by: str = "") -> str:
    """Such as "write until 15:00 · agreed by bob"."""
    local = timezone.localtime(until) if timezone.is_aware(until) else until
    is_today = local.date() == timezone.localdate() if settings.USE_TZ else local.date() == timezone.now().date()
    named = ", ".join(scopes)
    if is_today:
        said = _("%(scopes)s until %(time)s") % {"scopes": named, "time": date_format(local, "TIME_FORMAT")}
    else:
        moment = date_format(local, "SHORT_DATETIME_FORMAT")
        said = _("%(scopes)s until %(moment)s") % {"scopes": named, "moment": moment}
    by = _("agreed by %(who)s") % {"who": printable(agreed_by)}
    return f"{said} · {by}" if agreed_by else said


def scopes_in_words(holder: AccessToken | Grant) -> str:
    """The scopes that a token or a grant has for good, and those that it has for a while."""
    zone, lent = UTC if settings.USE_TZ else None, holder.lent if holder.is_current() else {}
    ends = [(one, datetime.fromtimestamp(lent[one], zone)) for one in sorted(in_force(lent.items()))]
    return ", ".join([*holder.scopes, *(in_words([one], end) for one, end in ends)])


@dataclass(frozen=True, slots=True)
class ShownLending:
    """A lending as a page shows it, with a button that ends it."""

    key: int
    text: str

    @classmethod
    def of(cls, one: Lending) -> ShownLending:
        return cls(one.pk, in_words(one.scopes, one.until, one.agreed_by))


def may_end(user: Any, one: Lending) -> bool:
    """Whether the user may end it: its own user, and superusers."""
    return bool(user.is_superuser) or one.user_id == user.pk


def end(user: Any, one: Lending | None) -> bool:
    """End it in the name of the user, who may. Returns False where it has ended already, or there is none."""
    return one is not None and may_end(user, one) and lending.end(one, user.get_username())
