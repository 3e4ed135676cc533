"""Columns whose values the database makes: of each row, or where nobody gives one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bridge.writes.lab import driving
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Invoice

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def shown(lab: Lab) -> None:
    derived = ["total", "made"]
    lab.admin(Invoice, fields=["name", "count", "price", "state", *derived], readonly_fields=derived)


def diff_of(told: Any) -> dict[str, Any]:
    return {one["field"]: one["after"] for one in told["diff"]}


def test_a_row_is_made_with_what_the_database_makes(lab: Lab) -> None:
    made = lab.same(Invoice, values={"name": "May", "count": 2, "price": 21, "state": "sent"})

    assert made.of(Invoice)[0]["total"] == 42


def test_what_the_database_makes_is_told_once_it_is_made(lab: Lab) -> None:
    about: Any = {"model": "lab.invoice", "values": {"name": "May", "count": 2, "price": 21, "state": "sent"}}

    shown = driving.preview(lab.site, lab.user, "create", **about)
    made = driving.apply(lab.site, lab.user, "create", **about)
    invoice = Invoice.objects.create(name="May", count=2, price=5)
    changed = driving.apply(lab.site, lab.user, "update", model="lab.invoice", id=str(invoice.pk), values={"price": 21})

    assert diff_of(shown) == about["values"]
    assert {"made", "total"} <= set(shown["set_when_saved"])
    assert diff_of(made)["total"] == 42 and diff_of(made)["made"]
    assert changed["also_changed"] == ["total"]
    assert diff_of(changed) == {"price": 21, "total": 42}
