"""Values that the model or the database allows only once, or not together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Ticket

pytestmark = pytest.mark.every_database


@pytest.fixture
def ticket(lab: Lab) -> Ticket:
    """With another one beside it, of row 2, seat 2."""
    lab.admin(Ticket)
    Ticket.objects.create(code="B", row=2, seat=2, owner="Bob")
    return Ticket.objects.create(code="A", row=1, seat=1, owner="Ann")


BROKEN: dict[str, tuple[dict[str, Any], str, str]] = {
    "unique": ({"code": "B"}, "values.code", "already exists"),
    "unique together": ({"row": 2, "seat": 2}, "values", "already exists"),
    "a check": ({"since": 10}, "values", "lab_ticket_since"),
    "a unique constraint": ({"owner": "Bob"}, "values", "Twice."),
}


def test_what_breaks_a_constraint_is_refused_with_its_words(lab: Lab, ticket: Ticket) -> None:
    for what, (values, path, text) in BROKEN.items():
        [error] = lab.refused(Ticket, ticket, values=values).errors

        assert error["field"] == path, what
        assert text in str(error), what
