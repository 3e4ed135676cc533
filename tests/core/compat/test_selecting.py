"""Our fast selection of columns gives exactly what ``values_list`` gives."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, models
from django.db.models import F, Q

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.reading import rows
from mcp_django.core.compat.queries import values_list
from tests.shop.models import Book, Product
from tests.support.asking import rights_on
from tests.support.data import make_flights

pytestmark = pytest.mark.every_database

_MODELS = [model for model in apps.get_models() if model._meta.app_label in ("flights", "shop", "auth")]


def _attnames(model: type[models.Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]


def _is_selected(made: Any, expected: Any) -> bool:
    """Whether both querysets select the same columns and give the same rows."""
    made_query, query = made.query, expected.query
    return (
        (str(made_query), made_query.select, made_query.values_select, made_query.selected)
        == (str(query), query.select, query.values_select, query.selected)
        and made._fields == expected._fields
        and made._iterable_class is expected._iterable_class
    )


def test_all_columns() -> None:
    for model in _MODELS:
        names = _attnames(model)[::-1]
        queryset = model._default_manager.order_by("-pk")
        assert _is_selected(values_list(queryset, names), queryset.values_list(*names)), model


def _querysets() -> list[models.QuerySet[Any]]:
    flights = Flight.objects.all()
    return [
        flights.filter(Q(origin__name="x") | Q(carrier__in=["UA"])).order_by("carrier__name", "-id"),
        flights.select_related("origin", "carrier").only("id").order_by(),
        flights.defer("notes").distinct(),
        flights.using("default").exclude(plane__manufacturer="x"),
        flights.annotate(twice=F("distance") * 2),
        flights.annotate(twice=F("distance") * 2).filter(twice__gt=3),
        flights.extra(select={"one": "1"}),
        flights.values("carrier").annotate(flights=models.Count("*")),
    ]


def test_querysets_of_every_kind() -> None:
    names = ["id", "departs_at", "origin_id", "plane_id"]
    for queryset in _querysets():
        assert _is_selected(values_list(queryset, names), queryset.values_list(*names)), str(queryset.query)
    books, names = Book._default_manager.all(), _attnames(Book)
    assert _is_selected(values_list(books, names), books.values_list(*names))


def test_names_of_every_kind() -> None:
    queryset = Flight.objects.order_by("id")
    for names in (
        ["origin_id", "origin__faa", "id"], ["pk", "id"], ["id", "id"], ["id", "origin"], ["id", "origin__name"],
    ):  # fmt: skip
        made, expected = values_list(queryset, names).query, queryset.values_list(*names).query
        assert (made.select, str(made)) == (expected.select, str(expected)), names


def test_a_table_that_has_another_name_in_the_query() -> None:
    queryset, names = Flight.objects.filter(distance__gt=1), _attnames(Flight)
    queryset.query.bump_prefix(Flight.objects.all().query)

    made = values_list(queryset, names)

    assert {column.alias for column in made.query.select} == {"U0"}
    assert _is_selected(made, queryset.values_list(*names))


def test_names_that_are_no_fields_are_refused_as_ever() -> None:
    with pytest.raises(Exception, match="Cannot resolve keyword 'nothing'"):
        values_list(Product._default_manager.all(), ["id", "nothing"])


@pytest.mark.django_db
def test_rows_are_tuples_and_can_be_filtered_further() -> None:
    for number in (1, 2, 3):
        Product._default_manager.create(name=f"p{number}", price="1.50")
    made = values_list(Product._default_manager.order_by("-id"), ["id", "name", "price"])

    assert list(made[:2]) == list(Product._default_manager.order_by("-id").values_list("id", "name", "price")[:2])
    assert list(made.filter(name="p1")) == list(
        Product._default_manager.filter(name="p1").values_list("id", "name", "price")
    )
    assert made.count() == 3


@pytest.mark.django_db
def test_a_page_reads_each_column_once() -> None:
    make_flights(6)
    rights = rights_on(Flight, User.objects.create_superuser("root"))
    asked: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        """Record the SQL before another wrapper changes it."""
        asked.append(sql)
        return execute(sql, *rest)

    for fields, more in (
        (["origin__name", "number"], ["departs_at"]), (["departs_at", "number"], []), (["number"], ["departs_at"]),
    ):  # fmt: skip
        asked.clear()
        question = rows.RecordQuery(fields=fields, order_by=["-departs_at"], limit=2)
        with connection.execute_wrapper(note):
            first = rows.find(rights, question)
        second = rows.find(rights, replace(question, cursor=first.next_cursor))

        [sql] = [sql for sql in asked if sql.endswith("LIMIT 3")]
        selected = sql.partition(" FROM ")[0].removeprefix("SELECT ").split(", ")
        assert [re.findall(r"\w+", column)[-1] for column in selected] == ["id", *fields, *more]
        assert [row[0] for row in first.rows + second.rows] == [6, 5, 4, 3]
        assert first.columns == ["id", *fields]
