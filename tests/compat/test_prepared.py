"""Queries that are compiled once, compared with the same ones through the ORM."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection, models
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django.compat.prepared import Parameter, PreparedQuery
from mcp_django.models import AccessToken

pytestmark = [pytest.mark.every_database]

_TOKENS = AccessToken.objects.select_related("user").order_by()
_HASH, _LINE, _EXPIRES = (AccessToken._meta.get_field(name) for name in ("hash", "line", "expires_at"))


def _values(instance: models.Model) -> dict[str, Any]:
    return {field.attname: getattr(instance, field.attname) for field in instance._meta.concrete_fields}


@pytest.fixture
def token(db: None) -> AccessToken:
    user = User.objects.create_user("ada")
    return AccessToken.objects.create_token(user=user, scopes=["read", "actions"], addresses=["192.0.2.0/24"])[0]


def test_instances_are_those_of_the_queryset(token: AccessToken, django_assert_num_queries: Any) -> None:
    prepared = PreparedQuery(lambda: _TOKENS.filter(hash=Parameter(0, _HASH)))

    with django_assert_num_queries(1):
        [found] = prepared.fetch("default", token.hash)
        user = found.user

    expected = _TOKENS.get(hash=token.hash)
    assert (type(found), _values(found)) == (AccessToken, _values(expected))
    assert (type(user), _values(user)) == (User, _values(expected.user))
    assert (found._state.db, found._state.adding) == ("default", False)
    assert not found.get_deferred_fields()


def test_each_call_has_its_own_values(token: AccessToken) -> None:
    other = AccessToken.objects.create_token(user=token.user)[0]
    prepared = PreparedQuery(lambda: _TOKENS.filter(hash=Parameter(0, _HASH)))

    assert [prepared.fetch("default", value) for value in (token.hash, other.hash, "none")] == [[token], [other], []]


@pytest.mark.parametrize("form", ["uuid", "text"])
def test_values_are_prepared_as_those_of_their_fields(token: AccessToken, form: str) -> None:
    AccessToken.objects.create_token(user=token.user, expires_at=timezone.now() + timedelta(days=50))
    asked = _TOKENS.filter(line=Parameter(0, _LINE), expires_at__gt=Parameter(1, _EXPIRES))
    prepared = PreparedQuery(lambda: asked)
    line = token.line if form == "uuid" else str(token.line)

    assert prepared.fetch("default", line, timezone.now()) == [token]
    assert prepared.fetch("default", line, timezone.now() + timedelta(days=100)) == []


def test_a_value_stands_in_each_place_that_names_it(token: AccessToken) -> None:
    group = Group.objects.create(name="readers")
    own, of_group = Permission.objects.order_by("pk")[:2]
    token.user.user_permissions.add(own)
    token.user.groups.add(group)
    group.permissions.add(of_group)
    user = Parameter(0, User._meta.pk)
    names = Permission.objects.order_by().values_list("codename")
    prepared = PreparedQuery(lambda: names.filter(user=user).union(names.filter(group__user=user), all=True))

    assert sorted(prepared.fetch("default", token.user.pk)) == sorted([(own.codename,), (of_group.codename,)])
    assert prepared.fetch("default", token.user.pk + 1) == []


def test_the_sql_is_written_once_for_all_threads(token: AccessToken) -> None:
    made: list[int] = []

    def make() -> models.QuerySet[AccessToken]:
        made.append(1)
        return _TOKENS.filter(hash=Parameter(0, _HASH))

    prepared = PreparedQuery(make)
    with CaptureQueriesContext(connection) as captured:
        for _ in range(3):
            prepared.fetch("default", token.hash)
    sql = {query["sql"] for query in captured.captured_queries}

    assert (len(captured), len(sql), made) == (3, 1, [1])


def test_what_was_compiled_outlives_the_thread_that_compiled_it(transactional_db: None) -> None:
    token = AccessToken.objects.create_token(user=User.objects.create_user("ada"))[0]
    prepared = PreparedQuery(lambda: _TOKENS.filter(hash=Parameter(0, _HASH)))

    def work() -> None:
        found.append(prepared.fetch("default", token.hash))
        connection.close()

    found: list[list[AccessToken]] = []
    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert [*found, prepared.fetch("default", token.hash)] == [[token]] * 3
