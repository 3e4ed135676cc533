"""``manage.py mcp_token``: a token alone on standard output."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from mcp_django.models import AccessToken, digest

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]


@pytest.fixture(autouse=True)
def ada() -> User:
    return User.objects.create_user("ada")


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("mcp_token", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_token_is_alone_on_standard_output(ada: User) -> None:
    out, err = run("ada")

    token = AccessToken.objects.get()
    assert re.fullmatch(r"mcp_[\w-]{43}\n", out) and err == ""
    assert token.hash == digest(out.strip())
    assert (token.user, token.name, token.scopes, token.expires_at) == (ada, "", ["read"], None)


def test_every_option() -> None:
    run("ada", "--name", "laptop", "--scopes", "actions, read", "--expires-in-days", "7")

    token = AccessToken.objects.get()
    assert (token.name, token.scopes) == ("laptop", ["read", "actions"])
    assert token.expires_at is not None
    assert abs(token.expires_at - timezone.now() - timedelta(days=7)) < timedelta(minutes=1)


def test_a_long_name_is_cut() -> None:
    run("ada", "--name", "x" * 200)

    assert AccessToken.objects.get().name == "x" * 100


@pytest.mark.parametrize(("arguments", "text"), [
    (["nobody"], "There is no user 'nobody'. Make one with: manage.py createsuperuser"),
    (["ada", "--scopes", "write"], "--scopes: unknown scope 'write'; the scopes are read, actions."),
    (["ada", "--scopes", ""], "--scopes: name at least one of read, actions."),
    (["ada", "--scopes", ","], "--scopes: name at least one of read, actions."),
    (["ada", "--expires-in-days", "0"], "--expires-in-days: must be between 1 and 36500."),
    (["ada", "--expires-in-days", "-1"], "--expires-in-days: must be between 1 and 36500."),
    (["ada", "--expires-in-days", "99999999"], "--expires-in-days: must be between 1 and 36500."),
])  # fmt: skip
def test_a_mistake_is_told_and_makes_no_token(arguments: list[str], text: str) -> None:
    with pytest.raises(CommandError) as raised:
        run(*arguments)

    assert str(raised.value) == text
    assert not AccessToken.objects.exists()


def test_an_inactive_user_gets_no_token(ada: User) -> None:
    ada.is_active = False
    ada.save()

    with pytest.raises(CommandError, match="The user 'ada' is inactive, so an agent would be refused"):
        run("ada")
    assert not AccessToken.objects.exists()
