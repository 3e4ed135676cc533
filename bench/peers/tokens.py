"""Whose a token is, for the servers that leave this to their user: by the tokens of Django REST framework."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from rest_framework.authtoken.models import Token


@sync_to_async
def user_of(key: str) -> Any:
    """The active user of a token, or None."""
    token = Token.objects.select_related("user").filter(key=key, user__is_active=True).first()
    return None if token is None else token.user
