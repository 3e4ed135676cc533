"""What an admin action says to its user, as an agent reads it: messages, a file, a redirect or a refusal."""

from __future__ import annotations

import base64
import csv
import io
import mimetypes
from collections.abc import Iterable
from html import unescape
from http import HTTPStatus
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase, HttpResponseRedirectBase
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse
from django.utils.html import strip_tags
from django.utils.text import Truncator

from mcp_django.conf import get_conf
from mcp_django.core.compat.requests import disposition_of
from mcp_django.exceptions import ToolError
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest

#: The pages of a model in the admin to which an action may lead when it is done, by the ends of their URLs' names.
_ENDS = ("changelist", "change", "history")
_WITHOUT_CONTENT = (HTTPStatus.NO_CONTENT, HTTPStatus.RESET_CONTENT)
#: Characters of the body of a refusal.
_REASON_CHARS = 500
_TABLES = {"text/csv": ",", "text/tab-separated-values": "\t"}
_ROLLED_BACK = "Its changes to the database were rolled back; what it sent elsewhere, such as mail, was not taken back."


def check_has_run(response: Any) -> None:
    """Raises ToolError where the action is a coroutine or a generator, of which Django's admin runs no line."""
    if isawaitable(response) or isgenerator(response) or isasyncgen(response):
        if iscoroutine(response):
            response.close()
        raise ToolError("The admin runs no line of this action: it is a coroutine or a generator. Nothing was changed.")


def read_response(
    request: MCPRequest, admin: ModelAdmin[Any], response: Any, tool_name: str
) -> tuple[list[str], list[JSON]]:
    """What an action returned: lines about it, and files as content blocks. Each file has a line too.

    As in the admin, a value that is no response means "back to the list".

    Raises ToolError for a refusal, for a file that is too large, and for a redirect that a person must follow: the
    caller then rolls back.
    """
    if not isinstance(response, HttpResponseBase) or response.status_code in _WITHOUT_CONTENT:
        return [], []
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        raise ToolError(f"The action answered {_refusal(response)} {_ROLLED_BACK}")
    if isinstance(response, HttpResponseRedirectBase):
        return _end(request, admin, response), []
    about, file = _file(response, tool_name)
    return [about], [file]


def read_messages(request: MCPRequest) -> tuple[list[str], bool]:
    """What the action said with ``message_user``, a line for each message, and whether it says that the action failed.

    It failed if an error is among the messages and no success.
    """
    lines, levels = [], set()
    for message in messages.get_messages(request):
        levels.add(message.level)
        is_bad = message.level >= messages.WARNING
        kind = "error: " if message.level >= messages.ERROR else "warning: "
        lines.append(f"{kind if is_bad else ''}{_plain(message.message)}")
    return lines, any(level >= messages.ERROR for level in levels) and messages.SUCCESS not in levels


def _plain(text: Any) -> str:
    """A message as a person reads it: one that is marked as safe HTML holds tags and entities."""
    return unescape(strip_tags(str(text))) if hasattr(text, "__html__") else str(text)


def changelist_url(request: MCPRequest, admin: ModelAdmin[Any]) -> str | None:
    """The URL of the page where a person can run the action, if the admin is served."""
    name = f"admin:{admin.opts.app_label}_{admin.opts.model_name}_changelist"
    try:
        return request.build_absolute_uri(reverse(name, current_app=admin.admin_site.name))
    except NoReverseMatch:
        return None


def _refusal(response: HttpResponseBase) -> str:
    """``403 Forbidden: Choose one country.``, with what a person would read of the body."""
    status = f"{response.status_code} {response.reason_phrase}"
    body = ""
    if isinstance(response, HttpResponse) and getattr(response, "is_rendered", True):
        body = response.content.decode(errors="replace")
    reason = Truncator(" ".join(unescape(strip_tags(body)).split())).chars(_REASON_CHARS)
    return f"{status}: {reason}" if reason else f"{status}."


# Redirects.


def _end(request: MCPRequest, admin: ModelAdmin[Any], response: HttpResponseRedirectBase) -> list[str]:
    """A line with the page to which a finished action leads. Raises ToolError if it leads anywhere else."""
    location = response.headers["Location"]
    changelist = changelist_url(request, admin)
    # "None" is how a redirect to a missing Referer is written.
    if location in ("", ".", "None") or location.startswith("?") or _is_of_request(request, location):
        url = changelist
    elif _leads_to_model(request, admin, location):
        url = urljoin(changelist or "", location)
    else:
        raise ToolError(
            f"The action continues at {location[:_REASON_CHARS]}, where a person must finish it. {_ROLLED_BACK}"
        )
    return [f"See {url}"] if url else []


def _is_of_request(request: MCPRequest, location: str) -> bool:
    """Whether the location is the request's own path: the action goes back to where it was called from."""
    parts = urlsplit(location)
    return parts.path == request.path and _is_own_host(request, parts.netloc)


def _leads_to_model(request: MCPRequest, admin: ModelAdmin[Any], location: str) -> bool:
    """Whether the location is the list, the form or the history of a model of the same AdminSite."""
    changelist = changelist_url(request, admin)
    parts = urlsplit(urljoin(changelist or "", location))
    prefix = get_script_prefix()
    if not _is_own_host(request, parts.netloc) or not parts.path.startswith(prefix):
        return False
    try:
        found = resolve(f"/{parts.path.removeprefix(prefix)}")
    except Resolver404:
        return False
    # The admin's views of a model carry its ModelAdmin: the changelist, the form and the history.
    owner = getattr(found.func, "model_admin", None)
    if owner is None or owner.admin_site != admin.admin_site:
        return False
    return found.url_name in {f"{owner.opts.app_label}_{owner.opts.model_name}_{end}" for end in _ENDS}


def _is_own_host(request: MCPRequest, host: str) -> bool:
    return not host or host == request.get_host()


# Files.


def is_page(response: Any) -> bool:
    """Whether the action answered with a page for a person: HTML that is neither streamed nor a download."""
    if not isinstance(response, HttpResponseBase) or response.status_code in _WITHOUT_CONTENT:
        return False
    if not HTTPStatus.OK <= response.status_code < HTTPStatus.MULTIPLE_CHOICES:
        return False
    if isinstance(response, TemplateResponse):
        return True
    is_download = isinstance(response, StreamingHttpResponse) or "Content-Disposition" in response.headers
    return not is_download and _mime_type(response) == "text/html"


def _mime_type(response: HttpResponseBase) -> str:
    return response.headers.get("Content-Type", "application/octet-stream").partition(";")[0].strip().lower()


def _file(response: HttpResponseBase, tool_name: str) -> tuple[str, JSON]:
    """A line about the body, for clients that drop embedded resources, and the body as such a resource."""
    limit = get_conf().MAX_RESULT_BYTES
    body = bytearray()
    for chunk in _chunks(response, limit):
        body += chunk
        if len(body) * 4 / 3 > limit:
            raise _too_large(limit)
    mime_type = _mime_type(response)
    name = _file_name(response, mime_type)
    resource: JSON = {"uri": f"file:///{tool_name}/{quote(name, safe='')}", "mimeType": mime_type}
    about = [name, mime_type]
    try:
        text = body.decode()
    except UnicodeDecodeError:
        resource["blob"] = base64.b64encode(body).decode()
    else:
        if len(text.encode("unicode_escape")) > limit:
            raise _too_large(limit)
        resource["text"] = text
        if mime_type in _TABLES:
            lines = _line_count(text, _TABLES[mime_type])
            about.append(f"{lines:,} line{'' if lines == 1 else 's'}")
    about.append(f"{len(body) / 1_000:,.1f} kB" if len(body) >= 1_000 else f"{len(body)} bytes")
    return f"attached: {', '.join(about)}", {"type": "resource", "resource": resource}


def _too_large(limit: int) -> ToolError:
    return ToolError(f"The file is larger than {limit} bytes (MAX_RESULT_BYTES). Pass fewer ids.")


def _file_name(response: HttpResponseBase, mime_type: str) -> str:
    """The name of the download without folders, or ``file`` with the extension of its type."""
    named = disposition_of(response).get("filename", "").replace("\\", "/").rpartition("/")[2]
    return named or f"file{mimetypes.guess_extension(mime_type) or ''}"


def _line_count(text: str, delimiter: str) -> int:
    """The lines of a table. Whether the first one names the columns cannot be known."""
    try:
        return sum(1 for line in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if line)
    except csv.Error:
        # A field is longer than the reader allows.
        return len(text.splitlines())


def _chunks(response: HttpResponseBase, limit: int) -> Iterable[bytes]:
    """The body in pieces. An asynchronous body is read no further than one piece beyond the limit."""
    if isinstance(response, HttpResponse):
        return [response.content]
    if not isinstance(response, StreamingHttpResponse):
        return []
    if not response.is_async:
        return response.streaming_content  # type: ignore[return-value]

    async def draw() -> list[bytes]:
        drawn, size = [], 0
        async for chunk in response.streaming_content:  # type: ignore[union-attr]
            drawn.append(chunk)
            size += len(chunk)
            if size > limit:
                break
        return drawn

    return async_to_sync(draw)()
