"""Declarations of models, as Django reads them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.postgres import indexes
from django.db import models

from mcp_django.core.compat.models import base_queryset_class, is_sorted, sets_by_base_manager
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
