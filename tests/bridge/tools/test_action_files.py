"""What an action returns: a file is given to the agent, a page is for a person."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from typing import Any

import pytest
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.http import (
    FileResponse,
    HttpRequest,
    HttpResponse,
    JsonResponse,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.test import override_settings

from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Flight
from mcp_django.models import Tool
from tests.support.asking import DirectPeer, text_of
from tests.support.data import make_flights
from tests.support.declared import Declared
from tests.support.peers import Peer

NAME = "flights_flight_give"


@pytest.fixture
def give(db: None, declared: Declared) -> Any:
    """Runs an action that changes a flight and returns what is given."""
    make_flights(2)
    Tool.objects.create(name=NAME, enabled=True)
    peer = DirectPeer(User.objects.create_superuser("root"))

    def run(returns: Any) -> Any:
        @admin.action(permissions=["change"])
        def give(self: Any, request: HttpRequest, queryset: Any) -> Any:
            queryset.update(status="cancelled")
            return returns(request) if callable(returns) else returns

        declared.admin(Flight, type("Giving", (FlightAdmin,), {"actions": ["give"], "give": give}))
        return peer.call(NAME, ids=[1])

    return run


def changed() -> bool:
    return Flight.objects.filter(pk=1, status="cancelled").exists()


def test_a_csv_is_an_embedded_resource_over_every_transport(admin: Peer, flights: Any) -> None:
    result = admin.call("flights_flight_export_as_csv", ids=[1, 2])

    about, block = result["content"]
    assert about == {"type": "text", "text": "attached: flights.csv, text/csv, 3 lines, 239 bytes"}
    assert block["type"] == "resource"
    assert block["resource"]["uri"] == "file:///flights_flight_export_as_csv/flights.csv"
    assert block["resource"]["mimeType"] == "text/csv"
    lines = block["resource"]["text"].splitlines()
    assert lines[0] == (
        "departs_at,carrier,number,origin,destination,tailnum,status,departure_delay,arrival_delay,air_time,distance"
    )
    assert lines[1] == "2013-01-01 10:00:00+00:00,UA,1000,JFK,IAH,,on_time,-5,,,1400"
    assert len(lines) == 3


async def _later(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _now(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks


FILE = {"Content-Disposition": 'attachment; filename="a b.txt"'}
EXTENDED = {"Content-Disposition": "attachment; filename=\"x.csv\"; filename*=utf-8''%C3%A4%C3%B6.csv"}
BROKEN = {"Content-Disposition": "attachment; filename*=none''%ff"}


FILES: list[tuple[Any, str, Any]] = [
    (lambda: HttpResponse("täxt", content_type="text/plain; charset=utf-8", headers=FILE),
     "a b.txt, text/plain, 5 bytes",
     {"uri": f"file:///{NAME}/a%20b.txt", "mimeType": "text/plain", "text": "täxt"}),
    (lambda: HttpResponse(b"\xff\x00", content_type="application/pdf"),
     "file.pdf, application/pdf, 2 bytes",
     {"uri": f"file:///{NAME}/file.pdf", "mimeType": "application/pdf",
      "blob": base64.b64encode(b"\xff\x00").decode()}),
    (lambda: JsonResponse({"a": 1}),
     "file.json, application/json, 8 bytes",
     {"uri": f"file:///{NAME}/file.json", "mimeType": "application/json", "text": '{"a": 1}'}),
    (lambda: StreamingHttpResponse(_now(b"a", b"b"), content_type="text/plain"),
     "file.txt, text/plain, 2 bytes",
     {"uri": f"file:///{NAME}/file.txt", "mimeType": "text/plain", "text": "ab"}),
    (lambda: StreamingHttpResponse(_later(b"a", b"b"), content_type="text/plain"),
     "file.txt, text/plain, 2 bytes",
     {"uri": f"file:///{NAME}/file.txt", "mimeType": "text/plain", "text": "ab"}),
    (lambda: FileResponse(BytesIO(b"abc"), as_attachment=True, filename="../../etc/passwd"),
     "passwd, application/octet-stream, 3 bytes",
     {"uri": f"file:///{NAME}/passwd", "mimeType": "application/octet-stream", "text": "abc"}),
    (lambda: HttpResponse("<p>", headers={"Content-Disposition": "attachment; filename=page.html"}),
     "page.html, text/html, 3 bytes",
     {"uri": f"file:///{NAME}/page.html", "mimeType": "text/html", "text": "<p>"}),
    (lambda: HttpResponse("", content_type="text/csv"),
     "file.csv, text/csv, 0 lines, 0 bytes",
     {"uri": f"file:///{NAME}/file.csv", "mimeType": "text/csv", "text": ""}),
    (lambda: StreamingHttpResponse(_now(b"a")),
     "file.html, text/html, 1 bytes",
     {"uri": f"file:///{NAME}/file.html", "mimeType": "text/html", "text": "a"}),
    (lambda: HttpResponse("<p>", headers={"Content-Disposition": "attachment"}),
     "file.html, text/html, 3 bytes",
     {"uri": f"file:///{NAME}/file.html", "mimeType": "text/html", "text": "<p>"}),
    (lambda: HttpResponse('a,b\n1,"x\ny"\n', content_type="text/csv; charset=utf-8", headers=EXTENDED),
     "äö.csv, text/csv, 2 lines, 12 bytes",
     {"uri": f"file:///{NAME}/%C3%A4%C3%B6.csv", "mimeType": "text/csv", "text": 'a,b\n1,"x\ny"\n'}),
    (lambda: HttpResponse("a\tb\n" * 1_000, content_type="text/tab-separated-values", headers=BROKEN),
     "file.tsv, text/tab-separated-values, 1,000 lines, 4.0 kB",
     {"uri": f"file:///{NAME}/file.tsv", "mimeType": "text/tab-separated-values", "text": "a\tb\n" * 1_000}),
]  # fmt: skip


def test_a_file_is_an_embedded_resource(give: Any) -> None:
    for response, about, resource in FILES:
        result = give(lambda request, make=response: make())
        assert result["content"] == [
            {"type": "text", "text": f"attached: {about}"}, {"type": "resource", "resource": resource},
        ]  # fmt: skip
        assert result["isError"] is False
    assert changed()


def test_messages_and_the_line_about_a_file_are_one_text(give: Any) -> None:
    def response(request: HttpRequest) -> HttpResponse:
        messages.success(request, "2 flights were exported.")
        return HttpResponse("a,b", content_type="text/csv")

    text, file = give(response)["content"]

    assert text["text"].splitlines() == ["2 flights were exported.", "attached: file.csv, text/csv, 1 line, 3 bytes"]
    assert file["type"] == "resource"


def test_a_page_is_refused_with_a_link_for_a_person(give: Any) -> None:
    for page in (
        lambda request: TemplateResponse(request, "admin/base.html", admin.site.each_context(request)),
        lambda request: TemplateResponse(request, "admin/base.html", {}),
        lambda request: HttpResponse("<html>"),
        lambda request: render(request, "admin/404.html", {}),
    ):
        result = give(page)
        assert result["isError"] is True
        assert text_of(result).startswith("The page of this action has no form.")
        assert text_of(result).endswith(
            "A person must finish this action. Nothing was changed. "
            "Open http://localhost/admin/flights/flight/ and run it there."
        )
        assert not changed()


def test_a_file_over_the_limit_is_refused_and_nothing_is_changed(give: Any) -> None:
    for response in (
        HttpResponse(b"x" * 2_000, content_type="text/csv"),
        StreamingHttpResponse(_now(*[b"x" * 100] * 20), content_type="text/csv"),
        StreamingHttpResponse(_later(*[b"x" * 100] * 20), content_type="text/csv"),
        HttpResponse("\x01" * 500, content_type="text/csv"),
    ):
        with override_settings(MCP={"MAX_RESULT_BYTES": 1_000}):
            result = give(response)
        assert result["isError"] is True
        assert text_of(result) == "The file is larger than 1000 bytes (MAX_RESULT_BYTES). Pass fewer ids."
        assert not changed()


def test_no_more_of_an_endless_file_is_drawn_than_fits(give: Any) -> None:
    drawn = 0

    def endless() -> Iterator[bytes]:
        nonlocal drawn
        while True:
            drawn += 1
            yield b"x" * 100_000

    result = give(StreamingHttpResponse(endless(), content_type="text/csv"))

    assert result["isError"] is True
    assert drawn < 12


def test_a_file_is_closed(give: Any) -> None:
    opened = BytesIO(b"abc")

    give(FileResponse(opened, filename="x.txt"))

    assert opened.closed


@pytest.mark.every_database
def test_a_stream_that_fails_leaves_nothing_changed(give: Any, caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Iterator[bytes]:
        yield b"abc"
        raise RuntimeError("hunter2")

    result = give(StreamingHttpResponse(failing(), content_type="text/csv"))

    assert result["isError"] is True and "hunter2" not in str(result)
    assert not changed()
