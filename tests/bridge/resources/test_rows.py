"""How much is answered: the limit of a page, cut values, and what says so."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from demo_project.flights.models import Flight
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.jsonrpc import encode
from tests.bridge.resources.conftest import each
from tests.shop.models import Product
from tests.support.asking import DirectPeer, errors_of, text_of
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


def page_of(root: DirectPeer, model: str = "flights.flight", **asked: Any) -> Any:
    return root.call("find_records", model=model, **asked)["structuredContent"]


def test_a_page_has_the_default_number_of_rows(root: DirectPeer) -> None:
    make_flights(25)

    page = page_of(root)

    assert len(page["rows"]) == 20
    assert page["next_cursor"]
    assert "notes" not in page


def test_a_page_has_no_more_rows_than_the_limit_of_the_project(root: DirectPeer) -> None:
    make_flights(5)

    with override_settings(MCP={"MAX_ROWS": 2}):
        by_default = page_of(root)
        by_uri = root.read("db://flights/flight?limit=3")

    assert len(by_default["rows"]) == len(by_uri["rows"]) == 2
    assert by_uri["notes"] == ["A page holds at most 2 rows (MAX_ROWS)."]


def test_a_total_is_told_up_to_what_counting_may_cost(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    make_flights(5)

    with monkeypatch.context() as patch:
        patch.setattr("mcp_django.bridge.resources.reading.rows.MAX_TOTAL", 5)
        counted = page_of(root, limit=2, total=True)
    monkeypatch.setattr("mcp_django.bridge.resources.reading.rows.MAX_TOTAL", 4)
    with CaptureQueriesContext(connection) as captured:
        not_counted = page_of(root, limit=2, total=True)

    assert counted["total"] == 5 and "notes" not in counted
    assert "total" not in not_counted and len(not_counted["rows"]) == 2
    assert not_counted["notes"] == ["There is no total: more than 4 rows."]
    assert "LIMIT 5" in next(query["sql"] for query in captured.captured_queries if "COUNT(" in query["sql"])


def test_a_total_that_takes_too_long_is_left_out(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    make_flights(5)

    def count(queryset: QuerySet[Any]) -> int:
        raise TooSlow

    monkeypatch.setattr(QuerySet, "count", count)
    page = page_of(root, limit=2, total=True)

    assert "total" not in page and len(page["rows"]) == 2
    assert page["notes"] == ["There is no total: counting takes too long (STATEMENT_SECONDS). Narrow the filter."]


def test_counting_rows_that_are_asked_one_by_one(root: DirectPeer, declared: Declared) -> None:
    make_flights(5)

    declared.model(Flight, each(lambda obj: obj.pk != 1))
    page = page_of(root, total=True, fields=["id"], order_by=["id"])

    assert page == {
        "columns": ["id"],
        "rows": [[2], [3], [4], [5]],
        "notes": [
            "There is no total: the permission is checked for each row.",
            "A rule of this project limits which rows of flights.flight you see.",
        ],
    }


def test_the_primary_key_is_the_first_column_whatever_is_asked(root: DirectPeer) -> None:
    make_flights(1)

    columns = [page_of(root, fields=names)["columns"] for names in (["number"], ["number", "id"], ["pk"], ["id"], [])]

    assert columns[:4] == [["id", "number"], ["id", "number"], ["id"], ["id"]]
    assert columns[4][0] == "id" and len(columns[4]) == 14


def test_long_text_and_json_are_cut_in_a_page_and_whole_in_a_record(root: DirectPeer) -> None:
    make_flights(1)
    Flight.objects.update(notes="x" * 5_000)
    product = Product.objects.create(name="x", details={"a": "y" * 5_000})

    for model, key, name, cut, whole in (
        ("flights.flight", 1, "notes", "x" * 2_000 + "…", "x" * 5_000),
        ("shop.product", product.pk, "details", '{"a":"' + "y" * 1_994 + "…", {"a": "y" * 5_000}),
    ):
        page = page_of(root, model, fields=[name])
        record = root.call("get_record", model=model, id=key)["structuredContent"]
        said = f"Values of {name} ending in … were cut at 2000 characters; get_record gives them whole."
        assert (page["rows"], page["notes"]) == ([[key, cut]], [said])
        assert record[name] == whole


def test_a_page_is_cut_at_a_number_of_bytes_and_goes_on_from_there(root: DirectPeer) -> None:
    make_flights(5)
    Flight.objects.update(notes="z" * 900)

    with override_settings(MCP={"MAX_RESULT_BYTES": 6_000}):
        first = page_of(root, fields=["notes"])
        second = page_of(root, fields=["notes"], cursor=first["next_cursor"])
        third = page_of(root, fields=["notes"], cursor=second["next_cursor"])
    Flight.objects.update(notes="z" * 1_900)
    with override_settings(MCP={"MAX_RESULT_BYTES": 5_000}):
        longer_than_a_page = page_of(root, fields=["notes"])

    assert [row[0] for page in (first, second, third) for row in page["rows"]] == [1, 2, 3, 4, 5]
    assert first["notes"] == ["The page was cut at 2 rows, since more would exceed 2000 bytes."]
    assert [row[0] for row in longer_than_a_page["rows"]] == [1] and longer_than_a_page["next_cursor"]


def test_no_page_exceeds_the_bound_on_a_result(root: DirectPeer) -> None:
    """900 kB is what the official clients take; an escape may make six bytes of one, and the text says it all again."""
    make_flights(100)

    for text in ('\\"' * 1_000, "\x01" * 2_000, "é" * 2_000, "😀" * 1_000):
        Flight.objects.update(notes=text)
        result = root.call("find_records", model="flights.flight", limit=100)
        assert len(encode(result)) <= 900_000, text[:2]
        assert result["structuredContent"]["rows"]


def test_a_record_longer_than_the_bound_is_cut_and_says_so(root: DirectPeer) -> None:
    make_flights(1)
    Flight.objects.update(notes="z" * 900_000)

    result = root.call("get_record", model="flights.flight", id=1)

    assert len(encode(result)) <= 900_000
    assert result["structuredContent"]["notes"].endswith("…")
    assert result["content"][1]["text"].startswith("Values of notes ending in … were cut at ")


def test_a_key_that_is_none_is_absent(root: DirectPeer) -> None:
    make_flights(1)

    for key in (999, "999", -1, 0, "", "x", "1 OR 1=1", 2**70, "1e3", "0x1", " ", "1\x00"):
        result = root.call("get_record", model="flights.flight", id=key)
        assert [error["field"] for error in errors_of(result)] == ["id"], key
        assert "The server's log" not in text_of(result), key


def test_ordering_by_long_text_never_gives_a_cursor_that_cannot_be_used(root: DirectPeer) -> None:
    make_flights(3)

    for length in (10_000, 200, 100, 1):
        for flight in Flight.objects.all():
            flight.notes = "".join(chr(0xE9 + place * flight.pk % 997) for place in range(length))
            flight.save()
        page = page_of(root, order_by=["notes"], limit=1, fields=["id"])
        assert ("next_cursor" in page) == (length < 10_000)
        if "next_cursor" in page:
            again = page_of(root, order_by=["notes"], limit=1, fields=["id"], cursor=page["next_cursor"])
            assert again["rows"] != page["rows"]
        else:
            assert page["notes"] == [
                "There are more rows. A value of this order is too long for a cursor, or the key cannot be read: "
                "order by other fields."
            ]


def test_search_looks_for_every_word_in_any_field(root: DirectPeer) -> None:
    make_flights(6)
    wanted = {
        "N142": [2, 3, 5, 6], "1003": [4], "n14 1001": [2], "n14 nothing": [],
        "": [1, 2, 3, 4, 5, 6], "   ": [1, 2, 3, 4, 5, 6], "\t": [1, 2, 3, 4, 5, 6],
    }  # fmt: skip

    found = {text: page_of(root, search=text, fields=["id"])["rows"] for text in wanted}

    assert {text: [row[0] for row in rows] for text, rows in found.items()} == wanted


def test_search_without_search_fields_is_refused_in_words(root: DirectPeer) -> None:
    result = root.call("find_records", model="shop.product", search="x")

    assert errors_of(result) == [
        {"field": "search", "message": "shop.product has no search fields. Use filter.", "received": "x"}
    ]
