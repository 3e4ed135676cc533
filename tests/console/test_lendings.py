"""What is lent to tokens and apps is shown where they are, and its user ends it there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.formats import date_format

from mcp_django.access.authentication import authenticate
from mcp_django.console.admin import connections
from mcp_django.models import Lending
from tests.access.lent import CREDENTIALS, Clock, by_hand, lent_to, of_app, stopped, token_in
from tests.access.test_grants import request_to
from tests.console.visiting import client_of, content_of, text_of
from tests.support.data import Users, make_staff
from tests.support.forms import Form

pytestmark = pytest.mark.django_db

OWN_PAGE = "/mcp/connected"
CONNECTIONS = "/admin/mcp_django/call/connections/"
TOKENS = "/admin/mcp_django/accesstoken/"
GRANTS = "/admin/mcp_django/grant/"
SAID = "actions until 3 p.m."
AGREED = f"{SAID} · agreed by bob"


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Clock:
    settings.TIME_ZONE = "UTC"
    settings.CHANNEL_LAYERS = {}
    made = stopped(monkeypatch)
    made.now = made.now.replace(hour=14, minute=0, second=0, microsecond=0)
    return made


def lent_until_three(plain: str) -> Lending:
    return lent_to(plain, seconds=3_600)


def scopes_of(plain: str) -> set[str]:
    return set(authenticate(request_to(plain), fresh=True).scopes)


def forms_of(user: User, url: str, kind: str) -> list[dict[str, str]]:
    """The forms by which a page lets a user end what is lent."""
    page = client_of(user).get(url).content.decode()
    forms = [Form(f"<form{one.partition('</form>')[0]}").hidden for one in page.split("<form")[1:]]
    return [one for one in forms if kind in one.values()]


@pytest.mark.parametrize("make", CREDENTIALS.values(), ids=CREDENTIALS)
def test_the_own_page_shows_it_and_its_button_ends_it(users: Users, make: Callable[..., str]) -> None:
    plain = make(users.ops)
    lent_until_three(plain)
    client = client_of(users.ops)

    shown = text_of(client.get(OWN_PAGE).content.decode())
    [form] = forms_of(users.ops, OWN_PAGE, "end_lending")
    told = [text_of(client.post(OWN_PAGE, form, follow=True).content.decode()) for _ in range(2)]

    assert f"{AGREED} · End now" in shown
    assert "This right has ended." in told[0] and AGREED not in told[0]
    assert "This right had ended already." in told[1]
    assert scopes_of(plain) == {"read"}
    assert Lending.objects.get().ended_by == "ops"


def test_the_pages_of_the_admin_show_it(users: Users) -> None:
    token, app = by_hand(users.ops), of_app(users.ops)
    for plain in (token, app):
        lent_until_three(plain)
    client = client_of(users.admin)

    shown = {url: content_of(client.get(url)) for url in (TOKENS, f"{TOKENS}{token_in(token).pk}/change/", GRANTS)}

    assert {url: SAID in text for url, text in shown.items()} == dict.fromkeys(shown, True)
    assert f"{AGREED} · End now" in shown[f"{TOKENS}{token_in(token).pk}/change/"]


def test_what_ends_on_another_day_is_shown_with_the_day(users: Users, clock: Clock) -> None:
    lent_to(by_hand(users.ops), seconds=24 * 3_600)

    shown = text_of(client_of(users.ops).get(OWN_PAGE).content.decode())

    tomorrow = date_format(clock.now + timedelta(days=1), "SHORT_DATETIME_FORMAT")
    assert f"actions until {tomorrow} · agreed by bob" in shown


def test_what_has_ended_or_whose_token_has_is_shown_nowhere(users: Users, clock: Clock) -> None:
    over, revoked = by_hand(users.ops), by_hand(users.ops)
    lent_until_three(over)
    lent_to(revoked, seconds=7_200)
    token_in(revoked).revoke()
    clock.move(3_600)

    shown = [content_of(client_of(users.admin).get(url)) for url in (TOKENS, CONNECTIONS)]
    own = text_of(client_of(users.ops).get(OWN_PAGE).content.decode())

    assert not any("actions until" in text for text in [*shown, own])


def test_the_page_of_a_token_asks_first_and_ends_it(users: Users) -> None:
    plain = by_hand(users.ops)
    lent = lent_until_three(plain)
    url = f"{TOKENS}{token_in(plain).pk}/lent/{lent.pk}/end/"
    client = client_of(users.admin)

    asked = content_of(client.get(url))
    still = scopes_of(plain)
    told = client.post(url, follow=True).content.decode()
    again = client.post(url, follow=True).content.decode()

    assert AGREED in asked and still == {"read", "actions"}
    assert "This right has ended." in told and "This right had ended already." in again
    assert scopes_of(plain) == {"read"}
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Ended: actions."]


def test_connections_shows_it_and_ends_it(users: Users) -> None:
    plain = of_app(users.ops)
    lent_until_three(plain)

    shown = content_of(client_of(users.admin).get(CONNECTIONS))
    [form] = forms_of(users.admin, CONNECTIONS, "lending")
    told = client_of(users.admin).post(f"{CONNECTIONS}end/", form, follow=True).content.decode()

    assert f"{AGREED} ops" in shown
    assert "The right has ended." in told
    assert (scopes_of(plain), Lending.objects.get().ended_by) == ({"read"}, "admin")


def test_the_own_page_asks_the_database_no_more_for_many_lendings(users: Users) -> None:
    client = client_of(users.ops)
    counted = []
    for _ in range(3):
        for make in CREDENTIALS.values():
            lent_until_three(make(users.ops))
        with CaptureQueriesContext(connection) as queries:
            client.get(OWN_PAGE)
        counted.append(len(queries))

    assert counted[1] == counted[2]


# Attacks.


TOKEN_RIGHTS = ("mcp_django.view_accesstoken", "mcp_django.change_accesstoken", "mcp_django.view_call")


def test_ending_what_is_lent_to_another_person(users: Users) -> None:
    """By the own page, by the page of a token, by the own token with another one's lending, and by Connections."""
    staff = make_staff("staff", *TOKEN_RIGHTS)
    theirs, mine = by_hand(users.ops), by_hand(staff)
    lent = lent_until_three(theirs)
    client = client_of(staff)
    named = connections._digest(lent)

    client.post(OWN_PAGE, {"do": "end_lending", "key": str(lent.pk)})
    by_token = client.post(f"{TOKENS}{token_in(theirs).pk}/lent/{lent.pk}/end/")
    client.post(f"{TOKENS}{token_in(mine).pk}/lent/{lent.pk}/end/")
    client.post(f"{CONNECTIONS}end/", {"what": "lending", "named": named})

    assert by_token.status_code == 403
    assert forms_of(staff, CONNECTIONS, "lending") == []
    assert Lending.objects.in_use().get() == lent and scopes_of(theirs) == {"read", "actions"}


def test_a_superuser_ends_nothing_of_others_by_the_own_page(users: Users) -> None:
    lent = lent_until_three(by_hand(users.ops))

    client_of(users.admin).post(OWN_PAGE, {"do": "end_lending", "key": str(lent.pk)})

    assert Lending.objects.in_use().exists()


@pytest.mark.parametrize("key", ["", "0", "x", "1; DROP TABLE", "\0", "9" * 40, "None"])
def test_a_guess_ends_nothing(users: Users, key: str) -> None:
    lent_until_three(by_hand(users.ops))

    answer = client_of(users.ops).post(OWN_PAGE, {"do": "end_lending", "key": key})

    assert answer.status_code == 302
    assert Lending.objects.in_use().exists()


def test_a_forged_post_and_a_link_end_nothing(users: Users) -> None:
    plain = by_hand(users.admin)
    lent = lent_until_three(plain)
    url = f"{TOKENS}{token_in(plain).pk}/lent/{lent.pk}/end/"
    form = {"do": "end_lending", "key": str(lent.pk), "what": "lending", "named": connections._digest(lent)}
    forging = client_of(users.admin, enforce_csrf_checks=True)

    posted = [forging.post(one, form).status_code for one in (OWN_PAGE, url, f"{CONNECTIONS}end/")]
    followed = [client_of(users.admin).get(one).status_code for one in (f"{OWN_PAGE}?do=end_lending", url)]

    assert (posted, followed) == ([403] * 3, [200, 200])
    assert Lending.objects.in_use().exists()


def test_whoever_only_views_tokens_ends_nothing(users: Users) -> None:
    viewer = make_staff("looker", "mcp_django.view_accesstoken")
    plain = by_hand(viewer)
    lent = lent_until_three(plain)
    url = f"{TOKENS}{token_in(plain).pk}/lent/{lent.pk}/end/"

    assert [client_of(viewer).get(url).status_code, client_of(viewer).post(url).status_code] == [403, 403]
    assert Lending.objects.in_use().exists()


def test_hidden_characters_in_a_name_are_shown_as_what_they_are(users: Users) -> None:
    lent = lent_until_three(by_hand(users.ops))
    Lending.objects.filter(pk=lent.pk).update(agreed_by="bob\u202e<script>")

    page = client_of(users.ops).get(OWN_PAGE).content.decode()

    assert "\u202e" not in page and "<script>" not in page.partition("agreed by")[2].partition("End now")[0]
