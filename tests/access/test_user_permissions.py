"""The permissions that are read with one statement, and remembered: never more than ModelBackend itself would find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend, ModelBackend
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.http import HttpRequest
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from mcp_django import MCPSite, site
from mcp_django.access import overrides, user_permissions
from mcp_django.access.authentication import principals
from mcp_django.exchange.connection import NoConnection
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest, from_settings
from mcp_django.models import AccessToken, Tool
from tests.support.data import switch_on
from tests.support.peers import MODERN, Peers

VIEW, ADD = "flights.view_flight", "flights.add_flight"


def permission(name: str) -> Permission:
    return Permission.objects.get(codename=name.partition(".")[2])


@pytest.fixture
def user(db: None) -> User:
    user = User.objects.create_user("ada")
    user.user_permissions.add(permission(VIEW))
    group = Group.objects.create(name="planners")
    group.permissions.add(permission(ADD))
    user.groups.add(group)
    return user


class _Exchange:
    """In the place of the exchange: what a decision asks of it."""

    def __init__(self, site: MCPSite, principal: Principal) -> None:
        self.site = site
        self.principal = principal


def request_of(user: Any, *, site: MCPSite = site, known: Any = None) -> MCPRequest:
    request = from_settings()
    request.user = user
    token = AccessToken()
    token.known_permissions = known
    request.mcp = _Exchange(site, Principal(user, frozenset(), token, 1))  # type: ignore[assignment]
    return request


def asked(request: MCPRequest) -> int:
    """How many statements the permissions of the request's user take, and ``has_perm`` after them."""
    with CaptureQueriesContext(connection) as captured:
        user_permissions.put_onto_user(request)
        request.user.has_perm(VIEW)
    return len(captured)


@pytest.mark.every_database
def test_one_statement_finds_what_model_backend_finds(user: User, django_assert_num_queries: Any) -> None:
    plain = User.objects.get(pk=user.pk)
    own, of_groups = plain.get_user_permissions(), plain.get_group_permissions()

    with django_assert_num_queries(1):
        user_permissions.put_onto_user(request_of(user))
        found = user.get_user_permissions(), user.get_group_permissions(), user.get_all_permissions()

    assert found == (own, of_groups, own | of_groups) == ({VIEW}, {ADD}, {VIEW, ADD})
    assert user.has_perms([VIEW, ADD]) and not user.has_perm("flights.delete_flight")


@pytest.mark.every_database
def test_an_inactive_user_and_one_that_is_nobody_have_none_and_a_superuser_is_not_asked_about(user: User) -> None:
    user.is_active = False
    boss = User.objects.create_superuser("boss")

    assert asked(request_of(user)) == asked(request_of(boss)) == 0
    assert (user.has_perm(VIEW), boss.has_perm(VIEW)) == (False, True)
    assert asked(from_settings().for_principal(Principal(from_settings().user, frozenset()))) == 0


class OwnGroups(ModelBackend):
    def _get_group_permissions(self, user_obj: Any) -> Any:
        return Permission.objects.none()


class Always(BaseBackend):
    """Answers by the object, as django-guardian does."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return obj == "hers"


def test_a_backend_that_finds_otherwise_or_stands_beside_it_is_asked_itself(user: User) -> None:
    other = User.objects.get(pk=user.pk)
    with override_settings(AUTHENTICATION_BACKENDS=[f"{__name__}.OwnGroups"]):
        user_permissions.put_onto_user(request_of(user))
        assert (user.has_perm(VIEW), user.has_perm(ADD)) == (True, False)

    backends = ["django.contrib.auth.backends.ModelBackend", f"{__name__}.Always"]
    with override_settings(AUTHENTICATION_BACKENDS=backends):
        user_permissions.put_onto_user(request_of(other))
        delete = "flights.delete_flight"
        assert (other.has_perm(delete, "hers"), other.has_perm(delete, "his")) == (True, False)


# Remembered.


def fresh(user: User) -> User:
    return User.objects.get(pk=user.pk)


class Tenants(MCPSite):
    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        yield


class Named(Tenants):
    def remember_key(self, request: HttpRequest) -> str:
        return str(request.META.get("HTTP_HOST"))


def test_they_are_remembered_with_the_principal_unless_something_may_choose_a_tenant(user: User, settings: Any) -> None:
    def statements(site: MCPSite = site, known: Any = None) -> list[int]:
        return [asked(request_of(fresh(user), site=site, known=known)) for _ in range(3)]

    known: dict[Any, Any] = {}
    assert statements(known={}) == [1, 0, 0]
    assert statements(known=None) == [1, 1, 1], "no principal is remembered"
    assert (statements(Tenants("tenants"), known), known) == ([1, 1, 1], {}), "the context may choose one"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "project.Tenants"]
    assert statements(known={}) == [1, 1, 1]


def test_each_tenant_that_a_site_names_is_remembered_by_itself(user: User) -> None:
    named, known = Named("named"), {}  # type: ignore[var-annotated]

    def asked_of(host: str) -> int:
        request = request_of(fresh(user), site=named, known=known)
        request.META["HTTP_HOST"] = host
        return asked(request)

    assert [asked_of(host) for host in ("a", "b", "a", "b")] == [1, 1, 0, 0]
    for number in range(100):
        asked_of(f"host{number}")
    assert len(known) <= user_permissions._MAX_KEYS


def test_a_token_that_acts_as_another_user_lends_nobody_what_it_remembers(user: User) -> None:
    """As an authentication class of a project may have it, for support staff."""
    known: dict[Any, Any] = {}
    other = User.objects.create_user("grace")

    for one in (user, other, user):
        user_permissions.put_onto_user(request_of(acting := fresh(one), known=known))
        assert acting.has_perm(VIEW) is (one == user)


def test_what_a_hook_does_to_its_user_is_not_remembered(user: User) -> None:
    known: dict[Any, Any] = {}
    first = fresh(user)
    user_permissions.put_onto_user(request_of(first, known=known))
    first._perm_cache = {"flights.delete_flight"}  # type: ignore[attr-defined]

    second = fresh(user)
    user_permissions.put_onto_user(request_of(second, known=known))

    assert second.get_all_permissions() == {VIEW, ADD}
    with pytest.raises(AttributeError):
        second.get_user_permissions() and second._user_perm_cache.add(ADD)  # type: ignore[attr-defined]


def test_a_change_is_forgotten_at_once_with_its_principal(user: User, settings: Any, transactional_db: None) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 3_600}
    token = AccessToken.objects.create_token(user=user)[0]

    def may_view() -> bool:
        principal = principals.find_hash(token.hash, fresh=False)
        assert principal is not None
        request = request_of(principal.user, known=principal.auth.known_permissions)
        user_permissions.put_onto_user(request)
        return principal.user.has_perm(VIEW)

    before = may_view()
    user.user_permissions.clear()

    assert (before, may_view()) == (True, False)


def declare_two_tools(declared: Any) -> None:
    def book(request: HttpRequest) -> str:
        """Book."""
        return "booked"

    def look(request: HttpRequest) -> str:
        """Look."""
        return "seen"

    declared.tool(book, permission=VIEW)
    declared.tool(look, permission=VIEW, read_only=True)
    switch_on("book")


def test_a_tool_that_may_write_reads_them_anew(
    peers: Peers, user: User, settings: Any, declared: Any, transactional_db: None
) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 3_600}
    declare_two_tools(declared)
    peer = peers(AccessToken.objects.create_token(user=user, scopes=["read", "actions"])[1])
    assert peer.call("look")["content"][0]["text"] == "seen"
    # Without a signal, as another process would: what reads may go on for TOKEN_CACHE_SECONDS.
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM auth_user_user_permissions")

    assert peer.call("look")["content"][0]["text"] == "seen"
    assert peer.error(MODERN, "tools/call", {"name": "book", "arguments": {}})["data"]["reason"] == "TOOL_NOT_FOUND"


# With the overrides of tools.


@pytest.mark.every_database
@pytest.mark.parametrize("transport", ["http-view-wsgi"])
@pytest.mark.parametrize("seconds", [0, 3_600])
def test_what_is_read_anew_takes_two_statements(
    peers: Peers, user: User, settings: Any, declared: Any, seconds: float, transactional_db: None
) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": seconds}
    declare_two_tools(declared)
    peer = peers(AccessToken.objects.create_token(user=user, scopes=["read", "actions"])[1])

    def tables(tool: str) -> list[set[str]]:
        """The tables of each statement, of those that are asked for."""
        named = {"mcp_django_accesstoken", "mcp_django_tool", "auth_permission"}
        with CaptureQueriesContext(connection) as captured:
            assert not peer.call(tool).get("isError")
        return [found for query in captured if (found := {one for one in named if one in query["sql"]})]

    tables("look"), tables("book")  # The use of the token is written.
    anew = [{"mcp_django_accesstoken"}, {"mcp_django_tool", "auth_permission"}]

    assert tables("look") == ([] if seconds else anew)
    # What may write reads the token once more than what lets the caller in.
    assert tables("book") == (anew if seconds else [anew[0], *anew])


@pytest.mark.every_database
def test_they_are_found_with_the_overrides_as_by_themselves(user: User) -> None:
    first, second = Group.objects.create(name="a"), Group.objects.create(name="b")
    Tool.objects.update_or_create({"enabled": True, "description": "Other words."}, site=site.name, name="plain")
    Tool.objects.create(site=site.name, name="both", enabled=True, restricted=True).groups.set([first, second])
    exchange: Any = request_of(user).mcp
    exchange.request, exchange.connection = request_of(user), NoConnection()
    other = fresh(user)

    found, alone = overrides.ToolOverrides("Tool", "query"), overrides.ToolOverrides("Tool", "query")
    assert found.of_call(exchange) == alone.of_site(site, fresh=True)
    assert found.of_call(exchange)["both"].groups == {first.pk, second.pk}

    assert user._user_perm_cache == other.get_user_permissions()  # type: ignore[attr-defined]
    assert user._group_perm_cache == other.get_group_permissions()  # type: ignore[attr-defined]


class Elsewhere:
    """Has permissions, as those of users, in another database than everything else."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "elsewhere" if model is Permission else None


def test_they_are_read_by_themselves_where_they_are_in_another_database(user: User, settings: Any) -> None:
    exchange: Any = request_of(user).mcp
    exchange.request, exchange.connection = request_of(user), NoConnection()
    settings.DATABASE_ROUTERS = [f"{__name__}.Elsewhere"]

    assert overrides.ToolOverrides("Tool", "query").of_call(exchange)
    assert not hasattr(user, "_user_perm_cache")


def test_a_credential_without_the_scope_of_a_tool_reads_none(
    peers: Peers, user: User, settings: Any, declared: Any, transactional_db: None
) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 0}
    declare_two_tools(declared)
    peer = peers(AccessToken.objects.create_token(user=user, scopes=["read"])[1])
    with CaptureQueriesContext(connection) as captured:
        peer.error(MODERN, "tools/call", {"name": "book", "arguments": {}})

    assert not any("auth_permission" in query["sql"] for query in captured)
