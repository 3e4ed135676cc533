"""Values that may be used once, whichever process they come back to."""

from __future__ import annotations

from datetime import timedelta

from django.db import IntegrityError, router, transaction
from django.utils import timezone

from mcp_django.core.db.clearing import clear_away

#: The clocks of two machines differ by less than this.
_CLOCK_SKEW = timedelta(minutes=5)


def redeem(nonce: str, seconds: float) -> bool:
    """Whether this is the first use of ``nonce``, outside of a transaction. See ``claim``."""
    forget_expired()
    return claim(nonce, seconds)


def claim(nonce: str, seconds: float) -> bool:
    """Whether this is the first use of ``nonce``. If a transaction on ``database()`` is rolled back, it does not count.

    The row is kept for ``seconds``, and for the time by which clocks may differ: by then the nonce must be invalid.
    """
    from mcp_django.models import UsedNonce

    end = timezone.now() + timedelta(seconds=seconds) + _CLOCK_SKEW
    try:
        with transaction.atomic(using=database()):
            UsedNonce.objects.create(nonce=nonce, expires_at=end)
    except IntegrityError:
        return False
    return True


def is_used(nonce: str) -> bool:
    """Whether the nonce was used already."""
    from mcp_django.models import UsedNonce

    return UsedNonce.objects.using(database()).filter(nonce=nonce).exists()


def forget_expired() -> None:
    """Delete nonces that are no longer valid anyway. Do not call it in a transaction."""
    from mcp_django.models import UsedNonce

    clear_away(UsedNonce.objects.filter(expires_at__lte=timezone.now()))


def database() -> str:
    """The alias of the database that remembers used nonces."""
    from mcp_django.models import UsedNonce

    return router.db_for_write(UsedNonce)
