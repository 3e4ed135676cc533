"""Declarations of models, as Django reads them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.postgres import indexes
from django.db import models

from mcp_django.compat.models import base_queryset_class, is_sorted, sets_by_base_manager
from tests.shop.models import Gadget, Person, Ware


@pytest.mark.parametrize(
    ("on_delete", "expected"),
    [
        (models.SET_NULL, True),
        (models.SET(None), True),
        (models.CASCADE, False),
        (models.PROTECT, False),
        (models.RESTRICT, False),
        (models.DO_NOTHING, False),
    ],
)
def test_sets_by_base_manager(on_delete: object, expected: bool) -> None:
    assert sets_by_base_manager(on_delete) is expected


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


@pytest.mark.parametrize("manager", [Ware._base_manager, Ware.objects, User.objects, Gadget._base_manager])
def test_base_queryset_class_is_that_of_its_querysets(manager: models.Manager) -> None:
    assert base_queryset_class(manager) is type(manager.all())


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (models.Index, True),
        (indexes.BTreeIndex, True),
        (indexes.HashIndex, False),
        (indexes.GinIndex, False),
        (indexes.GistIndex, False),
        (indexes.SpGistIndex, False),
        (indexes.BrinIndex, False),
        (indexes.BloomIndex, False),
    ],
)
def test_is_sorted(index: type[models.Index], expected: bool) -> None:
    assert is_sorted(index(fields=["-name"], name="an_index")) is expected
