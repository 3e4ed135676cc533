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


def test_a_changed_model_may_be_named_in_many_ways(watched: Heard) -> None:
    names: list[Any] = [Gadget, SpareGadget, "shop.Gadget", "shop.gadget"]
    for model in names:
        changed(model)
        changed(model, (1, "02"))

    assert [{**changes} for changes, _ in watched.events] == [
        told(gadget=UNKNOWN), told(gadget=written(1, 2)),
    ] * len(names)  # fmt: skip


def test_a_model_of_a_migration_is_the_installed_one(watched: Heard) -> None:
    from django.db.migrations.state import ModelState, ProjectState

    state = ProjectState({("shop", "ware"): ModelState.from_model(Ware, exclude_rels=True)})
    historical = state.apps.get_model("shop", "Ware")

    changed(historical, ["a"])

    assert historical is not Ware
    assert watched.changes() == told(ware=written("a"))


def test_rows_may_be_given_in_the_place_of_their_keys_and_a_changed_child_is_a_changed_parent(
    watched: Heard, gadgets: list[Gadget], declared: Declared
) -> None:
    declared.model(Gizmo, fields="__all__")

    changed(Gadget, Gadget.objects.filter(name="a"))
    by_rows = watched.changes()
    changed(Gizmo, [5])

    assert watched.changes() == told(gadget=written(5), gizmo=written(5))
    assert by_rows == told(gadget=written(gadgets[0].pk), gizmo=written(gadgets[0].pk))


def test_no_keys_and_models_that_nobody_watches_are_no_change_and_no_error(watched: Heard) -> None:
    changed(Gadget, [])
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


def test_what_is_misspelt_is_refused(watched: Heard) -> None:
    name, model = "its name as 'app_label.ModelName'", r"changed\(\) takes a model, "
    keys = r"changed\(\) takes a list of keys, and not "
    wrong: list[tuple[tuple[Any, ...], type[Exception], str]] = [
        (("shop.gadgte",), LookupError, r"App 'shop' doesn't have a 'gadgte' model\."),
        ((Gadget(),), TypeError, rf"{model}or {name}, and not <Gadget: >\."),
        ((Abstract,), TypeError, f"{model}.*"),
        ((Gadget, "12"), TypeError, rf"{keys}'12'\."),
        ((Gadget, 12), TypeError, rf"{keys}12\."),
        ((Gadget, ["x"]), ValueError, r"'x' is no key of shop\.Gadget\."),
        ((Gadget, [None]), ValueError, r"None is no key of shop\.Gadget\."),
        ((Unwatched, ["x"]), ValueError, r"'x' is no key of shop\.Unwatched\."),
        ((Ware, [Gadget(pk=1)]), ValueError, r"<Gadget: > is no key of shop\.Ware\."),
        ((Gadget, [Gadget()]), ValueError, r"<Gadget: > is no key of shop\.Gadget\."),
    ]
    for arguments, error, message in wrong:
        with pytest.raises(error, match=f"^{message}$"):
            changed(*arguments)
    with pytest.raises(ConnectionDoesNotExist):
        changed(Product, using="defualt")

    assert watched.events == []
