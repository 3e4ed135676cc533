"""How long codes, tokens and grants live, what ends them early, and when their rows are deleted."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcp_django.models import AccessToken, Grant
from mcp_django.oauth.models import AuthorizationCode, Client, RefreshToken
from tests.oauth.flow import Person, Program, code_in, error_in
from tests.oauth.test_refresh import block_the_client, deactivate, ok, use_the_access_token
from tests.support.data import Users

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def ago(**parts: float) -> datetime:
    return timezone.now() - timedelta(**parts)


# How long.


def test_the_row_of_a_code_says_a_minute(users: Users) -> None:
    earliest = timezone.now()

    code_in(Person(users.ops).allow(Program().url(), "read"))

    latest = timezone.now()
    assert earliest + MINUTE <= AuthorizationCode.objects.get().expires_at <= latest + MINUTE


@pytest.mark.parametrize("is_refreshed", [False, True])
def test_the_row_of_an_access_token_says_an_hour(users: Users, is_refreshed: bool) -> None:
    program = Program()
    earliest = timezone.now()

    tokens = program.log_in(users.ops)
    if is_refreshed:
        ok(program.refresh(tokens["refresh_token"]))

    latest = timezone.now()
    expires_at = AccessToken.objects.latest("pk").expires_at
    assert expires_at is not None
    assert earliest + HOUR <= expires_at <= latest + HOUR


# What ends them early.


@pytest.mark.parametrize("ending", [deactivate, block_the_client])
def test_a_code_of_somebody_who_gets_nothing_any_more(users: Users, ending: Any) -> None:
    program = Program()
    code = code_in(Person(users.ops).allow(program.url(), "read"))

    ending(users.ops)

    assert error_in(program.exchange(code)) == (400, "invalid_grant")
    assert not Grant.objects.exists()


def test_a_client_that_is_blocked_refreshes_nothing_though_its_grant_has_not_ended(users: Users) -> None:
    program = Program()
    token = program.log_in(users.ops)["refresh_token"]

    Client.objects.update(blocked_at=timezone.now())

    assert error_in(program.refresh(token)) == (400, "invalid_grant")
    assert RefreshToken.objects.count() == 1


# When their rows are deleted: somebody else gets tokens, and what has expired goes.


@pytest.mark.every_database
@pytest.mark.parametrize(("hours", "is_kept"), [(23, True), (25, False)])
def test_a_code_is_kept_for_a_day(users: Users, hours: int, is_kept: bool) -> None:
    Program().log_in(users.ops)
    AuthorizationCode.objects.update(expires_at=ago(hours=hours))

    Program().log_in(users.admin)

    assert AuthorizationCode.objects.filter(user=users.ops).exists() is is_kept


@pytest.mark.every_database
@pytest.mark.parametrize(("hours", "left"), [(23, 2), (25, 1)])
def test_an_access_token_that_has_a_successor_is_kept_for_a_day(users: Users, hours: int, left: int) -> None:
    program = Program()
    ok(program.refresh(program.log_in(users.ops)["refresh_token"]))
    AccessToken.objects.update(expires_at=ago(hours=hours))

    Program().log_in(users.admin)

    assert AccessToken.objects.filter(user=users.ops).count() == left


@pytest.mark.every_database
@pytest.mark.parametrize(("days", "left"), [(29, 2), (31, 1)])
def test_a_refresh_token_that_was_replaced_is_kept_for_a_month(users: Users, days: int, left: int) -> None:
    program = Program()
    use_the_access_token(program, ok(program.refresh(program.log_in(users.ops)["refresh_token"])))
    RefreshToken.objects.update(created_at=ago(days=days))
    RefreshToken.objects.filter(replaced_at__isnull=False).update(replaced_at=ago(days=days))

    Program().log_in(users.admin)

    assert RefreshToken.objects.filter(grant__user=users.ops).count() == left


@pytest.mark.every_database
@pytest.mark.parametrize("over", ["expires_at", "ended_at"])
@pytest.mark.parametrize(("days", "is_kept"), [(29, True), (31, False)])
def test_a_grant_that_is_over_is_kept_for_a_month(users: Users, over: str, days: int, is_kept: bool) -> None:
    Program().log_in(users.ops)
    Grant.objects.update(**{over: ago(days=days)})

    Program().log_in(users.admin)

    assert Grant.objects.filter(user=users.ops).exists() is is_kept
