"""For how long a person gives an app what it asks for beside what it has: for an hour, for eight, or for good."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.core import signing
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

_SALT = "mcp_django.oauth.consent"

#: As the form sends it → how long, and how the page says it. The first one is chosen unless the person chooses.
CHOICES: Mapping[str, tuple[timedelta | None, Any]] = {
    "1": (timedelta(hours=1), _("For 1 hour")),
    "8": (timedelta(hours=8), _("For 8 hours")),
    "good": (None, _("For good")),
}


def sign_page(user: Any) -> str:
    """A text for the form of a page that is shown to the user now."""
    return signing.dumps({"user": str(user.pk), "at": timezone.now().timestamp()}, salt=_SALT)


def shown_at(text: Any, user: Any) -> float | None:
    """When the page of a form was shown, in seconds since 1970; None if it was not shown to this user."""
    try:
        held = signing.loads(str(text), salt=_SALT)
    except signing.BadSignature:
        return None
    return float(held["at"]) if held["user"] == str(user.pk) else None


def end_of(choice: str, at: float) -> datetime | None:
    """When it ends what is given by the page that was shown ``at``; None for good. Raises LookupError.

    The time counts from the page on, so that a form that is sent once more prolongs nothing.
    """
    length, _said = CHOICES[choice]
    if length is None:
        return None
    end = datetime.fromtimestamp(at, UTC if settings.USE_TZ else None) + length
    if end <= timezone.now():
        raise LookupError("the time is over")
    return end
