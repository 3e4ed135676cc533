"""Flights, a shop and users for tests of relations, and what they ask."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest

from demo_project.flights.models import Disruption
from mcp_django import ModelMCP
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.reading import rows
from tests.shop.models import (
    Making,
    Part,
    Supplier,
    Warranty,
)  # fmt: skip
from tests.support.asking import all_rows, rights_on
from tests.support.data import make_flights
from tests.support.declared import Declared

Admin: Any = admin.ModelAdmin


class Scoped(ModelMCP):
    """Shows what is open, but to root everything."""

    def get_queryset(self, request: HttpRequest) -> Any:
        every = super().get_queryset(request)
        return every if request.user.get_username() == "root" else every.filter(open=True)


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def clerk(db: None) -> User:
    """Sees what is open."""
    return User.objects.create_superuser("clerk")


@pytest.fixture
def flights(root: User) -> None:
    """Six flights, in turn from JFK, EWR and LGA, the first two of which have a report."""
    make_flights(6)
    for number, note in ((1, "fog"), (2, "hail")):
        Disruption.objects.create(id=number, flight_id=number, kind="weather", note=note)


@pytest.fixture
def shop(declared: Declared, root: User) -> None:
    """Parts of an open supplier, of a hidden one and of none."""
    declared.model(Supplier, Scoped, fields=["name", "code", "rating", "parent"])
    declared.model(Part, Scoped, fields=["name", "weight", "supplier", "makers"], search_fields=["=supplier__name"])
    declared.model(Warranty, ModelMCP, fields=["part", "months"])
    north = Supplier.objects.create(id=1, name="north", code="n", rating=3)
    south = Supplier.objects.create(id=2, name="south", code="s", rating=5, open=False)
    Supplier.objects.create(id=3, name="branch", code=None, parent=south)
    for number, supplier in enumerate((north, south, None), 1):
        part = Part.objects.create(id=number, name=f"part {number}", weight=number * 10, supplier=supplier)
        Making.objects.create(id=number, part=part, maker_id=number, open=number != 1)


def read(model: Any, user: User, *fields: str, **asked: Any) -> list[list[Any]]:
    return all_rows(model, user, fields=fields, **{"order_by": ["pk"], **asked})


def keys(model: Any, user: User, **asked: Any) -> list[Any]:
    return [row[0] for row in read(model, user, "pk", **asked)]


def filtered(model: Any, user: User, asked: Any) -> list[Any]:
    """The keys of the rows that meet a filter, also where one of its values is unknown."""
    return [row[0] for row in all_rows(model, user, watched=True, filter=asked, fields=["pk"], order_by=["pk"])]


def refusal(model: Any, user: User, **asked: Any) -> str:
    with pytest.raises(InvalidQuery) as raised:
        rows.find(rights_on(model, user), rows.RecordQuery(**asked))
    [error] = raised.value.errors
    return error["message"]
