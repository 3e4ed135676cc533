"""A file is uploaded whole or in parts, through every entry point of HTTP, and a tool receives it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils.dateparse import parse_datetime

from mcp_django.models import Upload
from tests.axes import HTTP
from tests.bridge.uploads.conftest import Uploader, assert_nothing_is_left, path_of, stored
from tests.support.data import Users, token_of

over_http = pytest.mark.parametrize("transport", HTTP)

Make = Callable[[str | None], Uploader]
LARGE = b"0123456789abcdef" * 40_000


@pytest.fixture
def client(users: Users, uploader: Make) -> Uploader:
    return uploader(token_of(users.admin))


def result_of(answer: Any) -> Any:
    assert not answer.get("isError"), answer["content"]
    return answer["structuredContent"]


@over_http
def test_a_file_is_uploaded_and_a_tool_receives_it(client: Uploader, folder: Path) -> None:
    answer = client.send(b"a,b\n1,2\n", query="name=report.csv", Content_Type="text/csv; charset=utf-8")

    assert answer.status == 201
    uri = answer.json["uri"]
    assert uri.startswith("upload://") and answer.headers["location"] == path_of(uri)
    assert answer.json == {
        "uri": uri, "name": "report.csv", "mimeType": "text/csv", "size": 8, "expiresAt": answer.json["expiresAt"]
    }  # fmt: skip
    assert parse_datetime(answer.json["expiresAt"]) == Upload.objects.get().expires_at
    assert result_of(client.call("read_file", file=uri)) == {
        "name": "report.csv", "size": 8, "type": "text/csv", "text": "a,b\n1,2\n",
        "sha256": hashlib.sha256(b"a,b\n1,2\n").hexdigest(),
    }  # fmt: skip


@over_http
def test_a_file_comes_in_parts(client: Uploader, folder: Path) -> None:
    first = client.part(LARGE[:300_000], 0, len(LARGE))
    uri = first.json["uri"]
    told = client.part(b"", 0, len(LARGE), uri)
    second = client.part(LARGE[300_000:500_000], 300_000, len(LARGE), uri)
    last = client.part(LARGE[500_000:], 500_000, len(LARGE), uri)

    assert (first.status, first.headers["range"], first.json["total"]) == (202, "bytes=0-299999", len(LARGE))
    assert (told.status, told.headers["range"], told.json) == (202, "bytes=0-299999", first.json)
    assert (second.status, second.headers["range"]) == (202, "bytes=0-499999")
    assert (last.status, last.json["size"], "range" in last.headers) == (201, len(LARGE), False)
    assert len(stored(folder)) == 3
    assert result_of(client.call("read_file", file=uri))["sha256"] == hashlib.sha256(LARGE).hexdigest()


def test_an_upload_begins_without_bytes(client: Uploader) -> None:
    begun = client.part(b"", 0, 3)
    done = client.part(b"abc", 0, 3, begun.json["uri"])

    assert (begun.status, begun.json["size"], "range" in begun.headers) == (202, 0, False)
    assert done.status == 201


def test_a_gap_an_overlap_and_another_total_are_refused_with_what_is_there(client: Uploader, folder: Path) -> None:
    uri = client.part(b"abc", 0, 10).json["uri"]

    for start, total in ((0, 10), (2, 10), (4, 10), (3, 11)):
        answer = client.part(b"xyz", start, total, uri)

        assert (answer.status, answer.headers["range"], answer.headers["content-range"]) == (
            416, "bytes=0-2", "bytes */10",
        ), (start, total)  # fmt: skip
        assert answer.json["error"]["data"]["reason"] == "REQUESTED_RANGE_NOT_SATISFIABLE"
    assert len(stored(folder)) == 1


def test_nothing_is_added_to_a_complete_file(client: Uploader) -> None:
    uri = client.upload(b"abc")

    assert client.part(b"d", 3, 4, uri).status == 416
    assert client.part(b"abc", 0, 3, uri).status == 416
    assert client.part(b"", 0, 3, uri).status == 201


def test_a_file_that_is_not_complete_is_taken_by_nothing(client: Uploader) -> None:
    uri = client.part(b"abc", 0, 10).json["uri"]

    result = client.call("read_file", file=uri)

    assert result["isError"] and "is no upload:// of yours" in result["content"][0]["text"]


def test_an_upload_is_deleted(client: Uploader, folder: Path) -> None:
    uri = client.upload(b"abc")

    assert client.delete(uri).status == 204
    assert client.delete(uri).status == 404
    assert client.call("read_file", file=uri)["isError"]
    assert_nothing_is_left(folder)


RANGES = {
    "bytes 0-2/*": 400, "bytes 2-0/10": 400, "bytes 0-9/9": 400, "bytes=0-2/10": 400, "items 0-2/10": 400,
    "bytes 0-2/10,bytes 3-4/10": 400, "bytes 0-2/9999999999999999": 400, "bytes -1-2/10": 400, "": 400,
    "bytes 0-3/10": 400, "bytes 0-1/10": 400, "bytes 1-3/10": 400, "bytes */10": 400, "bytes 0-2/100000001": 413,
}  # fmt: skip


def test_a_wrong_content_range_is_refused(client: Uploader, folder: Path) -> None:
    assert {value: client.send(b"abc", Content_Range=value).status for value in RANGES} == RANGES
    assert_nothing_is_left(folder)


@over_http
def test_other_methods_are_refused(client: Uploader) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = client.send(b"", method=method)

        assert (answer.status, answer.headers["allow"]) == (405, "POST"), method


def test_nothing_is_served(client: Uploader) -> None:
    uri = client.upload(b"<script>", "a.html", Content_Type="text/html")

    for method in ("GET", "HEAD", "POST"):
        answer = client.send(b"", method=method, path=path_of(uri))
        assert (answer.status, answer.headers["allow"]) == (405, "PUT, DELETE")
        assert b"<script>" not in answer.body


def test_curl_is_not_believed_about_the_type(client: Uploader) -> None:
    answer = client.send(b"abc", query="name=a.png", Content_Type="application/x-www-form-urlencoded")

    assert answer.json["mimeType"] == "image/png"


def test_the_answer_is_json_whatever_the_client_accepts(client: Uploader) -> None:
    answer = client.send(b"abc", Accept="application/mcp+protobuf")
    refused = client.send(b"", Accept="application/mcp+protobuf")

    assert answer.headers["content-type"] == refused.headers["content-type"] == "application/json"
    assert (answer.json["size"], refused.json["error"]["data"]["reason"]) == (3, "BAD_REQUEST")


def test_a_body_that_is_empty_or_not_the_file_itself_is_refused(client: Uploader, folder: Path) -> None:
    assert client.send(b"").status == 400
    assert client.send(b"abc", Content_Type="multipart/form-data; boundary=x").status == 415
    assert client.send(b"abc", Content_Encoding="gzip").status == 415
    assert_nothing_is_left(folder)
