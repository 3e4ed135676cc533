"""The activity as a CSV file: the lines of the list, written while they are read, harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
import unicodedata
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext

from mcp_django.console.admin import activity_csv
from mcp_django.core.csv_cells import spreadsheet_safe
from mcp_django.models import Call, call_queries
from tests.support.calls import make_call, make_many

FILE = "/admin/mcp_django/call/csv/"

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def exported(client: Client, **parameters: str) -> list[dict[str, str]]:
    answer: Any = client.get(FILE, parameters)
    assert answer.status_code == 200
    return rows_of(b"".join(answer.streaming_content))


def test_the_file_is_a_download_of_the_filtered_lines_with_all_columns(client: Client) -> None:
    call = make_call(user_id="4", keys=" 17 18 ")
    make_call()

    [row] = exported(client, user="4", q="flights.flight 17")
    answer = client.get(FILE)

    assert list(row) == [field.attname for field in Call._meta.concrete_fields]
    assert (row["id"], row["at"], row["name"], row["rows"]) == (
        str(call.pk), "2026-11-22 17:00:00+00:00", "find_records", "20",
    )  # fmt: skip
    assert row["keys"] == " 17 18 "
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="activity.csv"'
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.every_database
def test_a_long_file_is_read_in_pages_and_has_each_line_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queries, "PAGE", 10)
    make_many(20)
    same_time = [make_call(user_id="x") for _ in range(25)]
    keys = [str(call.pk) for call in Call.objects.all()]

    with CaptureQueriesContext(connection) as captured:
        rows = exported(client)

    assert [row["id"] for row in rows] == keys
    assert len(same_time) == 25 and len(keys) == 45
    assert sum(query["sql"].endswith("LIMIT 10") for query in captured) == 5


def test_the_lines_are_read_while_the_file_is_sent(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queries, "PAGE", 2)
    make_many(6)

    answer: Any = client.get(FILE)
    parts = iter(answer.streaming_content)
    first = [next(parts), next(parts)]
    Call.objects.all().delete()

    assert len(rows_of(b"".join(first))) == 2
    assert list(parts) == []


def test_a_file_that_leaves_lines_out_says_so(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_many(4)
    monkeypatch.setattr(activity_csv, "MAX_EXPORTED", 4)
    whole = exported(client)
    monkeypatch.setattr(activity_csv, "MAX_EXPORTED", 3)
    *rows, note = exported(client)

    assert [row["request_id"] for row in whole] == ["3", "2", "1", "0"]
    assert [row["request_id"] for row in rows] == ["3", "2", "1"]
    assert note["id"] == "Only the newest 3 lines are here. Choose a day, or another filter, for the others."


def test_a_client_name_that_a_spreadsheet_would_run(client: Client) -> None:
    make_call(client_name="=cmd|' /C calc'!A0", user_name='@SUM(1)"', arguments="-1+1", ms=-1.5)

    [row] = exported(client)

    assert row["client_name"] == "'=cmd|' /C calc'!A0"
    assert row["user_name"] == "'@SUM(1)\""
    assert row["arguments"] == "'-1+1"
    assert row["ms"] == "-1.5", "a number is no text"


def test_a_cell_that_a_spreadsheet_would_run_and_no_other_is_quoted() -> None:
    run = ["=1+1", "+1", "-1+1", "-A1", "@a", "\t=1", "\r=1", "\n=1", "\0=1", "  =1", "＝1", "＠a"]  # noqa: RUF001
    others = ["", "a=1", "17", "-17", "-1.5E-3", " 17 18 ", '["model"]', "db://flights/flight/17", "'=1"]

    assert [spreadsheet_safe(text) for text in run] == [f"'{text}" for text in run]
    assert [spreadsheet_safe(text) for text in others] == others


def test_a_formula_that_begins_with_another_form_of_its_sign_or_behind_what_is_not_seen() -> None:
    forms = [char for char in map(chr, range(0x80, 0x11_0000)) if unicodedata.normalize("NFKC", char) in "=+-@"]
    unseen = ["\u00a0", "\u3000", "\u200b", "\ufeff", " \u2060 ", "\u2028"]
    run = [f"{char}1+1" for char in forms] + [f"{before}=1+1" for before in unseen] + ["\u3000\uff1d1", "\uff0d1"]
    others = ["\u00a0", "\u200b", "\u30001", "\u00a8", "\u00bd", "\u2212", "\u00e9=1", "\u540d=1"]

    assert {"\ufe66", "\uff1d", "\ufe62", "\uff0b", "\ufe63", "\uff0d", "\ufe6b", "\uff20"} <= {*forms}
    assert [spreadsheet_safe(text) for text in run] == [f"'{text}" for text in run]
    assert [spreadsheet_safe(text) for text in others] == others


@pytest.mark.django_db(transaction=True)
def test_the_file_is_sent_in_pieces_under_asgi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queries, "PAGE", 2)
    make_many(5)
    client = AsyncClient()
    client.force_login(User.objects.create_superuser("root"))

    async def parts_of_file() -> list[bytes]:
        answer: Any = await client.get(FILE)
        assert answer.is_async
        return [part async for part in answer.streaming_content]

    parts = async_to_sync(parts_of_file)()

    assert len(parts) == 4
    assert [row["request_id"] for row in rows_of(b"".join(parts))] == ["4", "3", "2", "1", "0"]
