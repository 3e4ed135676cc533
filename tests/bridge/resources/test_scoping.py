"""What is known of a model's rows without a queryset; where it is not, what a row points to is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.db import models
from django.http import HttpRequest

from demo_project.flights.models import Airport, Flight
from mcp_django import ModelMCP, site
from mcp_django.bridge.declared.options import shows_every_row
from tests.shop.models import Book, Locker, Person
from tests.support.asking import all_rows, rights_on
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def flights() -> None:
    make_flights(3)


class Few(models.Manager[Any]):
    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().filter(pk="JFK")


class FewMCP(ModelMCP):
    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).filter(pk="JFK")


class FewAdmin(ModelAdmin[Any]):
    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).filter(pk="JFK")


class FailingAdmin(ModelAdmin[Any]):
    def get_ordering(self, request: HttpRequest) -> Any:
        raise RuntimeError


def origins(user: User) -> list[Any]:
    """What flights from three airports point to."""
    return [origin for _, origin in all_rows(Flight, user, fields=["origin"], order_by=["pk"])]


def test_every_row_is_shown_where_nothing_is_declared(
    root: User, flights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights = rights_on(Airport, root)
    monkeypatch.setattr(
        "mcp_django.bridge.resources.policy.visible_rows._declared", lambda rights: pytest.fail("a queryset was made")
    )

    assert shows_every_row(site.models["flights.airport"])
    assert not rights.scoped


def test_rows_that_the_project_hides_in_its_own_way_read_as_null(
    root: User, flights: None, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_manager() -> None:
        manager = Few()
        manager.model = Airport
        monkeypatch.setitem(Airport._meta.__dict__, "default_manager", manager)

    jfk = ["JFK", None, None]
    ways: list[tuple[Callable[[], None], list[str | None]]] = [
        (lambda: declared.model(Airport, FewMCP), jfk),
        (lambda: declared.admin(Airport, FewAdmin), jfk),
        (lambda: declared.admin(Airport, FailingAdmin), [None, None, None]),
        (by_manager, jfk),
    ]
    for hide, seen in ways:
        declared.close()
        hide()
        assert rights_on(Airport, root).scoped
        assert origins(root) == seen


@pytest.mark.parametrize("model", [Locker, Book])
def test_a_key_that_is_shared_with_another_model_says_nothing(model: type[models.Model], declared: Declared) -> None:
    declared.model(Person, fields="__all__")
    declared.model(model, fields="__all__")

    assert not shows_every_row(site.models[f"shop.{model._meta.model_name}"])


def test_rows_whose_permission_is_asked_one_by_one_are_scoped(root: User, declared: Declared) -> None:
    class Asked(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return True

    declared.model(Airport, Asked)

    assert rights_on(Airport, root).scoped
