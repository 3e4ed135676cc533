"""The activity as a CSV file, which is written while it is read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import ngettext

from mcp_django.core.compat.handlers import is_asgi_request
from mcp_django.core.csv_cells import spreadsheet_safe
from mcp_django.models import Call

#: The most lines of a file: the newest.
MAX_EXPORTED = 100_000


def csv_response(request: HttpRequest, calls: Any) -> StreamingHttpResponse:
    """The newest of the calls, with all columns. Texts that a spreadsheet would run are quoted."""
    parts = _parts(calls)
    # Django reads the whole of an iterator that is not asynchronous before it sends it under ASGI.
    content: Any = _asynchronous(parts) if is_asgi_request(request) else parts
    return StreamingHttpResponse(
        content,
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="activity.csv"', "Cache-Control": "no-store"},
    )


async def _asynchronous(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    def following() -> bytes | None:
        return next(parts, None)

    while (part := await sync_to_async(following)()) is not None:
        yield part


def _parts(calls: Any) -> Iterator[bytes]:
    """The file in pieces: the names of the columns, the lines of each page, and a note if lines are left out."""
    names = [field.attname for field in Call._meta.concrete_fields]
    # Without this mark, Excel reads the file in another encoding.
    yield "\ufeff".encode() + _written([names])
    left = MAX_EXPORTED
    for page in calls.pages(newest_first=True):
        yield _written([_cell(getattr(call, name)) for name in names] for call in page[:left])
        left -= len(page)
        if left < 0:
            note = ngettext(
                "Only the newest line is here. Choose a day, or another filter, for the others.",
                "Only the newest %(count)d lines are here. Choose a day, or another filter, for the others.",
                MAX_EXPORTED,
            )  # fmt: skip
            yield _written([[note % {"count": MAX_EXPORTED}]])
            return


def _written(rows: Iterable[Iterable[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return spreadsheet_safe(value)
    return "" if value is None else str(value)
