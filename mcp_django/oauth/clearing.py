"""Ends the grants that a client has forgotten, and deletes what has expired, in batches."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import DatabaseError
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from mcp_django.core.db.clearing import clear_away
from mcp_django.models import AccessToken, Grant
from mcp_django.models.grants import IDLE
from mcp_django.oauth.models import AuthorizationCode, RefreshToken

logger = logging.getLogger("mcp_django")

#: Grants of one user to one client for one resource. Beyond that, the oldest end.
_MOST_GRANTS = 20
#: How long codes, so that a second use is seen, and access tokens are kept after they have expired.
_KEPT = timedelta(days=1)


def tidy(grant: Grant) -> None:
    """Do what is due once in a while. A failure must not cost the client its tokens, which exist already."""
    try:
        _end_surplus(grant)
        _clear_away()
    except DatabaseError:
        logger.exception("What has expired could not be cleared away")


def _end_surplus(grant: Grant) -> None:
    """End the grants beyond the most that a client may have of one user: it has forgotten them."""
    mine = Grant.objects.current().filter(user=grant.user, client=grant.client, resource=grant.resource)
    for one in mine.order_by("-last_used_at", "-pk")[_MOST_GRANTS:]:
        one.end(Grant.Ended.SURPLUS)


def _clear_away() -> None:
    """Delete a batch of what has expired: codes, access tokens that have successors, and what ended grants leave."""
    limit = timezone.now() - _KEPT
    newer = AccessToken.objects.filter(grant=OuterRef("grant"), pk__gt=OuterRef("pk"))
    # The newest token of a grant that holds stands for it in tasks and tickets.
    leftover = Q(Exists(newer)) | Q(grant__ended_at__lt=limit)
    clear_away(AccessToken.objects.filter(leftover, grant__isnull=False, expires_at__lt=limit))
    clear_away(AuthorizationCode.objects.filter(expires_at__lt=limit))
    clear_away(RefreshToken.objects.filter(replaced_at__lt=_long_ago(), created_at__lt=_long_ago()))
    clear_away(Grant.objects.filter(expires_at__lt=_long_ago()) | Grant.objects.filter(ended_at__lt=_long_ago()))


def _long_ago() -> datetime:
    return timezone.now() - IDLE
