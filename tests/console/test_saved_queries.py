"""A call that was tried becomes a tool, which reads as whoever calls it."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from demo_project.flights.models import Flight
from mcp_django import ModelMCP, site
from mcp_django.access.permissions import can_be_granted
from mcp_django.bridge.tools.saved_queries import MAX_SAVED, Parameter, SavedQuery, places, write
from mcp_django.console.admin.saving import proposed_names
from mcp_django.console.review import inventory, reasons
from mcp_django.exceptions import ToolError
from mcp_django.models import Tool
from mcp_django.protocol.errors import TooSlow
from mcp_django.test import MCPClient
from tests.console.visiting import client_of, content_of, lines
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db", "trail")

URL = "/admin/mcp_django/tool/"
CALL = {
    "model": "flights.flight", "filter": {"origin": "JFK", "any": [{"number__gt": 0}, {"tailnum__in": ["N1", "N2"]}]},
    "fields": ["number", "origin"], "limit": 3,
}  # fmt: skip


ORIGIN = Parameter("origin", ("filter", "origin"))


def saved(client: Client, call: Any = CALL, *, tool: str = "find_records", **fields: Any) -> Any:
    """The answer to a call that is saved, its values by the number of their place."""
    client.get(URL)
    row = Tool.objects.get(site="mcp", name=tool)
    given = {"name": "departures", "description": "Flights that leave an airport.", "name-0": "origin", **fields}
    posted = {f"save-{name}": value for name, value in {"call": json.dumps(call), **given}.items()}
    return client.post(reverse("admin:mcp_django_tool_save", args=[row.pk]), {**posted, "save": "1"})


def stored(name: str, call: Any = CALL, *parameters: Parameter, tool: str = "find_records") -> Tool:
    text = write(tool, call, parameters)
    return Tool.objects.create(site="mcp", name=name, enabled=True, description="Flights.", query=text)


def names(user: User) -> set[str]:
    with MCPClient(user) as client:
        return {tool["name"] for tool in client.list_tools()}


# Saving.


def test_an_administrator_saves_a_call_and_an_agent_asks_it(users: Users, flights: list[Flight]) -> None:
    client = client_of(users.admin)
    tried = client.post(
        reverse("admin:mcp_django_tool_try", args=[(client.get(URL), Tool.objects.get(name="find_records").pk)[1]]),
        {"try-arg-model": "flights.flight", "try-arg-filter": '{"origin": "JFK"}'},
    )  # fmt: skip
    [call] = re.findall(r'name="save-call" value="([^"]*)"', tried.content.decode())

    response = saved(client, json.loads(call.replace("&quot;", '"')), **{"about-0": "Code of the airport"})

    row = Tool.objects.get(name="departures")
    assert response.status_code == 302 and response.url == f"{URL}{row.pk}/change/"
    with MCPClient(users.admin) as agent:
        [tool] = [tool for tool in agent.list_tools() if tool["name"] == "departures"]
        assert tool["description"] == "Flights that leave an airport."
        assert tool["inputSchema"]["properties"]["origin"] == {
            "type": "string", "description": "Code of the airport"
        }  # fmt: skip
        assert tool["inputSchema"]["required"] == ["origin"] and tool["annotations"]["readOnlyHint"]
        rows = agent.call("departures", origin="LGA").structured["rows"]
    assert len(rows) == len([flight for flight in flights if flight.origin_id == "LGA"])


def test_the_page_offers_each_value_and_no_name(users: Users) -> None:
    client = client_of(users.admin)
    client.get(URL)
    row = Tool.objects.get(name="find_records")

    page = client.post(reverse("admin:mcp_django_tool_save", args=[row.pk]), {"save-call": json.dumps(CALL)})

    said = content_of(page)
    assert "no-store" in page["Cache-Control"]
    for line in ('filter.origin = "JFK"', "filter.any.0.number__gt = 0", 'filter.any.1.tailnum__in = ["N1", "N2"]'):
        assert line in said
    assert "limit = 3" in said and "fields =" not in said and "model =" not in said


def test_the_page_shows_the_call_and_proposes_a_name_for_each_value_but_the_limit(users: Users) -> None:
    client = client_of(users.admin)
    client.get(URL)
    url = reverse("admin:mcp_django_tool_save", args=[Tool.objects.get(name="find_records").pk])

    page = client.post(url, {"save-call": json.dumps(CALL)})

    shown = html.unescape(page.content.decode().partition("<pre>")[2].partition("</pre>")[0])
    assert json.loads(shown) == {"name": "find_records", "arguments": CALL}
    proposed = [page.context["form"][f"name-{number}"].value() for number in range(4)]
    assert proposed == ["origin", "number_gt", "tailnum_in", ""]
    saved(client, **{f"name-{number}": name for number, name in enumerate(proposed)})
    assert [one["name"] for one in json.loads(Tool.objects.get(name="departures").query)["parameters"]] == proposed[:3]


def test_every_proposed_name_can_be_the_name_of_an_argument() -> None:
    fields = ("cursor", "a", "a", "über", "1st", "日本", "x" * 100, "x" * 100, "a__in")
    there = [("filter", "any", number, field) for number, field in enumerate(fields)]

    proposed = list(proposed_names([*there, ("search",), ("limit",)]))

    assert proposed[-2:] == ["search", ""] and len({*proposed}) == len(proposed)
    query = write("find_records", {"filter": {"any": [{field: 1} for field in fields]}}, [
        Parameter(name, place) for name, place in zip(proposed, there, strict=False)
    ])  # fmt: skip
    assert len(SavedQuery(site, "named", query).parameters) == len(fields)


#: What the form sends beside the usual, and what is said of it.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "find_records"}, "There is already a tool with this name. Choose another."),
    ({"name": "flights_flight_mark_cancelled"}, "There is already a tool with this name. Choose another."),
    ({"name": "not a name"}, "Use 1 to 64 letters"),
    ({"name-0": "cursor"}, "cannot be the name of an argument"),
    ({"name-0": "a b"}, "cannot be the name of an argument"),
    ({"name-0": "same", "name-1": "same"}, "Two arguments are called same"),
    ({"description": ""}, "This field is required."),
    ({"call": {"model": "flights.flight", "filter": {"no_such_field": 1}}}, "no_such_field"),
    ({"call": {"model": "auth.user", "filter": {"password": "x"}}}, "password"),
    ({"call": {"model": "mcp_django.accesstoken"}}, "cannot be read"),
]  # fmt: skip


def test_what_cannot_be_a_tool_is_refused_with_the_reason(users: Users) -> None:
    said = {str(fields): content_of(saved(client_of(users.admin), **fields)) for fields, _ in REFUSED}

    assert [fields for fields, why in REFUSED if why not in said[str(fields)]] == []
    assert not Tool.objects.exclude(query="").exists()


def test_a_site_has_no_more_than_fifty(users: Users) -> None:
    for number in range(MAX_SAVED):
        stored(f"query_{number}")

    assert f"There are already {MAX_SAVED} saved queries." in content_of(saved(client_of(users.admin)))


def test_makers_need_the_permission_and_save_what_their_own_agents_could_ask_and_no_more(users: Users) -> None:
    client_of(users.admin).get(URL)
    changer = make_staff("changer", "mcp_django.view_tool", "mcp_django.change_tool", "flights.view_flight")
    for user in (changer, make_staff("adder", "mcp_django.add_tool"), make_staff("nobody")):
        assert saved(client_of(user)).status_code in (302, 403)
    assert not Tool.objects.exclude(query="").exists()
    clerk = make_staff("clerk", "mcp_django.view_tool", "mcp_django.add_tool", "flights.view_airline")

    refused = saved(client_of(clerk))
    saved(client_of(clerk), {"model": "flights.airline", "filter": {"carrier": "UA"}}, name="airlines")

    assert "The model flights.flight cannot be read." in content_of(refused)
    assert [row.name for row in Tool.objects.exclude(query="")] == ["airlines"]


def test_saving_needs_a_token_of_the_form_and_is_in_the_history(users: Users) -> None:
    strict = client_of(users.admin, enforce_csrf_checks=True)
    refused = saved(strict)
    saved(client_of(users.admin))

    assert refused.status_code == 403
    row = Tool.objects.get(name="departures")
    assert "Added" in client_of(users.admin).get(f"{URL}{row.pk}/history/").content.decode()
    assert lines("departures").filter(kind="switch").get().user_name == "admin"


# Asking.


def test_it_reads_as_its_caller(users: Users, flights: list[Flight]) -> None:
    stored("departures", CALL, ORIGIN)

    with MCPClient(users.ops) as agent:
        assert agent.call("departures", origin="JFK").structured["rows"]
        assert agent.call("departures", origin="EWR", raise_on_error=False).structured.get("rows", []) == []
    assert lines("departures").first().arguments == '["origin"]'


def test_it_does_not_exist_for_whoever_may_not_read_its_model(users: Users) -> None:
    row = stored("departures", {"model": "flights.flight", "filter": {"origin": "JFK"}}, ORIGIN)
    stored("numbers", {"model": "flights.flight", "fields": ["number"]})
    clerk = make_staff("clerk", "flights.view_airline", "mcp_django.view_tool")

    with MCPClient(clerk) as agent:
        assert {"departures", "numbers"}.isdisjoint(tool["name"] for tool in agent.list_tools())
        with pytest.raises(Exception, match="Unknown tool"):
            agent.call("departures", origin="JFK")
    page = client_of(clerk).get(f"{URL}{row.pk}/change/").content.decode()
    assert "JFK" not in page and "flights.flight" not in page
    tried = client_of(clerk).get(f"{URL}{row.pk}/try/", follow=True)
    assert tried.redirect_chain == [(f"{URL}{row.pk}/change/", 302)]
    assert "so you cannot try it" in tried.content.decode() and "JFK" not in tried.content.decode()
    assert client_of(clerk).post(f"{URL}{row.pk}/try/", {}).status_code == 403


def test_it_does_not_exist_for_whoever_may_not_read_one_of_its_fields(
    users: Users, declared: Declared, flights: list[Flight]
) -> None:
    class Hiding(ModelMCP):
        def get_exclude(self, request: Any) -> list[str]:
            return [] if request.user.is_superuser else ["tailnum"]

    stored(
        "by_tail", {"model": "flights.flight", "filter": {"tailnum": "N1"}}, Parameter("tail", ("filter", "tailnum"))
    )
    stored("sorted", {"model": "flights.flight", "order_by": ["tailnum"], "search": "a"}, Parameter("for", ("search",)))
    declared.model(Flight, Hiding)

    assert {"by_tail", "sorted"} <= names(users.admin)
    assert names(users.ops).isdisjoint({"by_tail", "sorted"})


def test_values_are_typed_and_mistakes_are_told_in_the_words_of_the_tool(users: Users, flights: list[Flight]) -> None:
    stored(
        "numbers", CALL, Parameter("above", ("filter", "any", 0, "number__gt")),
        Parameter("tails", ("filter", "any", 1, "tailnum__in"), optional=True), Parameter("most", ("limit",)),
        ORIGIN,
    )  # fmt: skip

    with MCPClient(users.admin) as agent:
        good = agent.call("numbers", above=0, most=2, origin="JFK")
        bad = [
            str(agent.call("numbers", raise_on_error=False, **{"above": 0, "most": 2, "origin": "JFK", **wrong}).errors)
            for wrong in ({"above": {"field": "id"}}, {"tails": "N1"}, {"origin": "XXX"}, {"fields": ["id"]})
        ]
        more = agent.call("numbers", above=0, most=2, origin="JFK", cursor=good.structured["next_cursor"])

    assert len(good.structured["rows"]) == 2 and more.structured["rows"] != good.structured["rows"]
    assert "above" in bad[0] and "tails" in bad[1] and "fields" in bad[3]
    assert "origin" in bad[2] and "filter.origin" not in bad[2] and "find_records" not in bad[2]


@pytest.mark.every_database
def test_an_aggregate_is_saved_too(users: Users, flights: list[Flight]) -> None:
    call = {"model": "flights.flight", "group_by": ["origin"], "having": {"count__gt": 100}}
    stored("busy", call, Parameter("above", ("having", "count__gt")), tool="aggregate_records")

    with MCPClient(users.admin) as agent:
        assert agent.call("busy", above=0).structured["rows"]
        assert agent.call("busy", above=1_000).structured["rows"] == []


def test_it_is_switched_limited_to_groups_and_deleted_as_any_other(users: Users) -> None:
    row = stored("departures", CALL, ORIGIN)
    client = client_of(users.admin)

    assert "Saved queries" in client.get(URL).content.decode()
    Tool.objects.filter(pk=row.pk).update(enabled=False)
    assert "departures" not in names(users.admin)
    row.enabled = True
    row.save()
    row.groups.add(Group.objects.create(name="few"))
    assert "departures" not in names(users.admin)
    client.post(f"{URL}{row.pk}/delete/", {"post": "yes"})
    assert not Tool.objects.filter(name="departures").exists()
    declared_row = Tool.objects.get(name="find_records")
    assert client.post(f"{URL}{declared_row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_a_call_that_is_too_long_alone_or_with_its_descriptions_is_refused(users: Users) -> None:
    client = client_of(users.admin)

    def of_planes(count: int, **fields: str) -> Any:
        return saved(client, {"model": "flights.flight", "filter": {"tailnum__in": ["N12345"] * count}}, **fields)

    assert of_planes(3_000).status_code == 302
    assert "it is too long" in client.get(URL).content.decode()
    assert "20000 characters" in content_of(of_planes(1_990, **{"name-0": "planes", "about-0": "x" * 300}))
    assert not Tool.objects.filter(name="departures").exists()


def test_agents_are_told_of_a_new_one(users: Users) -> None:
    with MCPClient(users.admin) as agent:
        agent.watch_lists()
        stored("departures", CALL, ORIGIN)

        assert agent.wait_for("notifications/tools/list_changed")


def test_a_token_for_it_alone_reads_by_it_alone(users: Users, flights: list[Flight]) -> None:
    stored("departures", CALL, ORIGIN)

    with MCPClient(users.admin, scopes=["tool:departures"]) as agent:
        assert {tool["name"] for tool in agent.list_tools()} == {"departures"}
        assert agent.call("departures", origin="JFK").structured["rows"]
    # Even where the tool that was saved is switched off.
    Tool.objects.update_or_create(site="mcp", name="find_records", defaults={"enabled": False})
    with MCPClient(users.admin) as agent:
        assert "find_records" not in {tool["name"] for tool in agent.list_tools()}
        assert agent.call("departures", origin="JFK").structured["rows"]


def test_an_agent_whose_query_takes_too_long_is_told_nothing_of_arguments_that_there_are_not(
    users: Users, flights: list[Flight], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.bridge.resources.reading.rows.find", Mock(side_effect=TooSlow))
    stored("departures", CALL, ORIGIN)

    with MCPClient(users.admin) as agent, pytest.raises(ToolError) as raised:
        agent.call("departures", origin="JFK")

    assert "Give other values" in str(raised.value) and "filter" not in str(raised.value)


def test_finding_out_a_saved_query_letter_by_letter(flights: list[Flight]) -> None:
    stored("departures", {"model": "flights.flight", "filter": {"tailnum": "N14228"}})
    clerk = make_staff("clerk", "mcp_django.view_tool")

    for query in ("query__contains=N14228", "query__startswith={", "query__regex=N.*", "id=1", "description=Flights."):
        assert client_of(clerk).get(f"{URL}?{query}").status_code == 400, query
    assert client_of(clerk).get(f"{URL}?kind=saved&enabled__exact=1").status_code == 200


def test_saving_a_call_of_a_tool_that_is_closed_to_the_person(flights: list[Flight]) -> None:
    maker = make_staff("maker", "mcp_django.view_tool", "mcp_django.add_tool", "flights.view_flight")
    client = client_of(maker)
    client.get(URL)
    row = Tool.objects.get(name="find_records")

    Tool.objects.filter(pk=row.pk).update(enabled=False)
    assert "may not call find_records" in saved(client).content.decode()
    Tool.objects.filter(pk=row.pk).update(enabled=True)
    row.groups.add(Group.objects.create(name="analysts"))
    assert "may not call find_records" in saved(client).content.decode()
    assert not Tool.objects.filter(name="departures").exists()


def test_a_call_that_could_never_be_answered_is_not_saved(users: Users) -> None:
    calls: list[dict[str, Any]] = [
        {"limit": "a"}, {"fields": 5}, {"fields": [1]}, {"fields": [["number"]]}, {"order_by": 5}, {"order_by": [{}]},
        {"search": 5}, {"bogus": 1}, {"limit": -1}, {"limit": 10**9}, {"format": "xml"}, {"total": "x"}, {"filter": 5},
    ]  # fmt: skip
    for call in calls:
        page = saved(client_of(users.admin), {"model": "flights.flight", **call}, **{"name-0": ""})
        assert page.status_code == 200 and 'class="errorlist' in page.content.decode(), call
    assert not Tool.objects.filter(name="departures").exists()


def test_sending_what_is_no_call_that_can_be_saved(users: Users) -> None:
    client = client_of(users.admin)
    client.get(URL)
    pk = Tool.objects.get(name="find_records").pk
    any_of = [json.dumps({"model": "flights.flight", "filter": {"any": [{"number": n} for n in range(count)]}})
              for count in (101, 20_000)]  # fmt: skip

    for call in (
        '{"model": "flights.flight", "limit": NaN}', "[" * 15_000, '{"filter": {"not": ' * 5_000, *any_of, "[]", "5",
        '"x"', "null", "{", "",
    ):  # fmt: skip
        page = client.post(reverse("admin:mcp_django_tool_save", args=[pk]), {"save-call": call}, follow=True)

        assert page.redirect_chain == [(f"{URL}{pk}/try/", 302)], call[:40]
        assert ("cannot be saved" in page.content.decode()) is bool(call), call[:40]


def test_a_client_that_logs_in_may_be_given_it_alone(users: Users) -> None:
    stored("departures", CALL, ORIGIN)

    assert can_be_granted(site, "tool:departures")
    assert not can_be_granted(site, "tool:no_such_tool")


def test_its_row_decides_nothing_about_a_tool_that_is_declared_under_its_name_later(
    users: Users, declared: Declared
) -> None:
    row = stored("flights_flight_mark_cancelled2")
    Tool.objects.filter(name="flights_flight_mark_cancelled").delete()
    Tool.objects.filter(pk=row.pk).update(name="flights_flight_mark_cancelled")

    # Actions start switched off, and this one stays so.
    assert "flights_flight_mark_cancelled" not in names(users.admin)
    assert "No longer there" in client_of(users.admin).get(URL).content.decode()


def test_a_text_that_cannot_be_read_is_no_tool(users: Users) -> None:
    texts = ['{"tool": "delete_record"}', "{", "[]", '{"tool": "find_records"}', "null"]
    for number, text in enumerate(texts):
        Tool.objects.create(site="mcp", name=f"broken{number}", enabled=True, query=text)

    assert "broken" not in str(names(users.admin)) and "find_records" in names(users.admin)
    assert client_of(users.admin).get(URL).status_code == 200


def test_why_not_and_the_inventory_know_them(users: Users) -> None:
    stored("departures", CALL, ORIGIN)
    clerk = make_staff("clerk", "flights.view_airline")

    assert reasons.explain(site, users.admin, ["read"], "departures").allowed
    assert reasons.explain(site, clerk, ["read"], "departures").no is not None
    assert inventory.build(site, users.admin)["tools"]["departures"]["kind"] == "saved query"
    assert "departures" not in inventory.build(site)["tools"]


# Places.


def test_places_are_those_of_values() -> None:
    found = places({
        "model": "a.b", "fields": ["x"], "order_by": ["y"], "group_by": ["z"], "search": "text", "limit": 5,
        "filter": {"a": 1, "not": {"b": None}, "all": [{"c__in": [1, 2]}, {"d": {"e": True}}], "f": [], "g": [1, "x"]},
        "conditions": {"late": {"delay__gt": 1.5}}, "having": {"count__gt": 2}, "cursor": "x", "format": "csv",
    })  # fmt: skip

    assert found == {
        ("filter", "a"): 1, ("filter", "all", 0, "c__in"): [1, 2], ("filter", "all", 1, "d", "e"): True,
        ("conditions", "late", "delay__gt"): 1.5, ("having", "count__gt"): 2, ("search",): "text", ("limit",): 5,
    }  # fmt: skip


def test_the_saved_call_itself_is_never_changed() -> None:
    query = SavedQuery(site, "q", write("find_records", CALL, [ORIGIN]))

    query.filled({"origin": "LGA"})["fields"].append("id")

    assert query.arguments == CALL
