"""All mistakes of a call are reported at once, each with what was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.support.asking import DirectPeer, errors_of
from tests.support.data import make_flights


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(3)
    return DirectPeer(User.objects.create_superuser("root"))


def errors(peer: DirectPeer, tool: str = "find_records", **asked: Any) -> list[tuple[str, str]]:
    """The fields that are wrong, each with its message up to what is allowed."""
    found = errors_of(peer.call(tool, **{"model": "flights.flight", **asked}))
    return [(error["field"], error["message"].partition(" Allowed: ")[0]) for error in found]


def test_every_argument_of_find_records_is_reported(root: DirectPeer) -> None:
    asked = {"filter": {"statsu": 1}, "fields": ["nmuber", "zzz"], "order_by": ["-dsitance"], "limit": 0, "where": {}}

    assert errors(root, **asked) == [
        ("where", "no argument 'where'. Did you mean filter?"),
        ("limit", "must not be less than 1"),
        ("filter.statsu", "no field 'statsu'. Did you mean status?"),
        ("fields", "no field 'nmuber'. Did you mean number?"),
        ("fields", "no field 'zzz'."),
        ("order_by", "no field to order by 'dsitance'. Did you mean distance?"),
    ]


def test_every_argument_of_aggregate_records_is_reported(root: DirectPeer) -> None:
    asked = {
        "group_by": ["statsu", "origin"], "measures": ["avg:dsitance", "cuont"], "filter": {"zzz": 1},
        "having": {"avg:dsitance__gt": 1, "count": "x", "smu:distance": 1}, "order_by": ["statsu", "-zzz"],
        "limit": 100_000,
    }  # fmt: skip

    assert errors(root, "aggregate_records", **asked) == [
        ("limit", "must not be greater than 200"),
        ("filter.zzz", "no field 'zzz'."),
        ("group_by", "no field to group by 'statsu'. Did you mean status?"),
        ("measures", "no field for avg 'dsitance'. Did you mean distance?"),
        ("measures", "no measure 'cuont'. Did you mean count?"),
        ("having.count", "must be an integer."),
        ("having.smu:distance", "no measure 'smu:distance'."),
        ("order_by", "no column to order by 'zzz'."),
    ]


def test_every_argument_of_get_record_is_reported(root: DirectPeer) -> None:
    assert errors(root, "get_record", id="1", fields=["nmuber", "status"], where={}) == [
        ("where", "no argument 'where'."), ("fields", "no field 'nmuber'. Did you mean number?"),
    ]  # fmt: skip


def test_a_value_that_is_none_is_reported_beside_a_wrong_argument(root: DirectPeer) -> None:
    for tool in ("find_records", "aggregate_records"):
        assert errors(root, tool, filter={"status": "canceled", "carrier": "UA"}, limit=0) == [
            ("limit", "must not be less than 1"),
            ("filter.status", "status has no choice 'canceled'. Did you mean cancelled?"),
        ]


def test_wrong_groups_are_not_reported_where_they_are_repeated(root: DirectPeer) -> None:
    asked = {"group_by": "status", "having": {"count": 1}, "order_by": ["status"], "filter": {"zzz": 1}}

    assert errors(root, "aggregate_records", **asked) == [
        ("group_by", 'group_by must be a list, as ["status"]'), ("filter.zzz", "no field 'zzz'."),
    ]  # fmt: skip


def test_the_name_that_is_meant_in_a_filter(root: DirectPeer) -> None:
    meant: dict[str, tuple[Any, str]] = {
        "or": ([{"id": 1}], "any"), "OR": ([], "any"), "$or": ([], "any"), "and": ([], "all"), "$not": (1, "not"),
        "month": (1, "departs_at__month"), "hour": (1, "departs_at__hour"), "carrier_name": ("x", "carrier__name"),
        "carrier.name": ("x", "carrier__name"), "origin.name__icontains": ("x", "origin__name"),
        "departs_at_gte": (1, "departs_at__gte"), "statsu": (1, "status"),
    }  # fmt: skip
    lists = {"status": ["on_time"], "carrier": ["UA", "AA"], "carrier__name": ["x"], "number__exact": [1]}
    for name, (value, right) in meant.items():
        [(field, message)] = errors(root, filter={name: value})
        assert message.endswith(f" Did you mean {right}?"), name
        assert field == f"filter.{name}"
    for name, values in lists.items():
        [(_, message)] = errors(root, filter={name: values})
        assert message.endswith(f" Did you mean {name.removesuffix('__exact')}__in?")


def test_the_name_that_is_meant_in_groups_and_measures(root: DirectPeer) -> None:
    meant = [
        ("group_by", "month", "departs_at__month"), ("group_by", "trunc_month", "departs_at__trunc_month"),
        ("group_by", "carrier_name", "carrier__name"), ("measures", "avg:plane_seats", "plane__seats"),
        ("measures", "diff:arrival_delay-departure_delay", "avg:diff:arrival_delay-departure_delay"),
    ]  # fmt: skip
    for argument, name, right in meant:
        [(_, message)] = errors(root, "aggregate_records", **{argument: [name]})
        assert message.endswith(f" Did you mean {right}?"), name


def test_an_unknown_argument_is_answered_with_the_allowed_ones(root: DirectPeer) -> None:
    unknown = [
        ("find_records", "where", "filter"), ("find_records", "columns", "fields"),
        ("find_records", "sort", "order_by"), ("find_records", "Limits", "limit"),
        ("aggregate_records", "groupby", "group_by"), ("get_record", "pk", "id"),
        ("aggregate_records", "metrics", "measures"),
    ]  # fmt: skip
    for tool, name, meant in unknown:
        given = {"id": "1"} if tool == "get_record" else {}
        [error] = errors_of(root.call(tool, **{"model": "flights.flight", name: "x", **given}))
        assert error["field"] == name
        assert error["message"].startswith(f"no argument '{name}'. Did you mean {meant}? Allowed: model, ")


def test_the_limit_is_said_and_what_was_received_is_short(root: DirectPeer) -> None:
    wrong: list[tuple[Any, str]] = [
        ({"search": "x" * 5_000}, "must not be longer than 200 characters"),
        ({"order_by": ["id"] * 60}, "must not have more than 5 items"),
        ({"limit": 10**30}, "must not be greater than 1000: take pages by next_cursor, or aggregate_records"),
        ({"limit": {"x": "y" * 5_000}}, ""),
        ({"format": "y" * 5_000}, ""),
    ]
    for asked, message in wrong:
        [error] = errors_of(root.call("find_records", model="flights.flight", **asked))
        assert not message or error["message"] == message
        assert len(error["message"]) < 200 and len(json.dumps(error["received"])) <= 110, asked


def test_mistakes_by_the_thousand_are_not_all_reported(root: DirectPeer) -> None:
    names = [f"x{number}" for number in range(50)]
    asked = dict.fromkeys(names, 1)

    result = root.call("find_records", model="flights.flight", filter=asked, fields=names, order_by=names[:5])

    assert len(errors_of(result)) == 20
    assert len(json.dumps(result)) < 40_000
