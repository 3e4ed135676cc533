"""While somebody fills in the arguments of a tool or a prompt, what an agent of that person may see is suggested."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from demo_project.flights.models import Airport, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.tools.saved_queries import Parameter, write
from mcp_django.models import Prompt, Tool
from mcp_django.test import MCPClient
from tests.console.visiting import client_of, lines
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db")


def row_of(tool: str) -> Tool:
    return Tool.objects.get_or_create(site="mcp", name=tool, defaults={"enabled": True})[0]


def url_of(row: Tool | Prompt) -> str:
    page = "tool_try" if isinstance(row, Tool) else "prompt_preview"
    return reverse(f"admin:mcp_django_{page}", args=[row.pk])


def suggested(user: User, row: Tool | Prompt, name: str, typed: str = "", **others: str) -> Sequence[str]:
    """What the page suggests to the user for the argument."""
    posted = {f"try-arg-{other}": text for other, text in {name: typed, **others}.items()}
    answer = client_of(user).post(url_of(row), {**posted, "suggest": f"try-arg-{name}"})
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    found: Sequence[str] = answer.json()["values"]
    return found


# Tools over every model.


#: A tool, the argument that is filled in, what is typed, and the other arguments; and what is suggested.
SUGGESTED: list[tuple[str, str, str, dict[str, str], list[str]]] = [
    ("get_record", "id", "J", {"model": "flights.airport"}, ["JFK"]),
    ("get_record", "id", "unit", {"model": "flights.airline"}, ["UA"]),
    ("get_record", "id", "1", {"model": "flights.flight"}, ["1", "10", "11", "12"]),
    ("get_record", "id", "J", {}, []),
    ("get_record", "id", "J", {"model": "flights.nothing"}, []),
    ("find_records", "order_by", "-distance, numb", {"model": "flights.flight"}, ["-distance, number"]),
    ("find_records", "fields", "id,des", {"model": "flights.flight"}, ["id,destination"]),
    ("find_records", "search", "J", {"model": "flights.airport"}, []),
    ("aggregate_records", "measures", "count,max:dist", {"model": "flights.flight"}, ["count,max:distance"]),
    ("aggregate_records", "order_by", "-c", {"model": "flights.flight", "measures": "count"}, ["-count"]),
    ("aggregate_records", "order_by", "-c", {"model": "flights.flight", "group_by": "origin, carrier"}, ["-carrier"]),
    ("update_record", "id", "J", {"model": "flights.airport"}, ["JFK"]),
    ("delete_record", "ids", "JFK,L", {"model": "flights.airport"}, ["JFK,LGA"]),
    ("delete_record", "model", "flights.fl", {}, ["flights.flight"]),
    ("flights_flight_mark_cancelled", "ids", "3, 1", {}, ["3, 1", "3, 10", "3, 11", "3, 12"]),
    ("flights_flight_mark_cancelled", "filter", "", {}, []),
    ("get_change", "change", "", {}, []),
]  # fmt: skip


@pytest.mark.every_database
def test_names_and_keys_are_suggested(users: Users, flights: list[Flight]) -> None:
    for tool, name, typed, others, expected in SUGGESTED:
        assert suggested(users.admin, row_of(tool), name, typed, **others) == expected, (tool, name, typed)


# Functions of the project.


def test_keys_are_suggested_for_an_argument_that_is_a_model(
    users: Users, flights: list[Flight], declared: Declared
) -> None:
    def close(request: Any, airport: Airport, reason: str = "") -> str:
        """Closes an airport."""
        return airport.faa

    declared.tool(close, read_only=True)
    row = row_of("close")

    assert suggested(users.admin, row, "airport", "jfk") == ["JFK"]
    assert suggested(users.admin, row, "reason", "jfk") == []
    page = client_of(users.admin).post(url_of(row), {"try-arg-airport": "JFK"})
    assert page.context["answer"].text == "JFK"


def test_an_argument_of_a_ready_schema_has_none(users: Users, declared: Declared) -> None:
    def close(request: Any, arguments: Any) -> str:
        """Closes an airport."""
        return ""

    declared.tool(close, input_schema={"type": "object", "properties": {"airport": {"type": "string"}}})

    assert suggested(users.admin, row_of("close"), "airport", "J") == []


# Saved queries.


def saved_query(name: str, call: Any, *place: Any, tool: str = "find_records") -> Tool:
    """A saved query with one argument, ``wanted``."""
    return Tool.objects.create(site="mcp", name=name, query=write(tool, call, [Parameter("wanted", place)]))


@pytest.mark.every_database
def test_values_of_a_field_are_suggested(users: Users, flights: list[Flight]) -> None:
    cases: list[tuple[dict[str, Any], str, list[str]]] = [
        ({"origin": "JFK"}, "j", ["JFK"]), ({"carrier__in": ["AA"]}, "AA,unit", ["AA,UA"]),
        ({"status": "on_time"}, "canc", ["cancelled"]), ({"id": 1}, "12", ["12"]), ({"number__gt": 1}, "1", []),
        ({"origin__name": "x"}, "John", []),
    ]  # fmt: skip
    for condition, typed, expected in cases:
        [name] = condition
        call = {"model": "flights.flight", "filter": {"any": [condition]}}
        row = saved_query(f"by_{name}", call, "filter", "any", 0, name)
        assert suggested(users.admin, row, "wanted", typed) == expected, name


def test_a_saved_limit_and_a_measure_have_none(users: Users, flights: list[Flight]) -> None:
    call = {"model": "flights.flight", "measures": ["count"], "group_by": ["origin"], "having": {"count__gt": 1}}
    row = saved_query("busy", call, "having", "count__gt", tool="aggregate_records")

    assert suggested(users.admin, row, "wanted", "1") == suggested(users.admin, row, "cursor", "1") == []


# Prompts.


def test_a_prompt_suggests_as_clients_are_suggested(users: Users, flights: list[Flight], declared: Declared) -> None:
    def delays(request: Any, airport: Airport, part: Literal["morning", "evening"], line: str) -> str:
        """Lists delays."""
        return ""

    def lines_of(request: Any, typed: str, arguments: Any) -> list[str]:
        return [f"{typed}-{arguments.get('part')}"]

    declared.prompt(delays, complete={"line": lines_of})
    row = Prompt.objects.get_or_create(site="mcp", name="delays")[0]

    assert suggested(users.admin, row, "airport", "L") == ["LGA"]
    assert suggested(users.admin, row, "part", "e") == ["evening"]
    assert suggested(users.admin, row, "line", "A", part="evening") == ["A-evening"]


def test_a_written_prompt_and_one_that_is_off_have_none(users: Users) -> None:
    row = Prompt.objects.create(name="delays", text="List the delays at {{ airport }}.")

    assert suggested(users.admin, row, "airport", "J") == []
    Prompt.objects.update(enabled=False)
    assert suggested(users.admin, row, "airport", "J") == []


# The form.


def test_a_list_is_written_with_commas_or_as_json(users: Users, flights: list[Flight]) -> None:
    row = row_of("find_records")
    posted = {"try-arg-model": "flights.flight", "try-arg-limit": "1"}

    for typed in ("number, origin", ' ["number", "origin"]', "number,,origin,"):
        page = client_of(users.admin).post(url_of(row), {**posted, "try-arg-fields": typed})
        assert page.context["answer"].call["params"]["arguments"]["fields"] == ["number", "origin"]


def test_numbers_of_a_list_are_numbers(users: Users, declared: Declared) -> None:
    def add(request: Any, numbers: list[int]) -> int:
        """Adds."""
        return sum(numbers)

    declared.tool(add, read_only=True)
    client, url = client_of(users.admin), url_of(row_of("add"))

    assert client.post(url, {"try-arg-numbers": "1, 2"}).context["answer"].text == "3"
    assert "Give numbers" in client.post(url, {"try-arg-numbers": "1, x"}).content.decode()


def test_a_whole_number_or_a_text_is_what_it_looks_like(users: Users, declared: Declared) -> None:
    def show(request: Any, rows: int | str) -> str:
        """Shows rows."""
        return repr(rows)

    declared.tool(show, read_only=True)
    client, url = client_of(users.admin), url_of(row_of("show"))

    for typed, meant in {"5": 5, "-1": -1, "all": "all", "007": "007", "9" * 30: "9" * 30}.items():
        assert client.post(url, {"try-arg-rows": typed}).context["answer"].text == repr(meant)


def test_a_number_is_finite(users: Users, declared: Declared) -> None:
    def add(request: Any, numbers: list[float]) -> float:
        """Adds."""
        return sum(numbers)

    declared.tool(add, read_only=True)
    client, url = client_of(users.admin), url_of(row_of("add"))

    for typed in ("nan", "1, inf", "-inf", "1e999", "[NaN]", "[Infinity]"):
        page = client.post(url, {"try-arg-numbers": typed})
        assert page.context["form"].errors and page.context["answer"] is None, typed


def test_each_field_of_one_line_has_a_list(users: Users, flights: list[Flight]) -> None:
    call = {"model": "flights.flight", "filter": {"id": 1}}
    saved = saved_query("departures", call, "filter", "id")

    for row, name in ((saved, "wanted"), (row_of("get_record"), "id")):
        page = client_of(users.admin).get(url_of(row)).content.decode()
        [field] = re.findall(rf'<input[^>]* name="try-arg-{name}"[^>]*>', page)
        [values] = re.findall(r' list="([^"]+)"', field)
        assert f'<datalist id="{values}">' in page


def test_typing_uses_up_no_budget_of_the_agents(users: Users, settings: Any, declared: Declared) -> None:
    settings.MCP = {**settings.MCP, "THROTTLES": {"user": {"calls": "1/hour"}}}

    def delays(request: Any, airport: Airport) -> str:
        """Lists delays."""
        return ""

    declared.prompt(delays)
    row = Prompt.objects.get_or_create(site="mcp", name="delays")[0]
    for _ in range(3):
        suggested(users.admin, row, "airport", "J")

    with MCPClient(users.admin) as agent:
        assert agent.call("describe_models")


def test_asking_for_suggestions_calls_nothing(users: Users, flights: list[Flight], trail: None) -> None:
    name = "flights_flight_mark_cancelled"
    row = row_of(name)
    Tool.objects.update(enabled=True)

    posted = {"try-arg-ids": "1", "try-agreed": "on", "suggest": "try-arg-ids"}
    client_of(users.admin).post(url_of(row), posted)

    assert not lines(name) and Flight.objects.get(pk=1).status == "on_time"


# Attacks.


def test_being_answered_a_hundred_times_what_was_typed(users: Users, flights: list[Flight]) -> None:
    typed = f"{'id,' * 50_000}des"

    assert suggested(users.admin, row_of("find_records"), "fields", typed, model="flights.flight") == []


def test_being_suggested_rows_of_others(flights: list[Flight], declared: Declared) -> None:
    class OwnAirports(ModelMCP):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(faa="LGA")

    declared.model(Airport, OwnAirports)
    clerk = make_staff("clerk", "mcp_django.view_tool", "flights.view_airport")

    found = suggested(clerk, row_of("get_record"), "id", "", model="flights.airport")

    assert found == ["LGA"]


def test_being_suggested_what_a_hidden_model_has(flights: list[Flight]) -> None:
    clerk = make_staff("clerk", "mcp_django.view_tool", "flights.view_airport")
    arguments = {"get_record": "id", "find_records": "fields", "aggregate_records": "group_by", "delete_record": "ids"}

    for tool, name in arguments.items():
        assert suggested(clerk, row_of(tool), name, "", model="flights.flight") == [], tool
    assert suggested(clerk, row_of("flights_flight_mark_cancelled"), "ids") == []


def test_being_suggested_names_of_hidden_fields(users: Users, declared: Declared) -> None:
    class Quiet(ModelMCP):
        exclude = ("notes",)

    declared.model(Flight, Quiet)

    assert suggested(users.admin, row_of("find_records"), "fields", "note", model="flights.flight") == []


@pytest.mark.every_database
def test_typing_what_no_key_can_be(users: Users, flights: list[Flight]) -> None:
    typed = ["\0", "'", "%", "x" * 50_000, "9" * 5_000, "--", "\ud7ff", "[", ",,,x", "<b>"]
    asked = [(text, model) for text in typed for model in ("flights.airport", "flights.flight")]
    asked += [("\0", model) for model in ("\0", "x" * 50_000, "a.b.c")]

    for tool, name in (("get_record", "id"), ("delete_record", "ids"), ("find_records", "order_by")):
        row = row_of(tool)
        found = {(text, model): suggested(users.admin, row, name, text, model=model) for text, model in asked}
        assert {case: values for case, values in found.items() if values} == {}


def test_asking_for_what_is_no_argument(users: Users) -> None:
    for suggest in ("try-agreed", "", "id", "try-user", "try-arg-nothing", "csrfmiddlewaretoken"):
        answer = client_of(users.admin).post(url_of(row_of("get_record")), {"suggest": suggest})
        assert answer.json() == {"values": []}, suggest


def test_whoever_may_not_view_tools_is_suggested_nothing(users: Users) -> None:
    client = client_of(make_staff("clerk", "mcp_django.view_call"))
    prompt = Prompt.objects.create(name="x", text="{{ y }}")

    for row in (row_of("get_record"), prompt):
        assert client.post(url_of(row), {"suggest": "try-arg-id"}).status_code == 403


def test_a_saved_query_that_one_may_not_ask_suggests_nothing(flights: list[Flight]) -> None:
    call = {"model": "flights.flight", "filter": {"origin": "JFK"}}
    row = saved_query("departures", call, "filter", "origin")
    clerk = make_staff("clerk", "mcp_django.view_tool", "flights.view_airport")

    answer = client_of(clerk).post(url_of(row), {"suggest": "try-arg-wanted", "try-arg-wanted": ""})

    assert answer.status_code == 403


def test_a_page_of_another_origin_is_suggested_nothing(users: Users, flights: list[Flight]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(users.admin)
    posted = {"suggest": "try-arg-id", "try-arg-id": "", "try-arg-model": "flights.airport"}

    assert client.post(url_of(row_of("get_record")), posted).status_code == 403
    assert json.dumps("JFK") not in client.get(url_of(row_of("get_record")), posted).content.decode()
