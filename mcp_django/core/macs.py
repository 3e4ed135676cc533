"""Message authentication codes: only whoever knows SECRET_KEY can make one, and older keys stay valid as fallbacks."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.utils.crypto import salted_hmac


def macs(salt: str, text: str) -> Iterator[bytes]:
    """The MAC of a text by the present secret key, and by each that may still be valid, for what the salt names."""
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        # JSON may hold half of a surrogate pair.
        value = text.encode("utf-8", "surrogatepass")
        yield salted_hmac(salt, value, secret=key, algorithm="sha256").digest()
