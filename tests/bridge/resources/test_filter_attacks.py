"""Attacks by way of a filter, an order or a list of fields. Each is refused in words, and the server stays silent."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.reading import rows
from tests.shop.models import Product
from tests.support.asking import DirectPeer, errors_of, rights_on
from tests.support.data import make_flights
from tests.support.peers import MODERN, HTTPPeer, Peer, meta

pytestmark = pytest.mark.every_database


@pytest.fixture(autouse=True)
def no_failures(caplog: pytest.LogCaptureFixture) -> Any:
    """A question that cannot be asked is the agent's mistake: an exception in the log would be ours."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.fixture
def root(db: None) -> Peer:
    """A superuser, and a few flights to ask for."""
    make_flights(3)
    return DirectPeer(User.objects.create_superuser("root"))


def refusal(peer: Peer, model: str = "flights.flight", **asked: Any) -> list[dict[str, Any]]:
    return errors_of(peer.call("find_records", model=model, **asked))


NAMES = [
    "__class__", "__dict__", "_meta", "_state", "objects", "self", "cls", "_mcp_0", "_mcp_count", "", "_", "__",
    "__name", "_origin", "__origin", "pk__", "pk__pk", "pk__in__x", "origin_id", "origin_id__name", "origin__",
    "origin____name", "origin__name__", "origin__name__x__y", "origin__name__icontains__x", "origin__pk__x",
    "origin__objects", "origin___meta", "origin__departures__", "origin__departures__x", "origin__weathers",
    "origin\x00__name", "origin__name\x00", "disruption", "disruptions_set", "disruptions__", "disruptions__count__",
    "disruptions__count__in", "disruptions__flight_id", "carrier__password",
    "carrier__flights__carrier__flights__carrier", "reported_by__password", "groups__user__password",
    "departs_at__date__contains", "departs_at__year__in", "departs_at__year__", "status__regex", "status__iregex",
    "status__search", "notes__lower", "number__", "number__exact__isnull", "number__bitand", "number\x00",
    "number__GT", "Number", "ID", "nümber", "and", "or", "AND", "any__in", "not__x",
    "id); DROP TABLE flights_flight; --", "id OR 1=1", "id\" OR \"1\"=\"1", "id`", "id'", "%s", "%(x)s", "id/*",
    "id\\", "\u0131d", "\uff49d", "id\u200b", "\u202eid", "😀", "é" * 200,
]  # fmt: skip


def test_names_that_are_no_field_of_the_model(root: Peer) -> None:
    for name in NAMES:
        in_rows: list[dict[str, Any]] = [
            {"filter": {name: 1}}, {"filter": {"not": {name: {"id": 1}}}}, {"order_by": [name]}, {"fields": [name]},
        ]  # fmt: skip
        in_groups: list[dict[str, Any]] = [
            {"group_by": [name]}, {"measures": [f"max:{name}"]}, {"group_by": ["status"], "having": {name: 1}},
        ]  # fmt: skip
        assert [error["field"] for asked in in_rows for error in refusal(root, **asked)] == [
            f"filter.{name[:100]}", f"filter.not.{name[:100]}", "order_by", "fields",
        ]  # fmt: skip
        for asked in in_groups:
            assert errors_of(root.call("aggregate_records", model="flights.flight", **asked)), (name, asked)


INJECTED: list[Any] = [
    {"_connector": "OR 1=1 OR"},
    {"_negated": True},
    {"number": 1, "_connector": ") OR 1=1 OR ("},
    {"any": [{"_connector": "OR"}]},
    {"not": {"_connector": "OR"}},
    {"args": [1], "kwargs": {}},
    {"self": 1},
]  # fmt: skip


def test_connector_injection(root: Peer) -> None:
    """CVE-2025-64459: a dictionary that is expanded into ``filter()`` lets its sender write SQL."""
    for injected in INJECTED:
        assert refusal(root, filter=injected), injected


AS_A_MOMENT = "must be a day, as 2013-01-31 for the whole day, or a date and time, as 2013-01-31T08:30:00Z."


OF_FLIGHTS = [
    ({"number": True}, "must be an integer."),
    ({"number": 1.5}, "must be an integer."),
    ({"number": "1.0"}, "must be an integer."),
    ({"number": "1_000"}, "must be an integer."),
    ({"number": "\u0661"}, "must be an integer."),
    ({"number": [1]}, "must be an integer. Did you mean number__in?"),
    ({"number": {"gt": 1}}, "must be an integer."),
    ({"number": ""}, "must be an integer."),
    ({"number__in": 5}, "must be a list."),
    ({"number__in": [True]}, "must be an integer."),
    ({"number__in": [[1]]}, "must be an integer."),
    ({"number__range": [1, None]}, "must be an integer."),
    ({"number__range": [1, 2, 3]}, "must be a list of two values."),
    ({"number__gt": None}, "must be an integer."),
    ({"id": 2**63}, "is out of range."),
    ({"id": -(2**63) - 1}, "is out of range."),
    ({"id": 10**30}, "is out of range."),
    ({"id": 1e300}, "is out of range."),
    ({"id": "9" * 5000}, "must be an integer."),
    ({"number": -1}, "is out of range."),
    ({"status": 5}, "must be a string."),
    ({"status": True}, "must be a string."),
    ({"status": ["on_time"]}, "must be a string. Did you mean status__in?"),
    ({"status": "a\x00b"}, "must not hold null characters."),
    ({"status__in": ["\x00"]}, "must not hold null characters."),
    ({"carrier": 1}, "must be a string."),
    ({"status__isnull": 1}, "must be true or false."),
    ({"status__isnull": "yes"}, "must be true or false."),
    ({"departs_at": 0}, AS_A_MOMENT),
    ({"departs_at": "2013-02-30T00:00:00Z"}, AS_A_MOMENT),
    ({"departs_at__date": "2013-13-01"}, "must be a date, as 2013-01-31."),
]  # fmt: skip


OF_PRODUCTS = [
    ({"price": True}, "must be a number or a string of digits."),
    ({"price": "NaN"}, "must be a number or a string of digits."),
    ({"price": "Infinity"}, "must be a number or a string of digits."),
    ({"price__gt": "1e400"}, "is out of range."),
    ({"price__in": ["1", "1e99999"]}, "is out of range."),
    ({"weight": True}, "must be a number."),
    ({"weight": "nan"}, "Enter a number."),
    ({"weight": "inf"}, "Enter a number."),
    ({"weight": "1e999"}, "Enter a number."),
    ({"sku": "1"}, "must be a UUID."),
    ({"sku": 1}, "must be a UUID."),
    ({"sku": {"a": 1}}, "must be a UUID."),
    ({"active": 1}, "must be true or false."),
    ({"active": "1"}, "must be true or false."),
    ({"launched": 20130131}, "must be a date, as 2013-01-31."),
    ({"opens": "25:00"}, "must be a time, as 08:30:00."),
    ({"lead_time": 5}, "must be a duration, as P1DT2H or 1 02:00:00."),
    ({"lead_time": "999999999999 days"}, "must be a duration, as P1DT2H or 1 02:00:00."),
]  # fmt: skip


def test_values_of_another_type(root: Peer) -> None:
    for model, table in (("flights.flight", OF_FLIGHTS), ("shop.product", OF_PRODUCTS)):
        found = {str(asked): [error["message"] for error in refusal(root, model, filter=asked)] for asked, _ in table}
        assert found == {str(asked): [message] for asked, message in table}


OUTSIDE: list[Any] = [
    {"departs_at__gt": "0001-01-01T00:00:00+14:00"},
    {"departs_at__lt": "9999-12-31T23:59:59-14:00"},
    {"departs_at__year": 0},
    {"departs_at__year": 1},
    {"departs_at__year": 9999},
    {"departs_at__year": -1},
    {"departs_at__year": 10000},
    {"departs_at__year": 2**31 - 1},
    {"departs_at__year": 10**20},
    {"departs_at__month": True},
    {"departs_at__day": 1.5},
]  # fmt: skip


def test_moments_outside_of_the_calendar(root: Peer) -> None:
    found = {str(asked): [error["message"] for error in refusal(root, filter=asked)] for asked in OUTSIDE}

    integers = ("{'departs_at__month': True}", "{'departs_at__day': 1.5}")
    assert found == {
        asked: ["must be an integer." if asked in integers else "is out of range."] for asked in map(str, OUTSIDE)
    }


ENDS: list[Any] = [
    {"departs_at__year": 2}, {"departs_at__year": 9998}, {"departs_at__gt": "0002-01-01T00:00:00+14:00"},
    {"departs_at__date": "0001-01-01"}, {"departs_at__date": "9999-12-31"}, {"departs_at__hour": 99},
    {"departs_at__gt": "0001-01-01T00:00:00Z"}, {"departs_at__lt": "9999-12-31T23:59:59Z"},
    {"departs_at__range": ["2013-01-01", "9999-12-31T23:59:59.999999Z"]},
    {"departs_at__in": ["2013-01-01", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z"]},
]  # fmt: skip


def test_moments_at_the_ends_of_the_calendar_never_break_the_server(root: Peer) -> None:
    for asked in ENDS:
        answered = root.call("find_records", model="flights.flight", filter=asked)
        assert "The server's log" not in answered["content"][0]["text"], asked


def test_decimals_of_any_length_never_break_the_server(root: Peer) -> None:
    for value in ("1e-40", "0.001", "-0", "1e30", "-1e30", "99999999999999999.99", "000000000000000000000001"):
        for asked in ({"price": value}, {"price__gt": value}, {"price__lte": value}, {"price__in": [value]}):
            answered = root.call("find_records", model="shop.product", filter=asked)
            assert answered["isError"] is False, answered


def test_fields_that_cannot_be_compared(root: Peer) -> None:
    Product.objects.create(name="x", details={"secret": "s"})

    for name in ("api_key", "details__secret", "details__a__b", "blob", "tags", "manual", "tags__x"):
        assert len(refusal(root, "shop.product", filter={name: "s"})) == 1, name
        assert refusal(root, "shop.product", order_by=[name]), name


def test_json_that_no_database_takes(admin: HTTPPeer) -> None:
    envelope = json.dumps(meta())
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "find_records", "MCP-Protocol-Version": MODERN}

    for literal in ('"\\ud800"', '"\\udfff x"', "1e400", "NaN", "-Infinity"):
        arguments = f'{{"model": "flights.flight", "filter": {{"notes": {literal}}}}}'
        body = (
            '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": '
            f'{{"name": "find_records", "arguments": {arguments}, "_meta": {envelope}}}}}'
        )
        answer = admin.http("POST", body.encode(), headers)
        assert answer.json["error"]["code"] == -32700, literal


SHAPES: list[dict[str, Any]] = [
    {"filter": [1]}, {"filter": "x"}, {"filter": {"any": {}}}, {"filter": {"any": []}}, {"filter": {"not": []}},
    {"order_by": "id"}, {"order_by": [1]}, {"order_by": ["id"] * 6}, {"fields": "id"}, {"fields": ["id"] * 51},
    {"limit": 0}, {"limit": -1}, {"limit": 1001}, {"limit": "0"}, {"limit": True}, {"limit": 1.5},
    {"search": 5.5}, {"search": "x" * 201}, {"search": "\x00"}, {"cursor": 5}, {"cursor": "x" * 4001}, {"offset": 5},
    {"raw": "SELECT 1"},
]  # fmt: skip


def test_arguments_of_another_shape(root: Peer) -> None:
    for asked in SHAPES:
        assert refusal(root, **asked), asked


def test_a_question_is_one_query_of_its_table(root: DirectPeer) -> None:
    with CaptureQueriesContext(connection) as captured:
        rows.find(rights_on(Flight, root.user), rows.RecordQuery(filter={"carrier": "AA"}, order_by=["number"]))

    assert len([query for query in captured if "flights_flight" in query["sql"]]) == 1
