"""Declarations of models, as Django reads them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.postgres import indexes
from django.db import models

from mcp_django.core.compat.models import (
    base_queryset_class,
    choose_columns,
    is_sorted,
    sets_by_base_manager,
    write_all_columns,
)
from tests.shop.models import Gadget, Person, Ware


def test_sets_by_base_manager() -> None:
    rules = (models.SET_NULL, models.SET(None), models.CASCADE, models.PROTECT, models.RESTRICT, models.DO_NOTHING)

    assert [sets_by_base_manager(rule) for rule in rules] == [True, True, False, False, False, False]


def test_sets_by_base_manager_is_one_update_of_rows_that_are_not_read(
    db: None, django_assert_num_queries: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person.objects.create(name="Ada", badge="a")
    gadget = Gadget.objects.create(person=person)
    updated: list[object] = []
    base: type[models.QuerySet] = base_queryset_class(Gadget._base_manager)
    update = base.update
    monkeypatch.setattr(base, "update", lambda rows, **kwargs: (updated.append(kwargs), update(rows, **kwargs))[1])

    person.delete()

    gadget.refresh_from_db()
    assert updated == [{"person": None}]
    assert gadget.person is None


def test_base_queryset_class_is_that_of_its_querysets() -> None:
    for manager in (Ware._base_manager, Ware.objects, User.objects, Gadget._base_manager):
        assert base_queryset_class(manager) is type(manager.all())


def test_is_sorted() -> None:
    names = ("BTreeIndex", "HashIndex", "GinIndex", "GistIndex", "SpGistIndex", "BrinIndex", "BloomIndex")
    classes = [models.Index, *(getattr(indexes, name) for name in names)]

    found = [index.__name__ for index in classes if is_sorted(index(fields=["-name"], name="an_index"))]

    assert found == ["Index", "BTreeIndex"]


def test_choose_columns_until_all_are_written(db: None, django_assert_num_queries: Any) -> None:
    person = Person.objects.create(name="Ada", badge="a")
    asked: list[Any] = []

    def choose(using: str, key: Any, field: Any, value: Any) -> bool:
        asked.append((using, key, field.name, value))
        return bool(field.name == "badge")

    choose_columns(person, choose)
    person.name, person.badge = "Bob", "b"
    with django_assert_num_queries(1) as written:
        person.save()
    chosen = Person.objects.values_list("name", "badge").get()
    write_all_columns(person)
    person.save()

    assert chosen == ("Ada", "b")
    assert "name" not in written[0]["sql"].partition("WHERE")[0]
    assert ("default", person.pk, "name", "Bob") in asked
    assert Person.objects.values_list("name", "badge").get() == ("Bob", "b")
    assert "_do_update" not in vars(person)


def test_choose_columns_leaves_alone_what_has_its_own_way(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def update(row: Person, *args: Any) -> Any:
        """As django-concurrency has it, which counts on the version."""
        return models.Model._do_update(row, *args)

    monkeypatch.setattr(Person, "_do_update", update, raising=False)
    person = Person.objects.create(name="Ada", badge="a")

    choose_columns(person, lambda *args: False)
    person.name = "Bob"
    person.save()

    assert Person.objects.get().name == "Bob"
