"""Many principals whom one event concerns: each is told what it would be told alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group as UserGroup
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.http import HttpRequest
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Airline, Flight
from mcp_django import MCPSite, site
from mcp_django.access import overrides, user_permissions
from mcp_django.access.authentication import authenticate, principals
from mcp_django.core.events.changed_rows import Changes
from mcp_django.exchange.requests import MCPRequest
from mcp_django.models import AccessToken
from mcp_django.push.listeners import Listener
from mcp_django.push.subscriptions import watch
from mcp_django.push.visibility import EqualRights, check
from tests.shop.models import Tag
from tests.support.data import Users, make_staff, token_of

UA = "db://flights/airline/UA"
VIEW = "flights.view_airline"


class NoGroups(ModelBackend):
    """A project's own: groups say nothing."""

    def _get_group_permissions(self, user_obj: Any) -> Any:
        return Permission.objects.none()


class Tenants(MCPSite):
    """A site whose context decides what the tables of permissions hold."""

    #: The statements that ran within the context.
    inside: list[str]

    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            self.inside.append(sql)
            return execute(sql, params, many, context)

        with connection.execute_wrapper(note):
            yield


class Elsewhere(MCPSite):
    """A site on which the meaning of a statement depends on who asks: here there is nothing but for one user."""

    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        def nothing(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            return execute(sql.replace(" IN (", " NOT IN ("), params, many, context)

        if request.user.get_username() == "inside":
            yield
            return
        with connection.execute_wrapper(nothing):
            yield


def watching(user: User, uri: str = UA, at: MCPSite = site) -> EqualRights:
    """A stream of the user, who may see the resource."""
    meta = {"HTTP_AUTHORIZATION": f"Bearer {token_of(user)}"}
    request = MCPRequest(path="/mcp", scheme="http", meta=meta, attributes={})
    request.for_principal(authenticate(request, fresh=True))
    group = EqualRights(Listener(site=at, principal=request.mcp.principal, request=request))
    subscription = watch(at, uri)
    assert subscription is not None
    assert subscription.look(at, request)
    subscription.visible = False  # What was visible would be told of once more.
    group.subscriptions[subscription] = group.listener
    return group


def saved(model: Any, key: str) -> Changes:
    changes = Changes()
    changes.note("default", model._meta.label_lower, written={key})
    return changes


def who_is_told(groups: list[EqualRights], changes: Changes | None = None) -> list[str]:
    principals.clear()
    found = check(groups, changes or saved(Airline, "UA"))
    assert not any(checked.later for checked in found)
    return [
        group.listener.principal.user.get_username()
        for group, checked in zip(groups, found, strict=True)
        if checked.notify
    ]


@pytest.fixture
def readers(flights: list[Flight]) -> list[User]:
    """Some who may view airlines: by permissions of their own, by a group, by both, or as superusers."""
    permission = Permission.objects.get(codename="view_airline")
    by_group = UserGroup.objects.create(name="readers")
    by_group.permissions.add(permission)
    empty = UserGroup.objects.create(name="empty")
    own, grouped, both = make_staff("own", VIEW), make_staff("grouped"), make_staff("both", VIEW)
    grouped.groups.add(empty, by_group)
    both.groups.add(by_group, empty)
    return [own, grouped, both, User.objects.create_superuser("root")]


@pytest.mark.parametrize("seconds", [0, 1])
def test_rights_that_were_lost_meanwhile(readers: list[User], settings: Any, seconds: int) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": seconds}
    names = ("stays", "permission", "group", "inactive", "revoked", "deleted", "scopes")
    users = {name: make_staff(name) for name in names}
    for user in users.values():
        user.groups.add(UserGroup.objects.get(name="readers"))
    groups = [watching(user) for user in users.values()]

    users["permission"].groups.clear()
    users["permission"].user_permissions.add(Permission.objects.get(codename="view_airport"))
    users["group"].groups.set(UserGroup.objects.filter(name="empty"))
    User.objects.filter(username="inactive").update(is_active=False)
    AccessToken.objects.get(user=users["revoked"]).revoke()
    users["deleted"].delete()
    AccessToken.objects.filter(user=users["scopes"]).update(scopes=["actions"])

    assert who_is_told(groups) == ["stays"]


def test_a_superuser_who_is_one_no_more_and_one_who_has_become_one(readers: list[User]) -> None:
    groups = [watching(user) for user in readers]
    User.objects.filter(username="root").update(is_superuser=False)
    readers[0].user_permissions.clear()
    User.objects.filter(username="own").update(is_superuser=True)

    assert who_is_told(groups) == ["own", "grouped", "both"]


def test_a_backend_of_the_project_says_what_groups_mean(readers: list[User], settings: Any) -> None:
    groups = [watching(user) for user in readers]
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.NoGroups"]

    assert who_is_told(groups) == ["own", "both", "root"]


def test_rows_that_not_everybody_sees_are_looked_for_anew(users: Users, flights: list[Flight]) -> None:
    uri = "db://flights/flight/1"
    groups = [watching(user, uri) for user in (users.admin, users.ops, users.viewer)]
    assert who_is_told(groups, saved(Flight, "1")) == ["admin", "ops", "viewer"]
    Flight.objects.filter(pk=1).update(origin="EWR")

    # The last word on a record that was visible, for who may see flights from JFK alone.
    assert who_is_told(groups, saved(Flight, "1")) == ["admin", "ops", "viewer"]
    assert who_is_told(groups, saved(Flight, "1")) == ["admin", "viewer"]


def test_seeing_what_is_there_in_the_context_of_another(db: None) -> None:
    """Tenants whose tables differ by the context alone: what one sees there, another does not see here."""
    elsewhere = Elsewhere("elsewhere")
    elsewhere.register(Tag)
    tag = Tag._default_manager.create(name="secret")
    users = [User.objects.create_superuser(name) for name in ("inside", "outside")]
    groups = [watching(user, f"db://shop/tag/{tag.pk}", elsewhere) for user in users]

    assert who_is_told(groups, saved(Tag, str(tag.pk))) == ["inside"]


def statements_about(captured: CaptureQueriesContext, *tables: str) -> list[str]:
    return [one["sql"] for one in captured.captured_queries if any(table in one["sql"] for table in tables)]


@pytest.mark.parametrize("seconds", [0, 3_600])
def test_many_cost_no_more_statements_than_a_few(readers: list[User], settings: Any, seconds: int) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": seconds}
    permission = UserGroup.objects.get(name="readers")
    few, many = ([make_staff(f"{size}-{number}") for number in range(size)] for size in (2, 12))
    for user in (*few, *many):
        user.groups.add(permission)

    def statements(users: list[User]) -> int:
        groups = [watching(user) for user in users]
        overrides.forget()
        with CaptureQueriesContext(connection) as captured:
            assert len(who_is_told(groups)) == len(users)
        # Without a memory, overrides are read for each.
        return len(captured) if seconds else len(statements_about(captured, "accesstoken", "permission", "airline"))

    assert statements(many) == statements(few)


def permissions_read(groups: list[EqualRights]) -> int:
    """How many statements read permissions when all of them are asked about, and told."""
    with CaptureQueriesContext(connection) as captured:
        told = [bool(checked.notify) for checked in check(groups, saved(Airline, "UA"))]
    assert told == [True] * len(groups)
    return len(statements_about(captured, "auth_permission"))


@pytest.mark.parametrize(("seconds", "number"), [(3_600, 0), (0, 2)])
def test_permissions_are_remembered_with_the_token(
    readers: list[User], settings: Any, seconds: int, number: int
) -> None:
    """The users' own and those of groups, which are two statements for all of them."""
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": seconds}
    groups, alone = [watching(user) for user in readers], [watching(readers[1])]
    assert who_is_told(groups) == ["own", "grouped", "both", "root"]
    assert permissions_read(groups) == number
    assert who_is_told(alone) == ["grouped"]

    assert not seconds or permissions_read(alone) == 0


def test_permissions_are_read_in_the_context_of_the_site(readers: list[User]) -> None:
    tenants = Tenants("tenants")
    tenants.register(Airline)
    tenants.inside = []
    groups = [watching(user, at=tenants) for user in readers]
    tenants.inside.clear()

    with CaptureQueriesContext(connection) as captured:
        assert who_is_told(groups) == ["own", "grouped", "both", "root"]

    # One for each but the superuser.
    assert len(statements_about(captured, "auth_permission")) == 3
    assert sum("auth_permission" in sql for sql in tenants.inside) == 3


@override_settings(MIDDLEWARE=["django.middleware.common.CommonMiddleware", "project.of_a_tenant"])
def test_permissions_that_may_be_of_a_tenant_are_not_remembered(readers: list[User]) -> None:
    groups = [watching(user) for user in readers]
    who_is_told(groups)

    assert permissions_read(groups) == 2


def test_what_cannot_be_read_together_is_asked_of_each(
    readers: list[User], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    groups = [watching(user) for user in readers]

    def fails(users: Any) -> Any:
        raise ValueError("no such table")

    monkeypatch.setattr(user_permissions, "of_users", fails)

    assert who_is_told(groups) == ["own", "grouped", "both", "root"]
    assert "Principals could not be read together" in caplog.text
