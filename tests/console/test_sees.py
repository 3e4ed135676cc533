"""The page of what a token sees shows each viewer what that viewer may know, and says why something is not seen."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.urls import reverse

from demo_project.flights.models import Airline, Flight
from mcp_django import MCPSite, site
from mcp_django.models import AccessToken, Tool
from tests.console.visiting import client_of, content_of, lines, offered, ticked
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db", "trail")

URL = "/admin/mcp_django/accesstoken/sees/"


@pytest.fixture
def clerk(users: Users) -> User:
    return make_staff("clerk", "mcp_django.view_accesstoken", "flights.view_flight")


def token_of(user: User, *scopes: str) -> AccessToken:
    return AccessToken.objects.create_token(user=user, name="agent", scopes=list(scopes or ["read"]))[0]


def url_of(token: AccessToken) -> str:
    return reverse("admin:mcp_django_accesstoken_sees", args=[token.pk])


def sees(viewer: User, **chosen: Any) -> str:
    return content_of(client_of(viewer).get(URL, chosen))


# What is seen.


def test_the_page_of_a_token_leads_to_what_it_sees(users: Users) -> None:
    token = token_of(users.ops)

    page = client_of(users.admin).get(reverse("admin:mcp_django_accesstoken_change", args=[token.pk]))

    assert f'<a href="{url_of(token)}">Sees</a>' in page.content.decode()


def test_models_tools_prompts_and_bytes_are_those_of_the_token(users: Users) -> None:
    response = client_of(users.admin).get(url_of(token_of(users.viewer, "model:flights.airline:read")))

    text = content_of(response)
    assert "no-store" in response["Cache-Control"]
    assert " 1 Models" in text and "flights.airline" in text
    assert "find_records query" in text and "flights_flight_mark_cancelled" not in text
    assert re.search(r"about [\d,]+ tokens, estimated", text)


def test_a_superuser_chooses_a_user_and_scopes(users: Users) -> None:
    reading = sees(users.admin, user="ops", scopes="read")
    acting = sees(users.admin, user="ops", scopes=["read", "actions"])

    assert "User: ops · Scopes: read · Site:" in reading
    listed = "flights_flight_mark_cancelled action of"
    assert listed not in reading and listed in acting


def test_scopes_are_boxes_as_in_the_form_of_a_token_and_those_that_are_looked_at_are_ticked(users: Users) -> None:
    client, chosen = client_of(users.admin), ["actions", "model:flights.flight:write", "tool:find_records"]

    first = client.get(URL).content.decode()
    pages = [client.get(URL, {"user": "ops", "scopes": chosen, "why": why}).content.decode() for why in ("", "x" * 501)]
    form = client.get("/admin/mcp_django/accesstoken/add/").content.decode()

    assert offered(first) == offered(form) and ticked(first) == {"read"}
    assert [ticked(page) for page in pages] == [set(chosen)] * 2
    assert re.search(r'<fieldset[^>]*aria-describedby="id_scopes_helptext">\s*<legend>Scopes:</legend>', first)
    assert 'name="scopes"' not in client.get(url_of(token_of(users.ops))).content.decode()


def test_the_link_of_a_model_keeps_what_is_chosen(users: Users, flights: list[Flight]) -> None:
    chosen = {"user": "admin", "scopes": ["model:flights.flight:read", "tool:find_records"], "why": "auth.user"}
    page = client_of(users.admin).get(URL, chosen).content.decode()

    [link] = re.findall(r'<a href="(\?[^"]*)">flights.flight</a>', page)
    shown = client_of(users.admin).get(URL + html.unescape(link))

    assert ticked(shown.content.decode()) == set(chosen["scopes"])
    assert "flights.flight Rows:" in content_of(shown) and "why=" not in link


def test_what_is_chosen_wrongly_is_said(users: Users) -> None:
    wrong = [{"user": "nobody"}, {"scopes": "everything"}, {"scopes": ["read", "\0"]}, {"why": "x" * 501}]
    pages = [client_of(users.admin).get(URL, chosen).content.decode() for chosen in wrong]

    assert all('class="errorlist"' in page for page in pages)
    assert not any("mcp-models" in page for page in pages[:3])


def test_a_token_that_has_ended_is_said_to_see_nothing_and_one_whose_scope_is_gone_is_shown(users: Users) -> None:
    ended, token = token_of(users.ops), token_of(users.admin)
    ended.revoke()
    AccessToken.objects.filter(pk=token.pk).update(scopes=["read", "no-such-group"])

    assert "it sees nothing now" in content_of(client_of(users.admin).get(url_of(ended)))
    assert "flights.flight" in content_of(client_of(users.admin).get(url_of(token)))


def test_of_several_sites_one_is_chosen(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    second = MCPSite("second", admin_site=AdminSite("empty"))
    monkeypatch.setattr("mcp_django.console.admin.sees.all_sites", lambda: [site, second])

    first, chosen = sees(users.admin), sees(users.admin, site="second")
    unknown = client_of(users.admin).get(URL, {"site": "third"}).content.decode()

    assert "Site: mcp" in first and " 0 Models" not in first
    assert "Site: second" in chosen and "0 Models" in chosen
    assert 'class="errorlist"' in unknown and "mcp-models" not in unknown


# Who may look.


def test_the_token_of_another_user_does_not_exist_for_staff(users: Users, clerk: User) -> None:
    client = client_of(clerk)

    assert client.get(url_of(token_of(users.ops))).status_code == 404
    assert client.get(reverse("admin:mcp_django_accesstoken_sees", args=[10**6])).status_code == 404
    assert client.get(url_of(token_of(clerk))).status_code == 200


def test_staff_cannot_tell_another_user_from_none(users: Users, clerk: User) -> None:
    client = client_of(clerk)

    there, absent = client.get(URL, {"user": "ops"}), client.get(URL, {"user": "nobody"})

    assert there.status_code == absent.status_code == 403
    assert client.get(URL, {"user": "clerk"}).status_code == 200


def test_whoever_may_not_view_tokens_has_no_such_page(users: Users) -> None:
    user = make_staff("auditor", "mcp_django.view_call")
    client = client_of(user)

    assert client.get(URL).status_code == 403
    assert client.get(url_of(token_of(user))).status_code == 403


def test_staff_read_nothing_of_what_is_left_out(users: Users, clerk: User) -> None:
    assert "Not exposed to agents" in sees(users.admin) and "auth.group" in sees(users.admin, user="viewer")

    assert "Not exposed to agents" not in sees(clerk) and "flights.plane" not in sees(clerk)


def test_staff_are_offered_the_scopes_that_they_may_know_of_and_cannot_tell_the_others_from_none(
    users: Users, clerk: User
) -> None:
    client = client_of(clerk)
    asked = {one: client.get(URL, {"scopes": ["read", one]}) for one in (
        "model:auth.user:read", "model:no.model:read", "tool:flights_flight_mark_cancelled", "tool:none", "no-such",
    )}  # fmt: skip

    boxes = offered(client.get(URL).content.decode())

    assert {"read", "actions", "write", "model:flights.flight:read", "tool:find_records"} <= boxes
    assert not {one for one in boxes if "auth." in one or "cancelled" in one or "airport" in one}
    said = {content_of(page).replace(one, "") for one, page in asked.items()}
    assert len(said) == 1 and "Select a valid choice." in said.pop()


# Rows.


def test_rows_of_ones_own_are_shown_with_their_number_and_are_in_the_trail(
    users: Users, flights: list[Flight], clerk: User
) -> None:
    clerk.groups.add(*users.ops.groups.all())
    text = content_of(client_of(clerk).get(url_of(token_of(clerk)), {"model": "flights.flight"}))

    assert "flights.flight Rows: 4" in text and "JFK" in text and "EWR" not in text
    assert [(line.user_name, line.client_name) for line in lines("find_records")] == [("clerk", "console of clerk")]


def test_rows_are_counted_only_when_a_model_is_opened(users: Users, flights: list[Flight]) -> None:
    assert "Rows:" not in sees(users.admin) and not lines("find_records").exists()


@pytest.mark.every_database
def test_many_rows_are_not_counted_to_the_end(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.console.admin.sees._MOST_COUNTED", 3)
    Airline.objects.bulk_create(Airline(carrier=f"X{number}", name="X") for number in range(6))

    text = sees(users.admin, model="flights.airline")

    assert "Rows: over 10,000" in text and "X4" in text and "X5" not in text


def test_superusers_see_rows_of_another_user_only_where_they_may_try_as_others(
    users: Users, flights: list[Flight], settings: Any
) -> None:
    client = client_of(users.admin)
    chosen = {"user": "ops", "model": "flights.flight"}

    refused = client.get(URL, chosen)
    settings.MCP = {**settings.MCP, "TRY_AS": True}
    shown = content_of(client.get(URL, chosen))

    assert refused.status_code == 403
    assert "flights.flight Rows: 4" in shown
    assert [(line.user_name, line.client_name) for line in lines("find_records")] == [("ops", "console of admin")]


def test_the_scopes_of_the_token_hold_for_its_rows(users: Users, flights: list[Flight]) -> None:
    token = token_of(users.admin, "model:flights.airline:read")

    response = client_of(users.admin).get(url_of(token), {"model": "flights.flight"})

    assert response.status_code == 404 and not lines("find_records").exists()


def test_rows_are_not_shown_past_a_query_tool_that_is_off(users: Users, flights: list[Flight]) -> None:
    Tool.objects.update_or_create(site="mcp", name="find_records", defaults={"enabled": False})

    text = sees(users.admin, model="flights.flight")

    assert "JFK" not in text and "Rows:" not in text and "Unknown tool: find_records" in text


# Why not?


def test_each_no_is_explained_and_linked_to_where_it_is_changed(users: Users) -> None:
    row, _ = Tool.objects.update_or_create(site="mcp", name="delay_statistics", defaults={"enabled": False})

    response = client_of(users.admin).get(URL, {"user": "ops", "scopes": "tool:get_record", "why": "delay_statistics"})

    text = content_of(response)
    assert "Do the scopes allow it? no The scope tool:delay_statistics or read is missing." in text
    assert "Is it switched on? no delay_statistics is switched off." in text
    assert "Is it open to a group of the user? yes" in text
    assert f'href="{reverse("admin:mcp_django_tool_change", args=[row.pk])}"' in response.content.decode()


def test_a_missing_scope_leads_to_the_token(users: Users) -> None:
    token = token_of(users.ops)

    page = client_of(users.admin).get(url_of(token), {"why": "flights_flight_mark_cancelled"}).content.decode()

    assert "The scope tool:flights_flight_mark_cancelled or actions is missing." in page
    assert (
        f'{reverse("admin:mcp_django_accesstoken_change", args=[token.pk])}">agent</a>' in page[page.index("mcp-why") :]
    )


def test_staff_read_no_link_to_a_page_that_they_may_not_see(users: Users, clerk: User) -> None:
    Tool.objects.update_or_create(site="mcp", name="get_record", defaults={"enabled": False})
    Tool.objects.update_or_create(site="mcp", name="find_records", defaults={"enabled": False})

    page = client_of(clerk).get(URL, {"why": "db://flights/flight/1"}).content.decode()

    assert "get_record is switched off." in page and "It is changed here" not in page


def test_staff_cannot_tell_what_is_not_theirs_from_nothing(users: Users, flights: Any, clerk: User) -> None:
    for why in (
        "flights.plane.seats", "auth.user", "flights.plane", "db://flights/plane/N14228", "delete_record",
        "mcp_django.accesstoken", "punctuality_repor", "no.such", "nothing",
    ):  # fmt: skip
        text = sees(clerk, why=why)
        assert "There is no such model, field, row, tool, operation, prompt or resource." in text, why
        assert "delete_record?" not in text and "auth." not in text.replace(why, ""), why


def test_staff_cannot_tell_a_hidden_field_from_one_that_does_not_exist(
    users: Users, clerk: User, declared: Declared
) -> None:
    shown = ["number", "carrier"]
    declared.model(Flight, fields=shown)
    fields = [field.name for field in Flight._meta.get_fields() if field.name not in (*shown, "id")]
    for scope in ("read", "model:flights.flight:read", "model:flights.airline:read", "actions"):
        url = url_of(token_of(clerk, scope))
        for name in [*fields, "nothing"]:
            text = content_of(client_of(clerk).get(url, {"why": f"flights.flight.{name}"}))
            assert text.count("There is no such") == 1, (scope, name)
    # Whoever may know of everything is told why.
    assert "There is no such" not in sees(users.admin, user="clerk", why=f"flights.flight.{fields[0]}")


def test_staff_who_may_view_tools_are_told_of_each_tool(users: Users) -> None:
    operator = make_staff("operator", "mcp_django.view_accesstoken", "mcp_django.view_tool")

    assert "The permission flights.view_flight is missing." in sees(operator, why="delay_statistics")


def test_markup_in_the_name_is_text(users: Users) -> None:
    page = client_of(users.admin).get(URL, {"why": "<script>alert(1)</script>"}).content.decode()

    assert "alert(1)" in page and "<script>alert" not in page
