"""What administrators change is told to every process: tokens, users, groups and tools."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, Permission, User, update_last_login
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from mcp_django.access.authentication import principals
from mcp_django.events.controls import EVERYBODY, Control, ControlKind
from mcp_django.models import AccessToken, Tool
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


def test_a_revoked_token_is_told(heard: Heard, token: AccessToken) -> None:
    token.revoke()

    assert heard.controls() == {Control(ControlKind.ACCESS, str(token.user_id))}


def test_a_deleted_token_is_told(heard: Heard, token: AccessToken) -> None:
    token.delete()

    assert heard.controls() == {Control(ControlKind.ACCESS, str(token.user_id))}


def test_a_token_that_is_used_is_not_told(heard: Heard, token: AccessToken) -> None:
    token.touch()

    assert heard.controls() == set()


def test_what_nobody_has_read_yet_is_not_told(heard: Heard) -> None:
    user = User.objects.create_user("new")
    Group.objects.create(name="new")
    token_of(user)

    assert heard.controls() == set()


def test_a_rolled_back_revocation_is_not_told(heard: Heard, token: AccessToken) -> None:
    with transaction.atomic():
        token.revoke()
        transaction.set_rollback(True)

    assert heard.controls() == set()


def test_a_user_that_is_deactivated_is_told(heard: Heard, user: User) -> None:
    user.is_active = False
    user.save()

    assert heard.controls() == {Control(ControlKind.ACCESS, str(user.pk))}


def test_a_login_is_not_told(heard: Heard, user: User) -> None:
    update_last_login(None, user)

    assert heard.controls() == set()


@pytest.mark.parametrize("relation", ["groups", "user_permissions"])
def test_what_a_user_is_given_and_loses_is_told(heard: Heard, user: User, group: Group, relation: str) -> None:
    given: Any = group if relation == "groups" else Permission.objects.first()

    getattr(user, relation).add(given)
    added = heard.controls()
    getattr(user, relation).remove(given)
    removed = heard.controls()
    getattr(user, relation).clear()

    assert added == removed == heard.controls() == {Control(ControlKind.ACCESS, str(user.pk))}


def test_what_a_group_is_given_and_loses_is_told(heard: Heard, group: Group) -> None:
    permission = Permission.objects.first()
    assert permission is not None

    group.permissions.add(permission)
    added = heard.controls()
    group.permissions.remove(permission)

    assert added == heard.controls() == {EVERYBODY}


def test_a_group_that_is_deleted_is_told(heard: Heard, group: Group) -> None:
    group.delete()

    assert heard.controls() == {EVERYBODY}


def test_users_that_are_given_to_a_group_are_told(heard: Heard, user: User, group: Group) -> None:
    group.user_set.add(user)
    added = heard.controls()
    group.user_set.clear()

    assert added == {Control(ControlKind.ACCESS, str(user.pk))}
    # Who was in it, nobody knows any more.
    assert heard.controls() == {EVERYBODY}


def test_a_permission_that_is_deleted_is_told(heard: Heard) -> None:
    permission = Permission.objects.create(
        codename="fly", name="May fly", content_type=ContentType.objects.get_for_model(Group)
    )
    heard.events.clear()

    permission.delete()

    assert heard.controls() == {EVERYBODY}


def test_an_import_of_many_users_is_told_as_a_change_for_everybody(heard: Heard) -> None:
    people = User.objects.bulk_create(User(username=f"person {number}") for number in range(150))
    heard.events.clear()

    with transaction.atomic():
        for person in people:
            person.save()

    assert heard.controls() == {EVERYBODY}


def test_a_tool_that_is_switched_is_told(heard: Heard, tool: Tool) -> None:
    tool.enabled = True
    tool.save()

    assert heard.controls() == {Control(ControlKind.TOOLS)}


def test_a_tool_that_is_deleted_is_told(heard: Heard, tool: Tool) -> None:
    tool.delete()

    assert heard.controls() == {Control(ControlKind.TOOLS)}


def test_the_groups_of_a_tool_are_told(heard: Heard, tool: Tool, group: Group) -> None:
    tool.groups.add(group)

    assert heard.controls() == {Control(ControlKind.TOOLS)}


def test_this_process_forgets_a_revoked_token_at_once(heard: Heard, user: User, settings: LazySettings) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 3600}
    plain = token_of(user).encode()
    found = principals.find(plain, fresh=False)

    AccessToken.objects.get().revoke()

    assert found is not None
    assert principals.find(plain, fresh=False) is None


# Passwords.


def is_revoked() -> bool:
    return AccessToken.objects.get().revoked_at is not None


def test_a_new_password_revokes_the_tokens_of_its_user(heard: Heard, user: User, token: AccessToken) -> None:
    user.set_password("new")
    user.save()

    assert is_revoked()
    assert heard.controls() == {Control(ControlKind.ACCESS, str(user.pk))}


def test_a_new_password_is_told_again_when_its_tokens_are_revoked(
    heard: Heard, user: User, token: AccessToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the tokens at the last word must not find them valid."""
    told: list[bool] = []
    monkeypatch.setattr(heard, "receive", lambda changes, controls: told.append(is_revoked()))

    user.set_password("new")
    user.save()

    assert told[-1] is True


def test_a_hash_that_a_login_strengthens_revokes_nothing(
    heard: Heard, user: User, token: AccessToken, settings: LazySettings
) -> None:
    before = User.objects.get().password
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher", "django.contrib.auth.hashers.MD5PasswordHasher"
    ]  # fmt: skip

    assert authenticate(username="person", password="old") is not None

    assert User.objects.get().password != before
    assert not is_revoked()


def test_a_user_that_is_saved_without_a_new_password_keeps_the_tokens(
    heard: Heard, user: User, token: AccessToken
) -> None:
    user.first_name = "A"
    user.save()

    assert not is_revoked()


def test_password_change_revokes_can_be_switched_off(
    heard: Heard, user: User, token: AccessToken, settings: LazySettings
) -> None:
    settings.MCP = {**settings.MCP, "PASSWORD_CHANGE_REVOKES": False}

    user.set_password("new")
    user.save()

    assert not is_revoked()
