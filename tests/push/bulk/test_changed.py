"""changed(), by which a project tells of what it wrote itself."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, models, transaction
from django.utils.connection import ConnectionDoesNotExist

from mcp_django import changed
from tests.push.bulk.conftest import UNKNOWN, told, written
from tests.push.conftest import Heard
from tests.shop.models import Gadget, Gizmo, Product, SpareGadget, Unwatched, Ware
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


def test_what_raw_sql_changed_is_told_by_its_keys(watched: Heard, gadgets: list[Gadget]) -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("UPDATE shop_gadget SET count = 1")
        changed(Gadget, [gadget.pk for gadget in gadgets])
        before = list(watched.events)

    assert before == []
    assert watched.changes() == told(gadget=written(*(gadget.pk for gadget in gadgets)))


@pytest.mark.parametrize("model", [Gadget, SpareGadget, "shop.Gadget", "shop.gadget"])
def test_a_changed_model_may_be_named_in_many_ways(watched: Heard, model: Any) -> None:
    changed(model)
    changed(model, (1, "02"))

    assert [{**changes} for changes, _ in watched.events] == [told(gadget=UNKNOWN), told(gadget=written(1, 2))]


def test_a_model_of_a_migration_is_the_installed_one(watched: Heard) -> None:
    from django.db.migrations.state import ModelState, ProjectState

    state = ProjectState({("shop", "ware"): ModelState.from_model(Ware, exclude_rels=True)})
    historical = state.apps.get_model("shop", "Ware")

    changed(historical, ["a"])

    assert historical is not Ware
    assert watched.changes() == told(ware=written("a"))


def test_rows_may_be_given_in_the_place_of_their_keys(watched: Heard, gadgets: list[Gadget]) -> None:
    changed(Gadget, Gadget.objects.filter(name="a"))

    assert watched.changes() == told(gadget=written(gadgets[0].pk))


def test_a_changed_child_is_a_changed_parent(watched: Heard, declared: Declared) -> None:
    declared.model(Gizmo, fields="__all__")

    changed(Gizmo, [5])

    assert watched.changes() == told(gadget=written(5), gizmo=written(5))


def test_no_keys_are_no_change(watched: Heard) -> None:
    changed(Gadget, [])

    assert watched.events == []


def test_a_changed_model_that_nobody_watches_is_no_error(watched: Heard) -> None:
    changed(Unwatched, [1])
    changed("shop.unwatched")

    assert watched.events == []


def test_more_changed_keys_than_max_changed_keys_are_told_as_the_model(few_keys: None, watched: Heard) -> None:
    changed(Gadget, range(3))

    assert watched.changes() == told(gadget=UNKNOWN)


class Abstract(models.Model):
    class Meta:
        abstract = True
        app_label = "shop"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("shop.gadgte",), LookupError, r"App 'shop' doesn't have a 'gadgte' model\."),
        (
            (Gadget(),),
            TypeError,
            r"changed\(\) takes a model, or its name as 'app_label.ModelName', and not <Gadget: >\.",
        ),
        ((Abstract,), TypeError, r"changed\(\) takes a model, .*"),
        ((Gadget, "12"), TypeError, r"changed\(\) takes a list of keys, and not '12'\."),
        ((Gadget, 12), TypeError, r"changed\(\) takes a list of keys, and not 12\."),
        ((Gadget, ["x"]), ValueError, r"'x' is no key of shop\.Gadget\."),
        ((Gadget, [None]), ValueError, r"None is no key of shop\.Gadget\."),
        ((Unwatched, ["x"]), ValueError, r"'x' is no key of shop\.Unwatched\."),
        ((Ware, [Gadget(pk=1)]), ValueError, r"<Gadget: > is no key of shop\.Ware\."),
        ((Gadget, [Gadget()]), ValueError, r"<Gadget: > is no key of shop\.Gadget\."),
    ],
)
def test_what_is_misspelt_is_refused(
    watched: Heard, arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        changed(*arguments)

    assert watched.events == []


def test_a_misspelt_database_is_refused(watched: Heard) -> None:
    with pytest.raises(ConnectionDoesNotExist):
        changed(Product, using="defualt")
