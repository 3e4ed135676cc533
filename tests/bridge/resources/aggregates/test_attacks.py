"""What cannot be asked of aggregates, and attempts to learn of hidden rows by them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from demo_project.flights.models import Disruption, Flight
from mcp_django.bridge.resources.policy.policy import ModelRights
from tests.bridge.resources.aggregates.conftest import JSON, error, rows, scoped
from tests.bridge.resources.conftest import each, showing
from tests.shop.models import Product, Tag
from tests.support.asking import rights_on
from tests.support.data import make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


WRONG: list[tuple[JSON, str, str]] = [
    ({"group_by": ["statsu"]}, "group_by", "no field to group by 'statsu'. Did you mean status? Allowed: id, "),
    ({"group_by": ["status__"]}, "group_by", "no field to group by 'status__'. Did you mean status? Allowed: id, "),
    ({"group_by": ["carrier__nmae"]}, "group_by", "no field 'carrier__nmae'. Did you mean carrier__name?"),
    ({"group_by": ["departs_at__mnth"]}, "group_by", "no part of departs_at 'mnth'. Did you mean month? Allowed: "),
    ({"group_by": ["number__year"]}, "group_by", "no part of number 'year'. Allowed: none."),
    ({"group_by": ["disruptions__kind"]}, "group_by",
     "disruptions leads to many rows of flights.disruption, so that a row would count more than once. "
     "Ask flights.disruption itself, grouped by flight."),
    ({"measures": ["count:disruptions"]}, "measures", "disruptions leads to many rows of flights.disruption, "),
    ({"measures": ["avg"]}, "measures", "no measure 'avg'. Allowed: count, count:field, count_distinct:field, "),
    ({"measures": ["distance__avg"]}, "measures", "no measure 'distance__avg'. Allowed: count, count:field, "),
    ({"measures": ["avg:distence"]}, "measures", "no field for avg 'distence'. Did you mean distance? Allowed: "),
    ({"measures": ["sum:status"]}, "measures", "sum takes no text values. Allowed: number, "),
    ({"measures": ["avg:carrier"]}, "measures", "avg takes no keys. Allowed: number, "),
    ({"measures": ["sum:id"]}, "measures", "sum takes no keys. Allowed: number, "),
    ({"measures": ["sum:departs_at"]}, "measures", "sum takes no datetime values. Allowed: number, "),
    ({"having": {"count__gt": 1}}, "having", "is a condition on groups: give group_by too."),
    ({"group_by": ["status"], "having": {"count__gt": "many"}}, "having.count__gt", "must be an integer."),
    ({"group_by": ["status"], "having": {"cuont": 1}}, "having.cuont", "no measure 'cuont'. Did you mean count?"),
    ({"group_by": ["status"], "having": {"count__in": [1]}}, "having.count__in", "no measure 'count__in'."),
    ({"group_by": ["status"], "order_by": ["origin"]}, "order_by",
     "no column to order by 'origin'. Allowed: status, count."),
    ({"filter": {"statsu": "x"}}, "filter.statsu", "no field 'statsu'. Did you mean status?"),
]  # fmt: skip


def test_a_question_that_cannot_be_asked(flights: ModelRights) -> None:
    for asked, field, message in WRONG:
        found = error(flights, **asked)
        assert (found["field"], found["message"][: len(message)]) == (field, message)


def test_values_that_cannot_be_compared_make_no_groups(products: ModelRights) -> None:
    for name in ("details", "manual", "blob"):
        group, measure = error(products, group_by=[name]), error(products, measures=[f"count_distinct:{name}"])
        assert (group["field"], measure["field"]) == ("group_by", "measures")
        assert group["message"].endswith(
            "Allowed: id, name, sku, price, weight, stock, launched, opens, lead_time, active."
        ), name


def test_a_many_to_many_field_is_no_group(root: User, declared: Declared) -> None:
    declared.model(Product, fields=["name", "tags"])

    assert error(rights_on(Product, root), group_by=["tags"])["message"] == (
        "tags leads to many rows of shop.tag, so that a row would count more than once. Name its rows in filter, one "
        "call after the other, or ask shop.tag itself."
    )


def test_a_model_whose_permission_is_asked_of_each_row_has_no_aggregates(
    flights: ModelRights, declared: Declared
) -> None:
    declared.model(Flight, each(lambda obj: obj.pk != 1))
    root = User.objects.get()

    assert error(rights_on(Flight, root)) == {
        "field": "model",
        "message": "the permission is checked for each row of flights.flight: use find_records and count its rows.",
        "received": "flights.flight",
    }


def test_an_annotated_or_distinct_queryset_counts_no_row_twice(flights: ModelRights, declared: Declared) -> None:
    for flight in Flight.objects.filter(pk__lte=4):
        Disruption.objects.bulk_create([Disruption(flight=flight, kind="crew") for _ in range(3)])
    scoped(declared)
    product = Product.objects.create(name="lamp", stock=2)
    product.tags.set([Tag.objects.create(name="t1"), Tag.objects.create(name="t2")])
    declared.model(Product, showing(lambda every: every.filter(tags__name__startswith="t").distinct()))
    root = User.objects.get()
    rights, products = rights_on(Flight, root), rights_on(Product, root)

    assert rows(rights, group_by=["origin"], measures=["count", "sum:distance"]) == [["EWR", 4, 5622], ["JFK", 4, 5618]]
    assert rows(rights, measures=["count", "sum:number"]) == [[8, 8040]]
    assert rows(products, group_by=["name"], measures=["count", "sum:stock"]) == [["lamp", 1, 2]]


def test_reading_hidden_related_rows_by_groups_and_measures(flights: ModelRights, declared: Declared) -> None:
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())
    measures = ["count", "count:carrier", "count_distinct:carrier__name", "max:carrier__name", "sum:plane__seats"]

    for name in ("carrier", "carrier__name"):
        [shown, hidden] = rows(rights, group_by=[name], measures=measures)
        assert shown[1:] == [4, 4, 1, "American", None]
        assert hidden == [None, 4, 0, 0, None, None]
    assert rows(rights, group_by=["plane__model"], measures=["count", "stddev:plane__seats"]) == [[None, 8, None]]


def test_finding_hidden_related_rows_by_having_or_order(flights: ModelRights, declared: Declared) -> None:
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())

    assert rows(rights, group_by=["origin"], having={"max:plane__seats__gte": 0}) == []
    assert rows(rights, group_by=["origin"], having={"max:carrier": "UA"}) == []
    assert rows(rights, group_by=["origin"], order_by=["-max:plane__seats"]) == [["EWR", 4], ["JFK", 4]]


NAMES = [
    "api_key", "__class__", "_meta", "pk__in__x", "tags__api_key", "objects", "_state", "_mcp_g0", "_mcp_m0", "", "__",
    "price__exact", "launched__regex", "name\x00", 'name"; DROP TABLE shop_product; --', "name) FROM auth_user --",
    "details__a", "launched__year__gt", "Name", "nämé", "*", "1", "x" * 10_000,
]  # fmt: skip


def test_names_that_are_no_readable_field(products: ModelRights) -> None:
    for name in NAMES:
        found = [
            error(products, group_by=[name]), error(products, measures=[f"max:{name}"]),
            error(products, group_by=["active"], having={f"max:{name}__gt": "sk-"}),
            error(products, group_by=["active"], order_by=[f"-max:{name}"]),
            error(products, group_by=["active"], order_by=[name]),
        ]  # fmt: skip
        assert [one["field"] for one in found] == [
            "group_by", "measures", f"having.{f'max:{name}__gt'[:100]}", "order_by", "order_by",
        ]  # fmt: skip
        for one in found:
            assert "api_key" not in one["message"].replace(repr(name), "")
            assert len(one["message"]) < 500


def test_relations_deeper_than_allowed_and_to_models_that_may_not_be_viewed(flights: ModelRights) -> None:
    clerk = make_staff("clerk", "flights.view_flight", "flights.view_disruption")
    rights = rights_on(Disruption, clerk)

    assert error(rights, group_by=["flight__carrier__name"])["field"] == "group_by"
    assert error(rights, group_by=["flight__carrier"])["field"] == "group_by"
    assert error(rights, measures=["max:reported_by__password"])["field"] == "measures"
    with override_settings(MCP={"MAX_RELATION_DEPTH": 1}):
        found = error(rights_on(Disruption, User.objects.get(username="root")), group_by=["flight__carrier__name"])
    assert found["message"] == "follows relations more than 1 deep (MAX_RELATION_DEPTH)."


def test_more_joins_than_allowed(flights: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.bridge.resources.aggregates.aggregates.MAX_RELATIONS", 2)
    fine = rows(flights, group_by=["carrier__name", "origin__name"], limit=1)
    refused = error(flights, group_by=["carrier__name", "origin__name"], measures=["max:plane__seats"])

    assert fine == [["American", "EWR", 2]]
    assert refused["message"] == "follow more than 2 relations."
