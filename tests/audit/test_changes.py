"""Changes of tokens, tools and prompts, by the admin and by code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import Client, RequestFactory

from mcp_django.access import trail
from mcp_django.audit.recorder import recorder
from mcp_django.models import AccessToken, Call, TokenTemplate, Tool

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
    AccessToken.objects.create_token(user=user, name="new")
    user.set_password("second")
    user.save()
    with transaction.atomic():
        AccessToken.objects.create_token(user=user, name="rolled back")
        transaction.set_rollback(True)

    assert noted("token") == [
        ("created", "laptop", ""), ("changed", "desk", ""), ("revoked", "desk", ""), ("deleted", "desk", ""),
        ("created", "new", ""), ("revoked by a new password", "new", ""),
    ]  # fmt: skip


def test_the_person_who_changes_it_in_the_admin(user: User) -> None:
    request = RequestFactory().post("/", REMOTE_ADDR="203.0.113.5")
    request.user = User.objects.create_superuser("boss")

    with trail.acting(request):
        token, _ = AccessToken.objects.create_token(user=user, name="laptop")

    assert noted("token") == [("created", "laptop", "boss")]
    row = Call.objects.get(kind="token")
    assert (row.address, row.transport) == ("203.0.113.5", "admin")
    assert json.loads(row.values) == {"owner": str(user.pk), "line": str(token.line)}


def test_a_template_that_an_administrator_writes(user: User, client: Client) -> None:
    client.force_login(User.objects.create_superuser("boss"))
    url, posted = "/admin/mcp_django/tokentemplate/", {"name": "Nightly", "scopes": ["read"]}

    client.post(f"{url}add/", posted)
    key = TokenTemplate.objects.get().pk
    client.post(f"{url}{key}/change/", {**posted, "scopes": ["write"]})
    client.post(f"{url}{key}/delete/", {"post": "yes"})

    assert noted("token") == [
        (f"template {what}", "Nightly", "boss") for what in ("created", "changed", "deleted")
    ]  # fmt: skip
    assert [json.loads(line.values)["scopes"] for line in Call.objects.order_by("pk")] == ["read", "write", "write"]


def test_a_token_that_is_rolled_and_its_successor_name_the_same_line(user: User) -> None:
    token, _ = AccessToken.objects.create_token(user=user)
    made, _ = token.roll()

    lines = Call.objects.filter(kind="token").order_by("pk").values_list("token_id", "reason", "values")
    assert [(pk, reason) for pk, reason, _ in lines] == [
        (token.pk, "created"), (made.pk, "created"), (token.pk, "revoked"),
    ]  # fmt: skip
    assert {json.loads(values)["line"] for *_, values in lines} == {str(token.line)}


def test_switching_a_tool_and_describing_it(user: User) -> None:
    tool = Tool.objects.filter(name="find_records").get()

    for name, value in (("enabled", False), ("enabled", True), ("description", "Finds.")):
        setattr(tool, name, value)
        tool.save()
    tool.groups.add(Group.objects.create(name="few"))

    recorder.flush()
    found = Call.objects.filter(kind="switch").order_by("pk").values_list("name", "reason", "model", "site")
    assert list(found) == [
        ("find_records", reason, "mcp_django.tool", "mcp") for reason in ("off", "on", "changed", "groups")
    ]
