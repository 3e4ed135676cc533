"""Querysets whose classes give values in their own way, as those of django-modeltranslation do."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import models

from tests.bridge.resources.conftest import showing
from tests.shop.models import Part, Supplier, Tag
from tests.support.asking import DirectPeer, errors_of
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


class _Iterable(models.query.ValuesListIterable):
    """Gives the values of the names that its queryset was asked for, and of no others."""

    def __iter__(self) -> Any:
        for row in super().__iter__():
            asked = row[: len(self.queryset.asked)]
            yield tuple(value.upper() if isinstance(value, str) else value for value in asked)


class Rewriting(models.QuerySet[Any]):
    asked: tuple[Any, ...] = ()

    def _clone(self) -> Any:
        clone = super()._clone()  # type: ignore[misc]
        clone.asked = self.asked
        return clone

    def values_list(self, *fields: Any, **options: Any) -> Any:
        clone = super().values_list(*fields, **options)
        if not options:
            clone.asked, clone._iterable_class = fields, _Iterable
        return clone


class Losing(Rewriting):
    def values_list(self, *fields: Any, **options: Any) -> Any:
        clone = super().values_list(*fields, **options)
        clone.asked = fields[:1]
        return clone


@pytest.fixture
def root(db: None) -> DirectPeer:
    Tag.objects.create(name="one")
    return DirectPeer(User.objects.create_superuser("root"))


def test_the_values_are_those_that_the_queryset_gives(root: DirectPeer, declared: Declared) -> None:
    declared.model(Tag, showing(lambda every: Rewriting(Tag), fields=["name"]))

    assert root.call("find_records", model="shop.tag")["structuredContent"]["rows"] == [["ONE"]]
    assert root.call("find_records", model="shop.tag", order_by=["name"])["structuredContent"]["rows"] == [["ONE"]]


def test_related_rows_are_counted_whatever_becomes_of_their_keys(root: DirectPeer, declared: Declared) -> None:
    declared.model(Tag, showing(lambda every: Rewriting(Tag), fields=["name"]))
    declared.model(Part, showing(lambda every: Losing(Part), fields=["name", "supplier", "tags"]))
    declared.model(Supplier, fields=["name"])
    Part.objects.create(name="x", supplier=Supplier.objects.create(id=1, name="x")).tags.add("one")

    tag = root.call("find_records", model="shop.tag", fields=["parts__count"])
    supplier = root.call("find_records", model="shop.supplier", fields=["parts__count"])

    assert tag["structuredContent"]["rows"] == [["ONE", 1]]
    assert supplier["structuredContent"]["rows"] == [[1, 1]]


def test_rows_that_are_too_short_never_leave(root: DirectPeer, declared: Declared) -> None:
    declared.model(Tag, showing(lambda every: Losing(Tag), fields=["name"]))

    [error] = errors_of(root.call("find_records", model="shop.tag", fields=["name", "product__count"]))

    assert (error["field"], error["message"]) == (
        "model",
        "shop.tag cannot be read: a package of the project gives other values than those that are asked for.",
    )
