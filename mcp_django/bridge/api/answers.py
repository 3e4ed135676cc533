"""Reads the response of an operation: rows as a table, the cursor of the next page, and errors that say what to do."""

from __future__ import annotations

import asyncio
import csv
import io
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from asgiref.sync import async_to_sync
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from pydantic_core import from_json

from mcp_django.bridge.api.field_schemas import errors_in
from mcp_django.bridge.api.versions import fixed_query
from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.conf import get_conf
from mcp_django.core.compat.inner_requests import PIECES
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation

#: Rows of a list that has no pages.
MOST_ROWS = 100
#: In a cursor of ours: how many rows of a page were shown.
SKIP = "_skip"
#: What is read of a text, also of one that has no end.
_MOST_TEXT_BYTES = 64_000
#: Lines of a table by which its delimiter is told.
_FEW_LINES = 5
#: What texts call tables.
_TABLES = ("/csv", "/tab-separated-values")
#: A name beside its value, as in XML, YAML, tables and what people write.
_KEY = re.compile(
    r"""(?<![\w-])([A-Za-z_][\w-]{1,60})["']?(?:[ ]*[:=>|]|[,;\t](?=\S))  # Before what parts it from the next one.
    |(?:\|[ ]*|[,;\t])["']?([A-Za-z_][\w-]{1,60})(?![\w-])  # After it.
    |^[ ]*([A-Za-z_][\w-]{1,60})[ ]+\S+[ ]*$  # With its value alone in a line.
    """,
    re.MULTILINE | re.VERBOSE,
)
#: How long a stream is read.
_STREAM_SECONDS = 5.0
#: How much larger than an answer the JSON may be of which the answer is made.
_ROOM = 20
_MOST_DETAIL_CHARS = 500
_MOST_ERRORS = 20
#: What envelopes of lists call what is told otherwise.
_OF_PAGES = frozenset({"count", "next", "previous"})
#: What pages call their rows, the usual name first.
_OF_ROWS = ("results", "items", "data", "objects", "rows", "records")
#: Actions whose answer is never a page.
_OF_ONE_RECORD = frozenset({"retrieve", "create", "update", "partial_update", "destroy"})
#: What an error calls what it says.
_SAYING = ("detail", "message", "error_description", "error", "title")
#: Statuses.
_DONE, REDIRECTS = range(200, 300), range(300, 400)
_NOTHING_THERE = "finds nothing there, or nothing that you may see."


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, read as long as the response was open."""

    status: int
    #: The JSON, or the text; None where there is neither.
    value: Any = None
    is_text: bool = False
    kind: str = ""
    #: Why it cannot be shown; empty where it can.
    problem: str = ""
    #: Whether a view has answered, and not middleware.
    view: Any = None
    retry_after: str = ""

    @property
    def is_done(self) -> bool:
        return self.status in _DONE


def read(request: HttpRequest, response: HttpResponseBase, *, is_over: Callable[[], bool]) -> Answer:
    """Read a response of which it is not known who has made it, and how long it is, until nobody waits for it."""
    context: Any = getattr(response, "renderer_context", None) or {}
    view = context.get("view")
    kind = response.get("Content-Type", "").partition(";")[0].strip().lower()
    status, retry_after = response.status_code, response.get("Retry-After", "")
    if status in REDIRECTS:
        return Answer(status, problem="It answers with a redirect, which is not followed.", view=view)
    if status == HTTPStatus.NO_CONTENT:
        return Answer(status, view=view)
    is_json = kind.endswith(("/json", "+json"))
    if not (is_json or kind.startswith("text/") or kind in ("application/csv", "application/xml", "")):
        return Answer(status, problem=f"It answers with {kind}, which is no text.", view=view)
    most = get_conf().MAX_RESULT_BYTES * _ROOM if is_json else _MOST_TEXT_BYTES
    content, is_whole = _content(response, most, is_over)
    if kind == "text/html":
        problem = "It answers with a page for people, which is not shown." if content.strip() else ""
        return Answer(status, problem=problem, view=view, retry_after=retry_after)
    if is_json:
        if not is_whole:
            problem = f"Its answer is larger than {most} bytes, or takes too long. Ask for less."
            return Answer(status, problem=problem, view=view)
        try:
            return Answer(status, from_json(content) if content else None, view=view, retry_after=retry_after)
        except ValueError:
            return Answer(status, problem="Its answer is no JSON, though it says so.", view=view)
    text = content.decode(getattr(response, "charset", None) or "utf-8", "replace")
    text = text if is_whole else f"{text}… (cut)"
    return Answer(status, text, is_text=True, kind=kind, view=view, retry_after=retry_after)


def _content(response: Any, most: int, is_over: Callable[[], bool]) -> tuple[bytes, bool]:
    """The first bytes of a response, and whether there are no more."""
    if getattr(response, "is_async", False):
        return async_to_sync(_drawn)(response, most, is_over)
    pieces = response if response.streaming else getattr(response, PIECES, None)
    if pieces is None:
        content: bytes = response.content
        return content[:most], len(content) <= most
    found, end = bytearray(), time.monotonic() + _STREAM_SECONDS
    for chunk in pieces:
        found += response.make_bytes(chunk)
        if len(found) > most or is_over() or time.monotonic() > end:
            return bytes(found[:most]), False
    return bytes(found), True


async def _drawn(response: Any, most: int, is_over: Callable[[], bool]) -> tuple[bytes, bool]:
    """The same of a stream that is made asynchronously, which Django would otherwise read to its end."""
    found = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(_STREAM_SECONDS):
            async for chunk in response.streaming_content:
                found += chunk
                if len(found) > most or is_over():
                    return bytes(found[:most]), False
            return bytes(found), True
    return bytes(found), False


# Results.


def result(operation: Operation, answer: Answer, sent: Mapping[str, Any], asked: JSON) -> JSON:
    """The structured content for an answer. ``sent`` is the query, and ``asked`` the arguments of the call.

    Raises ToolError for an answer that is an error, or that cannot be shown.
    """
    if not answer.is_done:
        raise refusal(operation, answer)
    if answer.problem:
        raise ToolError(f"{operation.name} cannot be shown. {answer.problem}", reason="UNSHOWABLE")
    if answer.is_text:
        if wrong := [name for name in ("fields", "limit", "cursor") if asked.get(name)]:
            errors = [field_error(name, "is not taken: the answer is a text.") for name in wrong]
            raise ToolError(f"Invalid arguments for {operation.name}.", errors)
        return {"text": _shown_text(operation, answer)}
    value = without_secrets(answer.value, operation.exposure.show_secrets)
    rows, around = _rows_of(operation, value, is_page=_has_paged(answer.view))
    if rows is None:
        return {"result": _cut(value, asked.get("fields", ()))}
    return {**_table(operation, rows, asked, sent, answer), **around}


def _shown_text(operation: Operation, answer: Answer) -> str:
    """The text without secret columns, if it is a table. Raises ToolError for another one that names a secret."""
    text, shown = str(answer.value), operation.exposure.show_secrets
    if answer.kind.endswith(_TABLES):
        return _without_secret_columns(operation, text)
    names = (one for found in _KEY.findall(text) for one in found if one)
    if name := next((one for one in names if is_secret_name(one) and one not in shown), ""):
        raise _has_secret(operation, name)
    return text


def _has_secret(operation: Operation, name: str) -> ToolError:
    text = f"{operation.name} cannot be shown. Its text has {name}, which is named like a secret."
    return ToolError(text, reason="UNSHOWABLE")


def is_list(operation: Operation, answer: Answer) -> bool:
    """Whether it answers with rows."""
    return _rows_of(operation, answer.value, is_page=_has_paged(answer.view))[0] is not None


def _has_paged(view: Any) -> bool:
    """Whether the paginator of the view has made the page that it answers with."""
    return any(getattr(getattr(view, "paginator", None), name, None) is not None for name in ("page", "count"))


def _rows_of(operation: Operation, value: Any, *, is_page: bool) -> tuple[list[Any] | None, JSON]:
    """The rows of an answer that is a list, or a page of one; and what stands beside them."""
    if isinstance(value, list):
        return value, {}
    if isinstance(value, dict) and operation.action not in _OF_ONE_RECORD:
        lists = [name for name, one in value.items() if isinstance(one, list)]
        named = [name for name in _OF_ROWS if name in lists] or (lists if len(lists) == 1 else [])
        is_page = is_page or operation.action == "list"
        if named and (is_page or lists == ["results"] or (named[0] in _OF_ROWS and "count" in value)):
            return value[named[0]], {k: v for k, v in value.items() if k != named[0] and k not in _OF_PAGES}
        envelopes = [name for name, one in value.items() if isinstance(one, dict)]
        if is_page and not lists and len(envelopes) == 1:
            inner = value[envelopes[0]]
            if any(isinstance(inner.get(name), list) for name in _OF_ROWS):
                rows, around = _rows_of(operation, inner, is_page=True)
                return rows, {**{k: v for k, v in value.items() if k != envelopes[0]}, **around}
    return None, {}


def _table(operation: Operation, rows: list[Any], asked: JSON, sent: Mapping[str, Any], answer: Answer) -> JSON:
    skipped = _number(asked.get("cursor", {}).get(SKIP))
    most = min(asked.get("limit") or MOST_ROWS, MOST_ROWS)
    shown = rows[skipped : skipped + most]
    found: JSON = _columns(shown, asked.get("fields", ()))
    if (total := _total(answer, rows)) is not None:
        found["total"] = total
    if not operation.is_safe:
        if most < len(rows):
            found["notes"] = [f"The first {most} of {len(rows)} are shown."]
    elif skipped + most < len(rows):
        found["next_cursor"] = {**_page_of(asked), SKIP: skipped + most}
    elif (following := _next(operation, answer, sent)) is not None:
        found["next_cursor"] = following
    return found


def _page_of(asked: JSON) -> JSON:
    return {name: value for name, value in asked.get("cursor", {}).items() if name != SKIP}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _columns(rows: Sequence[Any], fields: Collection[str]) -> JSON:
    """Rows as columns where all of them have the same keys, and otherwise as they are."""
    rows = [_cut(row, fields) for row in rows]
    if rows and all(isinstance(row, dict) for row in rows) and all(row.keys() == rows[0].keys() for row in rows):
        names = list(rows[0])
        return {"columns": names, "rows": [[row[name] for name in names] for row in rows]}
    return {"items": rows} if rows else {"columns": list(fields), "rows": []}


def _cut(value: Any, fields: Collection[str]) -> Any:
    """The fields of an object that were asked for. Raises ToolError for one that it does not have."""
    if not fields or not isinstance(value, dict):
        return value
    for name in fields:
        if name not in value:
            raise ToolError("Invalid arguments.", [field_error("fields", unknown_name("field", name, list(value)))])
    return {name: value[name] for name in fields}


def _total(answer: Answer, rows: Sequence[Any]) -> int | None:
    if isinstance(answer.value, list):
        return len(rows)
    count = answer.value.get("count") if isinstance(answer.value, dict) else None
    if count is None:
        paginator = getattr(answer.view, "paginator", None)
        count = getattr(paginator, "count", None)
        if count is None:
            count = getattr(getattr(getattr(paginator, "page", None), "paginator", None), "count", None)
    return count if isinstance(count, int) else None


def _next(operation: Operation, answer: Answer, sent: Mapping[str, Any]) -> JSON | None:
    """What to send in the query for the next page, beside what was sent. Only the query of a link counts."""
    if operation.native is not None:
        return operation.native.next_page(answer.value, sent)  # type: ignore[no-any-return]
    link = _link_in(answer.value)
    paginator = getattr(answer.view, "paginator", None)
    if not isinstance(link, str) and hasattr(paginator, "get_next_link"):
        link = _asked_link(paginator)
    if not isinstance(link, str) or "?" not in link:
        return None
    query = {name: values[-1] for name, values in parse_qs(urlsplit(link).query, keep_blank_values=True).items()}
    fixed, own = fixed_query(operation), _names_of(paginator)
    following = {
        name: value
        for name, value in query.items()
        if name in own or not (name in fixed or name in sent or is_secret_name(name))
    }
    return following or None


def _link_in(value: Any) -> Any:
    """The link to the next page in an answer, or in what stands beside the rows: ``{"links": {"next": …}}``."""
    if not isinstance(value, dict) or "next" in value:
        return value.get("next") if isinstance(value, dict) else None
    beside = (one.get("next") for one in value.values() if isinstance(one, dict))
    return next((link for link in beside if isinstance(link, str)), None)


def _asked_link(paginator: Any) -> Any:
    try:
        return paginator.get_next_link()
    except Exception:  # noqa: BLE001 - a page that was never asked for has none
        return None


def _names_of(paginator: Any) -> set[str]:
    """The names in a query by which a paginator is told which page it is."""
    return set(names_of(paginator)) or {"page", "limit", "offset", "cursor", "page_size"}


def names_of(paginator: Any) -> Iterator[str]:
    """What a paginator of DRF reads of the query."""
    for name in ("page", "page_size", "limit", "offset", "cursor"):
        if found := getattr(paginator, f"{name}_query_param", None):
            yield found


def without_secrets(value: Any, shown: Collection[str]) -> Any:
    """The value without what is named like a secret, at every depth, but for the names that the project shows."""
    if isinstance(value, dict):
        return {
            name: without_secrets(one, shown)
            for name, one in value.items()
            if name in shown or not _is_secret(name, one)
        }
    return [without_secrets(one, shown) for one in value] if isinstance(value, list) else value


def _without_secret_columns(operation: Operation, text: str) -> str:
    """A table without the columns whose headings are named like secrets. A title may stand above the headings.

    Raises ToolError for a table in which a row is called so.
    """
    shown = operation.exposure.show_secrets
    delimiter = max(",;\t", key="\n".join(text.split("\n")[:_FEW_LINES]).count)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    heading = next((index for index, row in enumerate(rows) if len(list(filter(None, row))) > 1), 0)

    def is_secret(cell: str) -> bool:
        return cell.strip() not in shown and is_secret_name(cell.strip())

    hidden = {index for row in rows[heading : heading + 1] for index, cell in enumerate(row) if is_secret(cell)}
    for row in rows[heading + 1 :]:
        first = next((index for index, cell in enumerate(row) if cell), 0)
        if first not in hidden and row and is_secret(row[first]):
            raise _has_secret(operation, row[first].strip())
    if not hidden:
        return text
    written = io.StringIO(newline="")
    table = csv.writer(written, delimiter=delimiter)
    table.writerows([cell for index, cell in enumerate(row) if index not in hidden] for row in rows)
    return written.getvalue()


def _is_secret(name: Any, value: Any) -> bool:
    """A flag is no secret, whatever it is called, nor is what is not there."""
    return not isinstance(value, bool) and value is not None and is_secret_name(str(name))


# Errors.


def refusal(operation: Operation, answer: Answer) -> ToolError:
    """The error for an answer whose status is one."""
    name, status = operation.name, answer.status
    detail = _detail(answer)
    match status:
        case 400 | 409 | 422:
            errors = list(_errors(without_secrets(answer.value, operation.exposure.show_secrets)))[:_MOST_ERRORS]
            text = f"{name} refuses this." if errors else f"{name} refuses this (status {status}).{detail}"
            return ToolError(text, errors, reason="INVALID_ARGUMENTS")
        case 401:
            return ToolError(f"{name} needs a login that you do not have.{detail}", reason="NO_PERMISSION")
        case 403:
            return ToolError(f"You may not make this call of {name}.{detail}", reason="NO_PERMISSION")
        case 404 | 410:
            return ToolError(f"{name} {_NOTHING_THERE}", reason="NO_RECORD")
        case 429:
            wait = f" Call it again in {answer.retry_after} s." if answer.retry_after.isdigit() else " Call it later."
            return ToolError(f"{name} was called too often.{wait}", reason="THROTTLED")
    if status >= 500:
        return ToolError(f"{name} failed (status {status}). The server's log has the details.", reason="TOOL_ERROR")
    problem = f" {answer.problem}" if answer.problem else ""
    return ToolError(f"{name} refuses this (status {status}).{problem}{detail}", reason="REFUSED")


def _detail(answer: Answer) -> str:
    """What the API says to every client beside the status."""
    if answer.is_text and isinstance(answer.value, str):
        said = answer.value if answer.view is not None else ""
    else:
        found = answer.value if isinstance(answer.value, dict) else {}
        said = next((found[name] for name in _SAYING if isinstance(found.get(name), str)), "")
    return f" It says: {said[:_MOST_DETAIL_CHARS]}" if isinstance(said, str) and said else ""


def _errors(value: Any) -> Iterator[FieldError]:
    """The wrong fields of an answer, as ``lines.0.amount``: of DRF, or of django-ninja, which says where it looked."""
    details = value.get("detail") if isinstance(value, dict) else None
    if isinstance(details, list) and all(isinstance(one, dict) and "loc" in one for one in details):
        for one in details:
            where = ".".join(map(str, list(one["loc"])[1:]))
            yield field_error(where, str(one.get("msg", "is wrong."))[:_MOST_DETAIL_CHARS])
    else:
        yield from errors_in(value)
