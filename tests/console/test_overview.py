"""The first page of the console shows each viewer what that viewer may see, and counts by local days."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from mcp_django.bridge.resources.fields.days import Days
from mcp_django.console.admin import overview
from mcp_django.models import AccessToken, Call, Change, DueRun, Task, Tool
from tests.console.visiting import client_of, make_task, text_of
from tests.support.data import Users, make_staff

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]

URL = "/admin/mcp_django/"


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is noon of this day, so that no test goes on into the next."""
    noon = timezone.localtime().replace(hour=12, minute=0, second=0, microsecond=0)
    monkeypatch.setattr(timezone, "now", lambda: noon)


def opened(user: User) -> str:
    response = client_of(user).get(URL)
    assert response.status_code == 200
    return response.content.decode()


def shown(user: User) -> str:
    """The text of our part of the page."""
    page = opened(user)
    part = page[page.index('<div class="mcp">') : page.index('<div class="app-mcp_django')]
    return text_of(part)


def call(**values: Any) -> Call:
    made = {"at": timezone.now(), "kind": "call", "outcome": "done", "user_id": "1", "client_name": "c", "rows": 20}
    return Call.objects.create(**{**made, **values})


def test_the_calls_of_today_are_counted_by_what_came_of_them(users: Users) -> None:
    call()
    call(outcome="failed", client_name="other")
    call(outcome="refused", count=3, rows=0)
    call(kind="token", user_id="2")

    text = shown(users.admin)

    for told in ("Calls today 5", "Refused or failed today 4", "Agents today 2", "Rows read today 40"):
        assert told in text


def test_a_day_is_that_of_the_project(users: Users, settings: Any) -> None:
    settings.TIME_ZONE = "Pacific/Auckland"
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    call(at=midnight)
    call(at=midnight - datetime.timedelta(seconds=1))
    call(at=midnight - datetime.timedelta(days=30))

    with timezone.override("Pacific/Auckland"):
        text = shown(users.admin)

    assert "Calls today 1" in text


def test_the_chart_has_a_bar_for_each_day_with_calls_in_any_language(users: Users, settings: Any) -> None:
    call()
    call(outcome="failed")
    call(at=timezone.now() - datetime.timedelta(days=3))

    page = opened(users.admin)
    # In German a number may have a comma, which would be none in SVG.
    settings.LANGUAGE_CODE, settings.USE_THOUSAND_SEPARATOR = "de", True
    call(count=1_234)
    svg = opened(users.admin).partition("<svg")[2].partition("</svg>")[0]

    assert page.count('<rect class="is-done"') == 2 and page.count('<rect class="is-failed"') == 1
    assert 'role="img" aria-label="Calls on each of the last 14 days' in page
    assert svg and re.findall(r'(?:x|y|width|height)="[^"]*[^0-9.%"x-][^"]*"', svg) == []


def test_each_part_needs_the_permission_to_view_what_it_is_about(users: Users) -> None:
    call()
    Tool.objects.filter(name="delete_record").update(enabled=True)

    of_calls = shown(make_staff("auditor", "mcp_django.view_call"))
    of_tools = shown(make_staff("operator", "mcp_django.view_tool"))

    assert "Calls today 1" in of_calls and "delete_record" not in of_calls and "may destroy" not in of_calls
    assert "may destroy data" in of_tools and "Calls" not in of_tools


def test_a_change_that_waits_is_named_to_its_own_user(users: Users) -> None:
    clerk = make_staff("clerk", "mcp_django.view_tool")
    later = timezone.now() + datetime.timedelta(days=1)
    for user, expires_at in ((clerk, later), (users.admin, later), (clerk, timezone.now())):
        Change.objects.create(
            key=f"{user.pk}-{expires_at:%d}", confirmed_by=f"{user.pk}-{expires_at}", site="mcp", user=user,
            operation="update", model="flights.flight", state="waiting", created_at=timezone.now(),
            expires_at=expires_at,
        )  # fmt: skip

    assert "1 change by an agent waits for you." in shown(clerk)


def test_it_says_when_what_is_due_was_done_and_warns_where_it_never_was(users: Users) -> None:
    needs = {"level": "approve", "count": 1}
    assert "mcp_due" not in shown(users.admin)

    Change.objects.create(
        key="a", confirmed_by="a", site="mcp", user=users.ops, operation="update", model="flights.flight", needs=needs,
        state="waiting", created_at=timezone.now(), expires_at=timezone.now() + datetime.timedelta(days=1), keys="[]",
    )  # fmt: skip
    assert "manage.py mcp_due has never run" in shown(users.admin)

    DueRun.objects.create(at=timezone.now())
    assert "manage.py mcp_due ran last on" in shown(users.admin)


def test_tasks_that_wait_for_answers_are_counted_for_whoever_may_see_the_connections(users: Users) -> None:
    make_task(users.ops)
    make_task(users.ops, key="another", state=Task.State.RUNNING)
    make_task(users.ops, key="over", expires_at=timezone.now())

    assert "1 task waits for answers of its user" in shown(users.admin)
    assert "waits for answers" not in shown(make_staff("clerk", "mcp_django.view_tool"))


def test_tokens_in_use_that_end_soon_are_named_to_whoever_may_see_them(users: Users) -> None:
    clerk = make_staff("clerk", "mcp_django.view_accesstoken")
    soon, now = timezone.now() + datetime.timedelta(days=2), timezone.now()
    for user, name, used in ((clerk, "mine", now), (clerk, "unused", None), (users.admin, "another's", now)):
        token, _ = AccessToken.objects.create_token(user=user, name=name, expires_at=soon)
        AccessToken.objects.filter(pk=token.pk).update(last_used_at=used)

    text = shown(clerk)

    assert "mine" in text and "unused" not in text and "another" not in text


def test_what_is_switched_on_and_may_destroy_is_named_with_a_link(users: Users) -> None:
    row, _ = Tool.objects.update_or_create(site="mcp", name="delete_record", defaults={"enabled": True})

    page = opened(users.admin)

    assert f'<a href="{reverse("admin:mcp_django_tool_change", args=[row.pk])}">delete_record</a>' in page
    assert "find_records</a>" not in page


def set_hour(monkeypatch: pytest.MonkeyPatch, hours: float) -> datetime.datetime:
    """It is so late on this day. The noon of yesterday."""
    start = Days.today().start()
    assert start is not None
    monkeypatch.setattr(overview, "_now", lambda: start + datetime.timedelta(hours=hours))
    return start - datetime.timedelta(hours=12)


def numbers(page: str) -> list[str]:
    """Those of today, and then of the days before: calls, refused, failed, agents, rows."""
    return re.findall(r'<td class="is-number">(\d+)</td>', page)


def test_days_that_are_over_are_counted_once(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    call(at=set_hour(monkeypatch, 2))
    opened(users.admin)

    call()
    with CaptureQueriesContext(connection) as asked:
        page = opened(users.admin)

    assert len(asked) < 25  # Logging in is among them.
    [counting] = [query["sql"] for query in asked if "rows_read" in query["sql"]]
    assert counting.count("rows_read") == 1
    assert (numbers(page)[0], numbers(page)[5]) == ("1", "1")


def test_a_day_that_has_just_ended_is_counted_again(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last lines may not be written yet."""
    yesterday = set_hour(monkeypatch, 0.5)
    call(at=yesterday)
    opened(users.admin)

    call(at=yesterday)

    assert numbers(opened(users.admin))[5] == "2"
