"""Mails to people, in the project's language: Django knows none of a user's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.mail import EmailMessage
from django.utils import translation

#: How long the next runs of ``mcp_due`` try again to send a mail that failed.
RETRIED_FOR = timedelta(hours=1)


def send(user: Any, write: Callable[[], tuple[str, str]]) -> bool:
    """Send a person the title and the text that the function writes.

    False where nobody could be written to. Raises what the project's mail raises.
    """
    field = getattr(get_user_model(), "get_email_field_name", lambda: "email")()
    address = getattr(user, field, "")
    if not address or not user.is_active:
        return False
    with translation.override(settings.LANGUAGE_CODE):
        title, text = write()
    return bool(EmailMessage(title, text, to=[address]).send())
