"""The demo: ops corrects a flight from JFK with a preview, and deletes a disruption after a click in the admin."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.browsing import log_in
from tests.end_to_end.servers import Project, Served
from tests.end_to_end.test_oauth_browser import page

__all__ = ["page"]

pytestmark = pytest.mark.slow


class Agent:
    """A client that cannot ask its user, as curl."""

    def __init__(self, served: Served, token: str) -> None:
        self._url = served.url
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}

    def call(self, name: str, **arguments: Any) -> Any:
        params = {"name": name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = httpx.post(self._url, json=message, headers=self._headers).json()["result"]
        assert not result["isError"], result
        return json.loads(result["content"][0]["text"])

    def confirmed(self, name: str, **arguments: Any) -> Any:
        return self.call(name, **arguments, confirm=self.call(name, **arguments)["confirm"])


@pytest.fixture
def agent(served: Served, demo_project: Project) -> Agent:
    printed = demo_project.manage("mcp_token", "ops", "--scopes", "read,write")
    found = re.search(r"mcpdj_\S+", printed)
    assert found is not None, printed
    return Agent(served, found[0])


def test_ops_corrects_a_flight_and_deletes_a_disruption_after_a_click(agent: Agent, page: Page) -> None:
    columns = {"fields": ["id", "status"], "limit": 1}
    [[key, status]] = agent.call("find_records", model="flights.flight", filter={"origin": "JFK"}, **columns)["rows"]
    about = {"model": "flights.flight", "id": str(key), "values": {"status": "delayed", "notes": "fog"}}

    shown = agent.call("update_record", **about)
    done = agent.call("update_record", **about, confirm=shown["confirm"], reason="The tower says so.")

    assert shown["diff"][0] == {"field": "status", "before": status, "after": "delayed"}
    assert (done["status"], done["diff"]) == ("applied", shown["diff"])

    values = {"flight": str(key), "kind": "weather", "note": "<b>Fog</b>"}
    disruption = agent.confirmed("create_record", model="flights.disruption", values=values)["id"]
    waiting = agent.confirmed("delete_record", model="flights.disruption", ids=[disruption])
    assert waiting["status"] == "pending"

    page.goto(waiting["url"])
    log_in(page, "ops")
    expect(page.get_by_role("heading", name="What it would change now")).to_be_visible()
    expect(page.get_by_text("These are deleted:")).to_be_visible()
    page.get_by_role("button", name="Make this change").click()
    expect(page.get_by_text("The change was made.")).to_be_visible()

    assert agent.call("get_change", change=waiting["change"])["status"] == "applied"
    assert agent.call("find_records", model="flights.disruption", filter={"id": disruption})["rows"] == []

    page.goto(f"/admin/mcp_django/change/{done['change']}/change/")
    expect(page.get_by_role("cell", name="delayed")).to_be_visible()
    expect(page.get_by_text("The tower says so.")).to_be_visible()
    page.goto(f"/admin/flights/flight/{key}/history/")
    expect(page.get_by_text(f"change {done['change']})")).to_be_visible()


@pytest.mark.more("a further story in the browser")
def test_a_rejected_change_tells_the_agent_why(agent: Agent, page: Page) -> None:
    [[key]] = agent.call("find_records", model="flights.flight", fields=["id"], limit=1)["rows"]
    values = {"flight": str(key), "kind": "weather", "note": "Snow"}
    disruption = agent.confirmed("create_record", model="flights.disruption", values=values)["id"]
    waiting = agent.confirmed("delete_record", model="flights.disruption", ids=[disruption])

    page.goto(waiting["url"])
    log_in(page, "ops")
    page.get_by_label("Reason for rejecting (the agent reads it)").fill("It still snows.")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_text("The change was rejected.")).to_be_visible()

    told = agent.call("get_change", change=waiting["change"])
    assert (told["status"], told["notes"]) == ("rejected", ["It still snows."])
    assert len(agent.call("find_records", model="flights.disruption", filter={"id": disruption})["rows"]) == 1
