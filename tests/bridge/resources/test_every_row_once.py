"""Rows in which other programs have stored what no field of Django's writes: each is on one page, in every order."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from tests.shop.models import Oddity
from tests.support.asking import DirectPeer, all_rows
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

#: Values as they are stored by Django.
PLAIN: dict[str, Sequence[Any]] = {
    "number": (-5, 0, 7), "amount": (Decimal("-1.01"), Decimal("1.00"), Decimal("1.01")), "ratio": (-0.5, 0.1, 1e300),
    "day": (datetime.date(1, 1, 1), datetime.date(2013, 1, 31), datetime.date(9999, 12, 31)),
    "moment": tuple(datetime.datetime(year, 1, 31, 8, 30, 0, 5, tzinfo=datetime.UTC) for year in (2012, 2013, 2014)),
    "clock": (datetime.time(0, 0), datetime.time(8, 30), datetime.time(23, 59, 59, 999_999)),
    "span": (datetime.timedelta(-3), datetime.timedelta(0), datetime.timedelta(2, 5, 7)), "flag": (False, True),
    "uid": tuple(uuid.UUID(int=number) for number in (1, 2**64, 2**127)), "word": ("", "a", "b"),
    "address": ("10.0.0.1", "::1", "192.168.1.1"),
}  # fmt: skip
#: Literals of SQL for values that are stored otherwise. An order by some of them has no answer in Python.
STORED: dict[str, dict[str, Sequence[str]]] = {
    "postgresql": {
        "amount": ("'NaN'",), "ratio": ("'NaN'", "'Infinity'", "'-Infinity'"),
        "day": ("'infinity'", "'-infinity'", "'0044-03-15 BC'", "'12345-01-01'"),
        "moment": ("'infinity'", "'-infinity'", "'0044-03-15 08:30 BC'", "'12345-01-01 08:30'"),
        "clock": ("'24:00'",), "span": ("'9000000 years'", "'-9000000 years'"),
    },
    "mysql": {
        "day": ("'0000-00-00'", "'2013-00-00'", "'2013-02-31'"), "moment": ("'0000-00-00 00:00:00'",),
        "clock": ("'838:59:59'", "'-01:00:00'", "'24:00:00'"), "flag": ("2",), "uid": ("'no uuid'",),
    },
    "sqlite": {
        "number": ("'abc'", "2.5", "x'00ff'", "1e300"), "amount": ("'abc'", "1.005", "1.007", "'NaN'", "1e300"),
        "ratio": ("'abc'", "9e999", "-9e999", "5"),
        "day": ("'2013-02-30'", "'abc'", "20130131", "'2013-01-31 08:30:00'"),
        "moment": (
            "'2013-01-31'", "'2013-01-31T08:30:00Z'", "'2013-02-30 00:00:00'", "'abc'", "'12345-01-01 00:00:00'",
            "'2013-01-31 08:30:00.000005+01:00'",
        ),
        "clock": ("'24:00'", "'08:30'", "'abc'", "8"), "span": ("'abc'", "1.5", "9e18"), "flag": ("2", "'yes'", "'t'"),
        "uid": ("'00000000-0000-0000-0000-000000000001'", "'no uuid'", "5"),
        "word": ("CAST(x'ff41' AS TEXT)", "x'41'", "5"), "address": ("'nonsense'",),
    },
}  # fmt: skip


@pytest.fixture
def user(db: None, declared: Declared) -> Any:
    declared.model(Oddity, fields="__all__")
    return User.objects.create_superuser("root", password="sesame")


def write(name: str, literal: str) -> int:
    """Another program stores a value in a new row."""
    row = Oddity.objects.create()
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute(f"UPDATE shop_oddity SET {name} = {literal} WHERE id = %s", [row.pk])
        if connection.vendor == "mysql":
            cursor.execute("SET SESSION sql_mode = DEFAULT")
    return row.pk


def fill(name: str) -> set[int]:
    """Two rows with each value, since equal values are ordered by their keys, and two with null."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM shop_oddity")
    rows = Oddity.objects.bulk_create([Oddity(**{name: value}) for value in (None, *PLAIN[name]) for _ in range(2)])
    literals = STORED[connection.vendor].get(name, ()) * 2
    return {*(row.pk for row in rows), *(write(name, literal) for literal in literals)}


@pytest.mark.slow
def test_every_order_gives_every_row_once(user: Any) -> None:
    wrong = {}
    for name in PLAIN:
        everything = fill(name)
        for order in ([name], [f"-{name}"], [name, "-opened"], ["flag", f"-{name}", "-id"]):
            [whole, *paged] = (
                [row[0] for row in all_rows(Oddity, user, order_by=order, fields=["id"], limit=limit)]
                for limit in (1_000, 1, 2, 7)
            )
            if set(whole) != everything or any(found != whole for found in paged):
                wrong[" ".join(order)] = [len(everything), *map(len, (whole, *paged))]

    assert not wrong


def test_a_value_that_cannot_be_read_is_null_with_a_note_that_names_row_and_field(user: Any) -> None:
    peer = DirectPeer(user)
    literal = {"postgresql": "'infinity'", "mysql": "'0000-00-00'", "sqlite": "'2013-02-30'"}[connection.vendor]
    plain, odd = Oddity.objects.create(word="here").pk, write("opened", literal)
    note = f"Values that could not be read are null: opened of {odd}."

    asked = {"model": "shop.oddity", "fields": ["word", "opened"]}
    found = peer.call("find_records", **asked)["structuredContent"]
    record = peer.call("get_record", model="shop.oddity", id=str(odd))

    assert found["rows"] == [[plain, "here", "2013-01-01"], [odd, None, None]]
    assert found["notes"] == [note]
    assert (record["structuredContent"]["word"], record["structuredContent"]["opened"]) == (None, None)
    assert note in str(record["content"])
    assert peer.read(f"db://shop/oddity/{odd}")["opened"] is None


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite alone keeps any value in any column")
def test_a_measure_that_cannot_be_read_is_refused_with_the_reason(user: Any) -> None:
    write("number", "'abc'")

    refused = DirectPeer(user).call("aggregate_records", model="shop.oddity", measures=["max:number"])

    assert "holds what is no value of its field" in refused["content"][0]["text"]
