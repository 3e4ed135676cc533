"""Tables in few bytes: columns and rows, as JSON and as CSV, and the text says what the structured content says."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from demo_project.flights.models import Flight
from mcp_django.bridge.tools.results import table_result
from mcp_django.protocol.jsonrpc import encode
from tests.support.asking import DirectPeer, errors_of, text_of
from tests.support.data import make_flights


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(20)
    return DirectPeer(User.objects.create_superuser("root"))


def text_of_table(result: Any) -> str:
    text: str = result["content"][0]["text"]
    return text


def test_twenty_rows_cost_at_most_55_percent_of_a_list_of_objects_and_csv_less(root: DirectPeer) -> None:
    as_json = root.call("find_records", model="flights.flight", limit=20)
    as_csv = root.call("find_records", model="flights.flight", limit=20, format="csv")

    table = as_json["structuredContent"]
    objects = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert len(objects) == 20
    assert len(text_of(as_json).encode()) <= 0.55 * len(encode(objects))
    assert len(text_of_table(as_csv)) < len(text_of_table(as_json))
    assert 3 * len(encode(as_csv)) < 2 * len(encode(as_json))


@pytest.mark.every_database
def test_csv_is_the_table_and_the_structured_content_says_the_rest(root: DirectPeer) -> None:
    Flight.objects.filter(pk=1).update(notes='a "b", c\r\nd')
    Flight.objects.filter(pk=2).update(notes="")

    result = root.call("find_records", model="flights.flight", fields=["plane", "notes"], limit=3, format="csv")

    table, rest = (block["text"] for block in result["content"])
    assert table == ('id,plane,notes\r\n1,,"a ""b"", c\r\nd"\r\n2,N14228,""\r\n3,N14228,note 2\r\n')
    assert result["structuredContent"] == {
        "columns": ["id", "plane", "notes"],
        "row_count": 3,
        "rows_in": "text",
        **json.loads(rest),
    }
    assert list(json.loads(rest)) == ["more", "next_cursor"]


def test_what_is_told_beside_a_table_is_told_of_csv_too(root: DirectPeer) -> None:
    Flight.objects.filter(pk=1).update(notes="x" * 3_000)

    whole = root.call("find_records", model="flights.flight", fields=["notes"], format="csv")
    with override_settings(MCP={"MAX_TEXT": 10_000}):
        uncut = root.call("find_records", model="flights.flight", fields=["notes"], format="csv")

    assert json.loads(whole["content"][1]["text"]) == {"notes": whole["structuredContent"]["notes"]}
    assert len(uncut["content"]) == 1


def test_a_page_of_csv_goes_on_in_any_format(root: DirectPeer) -> None:
    first = root.call("find_records", model="flights.flight", fields=["id"], limit=15, format="csv")

    cursor = first["structuredContent"]["next_cursor"]
    second = root.call("find_records", model="flights.flight", fields=["id"], cursor=cursor)

    assert [row[0] for row in second["structuredContent"]["rows"]] == [16, 17, 18, 19, 20]


def test_groups_as_csv_are_not_written_twice(root: DirectPeer) -> None:
    result = root.call("aggregate_records", model="flights.flight", group_by=["origin"], format="csv")

    assert text_of(result) == "origin,count\r\nEWR,7\r\nJFK,7\r\nLGA,6\r\n"
    assert result["structuredContent"] == {"columns": ["origin", "count"], "row_count": 3, "rows_in": "text"}


def test_a_table_of_related_rows_stands_in_csv_as_json(root: DirectPeer) -> None:
    fields = ["departures__number", "departures__status"]
    result = root.call("find_records", model="flights.airport", fields=fields, filter={"faa": "IAH"}, format="csv")

    assert list(csv.reader(io.StringIO(text_of(result), newline=""))) == [
        ["faa", "departures"], ["IAH", '{"columns":["number","status"],"rows":[]}'],
    ]  # fmt: skip


def test_another_format_is_refused(root: DirectPeer) -> None:
    for name in ("CSV", "xml", 1, ["csv"]):
        result = root.call("find_records", model="flights.flight", format=name)
        assert {error["field"] for error in errors_of(result)} == {"format"}


FIELDS = [
    (None, "", ""),
    ("", '""', ""),
    ("plain", "plain", "plain"),
    (" spaced ", " spaced ", " spaced "),
    ("a,b", '"a,b"', "a,b"),
    ('say "x"', '"say ""x"""', 'say "x"'),
    ("a\nb", '"a\nb"', "a\nb"),
    ("a\rb", '"a\rb"', "a\rb"),
    ("1=1", "1=1", "1=1"),
    ("é 😀", "é 😀", "é 😀"),
    (True, "true", "true"),
    (-5, "-5", "-5"),
    (0.1, "0.1", "0.1"),
    (float("nan"), "", ""),
    ([1, None], '"[1,null]"', "[1,null]"),
    ({"a": "b"}, '"{""a"":""b""}"', '{"a":"b"}'),
]


def test_a_value_stands_in_csv() -> None:
    texts = [text_of(table_result(["a", "b"], [[value, 1]], {}, "csv")) for value, *_ in FIELDS]

    assert texts == [f"a,b\r\n{written},1\r\n" for _, written, _ in FIELDS]
    assert [list(csv.reader(io.StringIO(text, newline=""))) for text in texts] == [
        [["a", "b"], [read, "1"]] for *_, read in FIELDS
    ]


def test_a_table_is_one_block_of_json_where_nothing_else_is_asked() -> None:
    assert table_result(["a"], [[1]], {"notes": ["x"]}) == {
        "content": [{"type": "text", "text": '{"columns":["a"],"rows":[[1]],"notes":["x"]}'}],
        "structuredContent": {"columns": ["a"], "rows": [[1]], "notes": ["x"]},
        "isError": False,
    }


def test_running_a_formula_in_the_spreadsheet_that_opens_an_export() -> None:
    """CWE-1236: the apostrophe is the first character of the cell as a spreadsheet reads it."""
    for text in (
        "=cmd|' /C calc'!A0", "=1+1", "+1+1", "+49 30 1234", "-1+1", "-cmd", "-P1DT02H", "-1,5", "@SUM(A1)", "\t=1+1",
        "\r=1+1", "\n=1+1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)", "-", "-\u0661",
        '=HYPERLINK("http://x";"y")', "=1,=2",
    ):  # fmt: skip
        result = table_result(["text", "next"], [[text, "=2"]], {}, "csv")
        read = list(csv.reader(io.StringIO(text_of(result), newline="")))
        assert read == [["text", "next"], [f"'{text}", "'=2"]]


def test_running_a_formula_from_a_field_of_a_row(root: DirectPeer) -> None:
    Flight.objects.filter(pk=1).update(notes="=cmd|' /C calc'!A0", departure_delay=-5)
    asked = {"model": "flights.flight", "filter": {"id": 1}, "fields": ["departure_delay", "notes"]}

    as_csv = root.call("find_records", **asked, format="csv")
    as_json = root.call("find_records", **asked)

    assert text_of_table(as_csv) == "id,departure_delay,notes\r\n1,-5,'=cmd|' /C calc'!A0\r\n"
    assert as_json["structuredContent"]["rows"] == [[1, -5, "=cmd|' /C calc'!A0"]]


def test_a_negative_number_stays_a_number_in_csv() -> None:
    for value in (-5, -0.5, "-5", "-10.10", "-0E-10", "-1E+3", -(2**53), "12", "0.50"):
        assert text_of(table_result(["a"], [[value]], {}, "csv")) == f"a\r\n{value}\r\n"
