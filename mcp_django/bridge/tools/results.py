"""The results of tools, as text, tables and errors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from mcp_django.conf import get_conf
from mcp_django.core.csv_cells import spreadsheet_safe
from mcp_django.exceptions import FieldError, ToolError
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

#: The formats of a table's text.
FORMATS = ("json", "csv")

_QUOTED_IN_CSV = re.compile(r'[",\r\n]|^$')


def text_block(text: str) -> JSON:
    return {"type": "text", "text": text}


def text_result(text: str) -> JSON:
    return {"content": [text_block(text)], "isError": False}


def structured_result(value: JSON | list[JSON], text: str | None = None) -> JSON:
    """A result whose text says the same as its structured content."""
    return {
        "content": [text_block(encode(value).decode() if text is None else text)],
        "structuredContent": value,
        "isError": False,
    }


def may_be_longer(result: JSON, limit: int) -> bool:
    """Whether the result may take more than ``limit`` bytes as JSON, found out without writing it."""
    texts = [block["text"] for block in result["content"] if block.keys() == {"type", "text"}]
    if len(texts) < len(result["content"]):
        return True
    # A character takes at most six bytes, and may be written a second time as structured content.
    return 2 * 6 * sum(map(len, texts)) + 100 * (1 + len(texts)) > limit


def table_result(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    extra: JSON,
    format: str = "json",
    *,
    first: JSON | None = None,
) -> JSON:
    """What comes ``first``, columns, rows and ``extra``.

    As CSV, the first text is the table and a second one holds ``extra``; no row is written a second time.
    """
    if format == "json":
        return structured_result({**(first or {}), "columns": columns, "rows": rows, **extra})
    extra = {**(first or {}), **extra}
    value: JSON = {"columns": columns, "row_count": len(rows), "rows_in": "text", **extra}
    result = structured_result(value, csv_table([columns, *rows]))
    return {**result, "content": [*result["content"], text_block(encode(extra).decode())]} if extra else result


def csv_table(rows: Sequence[Sequence[Any]]) -> str:
    """CSV (RFC 4180). An empty field is null, ``""`` is an empty text, and lists and objects are JSON.

    A text that a spreadsheet would run as a formula has an apostrophe in front of it, which makes it a text there.
    """
    return "".join(",".join(map(_csv_field, row)) + "\r\n" for row in rows)


def _csv_field(value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    text = spreadsheet_safe(value) if isinstance(value, str) else encode(value).decode()
    return '"' + text.replace('"', '""') + '"' if _QUOTED_IN_CSV.search(text) else text


def checked(result: JSON, *, is_done: bool) -> JSON:
    """The result. Raises ToolError for one that is too large. ``is_done``: see ``Usage``."""
    limit = get_conf().MAX_RESULT_BYTES
    if may_be_longer(result, limit) and len(encode(result)) > limit:
        raise too_large(limit, is_done=is_done)
    return result


def too_large(limit: int, *, is_done: bool = False) -> ToolError:
    """The error for a result that has more than ``limit`` bytes."""
    text = f"The result is larger than {limit} bytes.{'' if is_done else ' Ask for less.'}"
    return ToolError(text, reason="LIMIT_EXCEEDED")


def done_result(why: str) -> JSON:
    """The result of a tool that has done its work, where ``why`` its own result cannot be shown.

    It is an error, since the tool's output schema is not met; a client might repeat a call after an error of the
    protocol.
    """
    text = f"The tool has done its work. Do not repeat the call. Its result is not shown. {why}"
    return error_result(f"{text} To see what it did, read the records that it was about.")


def error_result(message: str, errors: Sequence[FieldError] = ()) -> JSON:
    """An ``isError`` result: JSON with what is wrong, and a list of wrong arguments, as in ``data`` of the protocol."""
    return {"content": [text_block(encode({"error": message, "errors": list(errors)}).decode())], "isError": True}
