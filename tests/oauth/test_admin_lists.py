"""What the lists of clients and grants say of them, and what somebody may do there who may only look."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from mcp_django.models import Grant
from mcp_django.oauth.models import Client
from tests.oauth.flow import RESOURCE, Program
from tests.oauth.test_admin import CLIENTS, GRANTS, act, browser_of
from tests.support.data import Users


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


@pytest.mark.parametrize(("state", "shown"), [
    ("current", ["holds"]), ("over", ["ended", "expired"]), (None, ["ended", "expired", "holds"]),
])  # fmt: skip
def test_grants_are_filtered_by_whether_they_hold(users: Users, state: str | None, shown: list[str]) -> None:
    now = timezone.now()
    soon = now + timedelta(days=1)
    for name, expires_at, ended_at in (("holds", soon, None), ("ended", soon, now), ("expired", now, None)):
        Grant.objects.create(
            user=users.admin, client_name=name, resource=RESOURCE, expires_at=expires_at, ended_at=ended_at
        )

    page = browser_of(users.admin).get(GRANTS, {} if state is None else {"state": state})

    assert sorted(grant.client_name for grant in page.context["cl"].result_list) == shown


# Who may only look.


def looks_at(model: str, user: User) -> User:
    user.user_permissions.add(Permission.objects.get(codename=f"view_{model}"))
    return user


@pytest.mark.parametrize(("action", "is_blocked"), [("block", False), ("unblock", True)])
def test_somebody_who_may_only_look_at_clients_changes_none(users: Users, action: str, is_blocked: bool) -> None:
    client = client_of(users.ops)
    if is_blocked:
        client.block()

    page = act(looks_at("client", users.ops), CLIENTS, action, client)

    assert page.status_code == 200
    client.refresh_from_db()
    assert (client.blocked_at is not None) is is_blocked


def test_somebody_who_may_only_look_at_grants_revokes_not_even_their_own(users: Users) -> None:
    Program().log_in(users.ops)
    grant = Grant.objects.get()

    page = act(looks_at("grant", users.ops), GRANTS, "revoke", grant)

    assert page.status_code == 200
    grant.refresh_from_db()
    assert grant.is_current()
