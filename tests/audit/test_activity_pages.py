"""The pages beside the list of the activity: as it happens, added up, and by credential."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.db.models import QuerySet
from django.http import HttpRequest
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django.admin import CallAdmin
from mcp_django.console.admin import totals
from mcp_django.console.admin.activity_cells import span
from mcp_django.models import AccessToken, Call
from tests.console.visiting import client_of, content_of, text_of
from tests.support.calls import make_call
from tests.support.data import make_staff

CALLS = "/admin/mcp_django/call/"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("empty_cache")]


@pytest.fixture
def empty_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def client() -> Client:
    return client_of(User.objects.create_superuser("root"))


def ago(**time: float) -> Any:
    return timezone.now() - timedelta(**time)


def lines_of(page: str, heading: str) -> list[str]:
    """The lines of the table below a heading, without markup."""
    part = page[page.index(f"<h2>{heading}</h2>") :].partition("</section>")[0]
    return [text_of(row) for row in re.findall(r"<tr>(.*?)</tr>", part.partition("<tbody>")[2], re.DOTALL)]


# Who may look.


@pytest.mark.parametrize("page", ["live/", "live/?part=1", "totals/", "credential/"])
def test_without_the_permission_nothing_is_shown(page: str) -> None:
    call = make_call(at=ago(minutes=1), client_name="zanzibar")
    url = f"{CALLS}{call.pk}/{page}" if page == "credential/" else CALLS + page

    answers = [client_of(make_staff(f"staff{number}", *one)).get(url) for number, one in enumerate([
        [], ["mcp_django.view_accesstoken", "mcp_django.view_tool", "mcp_django.view_change"],
    ])]  # fmt: skip

    assert [answer.status_code for answer in answers] == [403, 403]
    assert client_of(make_staff("auditor", "mcp_django.view_call")).get(url).status_code == 200


def test_a_viewer_of_calls_is_shown_no_name_that_a_token_or_a_user_has_by_now() -> None:
    user = User.objects.create_user("zanzibar")
    token, _ = AccessToken.objects.create_token(user=user, name="zanzibar")
    call = make_call(at=ago(minutes=1), user_id=str(user.pk), token_id=token.pk, lineage=str(token.line))
    auditor = client_of(make_staff("auditor", "mcp_django.view_call"))

    pages = [auditor.get(CALLS + one).content.decode() for one in ("live/", "totals/", f"{call.pk}/credential/")]

    assert ["zanzibar" in page for page in pages] == [False] * 3
    assert ["laptop" in page for page in pages] == [True] * 3
    assert f"/accesstoken/{token.pk}/" not in pages[2]
    seen = client_of(User.objects.create_superuser("root")).get(f"{CALLS}{call.pk}/credential/").content.decode()
    assert f"/accesstoken/{token.pk}/change/" in seen


# As it happens.


def test_the_live_page_shows_the_newest_calls_and_its_lines_alone_when_they_change(client: Client) -> None:
    make_call(at=ago(hours=5), name="older_tool")
    make_call(at=ago(minutes=1), outcome="refused", reason="NO_SCOPE", name="newer_tool", ms=150_000)

    page = client.get(f"{CALLS}live/").content.decode()
    first = client.get(f"{CALLS}live/?part=1")
    again = client.get(f"{CALLS}live/?part=1", headers={"If-None-Match": first.headers["ETag"]})
    make_call(at=ago(seconds=1), name="newest_tool")
    changed = client.get(f"{CALLS}live/?part=1", headers={"If-None-Match": first.headers["ETag"]})

    assert page.index("newer_tool") < page.index("older_tool")
    assert "refused NO_SCOPE" in text_of(page) and "2 min 30 s" in text_of(page)
    assert 'data-live="?part=1&amp;"' in page and "style=" not in page and "<script>" not in page
    assert "<html" not in first.content.decode() and first.content.decode().count("<tr>") == 2
    assert (again.status_code, again.content) == (304, b"")
    assert changed.status_code == 200 and "newest_tool" in changed.content.decode()


def test_the_live_page_is_narrowed_as_the_list_is_and_asks_little(client: Client) -> None:
    for number in range(80):
        make_call(at=ago(seconds=number), name=f"tool_{number % 2}", user_name=f"<b>{number}</b>")
    url = f"{CALLS}live/?tool=tool_1&outcome=done&day=today&nonsense=1"

    with CaptureQueriesContext(connection) as asked:
        page = client.get(f"{url}&part=1").content.decode()

    assert page.count("<tr>") == 40 and "tool_0" not in page and "&lt;b&gt;1&lt;/b&gt;" in page
    assert len(asked) <= 4
    assert client.get(f"{CALLS}live/?tool=%00").status_code == 302


def test_the_live_page_calls_its_filters_as_the_list_does(client: Client) -> None:
    make_call(at=ago(minutes=1), kind="call", outcome="waiting", user_id="17", user_name="<b>ops</b>", name="tool_1")
    asked = {"tool": "tool_1", "outcome": "waiting", "kind": "call", "user": "17", "day": "today", "reason": "NO_SCOPE"}

    page = content_of(client.get(f"{CALLS}live/", asked))

    told = "Only outcome: waiting reason: NO_SCOPE kind: call of a tool user: <b>ops</b> tool or prompt: tool_1 ·"
    assert told in page


# Added up.


def make_some() -> None:
    for number in range(1, 21):
        make_call(at=ago(minutes=number), ms=number * 10.0, rows=2, bytes=400)
    make_call(at=ago(minutes=3), outcome="failed", reason="INVALID_ARGUMENTS", detail="limit", ms=5.0, rows=0, bytes=0)
    make_call(at=ago(minutes=2), outcome="failed", reason="INVALID_ARGUMENTS", detail="limit", ms=5.0, rows=0, bytes=0)
    make_call(at=ago(minutes=1), outcome="failed", reason="INVALID_ARGUMENTS", detail="model", ms=5.0, rows=0, bytes=0)
    make_call(
        at=ago(minutes=1), kind="request", outcome="refused", reason="EXPIRED", count=7, name="", client_name="",
        token_id=6, token_name="phone", ms=0, rows=0, bytes=0, method="",
    )  # fmt: skip
    make_call(at=ago(days=3), name="last_week", token_id=7, token_name="desk")
    make_call(at=ago(days=8), name="too_old")
    make_call(at=ago(minutes=1), kind="token", outcome="done", reason="created", name="", method="")


@pytest.mark.every_database
def test_calls_are_added_up_by_agent_token_and_tool(client: Client) -> None:
    make_some()

    day = client.get(f"{CALLS}totals/").content.decode()

    # Of 23 timed calls, 22 took at most 190 ms, and 21.85 are 95 %.
    assert lines_of(day, "Agents, as they call themselves") == [
        "claude-code 23 3 (13 %) 190.0 ms 40 7.8 KB 2000",
        "without a name 7 7 (100 %) - 0 0 bytes 0",
    ]
    assert [line.split()[:3] for line in lines_of(day, "Tokens")] == [["laptop", "23", "3"], ["phone", "7", "7"]]
    assert [line.split()[:3] for line in lines_of(day, "Tools and prompts")] == [["find_records", "23", "3"]]


@pytest.mark.every_database
def test_a_period_is_at_most_seven_days_and_errors_that_are_alike_are_one_line(client: Client) -> None:
    make_some()

    week = client.get(f"{CALLS}totals/?period=week").content.decode()
    hour = client.get(f"{CALLS}totals/?period=hour").content.decode()

    assert "last_week" in week and "last_week" not in hour and "too_old" not in week
    alike = [re.sub(r"\s+", " ", line) for line in lines_of(hour, "Errors that are alike")]
    assert [re.split(r" \d\d/\d\d/", line)[0] for line in alike] == [
        "- EXPIRED The token has expired. Its holder was told so. 7",
        "find_records INVALID_ARGUMENTS (limit) Arguments were missing, unknown, or had wrong values. 2",
        "find_records INVALID_ARGUMENTS (model) Arguments were missing, unknown, or had wrong values. 1",
    ]
    assert "?reason=INVALID_ARGUMENTS&amp;tool=find_records" in hour
    assert max(length for length, _ in totals.PERIODS.values()) == timedelta(days=7)
    assert client.get(f"{CALLS}totals/?period=year").status_code == 302


def test_the_numbers_are_kept_for_a_minute_and_only_for_whoever_asked(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_some()
    other = client_of(make_staff("auditor", "mcp_django.view_call"))

    def calls(browser: Client) -> str:
        return lines_of(browser.get(f"{CALLS}totals/").content.decode(), "Tools and prompts")[0].split()[1]

    before = calls(client)
    make_call(at=ago(minutes=1))
    with CaptureQueriesContext(connection) as asked:
        assert calls(client) == before == "23"

    assert not [one for one in asked.captured_queries if "SUM(" in one["sql"]]
    assert calls(other) == "24" and totals.KEPT_SECONDS == 60
    cache.clear()
    monkeypatch.setattr(totals, "KEPT_SECONDS", 0)
    assert calls(client) == "24"
    make_call(at=ago(minutes=1))
    assert calls(client) == "25"


def test_reading_numbers_of_others_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may show people the calls of their own agents alone."""

    def own(self: CallAdmin, request: HttpRequest) -> QuerySet[Call]:
        return Call.objects.filter(user_name=request.user.get_username())

    monkeypatch.setattr(CallAdmin, "get_queryset", own)
    monkeypatch.setattr(CallAdmin, "has_view_permission", lambda self, request, obj=None: True)
    eve, ada = make_staff("eve"), make_staff("ada")
    for name in ("ada", "eve"):
        call = make_call(at=ago(minutes=1), user_name=name, user_id=name, name=f"tool_of_{name}", lineage="one")
    pages = ["totals/", "live/", "live/?part=1"]

    shown = {user: [client_of(user).get(CALLS + one).content.decode() for one in pages] for user in (ada, eve)}
    foreign = client_of(ada).get(f"{CALLS}{call.pk}/credential/")

    for user, other in ((ada, "eve"), (eve, "ada")):
        assert [f"tool_of_{user.username}" in page for page in shown[user]] == [True] * 3
        assert [f"tool_of_{other}" in page for page in shown[user]] == [False] * 3
    assert foreign.status_code == 404


def test_the_same_viewer_at_another_host_has_other_numbers(client: Client) -> None:
    """Tenants that are told apart by their hosts may have users with equal keys."""
    make_call(at=ago(minutes=1), name="first_tool")
    url, here = f"{CALLS}totals/", {"Host": "localhost"}
    client.get(url, headers=here)
    make_call(at=ago(minutes=1), name="second_tool")

    with override_settings(ALLOWED_HOSTS=["*"]):
        other = client.get(url, headers={"Host": "tenant.example"}).content.decode()

    assert "second_tool" in other and "second_tool" not in client.get(url, headers=here).content.decode()


@override_settings(CACHES={"default": {"BACKEND": f"{__name__}.Away"}})
def test_without_a_cache_the_numbers_are_counted_each_time(client: Client) -> None:
    for number in (1, 2):
        make_call(at=ago(minutes=1))

        page = client.get(f"{CALLS}totals/").content.decode()
        assert lines_of(page, "Tools and prompts")[0].split()[:2] == ["find_records", str(number)]


class Away:
    """A cache whose server is away."""

    def __init__(self, location: str, params: Any) -> None: ...

    def get(self, *args: Any) -> Any:
        raise OSError("away")

    def set(self, *args: Any) -> Any:
        raise OSError("away")

    def clear(self) -> None: ...

    def close(self) -> None: ...


def test_without_an_aggregate_for_it_the_times_are_those_of_the_newest_calls(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        make_call(at=ago(minutes=number), ms=10.0 + number)
    monkeypatch.setattr(totals, "MOST_SAMPLED", 4)

    page = client.get(f"{CALLS}totals/").content.decode()

    if connection.vendor != "postgresql":
        assert "The times are those of the newest" in page
        assert "13.0 ms" in lines_of(page, "Tools and prompts")[0]


def test_too_many_calls_to_add_up_are_no_error(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_slow(*args: Any) -> Any:
        raise totals.TooSlow

    make_call(at=ago(minutes=1))
    monkeypatch.setattr(totals, "_table", too_slow)

    assert "Choose a shorter period." in content_of(client.get(f"{CALLS}totals/"))


# By credential.


def make_story() -> list[Call]:
    """Calls of one lineage with two tokens, with and without a pause, among those of others."""
    start, one = ago(hours=3), {"lineage": "a" * 36, "user_id": "3"}
    made = [
        make_call(at=start, name="first", token_id=5, trace_id="1" * 32, **one),
        make_call(at=start + timedelta(minutes=1), name="second", token_id=5, ms=8 * 60_000, session="5e55", **one),
        # Ten minutes after the end of the one before, and a little more.
        make_call(at=start + timedelta(minutes=19), name="third", token_id=8, trace_id="1" * 32, **one),
        make_call(at=start + timedelta(minutes=90), name="fourth", token_id=8, session="5e55", **one),
    ]
    make_call(at=start + timedelta(minutes=2), name="of_another", lineage="b" * 36, user_id="3", token_id=9)
    make_call(at=start + timedelta(minutes=2), name="of_a_namesake", lineage="a" * 36, user_id="4", token_id=5)
    make_call(at=start + timedelta(minutes=3), name="old_line", lineage="", user_id="3", token_id=5)
    make_call(at=start + timedelta(minutes=4), name="by_a_person", kind="token", lineage="a" * 36, user_id="3")
    return made


def test_what_a_credential_did_is_in_order_with_its_pauses(client: Client) -> None:
    made = make_story()

    page = client.get(f"{CALLS}{made[0].pk}/credential/").content.decode()

    text = text_of(page[page.index("<tbody>") :])
    found = re.findall(r"first|second|third|fourth|of_\w+|old_line|by_a_person|Nothing for [^.]*? (?=\d\d/)", text)
    assert found == ["first", "second", "old_line", "third", "Nothing for 1 h 11 min ", "fourth"]
    assert "What laptop of ada did" in page and 'class="is-chosen" aria-current="true"' in page


def test_a_pause_begins_where_the_call_before_it_ended(client: Client) -> None:
    start = ago(hours=3)
    calls = [(0, 0.0), (10, 0.0), (20.5, 15.0), (30, 0.0), (46, 0.0)]
    made = [make_call(at=start + timedelta(minutes=at), ms=took * 60_000, lineage="c") for at, took in calls]

    page = client.get(f"{CALLS}{made[2].pk}/credential/").content.decode()

    assert re.findall(r"Nothing for ([\w ]+)<", page) == ["10 min 30 s", "10 min 30 s"]


def test_a_credential_is_narrowed_to_a_trace_or_a_session(client: Client) -> None:
    made = make_story()

    traced = client.get(f"{CALLS}{made[0].pk}/credential/?by=trace_id").content.decode()
    session = client.get(f"{CALLS}{made[1].pk}/credential/?by=session").content.decode()
    other = client.get(f"{CALLS}{made[0].pk}/credential/?by=user_name__startswith").content.decode()

    def names(page: str) -> list[str]:
        return re.findall(r">(first|second|third|fourth|old_line)<", page)

    assert (names(traced), names(session)) == (["first", "third"], ["second", "fourth"])
    assert len(names(other)) == 5
    assert "Only this session" in session and "Only this session" not in traced


def test_a_long_story_goes_on_at_the_call_at_which_it_was_cut(client: Client) -> None:
    start = ago(hours=9)
    made = [make_call(at=start + timedelta(seconds=n), name=f"n{n}", lineage="d") for n in range(160)]

    with CaptureQueriesContext(connection) as asked:
        page = client.get(f"{CALLS}{made[80].pk}/credential/").content.decode()

    names = re.findall(r">(n\d+)<", page)
    assert names == [f"n{n}" for n in range(30, 131)]
    assert len(asked) <= 12
    assert f"{CALLS}{made[29].pk}/credential/" in page and f"{CALLS}{made[131].pk}/credential/" in page
    assert ">n0<" in client.get(f"{CALLS}{made[29].pk}/credential/").content.decode()


def test_without_a_token_the_user_is_the_credential_and_without_a_user_there_is_none(client: Client) -> None:
    own = {"token_id": None, "token_name": "", "user_id": "3", "at": ago(minutes=1)}
    by_command = make_call(name="by_command", transport="stdio", **own)
    make_call(name="with_token", user_id="3", at=ago(minutes=1))
    anonymous = make_call(user_id="", user_name="", token_id=None, at=ago(minutes=1))

    page = client.get(f"{CALLS}{by_command.pk}/credential/").content.decode()

    assert ">by_command<" in page and "with_token" not in page and "ada without a token" in page
    assert client.get(f"{CALLS}{anonymous.pk}/credential/").status_code == 404
    assert "/credential/" not in client.get(f"{CALLS}{anonymous.pk}/change/").content.decode()
    assert f"{by_command.pk}/credential/" in client.get(f"{CALLS}{by_command.pk}/change/").content.decode()


def test_a_time_is_said_in_its_two_greatest_units() -> None:
    cases = [
        (timedelta(milliseconds=12.5), "12.5 ms"), (timedelta(seconds=1.5), "1.5 s"),
        (timedelta(seconds=61), "1 min 1 s"), (timedelta(minutes=125), "2 h 5 min"), (timedelta(days=1), "1 day"),
        (timedelta(minutes=48), "48 min"), (timedelta(days=3, hours=4), "3 days 4 h"),
    ]  # fmt: skip

    assert [span(length) for length, _ in cases] == [text for _, text in cases]
