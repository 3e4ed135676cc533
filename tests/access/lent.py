"""A clock that stands still, and credentials that are lent something."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from mcp_django.access.lending import Borrower, begin
from mcp_django.models import AccessToken, Grant, Lending, digest
from tests.access.test_grants import make_grant, token_by
from tests.support.declared import Declared

LENT_SECONDS = 60


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now: datetime = timezone.now()

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def stopped(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timezone, "now", lambda: clock.now)
    return clock


def by_hand(user: User, scope: str = "read") -> str:
    """A token that somebody has made."""
    return AccessToken.objects.create_token(user=user, scopes=[scope])[1]


def of_app(user: User, scope: str = "read") -> str:
    """The token of a connected app."""
    return token_by(make_grant(user, scopes=[scope]), scope)[1]


def declare_work(declared: Declared) -> None:
    """A tool that needs the scope for actions."""

    def work(request: Any) -> str:
        """Changes something, for which it needs the scope for actions."""
        return "done"

    declared.tool(work)


#: The two kinds of credentials that scopes are lent to.
CREDENTIALS: dict[str, Callable[..., str]] = {"a token": by_hand, "an app": of_app}


def token_in(plain: str) -> AccessToken:
    return AccessToken.objects.get(hash=digest(plain))


def borrower_of(plain: str) -> Borrower:
    token = token_in(plain)
    return Borrower(str(token.line), token.grant_id, token.user)


def lent_to(plain: str, *scopes: str, seconds: float = LENT_SECONDS) -> Lending:
    """What bob agrees to lend to the holder of the token."""
    until = timezone.now() + timedelta(seconds=seconds)
    return begin(borrower_of(plain), scopes or ["actions"], until, agreed_by="bob")


def lent_in(holder: AccessToken | Grant) -> Any:
    """What the row of a token or a grant says."""
    holder.refresh_from_db()
    return holder.lent
