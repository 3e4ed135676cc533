"""Models and fields that an administrator switched off: for agents they are as if no code had exposed them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from demo_project.flights.models import Flight
from mcp_django import ModelMCP, site
from mcp_django.access import overrides
from mcp_django.console.review import inventory
from mcp_django.models import Restriction
from tests.support.asking import DirectPeer, described, errors_of, keys, rights_on
from tests.support.data import make_flights, switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.django_db

FIELD = "flights.flight.origin"
#: Every way to name a field: in a row, a filter, an order, a search, a group, a path, a schema, a completion, a write.
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "db://flights/flight"}),
    ("resources/read", {"uri": "db://flights/flight?origin=JFK"}),
    ("resources/read", {"uri": "db://flights/flight?group_by=origin"}),
    ("resources/read", {"uri": "db://flights/flight.schema"}),
    ("resources/read", {"uri": "db://flights/flight/1"}),
    *(
        ("tools/call", {"name": name, "arguments": {"model": "flights.flight", **arguments}})
        for name, arguments in [
            ("describe_models", {}),
            ("find_records", {}),
            ("find_records", {"fields": ["origin"]}),
            ("find_records", {"fields": ["origin__name"]}),
            ("find_records", {"filter": {"origin": "JFK"}}),
            ("find_records", {"filter": {"origin_id": "JFK"}}),
            ("find_records", {"filter": {"any": [{"origin__name__contains": "K"}, {"not": {"origin": "JFK"}}]}}),
            ("find_records", {"order_by": ["origin"]}),
            ("find_records", {"search": "JFK"}),
            ("get_record", {"id": "1"}),
            ("aggregate_records", {"measures": ["count"], "group_by": ["origin"]}),
            ("aggregate_records", {"measures": ["count_distinct(origin)"]}),
            ("update_record", {"id": "1", "values": {"origin": "LGA"}}),
        ]
    ),
    ("tools/call", {"name": "describe_models", "arguments": {"model": "flights.airport"}}),
    ("tools/call", {"name": "find_records", "arguments": {"model": "flights.airport", "filter": {"departures": 1}}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "db://flights/flight{?filter*}"},
            "argument": {"name": "origin", "value": ""},
        },
    ),
]  # fmt: skip


@pytest.fixture
def root() -> DirectPeer:
    make_flights(3)
    switch_on("update_record")
    return DirectPeer(User.objects.create_superuser("root"), "read", "actions", "write")


def answers(peer: DirectPeer) -> list[str]:
    """What each request is answered, without the words that confirm a preview: these are new each time."""
    found = [peer.request(MODERN, method, params) for method, params in REQUESTS]
    texts = (json.dumps([message.get("result"), message.get("error")]) for message in found)
    return [re.sub(r"(confirm\W+)[\w-]{20,}", r"\1…", text) for text in texts]


def restrict(kind: str, name: str) -> Restriction:
    return Restriction.objects.create(site="mcp", kind=kind, name=name)


def test_a_field_that_is_off_is_one_that_code_excludes(root: DirectPeer, declared: Declared) -> None:
    open_answers = answers(root)
    restriction = restrict("field", FIELD)
    restricted = answers(root)
    restriction.delete()
    again = answers(root)

    declared.model(Flight, type("FlightMCP", (ModelMCP,), {"exclude": ["origin"]}))

    assert restricted == answers(root)
    assert restricted != open_answers == again


def test_a_model_that_is_off_is_one_that_does_not_exist(root: DirectPeer, declared: Declared) -> None:
    restrict("model", "flights.flight")
    restricted = answers(root)

    class Nobodys(ModelMCP):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return False

    Restriction.objects.all().delete()
    declared.model(Flight, Nobodys)

    assert restricted == answers(root)


def test_writing_a_field_that_code_lets_agents_write_and_an_administrator_switched_off(
    root: DirectPeer, declared: Declared
) -> None:
    declared.model(Flight, write_fields=["origin", "number"])
    restrict("field", FIELD)

    refused = root.call("update_record", model="flights.flight", id=str(keys(root)[0]), values={"origin": "LGA"})

    assert [error["field"] for error in errors_of(refused)] == ["values.origin"]


def test_switching_off_the_primary_key_hides_nothing(root: DirectPeer) -> None:
    restrict("field", "flights.flight.id")

    assert "id" in described(root)["fields"]


def test_what_is_closed_on_another_site_is_open_here(root: DirectPeer) -> None:
    Restriction.objects.create(site="other", kind="model", name="flights.flight")

    assert len(keys(root)) == 3


def test_what_is_closed_on_every_site_is_closed_here(root: DirectPeer) -> None:
    Restriction.objects.create(site="", kind="model", name="flights.flight")

    assert root.call("find_records", model="flights.flight")["isError"]


def test_the_inventory_of_what_code_declares_knows_no_restriction(root: DirectPeer) -> None:
    restrict("model", "flights.flight")

    assert "flights.flight" in inventory.build(site)["models"]
    assert "flights.flight" not in inventory.build(site, root.user)["models"]


def test_a_restriction_is_seen_in_a_second_however_long_tokens_are_remembered(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 300}
    overrides.tools.of_site(site, fresh=False)
    until, _ = overrides.tools._read[site.name]
    overrides.tools.of_site(site, fresh=False)

    assert until <= overrides.time.monotonic() + overrides._PAUSE_SECONDS


@pytest.mark.every_database
def test_restrictions_and_overrides_are_read_with_one_statement(
    root: DirectPeer, django_assert_num_queries: Any
) -> None:
    restrict("field", FIELD)
    overrides.forget()

    with django_assert_num_queries(1):
        found = overrides.tools.restrictions(site)

    assert (found.models, dict(found.fields), found.pauses) == (set(), {"flights.flight": {"origin"}}, {})
    assert not rights_on(Flight, root.user).shows(Flight._meta.get_field("origin"))
