"""Try it: the form can be filled in with an example and with what its person tried before, and leads to the answer."""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pydantic import Field

from demo_project.flights.models import Flight
from mcp_django import site
from tests.console.test_tools import row_of, tried
from tests.console.visiting import client_of, content_of
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db", "trail")


def try_url(name: str) -> str:
    return reverse("admin:mcp_django_tool_try", args=[row_of(name).pk])


def filled_in(client: Client, name: str, fill: str = "example") -> dict[str, Any]:
    """What stands in the form at first, by argument."""
    form = client.get(try_url(name), {"fill": fill}).context["form"]
    return {argument: form[f"arg-{argument}"].value() for argument in form.arguments if form[f"arg-{argument}"].value()}


def test_an_example_is_what_the_schema_says_and_else_what_the_viewer_may_see(
    users: Users, flights: list[Flight], declared: Declared
) -> None:
    def book(
        request: Any, seat: Annotated[str, Field(examples=["12A"])], cabin: Literal["eco", "first"], day: date,
        flight: Flight, api_key: str, meal: Annotated[str, Field(examples=["none"])] = "", note: str = "",
    ) -> str:  # fmt: skip
        """Book a seat."""
        return "booked"

    declared.tool(book, read_only=True)
    client = client_of(users.ops)
    client.get("/admin/mcp_django/tool/")

    found = filled_in(client_of(users.admin), "book")

    first = min(Flight.objects.values_list("pk", flat=True))
    assert found == {
        "seat": "12A", "cabin": "eco", "day": timezone.localtime().date().isoformat(), "flight": str(first),
        "meal": "none",
    }  # fmt: skip
    assert filled_in(client_of(users.admin), "get_record")["model"] in site.models


def test_an_example_has_no_key_of_a_row_that_the_viewer_may_not_see(
    users: Users, flights: list[Flight], declared: Declared
) -> None:
    """Those of somebody without rows, and those that would be changed."""

    def show(request: Any, flight: Flight) -> str:
        """Show."""
        return ""

    def cancel(request: Any, flight: Flight) -> str:
        """Cancel."""
        return ""

    declared.tool(show, read_only=True)
    declared.tool(cancel)
    blind = make_staff("blind", "mcp_django.view_tool")
    client_of(users.admin).get("/admin/mcp_django/tool/")

    assert filled_in(client_of(users.admin), "show") and filled_in(client_of(blind), "show") == {}
    assert filled_in(client_of(users.admin), "cancel") == {}


def test_the_last_runs_fill_in_the_form_for_their_own_user_alone(users: Users, flights: list[Flight]) -> None:
    client = client_of(users.admin)
    for model in ("flights.airport", "flights.flight", "flights.airport"):
        tried(client, "find_records", model=model, limit="2")
    tried(client, "describe_models", model="flights.flight")

    page = client.get(try_url("find_records"))

    assert [text for _, text in page.context["runs"]] == [
        "model: flights.airport, limit: 2", "model: flights.flight, limit: 2",
    ]  # fmt: skip
    assert filled_in(client, "find_records", "1") == {"model": "flights.flight", "limit": "2"}
    for nonsense in ("2", "-1", "9" * 5_000, "²", "x"):
        assert filled_in(client, "find_records", nonsense) == {}
    # A session that goes over to somebody else, as where a project lets people act as others.
    session = client.session
    session["_auth_user_id"], session["_auth_user_hash"] = str(users.ops.pk), users.ops.get_session_auth_hash()
    session.save()
    users.ops.user_permissions.add(Permission.objects.get(codename="view_tool"))
    assert client.get(try_url("find_records")).context["runs"] == []


def test_no_secret_and_not_much_is_kept_of_what_was_tried(users: Users, declared: Declared) -> None:
    def log_in(request: Any, who: str, password: str) -> str:
        """Log in."""
        return ""

    declared.tool(log_in, read_only=True)
    client = client_of(users.admin)
    client.get("/admin/mcp_django/tool/")

    tried(client, "log_in", who="ann", password="hunter2")
    assert [text for _, text in client.get(try_url("log_in")).context["runs"]] == ["who: ann"]
    tried(client, "log_in", who="x" * 3_000, password="hunter2")
    for number in range(40):
        tried(client, "log_in", who=f"{number}" * 50, password="hunter2")
    kept = json.dumps(client.session["mcp_django_tries"])
    assert "hunter2" not in kept and "39" in kept and len(kept) < 2_000


def test_the_answer_is_the_target_of_the_form_and_so_are_its_mistakes(users: Users, flights: list[Flight]) -> None:
    client = client_of(users.admin)
    right = tried(client, "find_records", model="flights.airport").content.decode()
    wrong = tried(client, "find_records", model="flights.airport", limit="many").content.decode()

    assert 'action="#answer"' in right and '<h2 id="answer" tabindex="-1">' in right
    assert right.count('id="answer"') == wrong.count('id="answer"') == 1
    assert '<p class="errornote" id="answer" tabindex="-1">' in wrong
    assert "<h1>Try it: find_records</h1>" in right


def test_the_tick_says_that_data_can_change(users: Users) -> None:
    page = content_of(client_of(users.admin).get(try_url("delete_record")))

    assert "Run it for real: this can change data" in page
