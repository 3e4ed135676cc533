"""Principals of every source: each is looked up again while its connection is open, and ends when it is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.test import Client
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from mcp_django.access.authentication import authenticate, authenticate_again, authenticate_login, principals
from mcp_django.core.secret import Secret
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest, from_settings
from mcp_django.models import AccessToken
from mcp_django.protocol.errors import Unauthenticated
from mcp_django.push import credentials
from tests.support.data import Users, token_of


@dataclass(eq=False)
class Open:
    """Something open, as the sweep knows it."""

    principal: Principal
    request: MCPRequest = field(default_factory=from_settings)
    is_counted = False
    session_key: str | None = None

    def close(self, *, going_away: bool = False) -> None: ...


def by_token(user: User) -> Open:
    request = from_settings()
    request.authorization = Secret(f"Bearer {token_of(user)}")
    return Open(authenticate(request, fresh=True), request)


def by_login(user: User) -> Open:
    browser = Client()
    browser.force_login(user)
    request = from_settings()
    request.cookie = Secret(f"sessionid={browser.cookies['sessionid'].value}")
    principal = authenticate_login(request)
    assert principal is not None
    return Open(principal, request)


def by_ticket(user: User) -> Open:
    """The request held a ticket, which is used up: there are no credentials in it."""
    return Open(replace(by_token(user).principal, source=Source.TICKET))


def by_command(user: User) -> Open:
    return Open(Principal(user, frozenset({"read"}), source=Source.COMMAND))


def deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def delete(user: User) -> None:
    user.delete()


def expire(user: User) -> None:
    AccessToken.objects.filter(user=user).update(expires_at=timezone.now() - timedelta(seconds=1))


def revoke(user: User) -> None:
    AccessToken.objects.filter(user=user).update(revoked_at=timezone.now())


def log_out(user: User) -> None:
    Session.objects.all().delete()


SOURCES = [by_token, by_login, by_ticket, by_command]
ENDINGS = [(make, end) for make in SOURCES for end in (deactivate, delete)] + [
    (by_token, expire), (by_token, revoke), (by_ticket, expire), (by_ticket, revoke), (by_login, log_out)
]  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_is_remembered(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 0}


def test_an_open_connection_stays_its_principal_s(users: Users) -> None:
    for make in SOURCES:
        opened = make(users.viewer)

        again = authenticate_again(opened.principal, opened.request)

        assert again == opened.principal, make
        assert again.user is not opened.principal.user
        assert credentials.compared([opened], 1).ended == []


def test_what_its_principal_says_next_is_refused_once_it_is_over_and_the_sweep_finds_it_idle(users: Users) -> None:
    kept, missed = by_token(users.admin), []

    for make, end in ENDINGS:
        with transaction.atomic():
            viewer = User.objects.get(pk=users.viewer.pk)
            over = make(viewer)
            end(viewer)
            try:
                authenticate_again(over.principal, over.request)
                missed.append((make, end, "admitted"))
            except Unauthenticated:
                pass
            if credentials.compared([over, kept], 1).ended != [over]:
                missed.append((make, end, "not swept"))
            transaction.set_rollback(True)

    assert missed == []


@pytest.mark.parametrize("make", [by_ticket, by_command], ids=["by_ticket", "by_command"])
def test_it_is_remembered_for_as_long_as_a_token_is_unless_an_administrator_saves_its_user(
    users: Users, make: Callable[[User], Open], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 60}
    opened, other = make(users.viewer), make(users.ops)
    principals.clear()

    for one in (opened, other):
        authenticate_again(one.principal, one.request)
    deactivate(users.viewer)  # No signal.
    users.ops.is_active = False
    users.ops.save()

    assert authenticate_again(opened.principal, opened.request) == opened.principal
    with pytest.raises(Unauthenticated):
        authenticate_again(other.principal, other.request)
    with pytest.raises(Unauthenticated):
        authenticate_again(opened.principal, opened.request, fresh=True)
    with pytest.raises(Unauthenticated):
        authenticate_again(opened.principal, opened.request)


class Visitor:
    """A user of the project's who stands in no table."""

    pk = "visitor-1"
    is_authenticated = True
    is_active = True


class VisitorAuthentication(BaseAuthentication):
    """Lets whoever says so in as a visitor."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        return (Visitor(), None) if request.META.get("HTTP_AUTHORIZATION") == "Visitor" else None


def test_a_user_who_stands_in_no_table_is_here_as_long_as_the_credentials_hold(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "AUTHENTICATION_CLASSES": [f"{__name__}.VisitorAuthentication"]}
    request = from_settings()
    request.authorization = Secret("Visitor")
    opened = Open(authenticate(request, fresh=True), request)

    here = credentials.compared([opened], 1).ended
    request.authorization = Secret("Nobody")
    gone = credentials.compared([opened], 2).ended

    assert (here, gone) == ([], [opened])
