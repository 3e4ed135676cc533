"""What only operations of django-ninja have: pages of its own, and authentication by tokens of the project."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcp_django import expose
from mcp_django.bridge.sites import MCPSite
from tests.api.agents import Agent
from tests.api.ninja_project.api import api


def exposed(**options: Any) -> MCPSite:
    site = MCPSite("ninja")
    expose(api, site=site, **options)
    return site


@pytest.mark.parametrize("operation", ["items.numbered_items", "items.paged_items"])
def test_each_page_has_rows_that_no_other_has_and_the_last_is_no_empty_one(
    operation: str, workshop: SimpleNamespace
) -> None:
    agent = Agent(exposed(), workshop.anna)

    for limit in (None, 2):
        pages = list(agent.pages(operation, **({} if limit is None else {"limit": limit})))
        shown = [str(row) for page in pages for row in page.get("rows", page.get("items"))]

        assert len(shown) == len(set(shown)) == pages[0]["total"]
        assert all(page.get("rows", page.get("items")) for page in pages)
    assert len(pages) > 1


def test_errors_name_what_an_agent_sends_and_not_the_parameter_of_the_function(workshop: SimpleNamespace) -> None:
    agent = Agent(exposed(), workshop.anna)
    bodies: dict[str, Any] = {
        "items.create_item": {"name": "", "slug": "mug"},
        "items.create_items": [{"name": "Mug", "slug": "a mug"}],
        "orders.create_order": {"number": "1", "customer": "x", "address": {"street": "s"}, "lines": []},
        "desk.feedback": {"subject": "x", "stars": 9},
    }

    told = {name: agent.told(name, tool="change_api", body=body) for name, body in bodies.items()}

    assert {name: [one for one in ("data", "name:", "0.slug:", "address.city:", "stars:") if one in said]
            for name, said in told.items()} == {
        "items.create_item": ["name:"], "items.create_items": ["0.slug:"],
        "orders.create_order": ["address.city:"], "desk.feedback": ["stars:"],
    }  # fmt: skip


def test_what_an_answer_leaves_out_no_description_names(workshop: SimpleNamespace) -> None:
    for shown, names in ([], ["name"]), (["api_key"], ["name", "api_key"]):
        agent = Agent(exposed(show_secrets=shown), workshop.anna)

        told = agent.client.call("describe_api", operation="desk.account").structured

        assert list(told["returns"]) == list(agent.get("desk.account")["result"]) == names


def test_credentials_are_for_operations_that_take_tokens_and_logins_stay_logins(workshop: SimpleNamespace) -> None:
    def of(request: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer secret-of-{request.user.username}"}

    def wrong(request: Any) -> dict[str, str]:
        return {"Authorization": "Bearer guessed"}

    named = ["*", "tokens.bearer"]
    site = exposed(include=named, credentials=of)

    found = Agent(site, workshop.anna).get("tokens.bearer")["result"]

    assert "anna" in str(found)
    assert Agent(site, workshop.anna).get("orders.list_orders")["total"]
    # Without credentials it is left out, and nothing takes their place.
    for options in ({}, {"authentication": "replace"}):
        assert "tokens.bearer" not in exposed(include=named, **options).api.operations
    # Control: the project checks them.
    assert "needs a login" in Agent(exposed(include=named, credentials=wrong), workshop.anna).told("tokens.bearer")
