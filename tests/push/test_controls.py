"""What administrators change is told to every process: tokens, users, groups and tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, Permission, User, update_last_login
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from mcp_django.access.authentication import principals
from mcp_django.core.events.controls import EVERYBODY, Control, ControlKind, ControlSet
from mcp_django.models import AccessToken, Tool, digest
from tests.push.conftest import Heard
from tests.support.data import token_of


@pytest.fixture
def user(heard: Heard) -> User:
    user = User.objects.create_user("person", password="old")
    heard.events.clear()
    return user


@pytest.fixture
def token(user: User, heard: Heard) -> AccessToken:
    token_of(user)
    heard.events.clear()
    return AccessToken.objects.get()


@pytest.fixture
def group(heard: Heard) -> Group:
    group = Group.objects.create(name="people")
    heard.events.clear()
    return group


@pytest.fixture
def tool(heard: Heard) -> Tool:
    tool = Tool.objects.create(name="some_tool")
    heard.events.clear()
    return tool


def test_what_decides_who_may_do_what_is_told_when_it_changes(
    heard: Heard, user: User, token: AccessToken, group: Group, tool: Tool
) -> None:
    """For everybody, where nobody knows any more whom it concerned; what nobody has read yet concerns nobody."""

    def change(row: Any, **values: Any) -> None:
        for name, value in values.items():
            setattr(row, name, value)
        row.save()

    own, tools = {Control(ControlKind.ACCESS, str(user.pk))}, {Control(ControlKind.TOOLS)}
    given = Permission.objects.all()[0]
    permission = Permission.objects.create(
        codename="fly", name="May fly", content_type=ContentType.objects.get_for_model(Group)
    )
    heard.events.clear()
    changes: dict[str, tuple[Callable[[], Any], set[Control]]] = {
        "a token that is used": (token.touch, set()),
        "a login": (lambda: update_last_login(None, user), set()),
        "a new user": (lambda: User.objects.create_user("new"), set()),
        "a new group": (lambda: Group.objects.create(name="new"), set()),
        "a new token": (lambda: token_of(User.objects.get(username="new")), set()),
        "a user who is deactivated": (lambda: change(user, is_active=False), own),
        "a group that a user is given": (lambda: user.groups.add(group), own),
        "a group that a user loses": (lambda: user.groups.remove(group), own),
        "groups that a user loses": (user.groups.clear, own),
        "a permission that a user is given": (lambda: user.user_permissions.add(given), own),
        "a permission that a user loses": (lambda: user.user_permissions.remove(given), own),
        "permissions that a user loses": (user.user_permissions.clear, own),
        "a permission that a group is given": (lambda: group.permissions.add(given), {EVERYBODY}),
        "a permission that a group loses": (lambda: group.permissions.remove(given), {EVERYBODY}),
        "a user whom a group is given": (lambda: group.user_set.add(user), own),
        "users whom a group loses": (group.user_set.clear, {EVERYBODY}),
        "a tool that is switched": (lambda: change(tool, enabled=True), tools),
        "the groups of a tool": (lambda: tool.groups.add(Group.objects.get(name="new")), tools),
        "a tool that is deleted": (tool.delete, tools),
        "a group that is deleted": (group.delete, {EVERYBODY}),
        "a permission that is deleted": (permission.delete, {EVERYBODY}),
        "a token that is revoked": (token.revoke, own),
        "a token that is deleted": (token.delete, own),
    }

    told = {}
    for name, (make, _) in changes.items():
        make()
        told[name] = heard.controls()

    assert told == {name: controls for name, (_, controls) in changes.items()}


def test_a_rolled_back_revocation_is_not_told(heard: Heard, token: AccessToken) -> None:
    with transaction.atomic():
        token.revoke()
        transaction.set_rollback(True)

    assert heard.controls() == set()


def test_an_import_of_many_users_is_told_as_a_change_for_everybody(heard: Heard) -> None:
    people = User.objects.bulk_create(User(username=f"person {number}") for number in range(150))
    heard.events.clear()

    with transaction.atomic():
        for person in people:
            person.save()

    assert heard.controls() == {EVERYBODY}


def test_this_process_forgets_a_revoked_token_at_once(heard: Heard, user: User, settings: LazySettings) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 3600}
    plain = token_of(user)
    found = principals.find_hash(digest(plain), fresh=False)

    AccessToken.objects.get().revoke()

    assert found is not None
    assert principals.find_hash(digest(plain), fresh=False) is None


# Passwords.


def is_revoked() -> bool:
    return AccessToken.objects.get().revoked_at is not None


def test_a_new_password_revokes_the_tokens_of_its_user(
    heard: Heard, user: User, token: AccessToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the tokens at the last word must not find them valid."""
    told: list[tuple[bool, ControlSet]] = []
    monkeypatch.setattr(heard, "receive", lambda changes, controls: told.append((is_revoked(), ControlSet(controls))))

    user.set_password("new")
    user.save()

    assert told[-1][0] is True
    assert {control for _, controls in told for control in controls} == {Control(ControlKind.ACCESS, str(user.pk))}


def test_without_a_new_password_or_without_password_change_revokes_tokens_stay(
    heard: Heard, user: User, token: AccessToken, settings: LazySettings
) -> None:
    before = user.password
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher", "django.contrib.auth.hashers.MD5PasswordHasher"
    ]  # fmt: skip

    # A login makes the hash of the password a stronger one.
    assert authenticate(username="person", password="old") is not None
    user = User.objects.get()
    assert user.password != before and not is_revoked()
    user.first_name = "A"
    user.save()
    assert not is_revoked()
    settings.MCP = {**settings.MCP, "PASSWORD_CHANGE_REVOKES": False}
    user.set_password("new")
    user.save()

    assert not is_revoked()
