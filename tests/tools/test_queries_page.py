"""Every example of the pages about queries can be called as it stands."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from demo_project.flights.models import Airline, Flight
from tests.support.asking import DirectPeer, errors_of
from tests.support.data import Users, switch_on
from tests.support.pages import PAGES, blocks

pytestmark = pytest.mark.every_database

QUERIES = re.findall(r"`(?:db://flights/flight)?(\?[^`]+)`", PAGES["docs/resources.md"])
EXAMPLES = [json.loads(block) for page in ("docs/queries.md", "docs/aggregates.md") for block in blocks(page, "json")]


def test_there_are_examples_of_every_tool() -> None:
    assert {example["tool"] for example in EXAMPLES} == {
        "describe_models", "find_records", "get_record", "aggregate_records",
    }  # fmt: skip


@pytest.fixture
def delayed(flights: Any) -> None:
    """Beside the others, a flight that is late and one that was cancelled."""
    jetblue = Airline.objects.create(carrier="B6", name="JetBlue")
    Flight.objects.filter(pk=1).update(arrival_delay=90)
    Flight.objects.filter(pk=2).update(carrier=jetblue, status="cancelled")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["tool"])
def test_an_example_gives_an_answer(users: Users, delayed: None, example: Any) -> None:
    answer = DirectPeer(users.admin).call(example["tool"], **example["arguments"])

    assert not answer["isError"], answer
    assert answer["structuredContent"].get("rows", True)


def test_there_are_examples_of_queries_as_resources() -> None:
    assert len(QUERIES) == 5


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_rows(users: Users, delayed: None, query: str) -> None:
    assert DirectPeer(users.admin).read(f"db://flights/flight{query}")["rows"]


NONE = re.findall(r"^\| `(\{[^`]+\})` \| `([^`]+)` \|$", PAGES["docs/queries.md"], re.MULTILINE)


@pytest.mark.parametrize(("asked", "text"), NONE)
def test_a_value_that_is_none_is_answered_as_the_page_says(users: Users, delayed: None, asked: str, text: str) -> None:
    Airline.objects.filter(carrier="UA").update(name="United Air Lines Inc.")

    [error] = errors_of(DirectPeer(users.admin).call("find_records", model="flights.flight", filter=json.loads(asked)))

    assert len(NONE) == 3
    assert error["message"] == text


def test_a_search_that_finds_nothing_names_the_filter_of_the_page(users: Users, flights: Any) -> None:
    Flight.objects.update(origin="LGA")
    note = 'origin or destination takes keys of flights.airport: filter {"origin": "JFK"}.'

    found = DirectPeer(users.admin).call("find_records", model="flights.flight", search="jfk")

    assert found["structuredContent"]["notes"][0].endswith(note)
    assert note in PAGES["docs/queries.md"].replace("\n", " ")


def test_an_action_by_a_filter_is_confirmed_as_its_page_shows(users: Users, flights: Any) -> None:
    first, second = (json.loads(block) for block in blocks("docs/actions.md", "json"))
    switch_on(first["tool"])
    agent = DirectPeer(users.admin, "read", "actions")

    shown = agent.call(first["tool"], **first["arguments"])
    [confirm] = re.findall(r'"confirm": "([^"]+)"', shown["content"][0]["text"])
    done = agent.call(second["tool"], **{**second["arguments"], "confirm": confirm})

    assert not done["isError"], done
    assert set(Flight.objects.filter(origin="JFK").values_list("status", flat=True)) == {"cancelled"}
    assert Flight.objects.exclude(origin="JFK").exclude(status="cancelled").exists()
