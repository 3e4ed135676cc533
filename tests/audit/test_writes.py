"""Writing through the forms of the admin."""

from __future__ import annotations

import pytest

from mcp_django.writes.tools import WRITE_TOOLS
from tests.audit.conftest import Rows
from tests.support.data import Users, make_flights, switch_on
from tests.writes.conftest import Writer

pytestmark = pytest.mark.usefixtures("transactional_db")


def test_a_change_names_its_model_its_rows_and_no_values(users: Users, rows: Rows) -> None:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    flight = make_flights(3)[0]
    agent = Writer(users.ops)

    agent.confirmed("update_record", model="flights.flight", id=str(flight.pk), values={"notes": "a secret"})
    agent.refused("update_record", model="flights.flight", id=str(flight.pk), values={"distance": -1})

    keys = f" {flight.pk} "
    assert rows("name", "model", "keys", "outcome", "values") == [
        {"name": "update_record", "model": "flights.flight", "keys": "", "outcome": "done", "values": ""},
        {"name": "update_record", "model": "flights.flight", "keys": keys, "outcome": "done", "values": ""},
        {"name": "update_record", "model": "flights.flight", "keys": "", "outcome": "failed", "values": ""},
    ]
    assert rows("arguments")[1] == {"arguments": '["model","id","values","confirm"]'}


def test_a_record_that_is_created_is_named(users: Users, rows: Rows) -> None:
    switch_on(*(tool.name for tool in WRITE_TOOLS))

    Writer(users.admin).confirmed("create_record", model="flights.airline", values={"carrier": "ZZ", "name": "Zed"})

    # A key that is a text may say whose the row is.
    assert [row["keys"] for row in rows("keys")] == ["", ""]
