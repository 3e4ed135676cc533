"""``mcp_due`` writes to the users of tokens that end soon, once for each token and end."""

from __future__ import annotations

import datetime
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.utils import timezone

from mcp_django.models import AccessToken
from mcp_django.server import due, mails
from tests.support.data import Users, make_staff

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]

NOW = datetime.datetime(2031, 3, 10, 12, tzinfo=datetime.UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, datetime.datetime]:
    """What time it is."""
    found = {"now": NOW}
    monkeypatch.setattr(timezone, "now", lambda: found["now"])
    return found


def person(name: str, *permissions: str) -> User:
    user = make_staff(name, *permissions)
    user.email = f"{name}@example.com"
    user.save()
    return user


@pytest.fixture
def ann(users: Users) -> User:
    return person("ann")


def token_of(
    user: User, name: str = "laptop", *, ends: timedelta = 5 * DAY, life: timedelta = 90 * DAY, **more: Any
) -> AccessToken:
    token, _ = AccessToken.objects.create_token(user=user, name=name, expires_at=timezone.now() + ends)
    values = {"created_at": timezone.now() + ends - life, "last_used_at": timezone.now() - DAY, **more}
    AccessToken.objects.filter(pk=token.pk).update(**values)
    return token


def ran() -> int | None:
    return due.run()["mails about tokens that end"]


def test_a_user_gets_one_mail_about_all_tokens_that_end_soon(ann: User, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "BASE_URL": "https://example.com", "SELF_SERVICE": ["read"]}
    settings.TIME_ZONE = "Europe/Berlin"
    token, other = token_of(ann, "laptop\u202e"), token_of(ann, "second", ends=6 * DAY)

    with timezone.override("Europe/Berlin"):
        found = [ran(), ran()]

    [sent] = mail.outbox
    assert found == [1, 0]
    assert (sent.to, sent.subject) == (["ann@example.com"], "2 access tokens of yours end soon")
    assert "ends on March 15, 2031, 1 p.m. (Europe/Berlin)" in sent.body and "“second” ends on March 16" in sent.body
    assert "Make a new one here: https://example.com/mcp/connected" in sent.body
    assert "\u202e" not in sent.body
    for one in (token, other):
        assert one.hash not in sent.body and one.last_chars not in sent.body


#: What the tokens are that nobody is written to about.
QUIET: list[dict[str, Any]] = [
    {"ends": 8 * DAY},
    # A quarter of its life is not over before this.
    {"ends": 2 * DAY, "life": 7 * DAY},
    {"last_used_at": None},
    {"last_used_at": NOW - 31 * DAY},
    {"revoked_at": NOW},
]


def test_nobody_is_written_to_about_these(ann: User) -> None:
    for values in QUIET:
        token_of(ann, **values)
    AccessToken.objects.create_token(user=ann, expires_at="never")
    rolled = token_of(ann, "rolled")
    AccessToken.objects.create_token(user=ann, line=rolled.line)
    User.objects.filter(pk=(gone := person("gone")).pk).update(is_active=False)
    token_of(gone)
    token_of(make_staff("mute"))

    assert ran() == 0 and not mail.outbox
    # Neither of the last two is asked for again and again.
    assert AccessToken.objects.exclude(told_at=None).count() == 2


def test_a_short_token_is_told_in_the_last_quarter_of_its_life(ann: User) -> None:
    token_of(ann, ends=1.7 * DAY, life=7 * DAY)

    assert ran() == 1


def test_another_end_is_told_again(ann: User, clock: dict[str, datetime.datetime]) -> None:
    token = token_of(ann)
    assert ran() == 1

    AccessToken.objects.filter(pk=token.pk).update(expires_at=NOW + 60 * DAY, last_used_at=NOW + 50 * DAY)
    clock["now"] = NOW + 52 * DAY
    assert ran() == 0
    clock["now"] = NOW + 54 * DAY
    assert [ran(), ran()] == [1, 0]


def test_a_mail_that_fails_is_tried_by_the_next_runs_for_an_hour_and_stops_no_other(
    ann: User, clock: dict[str, datetime.datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = person("bob")
    real, away = mail.EmailMessage.send, {"ann@example.com"}

    def send(message: Any, **options: Any) -> int:
        if away & set(message.to):
            raise OSError("no route to the mail server")
        return real(message, **options)

    monkeypatch.setattr(mail.EmailMessage, "send", send)
    for user in (ann, bob):
        token_of(user, ends=7 * DAY)

    assert ran() == 1 and [one.to for one in mail.outbox] == [["bob@example.com"]]
    clock["now"] = NOW + HOUR / 2
    away.clear()
    assert ran() == 1 and [one.to for one in mail.outbox] == [["bob@example.com"], ["ann@example.com"]]

    away.add("ann@example.com")
    token_of(ann, "late", ends=6 * DAY)
    assert mails.RETRIED_FOR < DAY
    assert ran() == 0
    away.clear()
    assert ran() == 0, "it was due a day ago, and was tried once"


def test_the_mail_leads_to_where_its_user_makes_a_token(ann: User, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "BASE_URL": "https://example.com", "SELF_SERVICE": []}
    adding = person("adding", "mcp_django.add_accesstoken")
    for user in (ann, adding):
        token_of(user)

    ran()

    said = {one.to[0]: one.body for one in mail.outbox}
    assert "Make a new one here: https://example.com/admin/mcp_django/accesstoken/add/" in said["adding@example.com"]
    assert "Ask whoever made it for a new one." in said["ann@example.com"] and "http" not in said["ann@example.com"]
