"""The first page of the console shows each viewer what that viewer may see, and counts by local days."""

from __future__ import annotations

import datetime
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from mcp_django.bridge.resources.fields.days import Days
from mcp_django.console.admin import call_chart
from mcp_django.console.admin.call_chart import Chart
from mcp_django.console.admin.getting_started import GettingStarted
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
    assert 'role="img" aria-label="Calls on each of the last 7 days' in page
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
    later = {**vars(timezone), "now": lambda: start + datetime.timedelta(hours=hours)}
    monkeypatch.setattr(call_chart, "timezone", SimpleNamespace(**later))
    return start - datetime.timedelta(hours=12)


def numbers(page: str) -> list[str]:
    """Those of today, and then of the days before: calls, refused, failed, agents, rows."""
    return re.findall(r'<td class="is-number">(\d+)</td>', page)


def test_days_that_are_over_are_counted_once(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    call(at=set_hour(monkeypatch, 2))
    opened(users.admin)

    call()
    client = client_of(users.admin)
    with CaptureQueriesContext(connection) as asked:
        page = client.get(URL).content.decode()

    assert len(asked) < 20
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


# The chart's choices.


def chosen(user: User, **choice: str) -> Any:
    """The chart for these parameters."""
    page = client_of(user).get(URL, choice)
    return page.context["overview"].chart


def totals(chart: Any) -> int:
    return sum(span.calls for span in chart.spans)


def test_the_chart_is_of_a_period_a_tool_and_an_agent(users: Users) -> None:
    now = timezone.now()
    call(name="find_records", user_name="ann")
    call(at=now - datetime.timedelta(hours=3), name="get_record", user_name="ann")
    call(at=now - datetime.timedelta(days=6), name="get_record", user_id="2", user_name="bob", client_name="other")
    call(at=now - datetime.timedelta(days=20), name="get_record", count=5)

    for period, spans, calls in (("day", 24, 2), ("week", 7, 3), ("", 7, 3), ("nonsense", 7, 3), ("month", 30, 8)):
        chart = chosen(users.admin, period=period)
        assert (len(chart.spans), totals(chart)) == (spans, calls), period
        assert chart.today.calls == 2
    agent = json.dumps(["2", "other"])
    assert totals(chosen(users.admin, period="month", tool="get_record")) == 7
    assert totals(chosen(users.admin, period="month", agent=agent)) == 1
    assert totals(chosen(users.admin, tool="find_records", agent=agent)) == 0
    chart = chosen(users.admin, tool="get_record", agent=agent)
    assert [one.label for one in chart.tools] == ["find_records", "get_record"]
    assert {one.label for one in chart.agents} == {"c of ann", "other of bob"}
    assert [one.value for one in (*chart.tools, *chart.agents) if one.is_chosen] == ["get_record", agent]
    assert chart.today.calls == 2


def test_nonsense_in_the_url_breaks_nothing_and_is_escaped(users: Users) -> None:
    call()
    for nonsense in ("\0", "[1]", '["1", "\\u0000"]', "[", "{}", '["a", {}]', "<script>", "9" * 5_000, '[["1"], "x"]'):
        page = client_of(users.admin).get(URL, {"tool": nonsense, "agent": nonsense})
        assert page.status_code == 200 and b"<script>" not in page.content.partition(b'id="chart"')[2], nonsense


def test_hours_are_whole_and_follow_each_other_when_clocks_change(
    users: Users, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    early = datetime.datetime(2024, 10, 27, 4, 30, tzinfo=datetime.UTC)
    monkeypatch.setattr(timezone, "now", lambda: early)
    for minutes in (0, 60, 120, 180, 240):
        call(at=early - datetime.timedelta(minutes=minutes))

    with timezone.override("Europe/Berlin"):
        spans = [span for span in Chart(QueryDict("period=day"), Call.objects.order_by(), "key").spans if span.calls]

    # Two of them are at two o'clock.
    assert [(span.since.hour, span.calls) for span in spans] == [(2, 1), (2, 1), (3, 1), (4, 1), (5, 1)]


# Getting started.


@pytest.fixture
def fresh(users: Users) -> None:
    """Nothing is switched on that starts switched off."""
    Tool.objects.update(enabled=False)


def steps(user: User) -> dict[str, tuple[bool | None, str]]:
    """Whether each step is done, and whom to ask."""
    starting = client_of(user).get(URL).context["overview"].starting
    return {str(step.title): (step.is_done, step.asks) for step in starting.steps}


def test_on_a_fresh_install_the_steps_stand_in_the_place_of_zeros_until_all_are_done(fresh: None, users: Users) -> None:
    left = {"Make a token", "Connect a client", "Switch on a tool", "Try a tool"}

    def undone() -> set[str]:
        return {title for title, (is_done, _asks) in steps(users.admin).items() if is_done is False}

    call(user_id="", outcome="refused")  # Somebody without a token.
    assert undone() == left and "Calls today" not in shown(users.admin) and "Getting started" in shown(users.admin)
    token, _ = AccessToken.objects.create_token(user=users.ops, name="first")
    assert undone() == left - {"Make a token"}
    AccessToken.objects.filter(pk=token.pk).update(last_used_at=timezone.now())
    assert undone() == {"Switch on a tool", "Try a tool"}
    Tool.objects.update_or_create(site="mcp", name="find_records", defaults={"enabled": True})
    assert "Switch on a tool" in undone(), "it starts switched on"
    Tool.objects.update_or_create(site="mcp", name="delete_record", defaults={"enabled": True})
    assert undone() == {"Try a tool"}
    call(user_id=str(users.ops.pk), client_name="console of ops")
    assert undone() == {"Try a tool"}, "somebody else has tried"
    assert "Calls today 2" in shown(users.admin) and "Getting started" in shown(users.admin)
    call(user_id=str(users.admin.pk), client_name="console of admin")
    assert "Getting started" not in shown(users.admin)


def test_nobody_is_getting_started_two_weeks_after_the_first_call(fresh: None, users: Users) -> None:
    call(at=timezone.now() - datetime.timedelta(days=13))
    assert "Getting started" in shown(users.admin)

    call(at=timezone.now() - datetime.timedelta(days=15))
    assert "Getting started" not in shown(users.admin)


def test_who_may_not_do_a_step_is_told_whom_to_ask_and_not_whether_it_is_done(fresh: None, users: Users) -> None:
    AccessToken.objects.create_token(user=users.ops, name="first")
    auditor = make_staff("auditor", "mcp_django.view_call")

    assert steps(auditor) == {
        "Serve the endpoint": (True, ""), "Make a token": (None, "mcp_django.add_accesstoken"),
        "Connect a client": (False, ""),
        "Switch on a tool": (None, "mcp_django.change_tool"), "Try a tool": (None, "mcp_django.view_tool"),
    }  # fmt: skip
    assert "Ask a superuser, or somebody with the permission mcp_django.add_accesstoken." in shown(auditor)
    # There is no step for this one, and no number either.
    assert "Getting started" not in shown(make_staff("clerk", "mcp_django.view_prompt"))


@pytest.mark.parametrize("name", ["without", "with"])
def test_without_our_urls_the_card_says_which_line_is_missing(
    fresh: None, users: Users, rf: Any, settings: Any, name: str
) -> None:
    request = rf.get(URL)
    request.user, request.session = users.admin, {}
    if name == "without":
        settings.ROOT_URLCONF = "tests.console.admin_alone"

    step = GettingStarted(admin.site, request).steps[0]

    assert step.is_done is (name == "with")
    assert ("include(" in step.code) is (name == "without")
