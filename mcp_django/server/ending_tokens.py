"""Mails to the users of access tokens that end soon: which, when, and where a new one is made."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db.models import Exists, OuterRef
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext

from mcp_django.access.permissions import may_connect
from mcp_django.conf import get_conf
from mcp_django.exchange.audience import own_page_path
from mcp_django.exchange.requests import from_settings
from mcp_django.models import AccessToken
from mcp_django.protocol.names import printable
from mcp_django.server import mails

logger = logging.getLogger("mcp_django")

#: How long before its end a token is written about: at most so long, and at most this part of its life.
SOON, _SHARE = timedelta(days=7), 4
#: A token that was not used for so long is not missed.
_USED = timedelta(days=30)
#: Tokens about which one run writes.
_MOST = 1_000


def write_to_users() -> int:
    """Tell users that tokens of theirs end: once for each token and end, in one mail for all that is due.

    Tokens of OAuth clients are left out, since a client renews them, and those that have a successor already.
    """
    of_users: dict[Any, list[AccessToken]] = defaultdict(list)
    for token in islice(_due(), _MOST):
        of_users[token.user].append(token)
    sent = 0
    for user, tokens in of_users.items():
        told = tokens
        try:
            sent += mails.send(user, lambda user=user, tokens=tokens: _mail(user, tokens))  # type: ignore[misc]
        except Exception:
            logger.exception("A mail about tokens that end could not be sent")
            # The next runs try again.
            told = [token for token in tokens if timezone.now() - _due_at(token) > mails.TRIED]
        AccessToken.objects.filter(pk__in=[token.pk for token in told]).update(told_at=timezone.now())
    return sent


def _due() -> Iterator[AccessToken]:
    now = timezone.now()
    successors = AccessToken.objects.filter(line=OuterRef("line"), pk__gt=OuterRef("pk"), revoked_at=None)
    ending = AccessToken.objects.filter(
        ~Exists(successors), grant=None, revoked_at=None, expires_at__gt=now, expires_at__lte=now + SOON,
        last_used_at__gte=now - _USED,
    )  # fmt: skip
    for token in ending.select_related("user").order_by("expires_at", "pk"):
        due_at = _due_at(token)
        if due_at <= now and (token.told_at is None or token.told_at < due_at):
            yield token


def _due_at(token: AccessToken) -> datetime:
    """When its user is to be told. An end that is moved is told again."""
    end = token.expires_at
    if end is None:
        raise ValueError("A token that never ends")
    return end - min(SOON, (end - token.created_at) / _SHARE)


def _mail(user: Any, tokens: Sequence[AccessToken]) -> tuple[str, str]:
    """The title and the text. They hold no part of a token."""
    title = ngettext("%(count)d access token of yours ends soon", "%(count)d access tokens of yours end soon",
                     len(tokens)) % {"count": len(tokens)}  # fmt: skip
    line = gettext("“%(token)s” ends on %(moment)s")
    lines = [line % {"token": printable(str(one)), "moment": _moment(one.expires_at)} for one in tokens]
    return title, "\n".join([f"{title}:", "", *(f"- {line}" for line in lines), "", _where(user)]) + "\n"


def _moment(moment: Any) -> str:
    if not timezone.is_aware(moment):
        return date_format(moment, "DATETIME_FORMAT")
    return f"{date_format(timezone.localtime(moment), 'DATETIME_FORMAT')} ({timezone.get_current_timezone_name()})"


def _where(user: Any) -> str:
    """Where the person makes a new token."""
    makes_own = get_conf().SELF_SERVICE and may_connect(user)
    path = own_page_path() if makes_own else _admin_path(user)
    if path is None:
        return gettext("Ask whoever made it for a new one.")
    # The host is the project's own.
    url = from_settings().build_absolute_uri(path) if get_conf().BASE_URL else path
    return gettext("Make a new one here: %(url)s") % {"url": url}


def _admin_path(user: Any) -> str | None:
    if not (getattr(user, "is_staff", False) and user.has_perm("mcp_django.add_accesstoken")):
        return None
    try:
        return reverse("admin:mcp_django_accesstoken_add")
    except NoReverseMatch:
        return None
