"""Mails to the users of access tokens that end soon: which, when, and where a new one is made."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext

from mcp_django.access.permissions import page_for_tokens
from mcp_django.conf import get_conf
from mcp_django.exchange.requests import from_settings
from mcp_django.models import AccessToken
from mcp_django.models.tokens import SOON
from mcp_django.protocol.names import printable
from mcp_django.server import mails

logger = logging.getLogger("mcp_django")

#: A token is written about SOON before its end, and not before this last part of its life.
_SHARE = 4
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
        claimed = [token for token in tokens if _claim(token)]
        try:
            sent += bool(claimed) and mails.send(user, partial(_mail, user, claimed))
        except Exception:
            logger.exception("A mail about tokens that end could not be sent")
            _give_back(token for token in claimed if timezone.now() - _due_at(token) <= mails.RETRIED_FOR)
    return sent


def _claim(token: AccessToken) -> bool:
    """Whether this run writes about the token, and no other run that began before this one has ended."""
    return AccessToken.objects.filter(pk=token.pk, told_at=token.told_at).update(told_at=timezone.now()) == 1


def _give_back(tokens: Iterable[AccessToken]) -> None:
    """Let the next runs try again."""
    for token in tokens:
        AccessToken.objects.filter(pk=token.pk).update(told_at=token.told_at)


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
    heading = gettext("%(title)s:") % {"title": title}
    return title, "\n".join([heading, "", *(f"- {line}" for line in lines), "", _where(user), ""])


def _moment(moment: Any) -> str:
    if not timezone.is_aware(moment):
        return date_format(moment, "DATETIME_FORMAT")
    return f"{date_format(timezone.localtime(moment), 'DATETIME_FORMAT')} ({timezone.get_current_timezone_name()})"


def _where(user: Any) -> str:
    """Where the person makes a new token."""
    path = page_for_tokens(user)
    if path is None:
        return gettext("Ask whoever made it for a new one.")
    # The host is the project's own.
    url = from_settings().build_absolute_uri(path) if get_conf().BASE_URL else path
    return gettext("Make a new one here: %(url)s") % {"url": url}
