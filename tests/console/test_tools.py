"""The list of tools says what each is and does; trying one is a call of the viewer's own agent."""

from __future__ import annotations

import html
import json
import re
from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.models import Call, Tool
from tests.checks.conftest import of
from tests.console.visiting import READ_ONLY, client_of, lines, text_of
from tests.support.data import Users, make_staff, switch_on
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db", "trail")

URL = "/admin/mcp_django/tool/"


def row_of(name: str) -> Tool:
    return Tool.objects.get(site="mcp", name=name)


def listed(user: User, name: str) -> str:
    """The line of a tool."""
    page = client_of(user).get(URL).content.decode()
    lines = re.findall(r'<li class="mcp-card">.*?</li>', page, re.DOTALL)
    [line] = [line for line in lines if f"<strong>{name}</strong>" in line]
    return text_of(line)


# The list.


def test_tools_stand_in_groups_by_what_they_are_and_ask_the_database_little(users: Users) -> None:
    client = client_of(users.admin)
    page = client.get(URL).content.decode()

    with CaptureQueriesContext(connection) as asked:
        client.get(URL)

    assert len(asked) < 20
    headings = re.findall(r'<h2 id="mcp-kind-\d+">(.*?)</h2>', page)
    assert headings[:2] == ["Queries", "Writing through the forms of the admin"]
    assert headings[-1] == "Actions of the admin"
    assert page.index("find_records") < page.index("create_record") < page.index("flights_flight_mark_cancelled")


@pytest.mark.every_database
def test_a_line_says_what_a_tool_does_needs_and_costs(users: Users) -> None:
    client_of(users.admin).get(URL)
    Call.objects.create(at=timezone.now(), site="mcp", kind="call", outcome="done", name="find_records", count=3)
    Call.objects.create(at=timezone.now() - timezone.timedelta(days=8), site="mcp", kind="call", name="find_records")

    reading, destroying = listed(users.admin, "find_records"), listed(users.admin, "delete_record")
    action = listed(users.admin, "flights_flight_mark_cancelled")

    assert " reads " in reading and "needs read" in reading and "3 calls in 7 days" in reading
    # Who may not see the activity sees no calls.
    assert "in 7 days" not in listed(make_staff("operator", "mcp_django.view_tool"), "find_records")
    assert re.search(r"\d+ bytes in the list", reading)
    assert " off " in destroying and "may destroy data" in destroying and "needs write" in destroying
    assert "flights.flight · needs actions, change" in action
    [row] = Tool.objects.filter(name="flights_flight_mark_cancelled")
    page = client_of(users.admin).get(reverse("admin:mcp_django_tool_change", args=[row.pk]))
    assert "a file that it makes may hold more than its agent may read" in page.content.decode()


def test_a_description_of_an_administrator_is_marked_and_can_be_taken_back(users: Users) -> None:
    client = client_of(users.admin)
    client.get(URL)
    row = row_of("find_records")
    Tool.objects.filter(pk=row.pk).update(description="Finds what I say.")
    url = reverse("admin:mcp_django_tool_change", args=[row.pk])

    line, page = listed(users.admin, "find_records"), client.get(url).content.decode()
    response = client.post(url, {"enabled": "on", "description": "Finds what I say.", "_declared": "1"})

    assert "description changed" in line and "Finds what I say." in line
    assert 'name="_declared"' in page
    assert response.status_code == 302 and row_of("find_records").description == ""
    assert "description changed" not in listed(users.admin, "find_records")
    assert lines("find_records").filter(kind="switch", reason="changed", user_name="admin").exists()


def test_the_list_is_narrowed_by_what_tools_are(users: Users) -> None:
    client = client_of(users.admin)
    client.get(URL)

    for kind, there, absent in (
        ("query", "find_records", "create_record"), ("write", "create_record", "find_records"),
        ("action", "flights_flight_mark_cancelled", "find_records"), ("no kind", "find_records", "nothing"),
    ):  # fmt: skip
        page = client.get(URL, {"kind": kind}).content.decode()
        assert f"<strong>{there}</strong>" in page and f"<strong>{absent}</strong>" not in page, kind


def test_tools_are_switched_in_the_list(users: Users) -> None:
    client = client_of(users.admin)
    page = client.get(URL).content.decode()
    posted = dict(re.findall(r'name="(form-[\w-]+)"(?: value="(\w*)")?', page))
    management = dict(re.findall(r'name="(form-(?:TOTAL|INITIAL|MIN_NUM|MAX_NUM)_?\w*)" value="(\d+)"', page))
    ids = {name: value for name, value in posted.items() if name.endswith("-id")}
    row = row_of("delete_record")
    [number] = [name.split("-")[1] for name, value in ids.items() if value == str(row.pk)]

    client.post(URL, {**management, **ids, f"form-{number}-enabled": "on", "_save": "Save"})

    assert row_of("delete_record").enabled


# Trying a tool.


def tried(client: Client, name: str, **arguments: Any) -> Any:
    client.get(URL)
    posted = {
        f"try-{field if field in ('agreed', 'user') else f'arg-{field}'}": value for field, value in arguments.items()
    }
    return client.post(reverse("admin:mcp_django_tool_try", args=[row_of(name).pk]), posted)


def test_a_query_is_answered_as_table_as_text_and_as_json(users: Users, flights: list[Flight]) -> None:
    response = tried(client_of(users.admin), "find_records", model="flights.flight", limit="2")

    page = response.content.decode()
    assert response.status_code == 200 and "no-store" in response["Cache-Control"]
    assert '<th scope="col">origin</th>' in page
    assert "&quot;jsonrpc&quot;: &quot;2.0&quot;" in page and "Bearer $MCP_TOKEN" in html.unescape(page)
    assert re.search(r"\d\.\d m?s\b", page) and re.search(r"\d+ quer", page)


def test_it_shows_what_the_viewer_may_see_and_no_more_and_is_in_the_trail_of_its_user(
    users: Users, flights: list[Flight]
) -> None:
    clerk = make_staff("clerk", "mcp_django.view_tool", "flights.view_flight")
    clerk.groups.add(*users.ops.groups.all())

    page = tried(client_of(clerk), "find_records", model="flights.flight", fields='["origin"]').content.decode()
    line = lines("find_records").get()
    hidden = tried(client_of(clerk), "find_records", model="auth.user").content.decode()

    assert "JFK" in page and "EWR" not in page
    assert "auth.user is not one of the available choices" in hidden and "auth.group" not in hidden
    assert (line.user_name, line.client_name, line.transport) == ("clerk", "console of clerk", "admin")


def test_what_may_change_data_needs_a_tick(users: Users, flights: list[Flight]) -> None:
    switch_on("flights_flight_mark_cancelled")
    client = client_of(users.admin)

    without = tried(client, "flights_flight_mark_cancelled", ids='["1"]')
    before = Flight.objects.get(pk=1).status
    tried(client, "flights_flight_mark_cancelled", ids='["1"]', agreed="on")

    assert "This tool may change data." in without.content.decode() and before != "cancelled"
    assert Flight.objects.get(pk=1).status == "cancelled"


def test_a_tool_that_is_off_is_not_called(users: Users, flights: list[Flight]) -> None:
    Tool.objects.filter(name="flights_flight_mark_cancelled").update(enabled=False)
    page = tried(client_of(users.admin), "flights_flight_mark_cancelled", ids='["1"]', agreed="on").content.decode()

    assert "switched off" in page and Flight.objects.get(pk=1).status != "cancelled"


@pytest.mark.parametrize(
    ("name", "is_closed"), [("update_record", True), ("describe_form", True), ("find_records", False)]
)
def test_what_read_only_closes_is_said_and_cannot_be_tried(
    users: Users, settings: Any, name: str, is_closed: bool
) -> None:
    client = client_of(users.admin)
    client.get(URL)
    switch_on(name)
    urls = [reverse(f"admin:mcp_django_tool_{page}", args=[row_of(name).pk]) for page in ("change", "try")]
    before = [text_of(client.get(url).content.decode()) for url in (URL, *urls)]
    assert not any(READ_ONLY in page for page in before) and "Try it" in listed(users.admin, name)
    settings.MCP = {**settings.MCP, "READ_ONLY": True}

    of_list, of_tool, trying = (client.get(url).content.decode() for url in (URL, *urls))

    assert READ_ONLY in text_of(of_list)
    assert [READ_ONLY in text_of(page) for page in (of_tool, trying)] == [is_closed] * 2
    offers = "Try it" in listed(users.admin, name), urls[1] in of_tool, "data-suggest" in trying
    assert offers == (not is_closed,) * 3
    assert "So nobody can try this tool." not in text_of(of_list)
    if is_closed:
        assert "So nobody can try this tool." in text_of(tried(client, name).content.decode())
        assert not lines(name).filter(kind="call").exists()


def test_a_tool_that_asks_needs_a_client(users: Users, declared: Declared) -> None:
    def greet(request: Any) -> str:
        """Greet."""
        return str(request.mcp.elicit("Who are you?", {"type": "object", "properties": {}}))

    declared.tool(greet, read_only=True)
    switch_on("greet")

    page = tried(client_of(users.admin), "greet").content.decode()

    assert "call it from an MCP client" in page


def test_superusers_alone_try_as_another_user_and_only_where_that_is_allowed(
    users: Users, flights: list[Flight], settings: Any
) -> None:
    clerk = make_staff("clerk", "mcp_django.view_tool", "flights.view_flight")
    for allowed in (False, True):
        settings.MCP = {**settings.MCP, "TRY_AS": allowed}
        tried(client_of(users.admin), "find_records", model="flights.flight", user="ops")
    tried(client_of(clerk), "find_records", model="flights.flight", user="admin")

    assert [(line.user_name, line.client_name) for line in lines("find_records").order_by("pk")] == [
        ("admin", "console of admin"), ("ops", "console of admin"), ("clerk", "console of clerk"),
    ]  # fmt: skip


def test_what_changes_data_is_not_tried_as_another_user(users: Users, flights: list[Flight], settings: Any) -> None:
    settings.MCP = {**settings.MCP, "TRY_AS": True}
    switch_on("flights_flight_mark_cancelled")

    tried(client_of(users.admin), "flights_flight_mark_cancelled", ids='["1"]', agreed="on", user="ops")

    assert lines("flights_flight_mark_cancelled").get(kind="call").user_name == "admin"


def test_an_unknown_user_and_an_inactive_one_are_refused_alike(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "TRY_AS": True}
    User.objects.create_user("inactive", is_active=False)

    for name in ("inactive", "nobody"):
        page = tried(client_of(users.admin), "describe_models", user=name).content.decode()
        assert "There is no active user with this username." in page and not lines("describe_models").exists()


def test_whoever_may_not_view_tools_tries_none(users: Users) -> None:
    client_of(users.admin).get(URL)
    client = client_of(make_staff("clerk", "mcp_django.view_call"))

    response = client.post(reverse("admin:mcp_django_tool_try", args=[row_of("find_records").pk]))

    assert response.status_code == 403


def test_markup_in_an_answer_is_text(users: Users, flights: list[Flight]) -> None:
    Flight.objects.filter(pk=1).update(notes="<script>alert(1)</script>")

    page = tried(client_of(users.admin), "get_record", model="flights.flight", id="1").content.decode()

    assert "alert(1)" in page and "<script>alert" not in page


def test_two_superusers_whose_names_begin_alike_are_told_apart(
    users: Users, flights: list[Flight], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "TRY_AS": True}
    people = [User.objects.create_superuser(f"{'x' * 60}{name}") for name in ("alice", "bob")]

    for person in people:
        tried(client_of(person), "describe_models", user="ops")

    named = [json.loads(line.values)["called by"] for line in lines("describe_models").order_by("pk")]
    assert named == [str(person.pk) for person in people]


def test_without_the_trail_nobody_tries_as_another_user(users: Users, flights: list[Flight], settings: Any) -> None:
    settings.MCP = {**settings.MCP, "TRY_AS": True, "AUDIT": "off"}

    page = tried(client_of(users.admin), "describe_models", user="ops")

    assert "user" not in page.context["form"].fields
    [found] = of("W027")
    assert "does nothing" in found.msg


def test_an_answer_that_looks_a_little_like_a_table_is_shown(users: Users, declared: Declared) -> None:
    answers: list[dict[str, Any]] = [
        {"columns": 3, "rows": 7}, {"columns": [], "rows": 5}, {"columns": ["a"], "rows": [1]},
        {"columns": "ab", "rows": []},
    ]  # fmt: skip

    def count(request: Any) -> dict[str, Any]:
        """Counts."""
        return answers[-1]

    declared.tool(count, read_only=True)
    Tool.objects.create(site="mcp", name="count", enabled=True)
    client = client_of(users.admin)

    while answers:
        assert tried(client, "count").status_code == 200, answers[-1]
        answers.pop()


def test_a_choice_among_numbers_is_a_number(users: Users, declared: Declared) -> None:
    def show(request: Any, rows: Literal[1, 2]) -> str:
        """Shows rows."""
        return repr(rows)

    declared.tool(show, read_only=True)
    Tool.objects.create(site="mcp", name="show", enabled=True)

    assert tried(client_of(users.admin), "show", rows="2").context["answer"].text == "2"
