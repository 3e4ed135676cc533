"""Where the project's CallAdmin shows somebody a part of the calls, no number of the console tells of the others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from mcp_django.console.admin.activity import CallAdmin
from mcp_django.models import Call
from tests.console.visiting import client_of, text_of
from tests.support.data import Users, make_staff

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]

INDEX = "/admin/mcp_django/"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Staff see the calls of their own agents."""
    every = CallAdmin.get_queryset

    def own(shown_by: Any, request: HttpRequest) -> Any:
        rows = every(shown_by, request)
        return rows if request.user.is_superuser else rows.filter(user_id=str(request.user.pk))

    monkeypatch.setattr(CallAdmin, "get_queryset", own)


def numbers(user: User) -> dict[str, int]:
    """How many calls each page says that there were."""
    client = client_of(user)
    chart = client.get(INDEX).context["overview"].chart
    models = dict(client.get(f"{INDEX}restriction/").context["lines"])
    tools = text_of(client.get(f"{INDEX}tool/", {"q": "find_records"}).content.decode())
    added_up = text_of(client.get(f"{INDEX}call/totals/").content.decode())
    return {
        "chart": chart.spans[-1].calls,
        "agents": len(chart.agents),
        "models": next(calls for one, calls in models.items() if one.label == "flights.flight"),
        "tools": int(re.findall(r"(\d+) calls? in 7 days", tools)[0]),
        "totals": int(re.findall(r"find_records (\d+) ", added_up)[0]),
    }


def test_nobody_is_told_how_many_calls_there_are_that_their_own_page_does_not_show(users: Users, own: None) -> None:
    staff = make_staff("ann", "mcp_django.view_call", "mcp_django.view_tool", "mcp_django.view_restriction")
    made = {"at": timezone.now(), "site": "mcp", "kind": "call", "name": "find_records", "outcome": "done"}
    for user, count in ((staff, 1), (users.ops, 7)):
        Call.objects.create(**made, model="flights.flight", user_id=str(user.pk), client_name="c", count=count)

    # Who looks first leaves nothing behind for the next.
    for user, calls, agents in ((users.admin, 8, 2), (staff, 1, 1), (users.admin, 8, 2)):
        found = numbers(user)
        assert found == {"chart": calls, "agents": agents, "models": calls, "tools": calls, "totals": calls}, user
