"""Every example of the pages about queries can be called as it stands."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from demo_project.flights.models import Airline, Flight
from tests.support.asking import DirectPeer
from tests.support.data import Users, switch_on
from tests.support.pages import PAGES, blocks

pytestmark = pytest.mark.every_database

QUERIES = re.findall(r"`(?:db://flights/flight)?(\?[^`]+)`", PAGES["docs/resources.md"])
EXAMPLES = [json.loads(block) for page in ("docs/queries.md", "docs/aggregates.md") for block in blocks(page, "json")]


@pytest.fixture
def delayed(flights: Any) -> None:
    """Beside the others, a flight that is late and one that was cancelled."""
    jetblue = Airline.objects.create(carrier="B6", name="JetBlue")
    Flight.objects.filter(pk=1).update(arrival_delay=90)
    Flight.objects.filter(pk=2).update(carrier=jetblue, status="cancelled")


def test_every_example_gives_an_answer(users: Users, delayed: None) -> None:
    peer = DirectPeer(users.admin)

    for example in EXAMPLES:
        answer = peer.call(example["tool"], **example["arguments"])
        assert not answer["isError"], (example, answer)
        assert answer["structuredContent"].get("rows", True), example
    for query in QUERIES:
        assert peer.read(f"db://flights/flight{query}")["rows"], query
    assert len({example["tool"] for example in EXAMPLES}) == 4 and len(QUERIES) == 5


def test_an_action_by_a_filter_is_confirmed_as_its_page_shows(users: Users, flights: Any) -> None:
    first, second, *_ = (json.loads(block) for block in blocks("docs/actions.md", "json"))
    switch_on(first["tool"])
    agent = DirectPeer(users.admin, "read", "actions")

    shown = agent.call(first["tool"], **first["arguments"])
    [confirm] = re.findall(r'"confirm": "([^"]+)"', shown["content"][0]["text"])
    done = agent.call(second["tool"], **{**second["arguments"], "confirm": confirm})

    assert not done["isError"], done
    assert set(Flight.objects.filter(origin="JFK").values_list("status", flat=True)) == {"cancelled"}
    assert Flight.objects.exclude(origin="JFK").exclude(status="cancelled").exists()
