"""What a token is worth now, and cells of the list that show it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import localize
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext

from mcp_django.models import AccessToken
from mcp_django.models.tokens import SOON


@dataclass(frozen=True)
class Status:
    text: Promise
    #: The class of its badge.
    look: str = ""
    #: Whether the token lets nobody in.
    is_dead: bool = False

    def badge(self) -> str:
        return format_html('<span class="mcp"><span class="mcp-badge {}">{}</span></span>', self.look, self.text)


VALID = Status(_("valid"), "is-good")
ENDING = Status(_("ends within 7 days"), "is-note")
EXPIRED = Status(_("expired"), is_dead=True)
REVOKED = Status(_("revoked"), is_dead=True)
INACTIVE = Status(_("user inactive"), "is-bad", is_dead=True)
PAUSED = Status(_("paused"), "is-bad")


def status_of(token: AccessToken) -> Status:
    """The first status that applies: what people did to a token says more than its date."""
    now = timezone.now()
    if token.revoked_at is not None:
        return REVOKED
    if token.expires_at is not None and token.expires_at <= now:
        return EXPIRED
    if not token.user.is_active:
        return INACTIVE
    return ENDING if token.expires_at is not None and token.expires_at <= now + SOON else VALID


def moment(value: datetime | None) -> Any:
    """A moment of use in the time zone and the format of the viewer."""
    if value is None:
        return pgettext("last used", "never")
    return localize(timezone.localtime(value) if timezone.is_aware(value) else value)


def cell(token: AccessToken, content: Any) -> str:
    """The content of a cell in the line of a token, quiet if the token is dead."""
    return format_html('<span class="mcp is-dead">{}</span>', content) if status_of(token).is_dead else str(content)
