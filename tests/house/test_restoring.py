"""The rows that tests begin with."""

from __future__ import annotations

from django.contrib.auth.models import Group

from demo_project.flights.models import Flight
from tests.support.data import OF_FIXTURES
from tests.support.restoring import begin_with, begun_with


def test_rows_that_a_thread_writes_after_a_test_are_gone_for_the_next_one(transactional_db: None) -> None:
    name, make = OF_FIXTURES["made_flights"]
    begin_with({})
    Group.objects.create(name="late")

    begin_with({name: make})
    begun_with(name, make)

    assert not Group.objects.filter(name="late").exists()
    assert Flight.objects.count() == 12
