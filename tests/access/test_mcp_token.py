"""``manage.py mcp_token``: a token alone on standard output."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone

from mcp_django.exchange.scopes import GRAMMAR
from mcp_django.models import AccessToken, digest
from mcp_django.models.tokens import NEVER

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def ada() -> User:
    return User.objects.create_user("ada")


def days_of(token: AccessToken) -> int | None:
    """The days from making the token to its end."""
    return None if token.expires_at is None else round((token.expires_at - token.created_at) / timedelta(days=1))


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("mcp_token", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_token_is_alone_on_standard_output(ada: User) -> None:
    out, err = run("ada")

    token = AccessToken.objects.get()
    assert re.fullmatch(r"mcpdj_[0-9A-Za-z]{49}\n", out) and err == ""
    assert token.hash == digest(out.strip())
    assert (token.user, token.name, token.scopes, token.addresses) == (ada, "", ["read"], [])
    assert token.expires_at is not None and days_of(token) == 90


def test_every_option() -> None:
    run("ada", "--name", "laptop", "--scopes", "actions, read", "--expires-in-days", "7",
        "--addresses", "192.0.2.7, 2001:DB8::/32")  # fmt: skip

    token = AccessToken.objects.get()
    assert (token.name, token.scopes) == ("laptop", ["read", "actions"])
    assert (token.addresses, days_of(token)) == (["192.0.2.7/32", "2001:db8::/32"], 7)


def test_never_must_be_said_and_a_long_name_is_cut() -> None:
    run("ada", "--never", "--name", "x" * 200)

    token = AccessToken.objects.get()
    assert (token.expires_at, token.name) == (None, "x" * 100)


@override_settings(MCP={"TOKEN_DAYS": 30, "TOKEN_MAX_DAYS": 7})
def test_the_longest_life_is_the_life_of_a_token_that_names_none() -> None:
    run("ada")

    assert days_of(AccessToken.objects.get()) == 7


@override_settings(MCP={"TOKEN_MAX_DAYS": 100})
def test_no_token_may_live_longer_than_the_longest_life() -> None:
    for arguments in (["--never"], ["--expires-in-days", "101"]):
        with pytest.raises(CommandError, match="may live for 100 days at most"):
            run("ada", *arguments)
    assert not AccessToken.objects.exists()


def test_rolling_prints_the_successor_and_ends_the_old_token(ada: User) -> None:
    old, _ = AccessToken.objects.create_token(user=ada, name="laptop", scopes=["actions"], addresses=["192.0.2.7"])
    out, _ = run("--roll", str(old.pk), "--expires-in-days", "5")
    old.refresh_from_db()
    new = AccessToken.objects.get(hash=digest(out.strip()))

    assert old.revoked_at is not None
    assert (new.user, new.name, new.scopes, new.addresses, new.line, days_of(new)) == (
        ada, "laptop", ["actions"], ["192.0.2.7/32"], old.line, 5,
    )  # fmt: skip


def test_rolling_with_a_grace_leaves_the_old_token_for_so_long(ada: User) -> None:
    old, _ = AccessToken.objects.create_token(user=ada, expires_at=NEVER)
    run("--roll", str(old.pk), "--grace", "1h")
    old.refresh_from_db()

    assert old.revoked_at is None and old.expires_at is not None
    assert timedelta() < old.expires_at - timezone.now() <= timedelta(hours=1)
    with pytest.raises(CommandError, match="has ended or was replaced already"):
        run("--roll", str(old.pk))


@pytest.mark.every_database
def test_clearing_deletes_tokens_that_ended_long_ago_and_no_others(ada: User) -> None:
    names = ("current", "never", "expired lately", "expired", "revoked lately", "revoked")
    tokens = {name: AccessToken.objects.create_token(user=ada, name=name, expires_at=NEVER)[0] for name in names}
    lately, before = timezone.now() - timedelta(days=2), timezone.now() - timedelta(days=31)
    for name, field, moment in [
        ("current", "expires_at", timezone.now() + timedelta(days=1)), ("expired lately", "expires_at", lately),
        ("expired", "expires_at", before), ("revoked lately", "revoked_at", lately), ("revoked", "revoked_at", before),
    ]:  # fmt: skip
        AccessToken.objects.filter(pk=tokens[name].pk).update(**{field: moment})

    out, err = run("--clear", "30")

    assert (out, err) == ("", "2 tokens were deleted.\n")
    assert set(AccessToken.objects.values_list("name", flat=True)) == set(names) - {"expired", "revoked"}


MISTAKES = [
    (["nobody"], "There is no user 'nobody'. Make one with: manage.py createsuperuser"),
    (["ada", "--scopes", "writing"],
     f"--scopes: unknown scope 'writing'; the scopes are {GRAMMAR}."),
    (["ada", "--scopes", ""], f"--scopes: name at least one of {GRAMMAR}."),
    (["ada", "--scopes", ","], f"--scopes: name at least one of {GRAMMAR}."),
    (["ada", "--scopes", "model:flights.fligth:read"],
     "--scopes: 'model:flights.fligth:read' names no model of this server. Did you mean flights.flight?"),
    (["ada", "--scopes", "tool:find_record"],
     "--scopes: 'tool:find_record' names no tool of this server. Did you mean find_records?"),
    (["ada", "--addresses", "10.0.0.1/8"],
     "--addresses: '10.0.0.1/8' is no address and no network, such as 192.0.2.0/24: 10.0.0.1/8 has host bits set."),
    (["--roll", "99"], "--roll: there is no token 99. Its number is in its URL in the admin."),
    (["--roll", "99", "--grace", "soon"],
     "--grace: 'soon' is no time. Write a number with s, m, h, d or w, such as 30m."),
    (["--clear", "-1"], "--clear: must be between 0 and 36500."),
    (["ada", "--expires-in-days", "0"], "--expires-in-days: must be between 1 and 36500."),
    (["ada", "--expires-in-days", "-1"], "--expires-in-days: must be between 1 and 36500."),
    (["ada", "--expires-in-days", "99999999"], "--expires-in-days: must be between 1 and 36500."),
]  # fmt: skip


def test_a_mistake_is_told_and_makes_no_token() -> None:
    def said(arguments: list[str]) -> str:
        try:
            return f"done: {run(*arguments)}"
        except CommandError as error:
            return str(error)

    assert [(arguments, said(arguments)) for arguments, _ in MISTAKES] == MISTAKES
    assert not AccessToken.objects.exists()


def test_an_inactive_user_gets_no_token(ada: User) -> None:
    ada.is_active = False
    ada.save()

    with pytest.raises(CommandError, match="The user 'ada' is inactive, so an agent would be refused"):
        run("ada")
    assert not AccessToken.objects.exists()


# Who made it.


def refused(*arguments: str) -> str:
    with pytest.raises(CommandError) as error:
        run(*arguments)
    return str(error.value)


def test_a_maker_who_is_named_is_recorded_and_stays(ada: User) -> None:
    bob = User.objects.create_user("bob", is_active=False)
    run("ada", "--made-by", "bob")
    token = AccessToken.objects.get()
    run("--roll", str(token.pk), "--made-by", "ada")

    told = refused("--token", str(token.pk), "--made-by", "ada")

    assert told == f"--made-by: it is recorded already who made the token {token.pk}."
    assert list(AccessToken.objects.values_list("made_by", flat=True)) == [str(bob.pk)] * 2


def test_who_made_a_token_is_recorded_for_all_of_its_credential_line(ada: User) -> None:
    bob = User.objects.create_user("bob")
    run("ada")
    run("ada", "--name", "other")
    first = AccessToken.objects.get(name="")
    run("--roll", str(first.pk), "--grace", "1h")

    out, err = run("--token", str(first.pk), "--made-by", "bob")

    assert (out, err) == ("", f"bob is recorded as the maker of the token {first.pk}.\n")
    assert list(AccessToken.objects.filter(line=first.line).values_list("made_by", flat=True)) == [str(bob.pk)] * 2
    assert AccessToken.objects.get(name="other").made_by == ""


def test_recording_a_maker_needs_both_the_token_and_the_name() -> None:
    assert refused("--token", "1") == "--token: say who made it, with --made-by."
    assert "there is no token 9" in refused("--token", "9", "--made-by", "ada")
    assert "There is no user 'eve'" in refused("ada", "--made-by", "eve")
    assert refused("--clear", "3", "--made-by", "ada") == "--made-by does not go with --clear."
    assert not AccessToken.objects.exists()
