"""The contents of a file or of bytes in a field of a record. Rows hold only a link to them, ``uris.file_uri``."""

from __future__ import annotations

import logging
import mimetypes
from typing import TYPE_CHECKING, Any

from django.core.exceptions import SuspiciousFileOperation
from django.db.models.fields.files import FieldFile, ImageFieldFile
from django.db.models.functions import Length

from mcp_django.bridge.resources import function
from mcp_django.bridge.resources.fields.kinds import BINARY
from mcp_django.bridge.resources.fields.unreadable import fetch_instances
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import rows
from mcp_django.conf import get_conf
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.interrupts import was_interrupted
from mcp_django.protocol.errors import InternalError, LimitExceeded
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.resources.uris import Target

logger = logging.getLogger("mcp_django")
_BYTES = "application/octet-stream"
#: Types beside ``text/…`` that people read.
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/javascript", "application/sql"})
_TEXT_SUFFIXES = ("+json", "+xml")


def holds(rights: ModelRights, name: str) -> bool:
    """Whether the field is one that the principal may read and whose values are links."""
    column = rights.columns.get(name)
    return column is not None and column.kind.linked


def read(rights: ModelRights, uri: str, target: Target) -> JSON | None:
    """The contents that the URI names, or None if there are none that the principal may see.

    Text where its type and its bytes say so, else base64. Raises LimitExceeded, and InternalError where the storage
    fails.
    """
    found = rows.of_key(rights, target.key)
    if found is None:
        return None
    rights, queryset = found
    if not holds(rights, target.field):
        return None
    column = rights.columns[target.field]
    is_binary = column.kind.name == BINARY.name
    if is_binary:
        for (size,) in fetch(queryset.values_list(Length(column.attname))[:1]):
            _check_size(size or 0)
    # Of a translated field, the file of the first language that has one.
    fields = (column.field,) if column.translated is None else column.translated.fields
    names = [field.attname for field in fields]
    stored = [value for row in fetch(queryset.values_list(*names)[:1]) for value in row if value]
    if not stored:
        return None
    if is_binary:
        content = bytes(stored[0])
        _check_size(len(content))  # A class of the project's may have stored less.
        return function.contents(uri, _BYTES, content)
    read = _read_stored(_storage(rights, target.key, column.field), stored[0], f"{rights.label}.{column.name}")
    return None if read is None else _contents(uri, stored[0], read)


def _storage(rights: ModelRights, key: str, field: Any) -> Any:
    """The storage of a file: that of the field, or the one that a class of its own chooses by the row."""
    if field.attr_class in (FieldFile, ImageFieldFile):
        return field.storage
    [row] = fetch_instances(rights.instances([key])) or [None]
    return field.storage if row is None else getattr(row, field.attname).storage


def _read_stored(storage: Any, name: str, where: str) -> bytes | None:
    limit = get_conf().MAX_FILE_BYTES
    try:
        with storage.open(name, "rb") as file:
            _check_size(file.size)
            content: bytes = file.read(limit + 1)
    except FileNotFoundError:
        return None
    except LimitExceeded:
        raise
    except SuspiciousFileOperation:
        logger.warning("%s names a file outside of its storage; it is not read", where)
        return None
    except Exception as error:
        if was_interrupted():
            raise
        logger.exception("The storage of %s failed", where)
        raise InternalError from error
    _check_size(len(content))  # The size that a storage reports may be wrong.
    return content


def _check_size(size: int) -> None:
    limit = get_conf().MAX_FILE_BYTES
    if size > limit:
        raise LimitExceeded(f"The file has {size} bytes; at most {limit} can be read (MAX_FILE_BYTES).")


def _contents(uri: str, name: str, content: bytes) -> JSON:
    mime_type, encoding = mimetypes.guess_type(name)
    if mime_type is None or encoding is not None:
        return function.contents(uri, _BYTES, content)
    if mime_type.startswith("text/") or mime_type in _TEXT_TYPES or mime_type.endswith(_TEXT_SUFFIXES):
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return function.contents(uri, mime_type, content)
        # An escape makes up to six bytes of one: what would not fit as text fits as base64.
        if len(encode(text)) <= get_conf().MAX_FILE_BYTES * 4 // 3:
            return function.contents(uri, mime_type, text)
    return function.contents(uri, mime_type, content)
