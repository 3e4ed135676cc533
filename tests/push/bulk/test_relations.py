"""Bulk changes by inheritance, proxies and relations, and deletes."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction

from mcp_django.core.events.changed_rows import ModelChange
from tests.push.bulk.conftest import UNKNOWN, statements, told, written
from tests.push.conftest import Heard
from tests.shop.models import Gadget, Gizmo, Person, SpareGadget, Ware
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


def deleted(*keys: Any) -> ModelChange:
    return ModelChange(set(), {str(key) for key in keys})


# Inheritance and proxies.


def test_a_bulk_change_by_a_proxy_is_one_of_its_concrete_model(watched: Heard, gadgets: list[Gadget]) -> None:
    SpareGadget.objects.filter(name="a").update(count=1)

    assert watched.changes() == told(gadget=written(gadgets[0].pk))


def test_a_bulk_change_of_a_child_is_one_of_its_parent_and_the_other_way_round(
    watched: Heard, declared: Declared
) -> None:
    declared.model(Gizmo, fields="__all__")
    gizmo, other = (Gizmo.objects.create(name=name) for name in "ab")
    watched.events.clear()
    both = told(gadget=written(gizmo.pk), gizmo=written(gizmo.pk))

    Gizmo.objects.filter(name="a").update(size=3, count=4)
    by_child = watched.changes()
    Gadget.objects.filter(name="a").update(count=5)
    by_parent = watched.changes()
    gizmo.refresh_from_db()
    Gizmo.objects.bulk_update([gizmo], ["size"])

    assert by_child == by_parent == watched.changes() == both
    assert (gizmo.size, gizmo.count) == (3, 5)
    other.refresh_from_db()
    assert (other.size, other.count) == (0, 0)


# Relations.


def test_an_update_of_related_rows_is_told(watched: Heard, gadgets: list[Gadget], wares: list[Ware]) -> None:
    Ware.objects.filter(name__in="ab").update(gadget=gadgets[0])
    watched.events.clear()

    gadgets[0].wares.filter(name="a").update(price=4)
    gadgets[0].wares.bulk_create([Ware(name="d", gadget=gadgets[0])])

    assert watched.changes() == told(ware=written("a", "d"))


def test_relations_that_are_set_from_the_other_side_are_told_where_the_base_manager_tells(
    watched: Heard, gadgets: list[Gadget], wares: list[Ware]
) -> None:
    gadgets[0].wares.add(wares[0], wares[1])
    added = watched.changes()
    gadgets[0].wares.remove(wares[0])
    removed = watched.changes()
    gadgets[0].wares.clear()

    assert added == told(ware=written("a", "b"))
    assert removed == told(ware=written("a"))
    assert watched.changes() == told(ware=written("b"))


# Deletes.


def test_a_raw_delete_is_told_and_of_many_rows_as_the_model(few_keys: None, watched: Heard, wares: list[Ware]) -> None:
    assert Ware.objects.filter(name__in="ab")._raw_delete("default") == 2
    of_two = watched.changes()
    Ware.objects.bulk_create([Ware(name="d"), Ware(name="e")])
    watched.events.clear()
    assert Ware.objects.all()._raw_delete("default") == 3

    assert of_two == told(ware=deleted("a", "b"))
    assert watched.changes() == told(ware=UNKNOWN)
    assert Ware.objects.count() == 0


def test_rows_whose_relation_a_delete_leaves_empty_are_told_by_a_base_manager_that_tells(
    watched: Heard, gadgets: list[Gadget], wares: list[Ware]
) -> None:
    Ware.objects.filter(name__in="ab").update(gadget=gadgets[0])
    watched.events.clear()
    key = gadgets[0].pk

    gadgets[0].delete()

    assert watched.changes() == told(gadget=deleted(key), ware=written("a", "b"))


@pytest.fixture
def persons(watched: Heard, declared: Declared) -> list[Person]:
    """Each has a gadget, whose base manager tells nothing. The last gadget has nobody."""
    declared.model(Person, fields="__all__", use_admin=False)
    persons = [Person.objects.create(name=name, badge=name) for name in "abc"]
    for person in (*persons, None):
        Gadget.objects.create(name="g", person=person)
    watched.events.clear()
    return persons


def test_rows_whose_relation_a_delete_leaves_empty_are_told_where_the_base_manager_tells_nothing(
    watched: Heard, persons: list[Person]
) -> None:
    key, [gadget] = persons[0].pk, persons[0].gadgets.all()

    persons[0].delete()

    assert watched.changes() == told(person=deleted(key), gadget=written(gadget.pk))
    gadget.refresh_from_db()
    assert gadget.person is None


def test_rows_that_a_delete_of_many_leaves_behind_are_looked_up_at_once(watched: Heard, persons: list[Person]) -> None:
    keys = [person.pk for person in persons[:2]]
    gadgets = Gadget.objects.filter(person__in=keys).values_list("pk", flat=True)
    left = list(gadgets)

    verbs = statements(Person.objects.filter(pk__in=keys).delete)

    assert watched.changes() == told(person=deleted(*keys), gadget=written(*left))
    assert verbs.count("SELECT") == 2
    assert connection.execute_wrappers == []


def test_rows_that_a_delete_leaves_behind_are_told_as_their_model_where_they_are_too_many(
    few_keys: None, watched: Heard, persons: list[Person]
) -> None:
    Person.objects.all().delete()

    assert watched.changes() == told(person=UNKNOWN, gadget=UNKNOWN)


def test_a_delete_that_is_rolled_back_tells_of_no_row_that_it_would_have_left_behind(
    watched: Heard, persons: list[Person]
) -> None:
    with transaction.atomic():
        persons[0].delete()
        transaction.set_rollback(True)

    assert watched.changes() == {}


def test_a_delete_of_what_no_relation_lets_go_is_told_alone(watched: Heard, wares: list[Ware]) -> None:
    wares[0].delete()

    assert watched.changes() == told(ware=deleted("a"))


def test_a_relation_that_the_delete_of_an_unwatched_row_leaves_empty_is_told_by_a_base_manager_that_tells(
    heard: Heard, declared: Declared
) -> None:
    declared.model(Ware, fields="__all__")
    gadget = Gadget.objects.create(name="a")
    Ware.objects.create(name="w", gadget=gadget)
    heard.events.clear()

    gadget.delete()

    assert heard.changes() == told(ware=written("w"))
