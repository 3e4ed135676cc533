"""Values that may be used once, whichever process they come back to."""

from __future__ import annotations

from datetime import timedelta

from django.db import IntegrityError, router, transaction
from django.utils import timezone

from mcp_django.db.clearing import clear_away

#: The clocks of two machines differ by less than this.
_CLOCK_SKEW = timedelta(minutes=5)


def redeem(nonce: str, seconds: float) -> bool:
    """Whether this is the first use of ``nonce``.

    The row is kept for ``seconds``, and longer by what clocks may differ: the nonce itself must be invalid by then.
    """
    from mcp_django.models import UsedNonce

    now = timezone.now()
    clear_away(UsedNonce.objects.filter(expires_at__lte=now))
    try:
        with transaction.atomic(using=router.db_for_write(UsedNonce)):
            UsedNonce.objects.create(nonce=nonce, expires_at=now + timedelta(seconds=seconds) + _CLOCK_SKEW)
    except IntegrityError:
        return False
    return True
