"""How a query and a body are written, so that the parsers of the view read them."""

from __future__ import annotations

import json
import mimetypes
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest
from django.utils.encoding import force_bytes
from django.utils.http import content_disposition_header

from mcp_django.bridge.api.versions import JSON_TYPE
from mcp_django.bridge.api.views import asked
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation

_FORM, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
#: A body by which it shows whether a parser, or a renderer, calls fields otherwise; and one that a form can have.
_SAMPLE, _SAMPLE_OF_FORM = {"a_b": 1, "aB": 2, "c": {"d_e": [3]}}, {"a_b": "1", "aB": "2"}


def as_text(value: Any) -> str:
    """A value as a query or a form has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else encode(value).decode()


def query(values: Mapping[str, Any]) -> str:
    pairs = [(name, as_text(one)) for name, value in values.items() for one in listed(value)]
    return urlencode(pairs)


def listed(value: Any) -> Sequence[Any]:
    """The values of what may be one value, or a list of them."""
    return value if isinstance(value, list) else [value]


def content_type_of(operation: Operation, body: Any, *, is_form: bool = False) -> str:
    """How the body is sent: as JSON where the view reads it, and a file, or what ``is_form``, as a form."""
    types = _media_types(operation)
    if not isinstance(types, list):
        return _MULTIPART if _has_file(body) else types
    if _has_file(body):
        return _MULTIPART
    form = next((one for one in (_FORM, _MULTIPART) if one in types), "")
    if is_form and form:
        return form
    if any(one in (JSON_TYPE, "*/*", "application/*") for one in types):
        return JSON_TYPE
    return next((one for one in types if one.endswith("+json")), form or JSON_TYPE)


def _has_file(body: Any) -> bool:
    values = body.values() if isinstance(body, dict) else ()
    return any(isinstance(one, UploadedFile) for value in values for one in listed(value))


def _media_types(operation: Operation) -> list[str] | str:
    if operation.native is not None:
        return operation.native.content_type  # type: ignore[no-any-return]
    return [str(one.media_type) for one in _parsers(operation)] if operation.is_rest else JSON_TYPE


def _parsers(operation: Operation) -> Sequence[Any]:
    return operation.option("parser_classes", ())  # type: ignore[no-any-return]


def takes_file_alone(operation: Operation) -> bool:
    """Whether a file is the whole body, as FileUploadParser reads it."""
    from rest_framework.parsers import FileUploadParser

    parsers = _parsers(operation) if operation.is_rest else ()
    is_alone = any(isinstance(one, type) and issubclass(one, FileUploadParser) for one in parsers)
    return is_alone and not any(one.media_type == _MULTIPART for one in parsers)


def renaming_parser(operation: Operation) -> str:
    """The parser that gives the fields of a body other names, as camelCase and JSON:API do; empty where none does."""
    kind = content_type_of(operation, {})
    return _renaming(operation, _parsers(operation), lambda found: found.media_type == kind, _is_read_as_it_is)


def renaming_renderer(operation: Operation) -> str:
    """The renderer that gives the fields of JSON other names, or puts them into an envelope; empty where none does."""
    renderers = operation.option("renderer_classes", ())
    return _renaming(operation, renderers, lambda found: str(found.media_type).endswith("json"), _is_written_as_it_is)


def _renaming(
    operation: Operation, classes: Sequence[Any], meant: Callable[[Any], bool], keeps: Callable[[Any], bool]
) -> str:
    """The name of the class that is meant, if it does not keep names. One that cannot be tried does not."""
    found = next(filter(meant, classes), None)
    return "" if found is None or asked(operation.name, partial(keeps, found), False) else found.__name__


def _is_read_as_it_is(parser: Any) -> bool:
    is_form = parser.media_type in (_FORM, _MULTIPART)
    sample: JSON = _SAMPLE_OF_FORM if is_form else _SAMPLE
    kind, content = _encoded(parser.media_type, sample)
    request = HttpRequest()
    request.META["CONTENT_LENGTH"] = str(len(content))
    context: JSON = {"encoding": "utf-8", "kwargs": {}, "request": request, "view": None}
    found = parser().parse(BytesIO(content), kind, context)
    return bool((getattr(found, "data", found).dict() if is_form else found) == sample)


def _is_written_as_it_is(renderer: Any) -> bool:
    return bool(json.loads(renderer().render(_SAMPLE, renderer.media_type, {})) == _SAMPLE)


def written(operation: Operation, body: Any, *, is_form: bool) -> tuple[Mapping[str, str], str, bytes]:
    """The headers of the body, its content type, and its bytes."""
    kind = content_type_of(operation, body, is_form=is_form)
    if _has_file(body) and takes_file_alone(operation):
        [file] = [one for one in body.values() if isinstance(one, UploadedFile)][:1]
        named = {"HTTP_CONTENT_DISPOSITION": content_disposition_header(True, file.name or "file")}
        return named, _kind_of(file), b"".join(file.chunks())
    return {}, *_encoded(kind, body)


def _encoded(kind: str, body: Any) -> tuple[str, bytes]:
    """The content type of the body, and its bytes: those of JSON, unless ``kind`` is a form."""
    if kind.endswith("json") or not isinstance(body, dict):
        return kind if kind.endswith("json") else JSON_TYPE, encode(body)
    if kind == _FORM:
        return _FORM, query(body).encode()
    boundary = secrets.token_hex(16)
    parts = [_part(name, one) for name, value in body.items() for one in listed(value)]
    lines = b"".join(b"--%b\r\n%b\r\n" % (boundary.encode(), part) for part in parts)
    return f"{_MULTIPART}; boundary={boundary}", lines + b"--%b--\r\n" % boundary.encode()


def _kind_of(file: Any) -> str:
    return file.content_type or mimetypes.guess_type(file.name or "")[0] or "application/octet-stream"


def _part(name: str, value: Any) -> bytes:
    """One part of a form (RFC 7578)."""
    named = f'Content-Disposition: form-data; name="{_quoted(name)}"'
    if not isinstance(value, UploadedFile):
        return force_bytes(f"{named}\r\n\r\n{as_text(value)}")
    kind = _kind_of(value)
    head = f'{named}; filename="{_quoted(value.name or "file")}"\r\nContent-Type: {_quoted(kind)}\r\n\r\n'
    return head.encode() + b"".join(value.chunks())


def _quoted(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
