"""The results of tools that give rows: a record, and a page of many."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_django.bridge.declared.returned import ReturnedRows
from mcp_django.bridge.resources import annotating, rules
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import rows
from mcp_django.bridge.resources.reading.returned import NO_OBJECT, ReturnedPage, ReturnedRecord
from mcp_django.bridge.tools.results import structured_result, table_result, text_block
from mcp_django.exceptions import ToolError
from mcp_django.protocol.json_schema.schemas import under_result
from mcp_django.protocol.types import JSON

_TEXTS: JSON = {"type": "array", "items": {"type": "string"}}
_PAGE: JSON = {
    "type": "object",
    "properties": {
        "more": {"type": "string", "description": "Present where more rows follow."},
        "columns": {**_TEXTS, "description": "Names of a row's values."},
        "rows": {"type": "array", "items": {"type": "array"}},
        "notes": {**_TEXTS, "description": "What was left out."},
    },
    "required": ["columns", "rows"],
}


def rows_schema(returned: ReturnedRows) -> JSON:
    """The schema of the structured content of ``rows_result``."""
    schema: JSON = _PAGE if returned.many else {"type": "object"}
    return under_result({"anyOf": [schema, {"type": "null"}]}) if returned.optional else schema


def rows_result(found: ReturnedRecord | ReturnedPage | None, returned: ReturnedRows) -> JSON:
    """The rows that a function has returned. Raises ToolError where there is none, and None was not promised."""
    if found is None and returned.optional:
        return structured_result({"result": None})
    if found is None and not returned.many:
        raise ToolError(NO_OBJECT, reason="NO_RECORD")
    result = record_result(found.rights, found.key, found.record) if isinstance(found, ReturnedRecord) else _page(found)
    if not returned.optional:
        return result
    under = structured_result({"result": result["structuredContent"]})
    return {**under, "content": [{**result["content"][0], **under["content"][0]}, *result["content"][1:]]}


def without_structure(result: JSON) -> JSON:
    """The result as text alone."""
    return {name: value for name, value in result.items() if name != "structuredContent"}


def _page(found: ReturnedPage | None) -> JSON:
    if found is None:
        return table_result([], [], {})
    page = found.page
    notes = [*page.notes, *rules.of_records(found.rights, rows.RecordQuery())]
    first = {"more": found.more} if found.more else {}
    return table_result(page.columns, page.rows, {"notes": notes} if notes else {}, first=first)


def record_result(model: ModelRights, key: str, record: rows.Record, fields: Sequence[str] | None = None) -> JSON:
    """A record, what was left out of it, and a link to it where it has annotations. ``fields``: those asked for."""
    result = structured_result(record.values)
    is_open = ways.is_open(model, "record")
    link = annotating.link(model, key, record, whole=fields is None) if is_open else None
    noted = [text_block(note) for note in [*record.notes, *rules.of_record(model, fields or ())]]
    if link is None:
        return {**result, "content": [*result["content"], *noted]}
    texts = [{**text, "annotations": link["annotations"]} for text in result["content"]]
    return {**result, "content": [*texts, *noted, link]}
