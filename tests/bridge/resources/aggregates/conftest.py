"""Flights and products for tests of aggregates."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Count

from demo_project.flights.models import Airline, Flight, Plane
from mcp_django import ModelMCP
from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery, aggregate
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.policy import ModelRights
from tests.bridge.resources.conftest import showing
from tests.shop.models import Product
from tests.support.asking import rights_on
from tests.support.data import make_flights
from tests.support.declared import Declared

JSON = dict[str, Any]


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def flights(root: User) -> ModelRights:
    make_flights(12)
    return rights_on(Flight, root)


@pytest.fixture
def products(root: User) -> ModelRights:
    Product.objects.create(
        name="lamp", price=Decimal("10.10"), weight=0.5, stock=3, launched=datetime.date(2013, 1, 31),
        opens=datetime.time(8, 30), lead_time=datetime.timedelta(days=1),
    )  # fmt: skip
    Product.objects.create(
        name="chair", price=Decimal("20.00"), weight=7.25, stock=4, launched=datetime.date(2014, 6, 1),
        opens=datetime.time(9, 0), lead_time=datetime.timedelta(hours=2),
    )  # fmt: skip
    Product.objects.create(name="void", active=False)
    return rights_on(Product, root)


def rows(rights: ModelRights, **asked: Any) -> list[list[Any]]:
    return aggregate(rights, AggregateQuery(**asked)).rows


def error(rights: ModelRights, **asked: Any) -> JSON:
    """The one thing that is wrong with a question."""
    with pytest.raises(InvalidQuery) as raised:
        aggregate(rights, AggregateQuery(**asked))
    [found] = raised.value.errors
    return dict(found)


#: A moment that is another year, month, day and week in New York: 2012-12-31 22:30 there.
MOMENT = datetime.datetime(2013, 1, 1, 3, 30, tzinfo=datetime.UTC)


def scoped(declared: Declared) -> None:
    """United, and the one plane, are hidden; flights are joined, counted and doubled by their queryset."""

    class Flights(ModelMCP):
        fields = (
            "carrier", "plane", "origin", "number", "departure_delay", "distance", "departs_at", "status",
        )  # fmt: skip

        def get_queryset(self, request: Any) -> Any:
            joined = super().get_queryset(request).exclude(origin="LGA").filter(origin__departures__isnull=False)
            return joined.annotate(reports=Count("disruptions"), departures=Count("origin__departures"))

    declared.model(Airline, showing(lambda every: every.exclude(pk="UA")))
    declared.model(Plane, showing(lambda every: every.exclude(pk="N14228")))
    declared.model(Flight, Flights)
