"""No page of ours shows what its viewer may not see. The pages are those that the admin itself knows of."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from mcp_django.bridge.tools.saved_queries import Parameter, write
from mcp_django.models import AccessToken, Call, Change, Grant, Prompt, Restriction, TokenTemplate, Tool
from tests.console.test_connections import make_session
from tests.console.visiting import client_of, make_task
from tests.support.console import pages
from tests.support.data import Users, make_staff

pytestmark = pytest.mark.usefixtures("transactional_db")

#: A word that each of the texts has which are somebody else's.
MARK = "zanzibar"


@pytest.fixture
def things(users: Users) -> dict[Any, Any]:
    """Something of each kind that is of admin, with texts that are marked."""
    later, call = timezone.now() + timedelta(days=1), {"model": "flights.flight", "filter": {"tailnum": MARK}}
    User.objects.filter(pk=users.admin.pk).update(email=f"{MARK}@example.com", first_name=MARK)
    token = AccessToken.objects.create_token(user=users.admin, name=MARK)[0]
    grant = Grant.objects.create(user=users.admin, client=MARK, client_name=MARK, resource=MARK, expires_at=later)
    change = Change.objects.create(
        key="a" * 22, confirmed_by="b" * 64, user=users.admin, user_name=MARK, operation="update", model=f"{MARK}.it",
        state="applied", keys='["1"]', arguments="{}", reason=MARK, created_at=timezone.now(), expires_at=later,
    )  # fmt: skip
    make_session(users.admin)
    make_task(users.admin)
    query = write("find_records", call, [Parameter(MARK, ("filter", "tailnum"))])
    template = TokenTemplate.objects.create(name="nightly", scopes=["read"], limits={"calls": "9/min"}, days=30)
    return {
        AccessToken: token, TokenTemplate: template, Grant: grant, Change: change,
        Call: Call.objects.create(at=timezone.now(), site="mcp", kind="call", outcome="done", name="find_records"),
        # Switched off, since agents of everybody would have it otherwise.
        Prompt: Prompt.objects.create(site="mcp", name=MARK, title=MARK, description=MARK, text=MARK, enabled=False),
        Restriction: Restriction.objects.create(site="mcp", kind="field", name=f"flights.flight.{MARK}"),
        Tool: Tool.objects.create(site="mcp", name=f"{MARK}_query", enabled=True, description=MARK, query=query),
    }  # fmt: skip


def seen(user: User, things: dict[Any, Any]) -> dict[str, tuple[Any, str]]:
    """The pages that the user is shown, each with its model and its text."""
    client = client_of(user)
    found = {}
    for model, url in pages(admin.site, {model: row.pk for model, row in things.items()}):
        response = client.get(url)
        assert response.status_code in (200, 302, 403, 404, 405), url
        if response.status_code == 200:
            text = b"".join(response.streaming_content) if response.streaming else response.content
            found[url] = model, text.decode()
    return found


def test_a_superuser_is_shown_each_page_with_what_is_marked(users: Users, things: dict[Any, Any]) -> None:
    found = seen(users.admin, things)

    assert {model for model, text in found.values() if MARK in text} >= {AccessToken, Grant, Change, Prompt, Tool}
    assert len(found) > 25


def test_a_member_of_staff_without_permissions_is_shown_nothing(users: Users, things: dict[Any, Any]) -> None:
    found = seen(make_staff("nobody"), things)

    # The list of changes is there for everybody, with those of one's own agents.
    assert {model for model, _ in found.values()} <= {Change}
    assert [url for url, (_, text) in found.items() if MARK in text] == []


def test_a_member_of_staff_who_may_view_calls_is_shown_calls_alone(users: Users, things: dict[Any, Any]) -> None:
    found = seen(make_staff("auditor", "mcp_django.view_call"), things)

    assert {model for model, _ in found.values()} <= {Call, Change, None}
    assert reverse("admin:mcp_django_call_changelist") in found
    assert reverse("admin:mcp_django_call_connections") in found
    assert [url for url, (_, text) in found.items() if MARK in text] == []


def test_whoever_may_view_tools_and_tokens_is_shown_no_values_of_others(users: Users, things: dict[Any, Any]) -> None:
    clerk = make_staff("clerk", "mcp_django.view_tool", "mcp_django.view_accesstoken", "mcp_django.add_accesstoken")

    found = seen(clerk, things)

    assert reverse("admin:mcp_django_tool_change", args=[things[Tool].pk]) in found
    assert reverse("admin:mcp_django_accesstoken_changelist") in found
    # A description is for every agent that has the tool, and the name of the tool is in each list of tools.
    others = [(url, text) for url, (model, text) in found.items() if model is not Tool]
    assert [url for url, text in others if MARK in text.replace(things[Tool].name, "")] == []
    assert TokenTemplate not in {model for model, _ in found.values()}
    [page] = [text for url, (_, text) in found.items() if url.endswith(f"/tool/{things[Tool].pk}/change/")]
    assert "tailnum" not in page
