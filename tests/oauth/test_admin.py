"""The pages of clients and grants, and what agents see of them: nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client as Browser
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django import site
from mcp_django.models import Call, Grant, Lending
from mcp_django.oauth.models import AuthorizationCode, Client, RefreshToken
from tests.access.lent import lent_to, of_app
from tests.oauth.flow import CLAUDE, CLAUDE_CODE, LOCAL_REDIRECT, RESOURCE, Person, Program, error_in, params_in
from tests.support.data import Users

GRANTS, CLIENTS = "/admin/mcp_django/grant/", "/admin/mcp_django_oauth/client/"


@pytest.fixture
def connected(users: Users) -> Users:
    """The administrator and ops have each let a client in."""
    Program().log_in(users.admin)
    Program(CLAUDE_CODE, LOCAL_REDIRECT).log_in(users.ops)
    return users


def browser_of(user: User) -> Browser:
    browser = Browser()
    browser.force_login(user)
    return browser


def act(user: User, url: str, action: str, *rows: Any) -> Any:
    return browser_of(user).post(url, {"action": action, "_selected_action": [row.pk for row in rows]}, follow=True)


def test_an_administrator_sees_who_lets_what_act(connected: Users) -> None:
    page = browser_of(connected.admin).get(GRANTS).content.decode()
    clients = browser_of(connected.admin).get(CLIENTS).content.decode()

    for text in ("Claude Code", "claude.ai", "ops", "read"):
        assert text in page
    assert "claude.ai" in clients
    for model, url in ((Grant, GRANTS), (Client, CLIENTS)):
        one = browser_of(connected.admin).get(f"{url}{model.objects.earliest('pk').pk}/change/")
        assert one.status_code == 200
        assert "Save" not in one.content.decode()


def test_a_client_was_last_used_when_one_of_its_grants_was(connected: Users) -> None:
    Grant.objects.filter(client=CLAUDE).update(last_used_at=datetime(2031, 5, 6, 7, 8, tzinfo=UTC))

    shown = browser_of(connected.admin).get(CLIENTS)

    assert [client.key for client in shown.context["cl"].result_list] == [CLAUDE, CLAUDE_CODE]
    assert "May 6, 2031" in shown.content.decode()


def test_grants_are_found_by_user_and_client(connected: Users) -> None:
    expected = {"ops": 1, "claude": 2, "nobody": 0, "7": 0}
    browser = browser_of(connected.admin)

    assert {asked: len(browser.get(GRANTS, {"q": asked}).context["cl"].result_list) for asked in expected} == expected


def test_revoking_a_grant_of_another_on_its_page(connected: Users) -> None:
    connected.ops.user_permissions.add(*Permission.objects.filter(codename__in=["view_grant", "change_grant"]))
    theirs, own = (Grant.objects.get(user=user) for user in (connected.admin, connected.ops))
    browser = browser_of(connected.ops)

    answers = [browser.post(f"{GRANTS}{key}/revoke/").status_code for key in (theirs.pk, own.pk, 999_999)]

    assert answers == [403, 302, 403]
    assert [Grant.objects.get(pk=one.pk).is_current() for one in (theirs, own)] == [True, False]


def test_others_see_their_own_grants_alone(connected: Users) -> None:
    connected.ops.user_permissions.add(*Permission.objects.filter(codename__in=["view_grant", "change_grant"]))
    theirs = Grant.objects.get(user=connected.admin)

    page = browser_of(connected.ops).get(GRANTS).content.decode()
    act(connected.ops, GRANTS, "revoke", theirs)

    assert "Claude Code" in page and f">{connected.admin.username}<" not in page
    theirs.refresh_from_db()
    assert theirs.is_current()


def test_revoking_a_grant_in_the_admin_ends_it(connected: Users) -> None:
    grant = Grant.objects.get(user=connected.ops)

    page = act(connected.admin, GRANTS, "revoke", grant)

    assert "1 grant was revoked." in page.content.decode()
    grant.refresh_from_db()
    assert grant.ended_by == "revoked"


def test_a_blocked_client_gets_nothing_any_more(connected: Users) -> None:
    program = Program()
    tokens = program.log_in(connected.ops)
    client = Client.objects.get(key=CLAUDE)

    act(connected.admin, CLIENTS, "block", client)

    assert error_in(program.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert Person(connected.ops).open(program.url()).status_code == 400
    assert set(Grant.objects.filter(client=CLAUDE).values_list("ended_by", flat=True)) == {"blocked"}
    act(connected.admin, CLIENTS, "unblock", client)
    assert "code" in params_in(Person(connected.ops).allow(program.url(), "read"))


def test_nobody_makes_or_deletes_rows_there_but_with_the_user_who_has_let_a_client_in(connected: Users) -> None:
    """Though nobody deletes grants, Django asks whether the administrator may."""
    browser = browser_of(connected.admin)
    for url in (GRANTS, CLIENTS):
        assert browser.get(f"{url}add/").status_code == 403
        assert "delete_selected" not in browser.get(url).content.decode()

    answer = browser.post(f"/admin/auth/user/{connected.ops.pk}/delete/", {"post": "yes"})

    assert answer.status_code == 302
    assert not Grant.objects.filter(client=CLAUDE_CODE).exists()


def test_agents_never_see_these_rows(users: Users) -> None:
    for model in (Grant, Client, AuthorizationCode, RefreshToken, Call):
        assert model not in [one.model for one in site.models.values()]
        with pytest.raises(ImproperlyConfigured, match="never exposed"):
            site.register(model)


# The lists, and what somebody may do there who may only look.


def client_of(user: User) -> Client:
    """A client that the user has let in."""
    Program().log_in(user)
    return Client.objects.get()


# What is shown.


def test_the_page_of_a_client_shows_where_it_is_answered(users: Users) -> None:
    client = client_of(users.ops)

    page = browser_of(users.admin).get(f"{CLIENTS}{client.pk}/change/").content.decode()

    for uri in ("https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"):
        assert uri in page


def test_a_client_has_so_many_users_whose_grants_hold(users: Users) -> None:
    for user in (users.admin, users.ops, users.ops, users.viewer):
        Program().log_in(user)
    Grant.objects.get(user=users.viewer).end(Grant.Ended.REVOKED)

    page = browser_of(users.admin).get(CLIENTS).content.decode()

    assert '<td class="field-users">2</td>' in page


def test_grants_are_filtered_by_whether_they_hold(users: Users) -> None:
    now = timezone.now()
    soon, browser = now + timedelta(days=1), browser_of(users.admin)
    for name, expires_at, ended_at in (("holds", soon, None), ("ended", soon, now), ("expired", now, None)):
        Grant.objects.create(
            user=users.admin, client_name=name, resource=RESOURCE, expires_at=expires_at, ended_at=ended_at
        )

    for asked, shown in (
        ({"state": "current"}, ["holds"]), ({"state": "over"}, ["ended", "expired"]),
        ({}, ["ended", "expired", "holds"]),
    ):  # fmt: skip
        page = browser.get(GRANTS, asked)
        assert sorted(grant.client_name for grant in page.context["cl"].result_list) == shown


# The pages of a row, and its buttons.


def test_a_grant_is_revoked_on_its_page_once_that_was_asked(users: Users) -> None:
    client_of(users.ops)
    grant = Grant.objects.get()
    browser, url = browser_of(users.admin), f"{GRANTS}{grant.pk}/revoke/"

    page = browser.get(f"{GRANTS}{grant.pk}/change/").content.decode()
    asked = browser.get(url).content.decode()
    grant.refresh_from_db()
    was_current = grant.is_current()
    answer = browser.post(url, follow=True).content.decode()
    grant.refresh_from_db()

    assert url in page and "What ops let <strong>" in asked and f"<title>Revoke the grant: {grant} | " in asked
    assert was_current and grant.ended_by == "revoked" and "1 grant was revoked." in answer
    assert f'href="{url}"' not in answer
    assert [entry.change_message for entry in LogEntry.objects.all()] == ["Revoked."]


def test_a_client_is_blocked_and_unblocked_on_its_page(users: Users) -> None:
    client = client_of(users.ops)
    browser, url = browser_of(users.admin), f"{CLIENTS}{client.pk}/block/"

    asked = browser.get(url).content.decode()
    blocked = browser.post(url, follow=True).content.decode()
    again = browser.post(url, follow=True).content.decode()
    is_blocked = Client.objects.get().blocked_at is not None
    unblocked = browser.post(url, {"is_blocked": "on"}, follow=True).content.decode()

    assert "is refused from now on, and 1 grant ends at once" in asked
    assert "1 grant was ended." in blocked and ">Unblock<" in blocked
    # A click that was meant to block does not unblock what somebody else has blocked.
    assert is_blocked and "0 grants were ended." in again
    assert Client.objects.get().blocked_at is None and "1 client was unblocked." in unblocked
    assert not Grant.objects.get().is_current()


def test_a_right_for_a_while_of_a_grant_is_ended_on_its_page(users: Users) -> None:
    lending = lent_to(of_app(users.ops), seconds=3_600)
    grant, browser = Grant.objects.get(), browser_of(users.admin)

    page = browser.get(f"{GRANTS}{grant.pk}/change/").content.decode()
    browser.post(f"{GRANTS}{grant.pk}/lent/{lending.pk}/end/")

    assert f"{GRANTS}{grant.pk}/lent/{lending.pk}/end/" in page
    assert not Lending.objects.in_use().exists()


def test_the_list_of_clients_asks_as_little_for_many_as_for_one(users: Users) -> None:
    later = timezone.now() + timedelta(days=1)
    Grant.objects.bulk_create(
        Grant(user=user, client=f"c{number}", resource=RESOURCE, expires_at=later)
        for number in range(30)
        for user in (users.admin, users.ops)
    )
    Client.objects.bulk_create(Client(key=f"c{number}", name=f"c{number}") for number in range(30))

    browser = browser_of(users.admin)

    with CaptureQueriesContext(connection) as asked:
        page = browser.get(CLIENTS).content.decode()

    assert page.count('<td class="field-users">2</td>') == 30 and len(asked) < 10


def test_moments_are_in_the_time_zone_of_the_project(users: Users, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    at = datetime(2031, 5, 6, 22, 8, tzinfo=UTC)
    Grant.objects.create(
        user=users.admin, client_name="x", resource=RESOURCE, created_at=at, last_used_at=at, ended_at=at,
        ended_by="revoked", expires_at=at,
    )  # fmt: skip

    page = browser_of(users.admin).get(GRANTS).content.decode()

    assert page.count("May 7, 2031, 7:08 a.m.") == 3


# Who may only look.


def looks_at(model: str, user: User) -> User:
    user.user_permissions.add(Permission.objects.get(codename=f"view_{model}"))
    return user


def test_somebody_who_may_only_look_changes_no_client_and_revokes_not_even_an_own_grant(users: Users) -> None:
    client = client_of(users.ops)
    ops = looks_at("grant", looks_at("client", users.ops))

    for action, is_blocked in (("block", False), ("unblock", True)):
        Client.objects.update(blocked_at=timezone.now() if is_blocked else None)
        assert act(ops, CLIENTS, action, client).status_code == 200
        client.refresh_from_db()
        assert (client.blocked_at is not None) is is_blocked
    grant = Grant.objects.get()
    assert act(ops, GRANTS, "revoke", grant).status_code == 200
    for url in (f"{GRANTS}{grant.pk}/revoke/", f"{CLIENTS}{client.pk}/block/", f"{GRANTS}{grant.pk}/lent/1/end/"):
        assert browser_of(ops).post(url).status_code == 403
    pages = [browser_of(ops).get(f"{url}{key}/change/").content.decode() for url, key in (
        (GRANTS, grant.pk), (CLIENTS, client.pk),
    )]  # fmt: skip
    assert not any("/revoke/" in page or "/block/" in page for page in pages)

    grant.refresh_from_db()
    assert grant.is_current()
