"""Changes of tokens, tools and prompts, by the admin and by code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import RequestFactory

from mcp_django.access import trail
from mcp_django.audit.recorder import recorder
from mcp_django.models import AccessToken, Call, Tool

pytestmark = pytest.mark.usefixtures("transactional_db", "audited")


@pytest.fixture
def user() -> User:
    return User.objects.create_user("owner", password="first")


def noted(kind: str) -> list[tuple[Any, ...]]:
    recorder.flush()
    return list(Call.objects.filter(kind=kind).order_by("pk").values_list("reason", "token_name", "user_name"))


def test_the_life_of_a_token(user: User) -> None:
    token, _ = AccessToken.objects.create_token(user=user, name="laptop")
    token.name = "desk"
    token.save()
    token.revoke()
    token.delete()

    assert noted("token") == [
        ("created", "laptop", ""),
        ("changed", "desk", ""),
        ("revoked", "desk", ""),
        ("deleted", "desk", ""),
    ]


def test_a_new_password_revokes_tokens_and_says_so(user: User) -> None:
    AccessToken.objects.create_token(user=user, name="laptop")

    user.set_password("second")
    user.save()

    assert noted("token")[-1] == ("revoked by a new password", "laptop", "")


def test_a_change_that_is_rolled_back_is_not_written_down(user: User) -> None:
    with transaction.atomic():
        AccessToken.objects.create_token(user=user)
        transaction.set_rollback(True)

    assert noted("token") == []


def test_the_person_who_changes_it_in_the_admin(user: User) -> None:
    request = RequestFactory().post("/", REMOTE_ADDR="203.0.113.5")
    request.user = User.objects.create_superuser("boss")

    with trail.acting(request):
        token, _ = AccessToken.objects.create_token(user=user, name="laptop")

    assert noted("token") == [("created", "laptop", "boss")]
    row = Call.objects.get(kind="token")
    assert (row.address, row.transport) == ("203.0.113.5", "admin")
    assert json.loads(row.values) == {"owner": str(user.pk), "line": str(token.line)}


def test_a_token_that_is_rolled_and_its_successor_name_the_same_line(user: User) -> None:
    token, _ = AccessToken.objects.create_token(user=user)
    made, _ = token.roll()

    lines = Call.objects.filter(kind="token").order_by("pk").values_list("token_id", "reason", "values")
    assert [(pk, reason) for pk, reason, _ in lines] == [
        (token.pk, "created"), (made.pk, "created"), (token.pk, "revoked"),
    ]  # fmt: skip
    assert {json.loads(values)["line"] for *_, values in lines} == {str(token.line)}


def test_switching_a_tool(user: User) -> None:
    tool = Tool.objects.filter(name="find_records").get()

    tool.enabled = False
    tool.save()
    tool.enabled = True
    tool.save()

    recorder.flush()
    found = Call.objects.filter(kind="switch").order_by("pk").values_list("name", "reason", "model", "site")
    assert list(found) == [
        ("find_records", "off", "mcp_django.tool", "mcp"),
        ("find_records", "on", "mcp_django.tool", "mcp"),
    ]


def test_describing_a_tool_is_no_switch(user: User) -> None:
    tool = Tool.objects.filter(name="find_records").get()
    tool.description = "Finds."
    tool.save()
    tool.groups.add(Group.objects.create(name="few"))

    recorder.flush()
    found = Call.objects.filter(kind="switch").order_by("pk").values_list("name", "reason")
    assert list(found) == [("find_records", "changed"), ("find_records", "groups")]
