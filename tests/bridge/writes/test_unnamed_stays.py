"""What an agent does not name stays to the byte, whatever the kind of field, and so does what it gives back as read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from django.db import connection, models
from django.db.models.signals import post_save

from mcp_django.core.db.stored_columns import stored_columns
from tests.bridge.writes.conftest import Writer
from tests.bridge.writes.test_values import asks_for_nothing
from tests.shop.models import Keepsake, Shelf, Supplier
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

#: Literals of SQL, as Django and other programs have stored them.
EVERYWHERE: Mapping[str, Sequence[str]] = {
    "word": ("' spaces '", "''", "'a,b'", "'1,234.50'"),
    "words": ("'one' || '\n' || 'two'", "' x '", "'tab\t'"),
    "number": ("9223372036854775807", "-9007199254740993"),
    "amount": ("1.1", "12345678901234567890.0000000001", "0"),
    "ratio": ("0.1", "1e300", "-0.0", "123456789012345680.0", "0.30000000000000004"),
    "flag": ("NULL",),
    "moment": ("'2013-10-27 01:30:00.000001'", "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"),
    "clock": ("'08:30:00.000001'", "'23:59:59'"),
    "span": (),
    "address": ("'::ffff:10.0.0.1'", "'FE80::1'"),
    "data": (
        "'null'", "'9007199254740993'", '\'{"b": 1.0, "a": [1, true, null, 12345678901234567890, "1"], "é": " x "}\'',
        "'1.10'", "'[]'", "'\"\"'", "'1e300'", "'[[{\"deep\": [0.1, -0.0]}]]'",
    ),
    "day": ("'2013-01-31'", "'0001-01-01'", "'9999-12-31'"),
    "uid": (),
    "slug": ("'Über'", "' a b '"),
    "mail": ("'A@B.example'", "'none'"),
    "count": ("0", "32767"),
    "file": ("'a b.txt'", "' ../é.txt '"),
    "noisy": ("'12345678:sesame'", "'no noise'"),
    "box": ("'thing'", "' thing '"),
    "nickname": ("NULL",),
    "owner_id": ("'ACME'",),
}  # fmt: skip
OF_VENDOR: Mapping[str, Mapping[str, Sequence[str]]] = {
    "postgresql": {
        "amount": ("'NaN'",), "ratio": ("'NaN'", "'Infinity'"), "span": ("'1 mon 2 days'", "'2 days 00:00:00.000001'"),
        "scan": ("'\\x00ff'",), "editable_scan": ("'\\x00ff'",), "address": ("'10.0.0.1/32'",),
        "day": ("'infinity'", "'0044-03-15 BC'"), "uid": ("'A0000000000000000000000000000001'",),
        "data": ("'{\"a\": 1.10, \"b\": 1e400}'",), "words": ("E'a\\r\\nb\\rc'",),
    },
    "mysql": {
        "span": ("1", "172800000001"), "scan": ("x'00ff'",), "editable_scan": ("x'00ff'",), "flag": ("2",),
        "data": ("'{\"a\": 1.10, \"a\": 2}'", "'{ \"spaced\" :1 }'"), "words": ("'a\\r\\nb\\rc'",),
        "day": ("'0000-00-00'",), "uid": ("'a0000000-0000-0000-0000-000000000001'",),
        "owner_id": ("'acme'",), "moment": ("'2013-10-27 01:30:00'",),
    },
    "sqlite": {
        "number": ("'12'", "1.0", "'abc'"), "amount": ("'1.10'", "1.005", "'abc'"), "ratio": ("1", "'0.10'", "9e999"),
        "flag": ("2", "'t'"), "moment": ("'2013-01-31T08:30:00Z'", "'2013-01-31'"), "clock": ("'08:30'",),
        "span": ("1", "1.0", "'1'"), "scan": ("x'00ff'", "'text'"), "editable_scan": ("x'00ff'",),
        "data": ("'{ \"spaced\" :1, \"spaced\": 2}'", "'1e400'"), "words": ("'a' || char(13,10) || 'b'", "5"),
        "day": ("'2013-01-31 00:00:00'", "'2013-1-31'"), "count": ("'7'",),
        "uid": ("'A0000000000000000000000000000001'", "'a0000000-0000-0000-0000-000000000001'", "'abc'"),
        "word": ("x'41'", "7"), "noisy": ("5",),
    },
}  # fmt: skip
#: Fields of PostgreSQL alone.
OF_SHELF: Mapping[str, Sequence[str]] = {
    "labels": ("'{}'", '\'{NULL," a ","b,c",""}\'', "'[2:3]={a,b}'"),
    "counts": ("'{2147483647,-1}'",),
    "prices": ("'{1.1,1.10,NaN}'",),
    "days": ("'{0001-01-01}'", "'{infinity}'"),
    "grid": ("'{{9007199254740993,1},{2,3}}'",),
    "places": ("'empty'", "'[1,5]'", "'(,5)'", "'(,)'"),
    "serials": ("'[9007199254740993,)'",),
    "weights": ("'[1.10,2.0]'", "'(0,1]'", "'[NaN,NaN]'"),
    "open_days": ("'[2013-01-01,2013-01-02]'", "'[2013-01-01,infinity)'"),
    "open_at": ("'[2013-10-27 01:30:00.000001+00,2013-10-27 02:30:00+00]'",),
}


def literals() -> Iterator[tuple[str, str]]:
    own = OF_VENDOR[connection.vendor]
    for name in {**EVERYWHERE, **own}:
        for literal in (*EVERYWHERE.get(name, ()), *own.get(name, ())):
            yield name, literal.replace("||", "" if connection.vendor == "mysql" else "||")


def stored(model: type[models.Model], key: Any) -> Mapping[str, Any]:
    return stored_columns(model, [key], "default")[str(key)]


def write(row: models.Model, name: str, literal: str) -> None:
    """Another program stores a value."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {row._meta.db_table} SET {name} = {literal} WHERE id = %s", [row.pk])


@pytest.fixture
def agent(root: Writer, declared: Declared) -> Writer:
    Supplier.objects.create(name="Acme", code="ACME")
    for model in (Keepsake, Shelf):
        declared.admin(model, asks_for_nothing())
        declared.model(model, fields="__all__")
    return root


def outcome(agent: Writer, row: models.Model, name: str, values: Mapping[str, Any], *but: str) -> str | None:
    """What is wrong with a change that is confirmed: columns that differ, or a reason that is not of the field."""
    label, before = row._meta.label_lower, stored(type(row), row.pk)
    asked = {"model": label, "id": str(row.pk), "values": values}
    shown = agent.call("update_record", **asked)
    if not shown.get("isError"):
        shown = agent.call("update_record", **asked, confirm=shown["structuredContent"]["confirm"])
    after = stored(type(row), row.pk)
    differing = [
        f"{key}: {before[key]} → {after[key]}" for key in before if before[key] != after[key] and key not in but
    ]
    if differing:
        return "; ".join(differing)
    told = shown["content"][0]["text"] if shown.get("isError") else ""
    return told if told and f"values.{name.removesuffix('_id')}" not in told else None


def given_back(agent: Writer, row: models.Model, name: str) -> Mapping[str, Any]:
    found = agent.call("get_record", model=row._meta.label_lower, id=str(row.pk))["structuredContent"]
    return {one: value for one, value in found.items() if one == name.removesuffix("_id")}


def wrong_of(agent: Writer, model: type[models.Model], other: str, changed: Any, cases: Any) -> Mapping[str, Any]:
    wrong = {}
    for name, literal in cases:
        row = model._default_manager.create()
        write(row, name, literal)
        if name != other:
            wrong[f"{name} {literal}, another changed"] = outcome(agent, row, name, {other: changed}, other)
        if values := given_back(agent, row, name):
            wrong[f"{name} {literal}, given back"] = outcome(agent, row, name, values)
    return {case: said for case, said in wrong.items() if said is not None}


def test_what_is_not_named_and_what_is_given_back_stays_to_the_byte(agent: Writer) -> None:
    assert wrong_of(agent, Keepsake, "name", "other", list(literals())) == {}


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="PostgreSQL: TEST_DATABASE=postgresql")
def test_arrays_and_ranges_stay_to_the_byte(agent: Writer) -> None:
    cases = [(name, literal) for name, some in OF_SHELF.items() for literal in some]

    assert wrong_of(agent, Shelf, "counts", [1, 2], cases) == {}


def test_a_row_has_moved_where_its_bytes_have_and_nowhere_else(agent: Writer) -> None:
    # None of these differs for the classes of the fields: another nonce, an object that equals no other.
    row = Keepsake.objects.create(name="one", noisy="sesame", box="thing", data={"a": 1})
    calls = {
        "update_record": {"model": "shop.keepsake", "id": str(row.pk), "values": {"name": "two"}},
        "delete_record": {"model": "shop.keepsake", "ids": [str(row.pk)]},
    }
    tokens = {name: agent.ask(name, **asked)["confirm"] for name, asked in calls.items()}

    write(row, "noisy", "'87654321:sesame'")

    for name, asked in calls.items():
        assert "has changed since" in agent.refused(name, **asked, confirm=tokens[name])
        # Its user must agree to a delete.
        assert agent.confirmed(name, **asked)["status"] == {"update_record": "applied"}.get(name, "pending")


def test_a_number_that_was_shown_as_a_text_stays_a_number_at_its_place(agent: Writer) -> None:
    large = 2**63 + 1
    row = Keepsake.objects.create(name="one", data={"id": large, "list": [large, 1], "note": "old"})
    asked = {"model": "shop.keepsake", "id": str(row.pk)}
    shown = agent.ask("get_record", **asked)["data"]

    agent.confirmed("update_record", **asked, values={"data": {**shown, "note": "new"}})
    row.refresh_from_db()
    kept = row.data
    preview = agent.ask("update_record", **asked, values={"data": {**kept, "id": large, "list": [1, str(large)]}})
    as_text = {**shown, "note": "new", "id": str(large), "list": [str(large), "1"]}
    types = agent.ask("update_record", **asked, values={"data": as_text})["diff"]

    assert shown == {"id": str(large), "list": [str(large), 1], "note": "old"}
    assert kept == {"id": large, "list": [large, 1], "note": "new"}
    assert preview["diff"][0]["after"]["list"] == [1, str(large)]
    assert types[0]["after"]["list"] == [str(large), "1"]


def test_the_diff_shows_the_type_where_only_that_differs(agent: Writer) -> None:
    large = 2**53 + 1
    row = Keepsake.objects.create(name="one", data={"a": [str(large)]})

    shown = agent.ask("update_record", model="shop.keepsake", id=str(row.pk), values={"data": {"a": [large]}})

    look = {"a": [str(large)]}
    assert shown["diff"] == [{"field": "data", "before": look, "after": look, "types": ["a.0: text → number"]}]


def test_saving_a_changed_row_writes_what_differs_and_what_code_of_the_project_writes_in_between(agent: Writer) -> None:
    row = Keepsake.objects.create(name="one", word="one", data=[1], noisy="sesame")
    copies: list[Keepsake] = []

    def receive(instance: Keepsake, **kwargs: Any) -> None:
        post_save.disconnect(receive, Keepsake)
        copies.extend([pickle.loads(pickle.dumps(instance)), copy.copy(instance), copy.deepcopy(instance)])
        # Written, and taken back: what is stored is not what was read.
        instance.word = "two"
        instance.data.append(2)
        instance.save()
        instance.word = "one"
        instance.save()

    post_save.connect(receive, Keepsake)
    before = stored(Keepsake, row.pk)
    agent.confirmed("update_record", model="shop.keepsake", id=str(row.pk), values={"name": "other"})
    after = stored(Keepsake, row.pk)
    row.refresh_from_db()
    for number, each in enumerate(copies):
        each.pk, each.word = None, f"copy {number}"
        each.save()

    assert (row.name, row.word, row.data) == ("other", "one", [1, 2])
    assert after["noisy"] == before["noisy"]
    assert [one.word for one in Keepsake.objects.order_by("pk")] == ["one", "copy 0", "copy 1", "copy 2"]
