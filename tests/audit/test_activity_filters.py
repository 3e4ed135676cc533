"""The filters and the search of the activity: what each finds, and at what cost."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django.console.admin import activity
from mcp_django.models import Call
from tests.support.calls import NOON, count_anew, make_call, make_many, plan_of

CALLS = "/admin/mcp_django/call/"
UUID = "7f3c2a10-5d4b-4e61-9c0f-1a2b3c4d5e6f"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def listed(client: Client, /, **parameters: str) -> list[Call]:
    answer = client.get(CALLS, parameters)
    assert answer.status_code == 200
    return list(answer.context["cl"].result_list)


def offered(client: Client, title: str, /, **parameters: str) -> list[str]:
    """The texts of the links of a filter."""
    page = client.get(CALLS, parameters).content.decode()
    part = page.partition(f'data-filter-title="{title}"')[2].partition("</details>")[0]
    return re.findall(r"<a [^>]+>([^<]+)</a>", part)


# Each filter.


@pytest.mark.every_database
def test_a_filter_finds_what_it_names_alone(client: Client) -> None:
    call = make_call(client_id="registered")
    others: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({"user": "3"}, {"user_id": "4", "user_name": "bob"}),
        ({"user": "ada"}, {"user_id": "4", "user_name": "bob"}),
        ({"token": "5"}, {"token_id": 6}),
        ({"token": "laptop"}, {"token_name": "5"}),
        ({"client": "claude-code"}, {"client_name": "other"}),
        ({"client": "registered"}, {"client_id": ""}),
        ({"kind": "call"}, {"kind": "read"}),
        ({"outcome": "done"}, {"outcome": "refused"}),
        ({"tool": "find_records"}, {"name": "get_record"}),
        ({"model": "Flights.Flight"}, {"model": "flights.airport"}),
        ({"day": "2026-11-22"}, {"at": NOON - timedelta(days=1)}),
        ({"user": "ada", "tool": "find_records"}, {"name": "get_record"}),
    ]  # fmt: skip
    for parameters, other in others:
        left_out = make_call(**{"client_id": "registered", **other})
        assert listed(client, **parameters) == [call], parameters
        left_out.delete()


@pytest.mark.every_database
def test_a_user_is_found_by_the_id_and_by_each_name(client: Client) -> None:
    user = User.objects.create_user("grace")
    under_old_name = make_call(user_id=str(user.pk), user_name="hopper")
    of_deleted_user = make_call(user_id="999", user_name="grace")

    assert listed(client, user=str(user.pk)) == [under_old_name]
    assert listed(client, user="hopper") == [under_old_name]
    assert listed(client, user="grace") == [of_deleted_user, under_old_name]
    assert listed(client, user="999") == [of_deleted_user]
    assert listed(client, user="nobody") == []


@pytest.mark.every_database
def test_a_day_is_a_local_day_and_has_25_hours_when_clocks_go_back(client: Client) -> None:
    """The project's zone is New York: five hours behind UTC, four in summer."""
    zone = timezone.get_current_timezone()
    ends = [datetime(2026, 11, 22, tzinfo=zone), datetime(2026, 11, 23, tzinfo=zone)]
    calls = [make_call(at=end + step) for end in ends for step in (-timedelta(seconds=1), timedelta(0))]
    first, last = datetime(2026, 11, 1, tzinfo=zone), datetime(2026, 11, 1, 23, 59, 59, tzinfo=zone)
    long = [make_call(at=moment) for moment in (first, last)]

    assert listed(client, day="2026-11-22") == [calls[2], calls[1]]
    assert last.timestamp() - first.timestamp() > 24 * 3600
    assert listed(client, day="2026-11-01") == long[::-1]


def test_days_are_counted_back_from_today_also_without_time_zones(
    client: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(timezone, "localdate", NOON.date)
    calls = {make_call(at=NOON - timedelta(days=back)).pk: back for back in (0, 1, 6, 7)}
    expected = {"today": [0], "yesterday": [1], "week": [0, 1, 6]}

    assert {day: [calls[call.pk] for call in listed(client, day=day)] for day in expected} == expected
    settings.USE_TZ = False
    Call.objects.all().delete()
    assert [listed(client, day=day) for day in (*expected, "2026-11-22")] == [[]] * 4


@pytest.mark.every_database
def test_a_wrong_value_is_told_and_no_failure(client: Client) -> None:
    for parameters in (
        {"day": "tomorrow"}, {"day": "2026-02-30"}, {"day": "0001-01-01"}, {"day": "9999-12-31"}, {"user": "a\0b"},
        {"tool": "\0"},
    ):  # fmt: skip
        for answer in (client.get(CALLS, parameters), client.get(f"{CALLS}csv/", parameters)):
            assert (answer.status_code, answer["Location"]) == (302, f"{CALLS}?e=1"), parameters


@pytest.mark.every_database
def test_any_text_may_be_asked_for(client: Client) -> None:
    make_call()

    for value in ("1" * 400, "-1", "9" * 19, "²", "' OR 1=1 --", "😀"):
        assert [listed(client, **{name: value}) for name in ("user", "token", "client", "tool", "q")] == [[]] * 5, value


# What a filter offers.


def test_the_values_of_the_newest_calls_are_offered_by_name(client: Client) -> None:
    make_call(user_id="3", user_name="old name", at=NOON - timedelta(days=2))
    make_call(user_id="3", user_name="ada", token_id=None, name="", model="", client_name="")
    make_call(user_id="4", user_name="bob", token_id=6, token_name="", client_name="cursor")

    assert offered(client, "user") == ["All", "ada", "bob"]
    assert offered(client, "token") == ["All", "6", "laptop"]
    assert offered(client, "client") == ["All", "claude-code", "cursor"]
    assert offered(client, "tool or prompt") == ["All", "find_records"]
    assert offered(client, "model") == ["All", "flights.flight"]


def test_users_and_tokens_with_the_same_name_are_told_apart(client: Client) -> None:
    make_call(user_id="3", token_id=5)
    make_call(user_id="4", token_id=6)

    assert offered(client, "user") == ["All", "ada (3)", "ada (4)"]
    assert offered(client, "token") == ["All", "laptop (5)", "laptop (6)"]


def test_a_chosen_day_is_shown_as_chosen(client: Client) -> None:
    assert offered(client, "day") == ["All", "Today", "Yesterday", "Past 7 days"]
    assert offered(client, "day", day="2026-11-22")[4:] == ["Nov. 22, 2026"]


def test_a_value_that_is_not_among_them_is_typed_and_then_offered(client: Client) -> None:
    for number in range(activity.activity_filters._OFFERED + 5):
        make_call(name=f"tool_{number:02}")
        make_call(name=f"tool_{number:02}" if number < 10 else "tool_00")

    before, after = offered(client, "tool or prompt"), offered(client, "tool or prompt", tool="tool_14")

    assert len(before) == 11 and "tool_14" not in before
    assert set(after) - set(before) == {"tool_14"}
    assert len(listed(client, tool="tool_14")) == 1


def test_the_field_of_a_filter_keeps_the_other_filters(client: Client) -> None:
    page = client.get(CALLS, {"user": "ada", "q": "7", "p": "1"}).content.decode()
    form = page.partition('data-filter-title="tool or prompt"')[2].partition("</form>")[0].partition("<form")[2]

    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)

    assert sorted(hidden) == [("q", "7"), ("user", "ada")]
    assert 'name="tool"' in form


# The search.


@pytest.mark.every_database
def test_a_record_finds_the_calls_that_changed_it_and_is_no_pattern(client: Client) -> None:
    call, of_order = make_call(keys=" 16 17 18 "), make_call(model="shop.order", keys=f" {UUID} ")
    make_call(keys=" 117 171 1 7 ")
    make_call(keys=" 17 ", model="flights.airport")

    for text in ("flights.flight 17", " Flights.Flight   17 "):
        assert listed(client, q=text) == [call]
    for key in ("%", "_7", "1%8"):
        assert listed(client, q=f"flights.flight {key}") == []
    for key in (UUID, UUID.upper(), UUID.replace("-", "")):
        assert listed(client, q=f"shop.order {key}") == [of_order]


@pytest.mark.every_database
def test_the_search_finds_a_request_a_trace_and_an_address_within_the_filters(client: Client) -> None:
    make_call()
    cases: list[tuple[str, dict[str, str]]] = [
        ("req-1", {"request_id": "req-1"}),
        (TRACE, {"trace_id": TRACE}),
        (TRACE.upper(), {"trace_id": TRACE}),
        (f"00-{TRACE}-00f067aa0ba902b7-01", {"trace_id": TRACE}),
        ("198.51.100.7", {"address": "198.51.100.7"}),
        ("2001:DB8:0:0::1", {"address": "2001:db8::1"}),
    ]  # fmt: skip
    for text, columns in cases:
        call = make_call(**columns)
        of_other = make_call(user_id="4", **columns)
        assert listed(client, q=text) == [of_other, call], text
        assert listed(client, q=text, user="4") == [of_other]
        Call.objects.filter(pk__in=[call.pk, of_other.pk]).delete()


# The cost.


def statements(client: Client, /, **parameters: str) -> list[str]:
    """The statements of the page about calls."""
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(CALLS, parameters).status_code == 200
    return [query["sql"] for query in captured if "mcp_django_call" in query["sql"]]


def test_a_page_takes_three_statements(client: Client) -> None:
    """The count, the lines, and what the filters offer; a user needs one more to tell an id from a name."""
    make_many(500)
    pages: list[dict[str, str]] = [
        {}, {"day": "2026-11-22"}, {"token": "9"}, {"tool": "tool_3"}, {"model": "shop.model3"}, {"outcome": "refused"},
        {"kind": "call"}, {"client": "claude-code"}, {"q": "shop.model10 40"}, {"p": "3"},
    ]  # fmt: skip

    for parameters in pages:
        asked = statements(client, **parameters)
        assert len(asked) == 3, parameters
        assert len(statements(client, user="7", **parameters)) <= 4
        assert not any("DISTINCT" in statement for statement in asked)
        assert [statement for statement in asked if "COUNT" in statement and "LIMIT 10001" not in statement] == []


@pytest.mark.every_database
def test_an_index_finds_the_lines(client: Client, transactional_db: None) -> None:
    """There are so many, and so few of one user, that a database finds an index worth its while."""
    make_many(20_000)
    make_call(user_id="quiet")
    count_anew()

    for parameters, index in (
        ({}, "mcp_django_call_at"),
        ({"day": "2026-11-22"}, "mcp_django_call_at"),
        ({"user": "quiet"}, "mcp_django_call_user"),
        ({"user": "quiet", "day": "2026-11-22"}, "mcp_django_call_user"),
    ):
        [lines] = [one for one in statements(client, **parameters) if "arguments" in one]
        assert index in plan_of(lines), parameters


@pytest.mark.every_database
def test_calls_are_counted_up_to_a_limit_of_which_a_whole_list_says_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_many(151)
    whole = client.get(CALLS)
    monkeypatch.setattr(activity, "MAX_LISTED", 150)

    [counting] = [statement for statement in statements(client) if "COUNT(*)" in statement]
    answer = client.get(CALLS)

    assert "lines are listed" not in whole.content.decode()
    assert "LIMIT 151" in counting
    assert answer.context["cl"].result_count == 150
    assert "The newest 150 lines are listed. Choose a day, or another filter" in answer.content.decode()
    assert len(listed(client, p="2")) == 50
