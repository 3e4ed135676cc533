"""A value that its field cannot read is null with a note, and costs nothing where every value can be read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from mcp_django.bridge.resources.fields.field_kinds import kind_of
from mcp_django.bridge.resources.fields.kinds import TEXT
from mcp_django.bridge.resources.fields.unreadable import is_fault_of_value
from tests.bridge.resources.conftest import each
from tests.shop.fields import Size
from tests.shop.models import Parcel, Person
from tests.support.asking import DirectPeer, errors_of
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

NOTE = "Values that could not be read are null: size of {}."


@pytest.fixture(autouse=True)
def kinds() -> Iterator[None]:
    with override_settings(MCP={"FIELD_KINDS": {"tests.shop.fields.SizeField": "text"}}):
        yield


@pytest.fixture
def root(db: None, declared: Declared) -> DirectPeer:
    declared.admin(Parcel, admin.ModelAdmin)
    declared.admin(Person, admin.ModelAdmin)
    for number in range(1, 6):
        Parcel.objects.create(code=f"P{number}", size=str(number))
    return DirectPeer(User.objects.create_superuser("root"))


def spoil(code: str, column: str = "size", value: str = "broken") -> int:
    """Another program writes what the field cannot read."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE shop_parcel SET {column} = %s WHERE code = %s", [value, code])
        cursor.execute("SELECT id FROM shop_parcel WHERE code = %s", [code])
        return int(cursor.fetchone()[0])


def page(root: DirectPeer, **asked: Any) -> Any:
    return root.call("find_records", model="shop.parcel", **asked)["structuredContent"]


def test_a_page_and_a_record_have_null_where_a_value_cannot_be_read(root: DirectPeer) -> None:
    key = spoil("P2")

    found = page(root, fields=["code", "size"])
    record = root.call("get_record", model="shop.parcel", id=key)

    assert [row[1:] for row in found["rows"]] == [
        ["P1", "size 1"], ["P2", None], ["P3", "size 3"], ["P4", "size 4"], ["P5", "size 5"],
    ]  # fmt: skip
    assert found["notes"] == [NOTE.format(key)]
    assert (record["structuredContent"]["code"], record["structuredContent"]["size"]) == ("P2", None)
    assert NOTE.format(key) in str(record["content"])
    assert root.read(f"db://shop/parcel/{key}")["size"] is None


def test_a_value_that_cannot_be_written_is_null_too(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Size) -> str:
        if self.text == "2":
            raise ValueError
        return f"size {self.text}"

    monkeypatch.setattr(Size, "__str__", fail)

    found = page(root, fields=["size"])

    assert [row[1] for row in found["rows"]] == ["size 1", None, "size 3", "size 4", "size 5"]
    assert found["notes"] == [NOTE.format(found["rows"][1][0])]


def test_all_pages_are_read_past_a_value_that_cannot_be_read(root: DirectPeer) -> None:
    spoil("P2")
    spoil("P4")

    codes, cursor = [], None
    while True:
        found = page(root, fields=["code", "size"], limit=2, cursor=cursor)
        codes += [row[1] for row in found["rows"]]
        cursor = found.get("next_cursor")
        if cursor is None:
            break

    assert codes == ["P1", "P2", "P3", "P4", "P5"]


def test_a_page_whose_values_can_all_be_read_takes_one_query_and_no_note(root: DirectPeer) -> None:
    spoil("P5")

    with CaptureQueriesContext(connection) as asked:
        found = page(root, fields=["size"], filter={"code": "P1"})

    assert "notes" not in found
    assert len([query for query in asked if "shop_parcel" in query["sql"]]) == 1
    assert "notes" not in page(root, fields=["code"])  # What is not shown is not read.


def test_a_list_of_related_rows_has_null_where_a_value_cannot_be_read(root: DirectPeer) -> None:
    person = Person.objects.create(name="Ann", badge="A1")
    Parcel.objects.update(owner=person)
    spoil("P2")

    result = root.call("find_records", model="shop.person", fields=["parcels__size"])["structuredContent"]

    assert result["rows"] == [[person.pk, ["size 1", None, "size 3", "size 4", "size 5"]]]
    assert result["notes"] == ["Values that could not be read are null: parcels__size."]


def test_a_computed_value_of_a_row_that_cannot_be_read_is_null(root: DirectPeer, declared: Declared) -> None:
    class Computing(admin.ModelAdmin[Any]):
        list_display = ["code", "shout"]

        def shout(self, parcel: Parcel) -> str:
            return f"{parcel.code}!"

    declared.admin(Parcel, Computing)
    key = spoil("P2")

    found = page(root, fields=["code", "shout"])

    assert [row[2] for row in found["rows"]] == ["P1!", None, "P3!", "P4!", "P5!"]
    assert found["notes"] == [f"Values that could not be read are null: shout of {key}."]


def test_a_row_that_the_permission_cannot_be_asked_of_is_hidden(root: DirectPeer, declared: Declared) -> None:
    declared.model(Parcel, each(lambda obj: obj.code != "P3", fields=["code", "size"]))
    hidden = spoil("P2")

    found = page(root, fields=["code"])

    assert [row[1] for row in found["rows"]] == ["P1", "P4", "P5"]
    assert root.call("get_record", model="shop.parcel", id=hidden)["isError"]


def fail_for_p2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a field fail that rows may be ordered and grouped by, once it was found to be a plain one."""

    def from_db_value(self: Any, value: Any, expression: Any, connection: Any) -> Any:
        if value == "P2":
            raise ValueError
        return value

    for named in (False, True):
        assert kind_of(Parcel._meta.get_field("code"), named=named) is TEXT
    monkeypatch.setattr(type(Parcel._meta.get_field("code")), "from_db_value", from_db_value, raising=False)


def test_a_record_whose_hooks_cannot_be_asked_has_what_a_page_shows_of_it(root: DirectPeer, declared: Declared) -> None:
    class ByObject(admin.ModelAdmin[Any]):
        list_display = ["code", "size"]

        def get_fields(self, request: Any, obj: Any = None) -> Any:
            return ["code", "price"] if obj.pk else []

    declared.admin(Parcel, ByObject)
    key = spoil("P2")

    result = root.call("get_record", model="shop.parcel", id=key)["structuredContent"]

    assert result == {"id": key, "code": "P2", "size": None}
    assert root.call("get_record", model="shop.parcel", id=key - 1)["structuredContent"]["price_currency"] == "EUR"
    assert root.call("get_record", model="shop.parcel", id=0)["isError"]


def test_a_group_is_null_where_its_value_cannot_be_read(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_for_p2(monkeypatch)

    result = root.call("aggregate_records", model="shop.parcel", group_by=["code"])["structuredContent"]

    assert sorted(map(str, result["rows"])) == ["['P1', 1]", "['P3', 1]", "['P4', 1]", "['P5', 1]", "[None, 1]"]
    assert result["notes"] == ["Values that could not be read are null: code."]


def test_a_page_that_ends_with_an_unreadable_value_of_its_order_is_followed_by_the_next(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_for_p2(monkeypatch)

    first = page(root, fields=["size"], order_by=["code"], limit=2)
    second = page(root, fields=["size"], order_by=["code"], limit=2, cursor=first["next_cursor"])

    assert [row[1] for row in (*first["rows"], *second["rows"])] == ["size 1", "size 2", "size 3", "size 4"]


def test_where_the_row_that_a_page_ended_with_is_gone_the_cursor_is_refused(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_for_p2(monkeypatch)
    first = page(root, fields=["size"], order_by=["code"], limit=2)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM shop_parcel WHERE id = %s", [first["rows"][1][0]])

    [error] = errors_of(
        root.call(
            "find_records",
            model="shop.parcel",
            fields=["size"],
            order_by=["code"],
            limit=2,
            cursor=first["next_cursor"],
        )
    )

    assert error["message"] == "the row with which the last page ended is gone: leave the cursor out to start again."


def test_rows_are_looked_at_past_an_unreadable_value_of_their_order(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared.model(Parcel, each(lambda obj: obj.code == "P4", fields=["code", "size"]))
    fail_for_p2(monkeypatch)
    monkeypatch.setattr("mcp_django.bridge.resources.reading.rows._LOOKED_AT_ONCE", 2)

    found = page(root, fields=["size"], order_by=["code"], limit=1)

    assert [row[1] for row in found["rows"]] == ["size 4"]


def test_what_is_logged_holds_no_value(root: DirectPeer, caplog: pytest.LogCaptureFixture) -> None:
    spoil("P2", value="4711")
    spoil("P3", value="my secret")

    with caplog.at_level(logging.WARNING, "mcp_django"):
        page(root, fields=["size"])

    assert [record.getMessage() for record in caplog.records] == [
        "Values of shop.Parcel are null, since they could not be read (ValueError)"
    ]
    assert "secret" not in caplog.text


def test_an_error_of_the_database_is_none_of_a_value() -> None:
    assert not is_fault_of_value(OperationalError("away"))
    assert is_fault_of_value(ValueError("broken"))
