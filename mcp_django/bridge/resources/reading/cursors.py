"""Pages by keyset: a page starts after the values of the last row, so that the last page costs what the first costs.

A cursor is those values as a short text that nobody can forge and that only its own query takes: base64url of the
values and of a MAC. The MAC also covers whether the values are compressed, and the query and the credential line,
which are not in the text.

The condition has the form ``a >= x AND (a > x OR (a = x AND …))``, which an index on ``(a, …)`` answers on all
databases. Nulls are their own query, in the place where the database sorts them.
"""

from __future__ import annotations

import binascii
import datetime
import hashlib
import hmac
import uuid
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Q
from django.utils.encoding import force_bytes

from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.fields.parsing import column_of
from mcp_django.bridge.resources.reading.selection import Order
from mcp_django.core.compat.connections import sorts_nulls_last

#: A cursor may stand in a URI, and the URI in a header.
MAX_CURSOR_CHARS = 2_000

_SALT = "mcp_django.resources.cursors"
#: 96 bits: each guess is a request over the network, and a wrong one tells nothing about the next.
_MAC_BYTES = 12
#: Longer values are compressed. Such a cursor begins with a point, which base64 never has.
_SHORT_BYTES = 100
_COMPRESSED = "."

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

# The kinds of values in a cursor. What has no kind of its own is the text that its field reads back.
_NULL, _TEXT, _INTEGER, _UUID, _MOMENT = range(5)
#: A header is the length, with the kind in its lowest bits. Each byte holds seven bits of it, the lowest first.
_KIND_BITS = 3


def make_cursor(values: Sequence[Any], digest: str, lineage: str) -> str | None:
    """The cursor of a page that ends with these values of the order; None if they are too long for one."""
    body, prefix = b"".join(map(_packed, values)), ""
    if len(body) > _SHORT_BYTES:
        body, prefix = zlib.compress(body), _COMPRESSED
    signed = body + _mac(body, prefix + digest, lineage, settings.SECRET_KEY)
    cursor = prefix + urlsafe_b64encode(signed).decode().rstrip("=")
    return cursor if len(cursor) <= MAX_CURSOR_CHARS else None


def read_values(cursor: str, digest: str, lineage: str) -> list[str | None]:
    """The values in a cursor, each as a text or null. Raises InvalidQuery for a cursor that is not of this query."""
    try:
        prefix = _COMPRESSED if cursor.startswith(_COMPRESSED) else ""
        signed = _decoded(cursor.removeprefix(prefix))
        body, mac = signed[:-_MAC_BYTES], signed[-_MAC_BYTES:]
        keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
        if any(hmac.compare_digest(mac, _mac(body, prefix + digest, lineage, key)) for key in keys):
            return list(_unpacked(zlib.decompress(body) if prefix else body))
    except (ValueError, zlib.error):
        pass
    raise invalid_cursor(cursor)


def invalid_cursor(cursor: str) -> InvalidQuery:
    message = (
        "not a cursor of this query: use next_cursor of the previous page and leave every other argument as it "
        "was, or leave the cursor out to start again."
    )
    return InvalidQuery.one("cursor", message, cursor)


def _mac(body: bytes, digest: str, lineage: str, key: str | bytes) -> bytes:
    # The length keeps the end of a credential line from being taken for the beginning of the values.
    signed = f"{digest}:{len(lineage)}:{lineage}:".encode() + body
    return hmac.digest(_derived_key(key), signed, "sha256")[:_MAC_BYTES]


@lru_cache(maxsize=8)
def _derived_key(key: str | bytes) -> bytes:
    """The key that ``salted_hmac`` of Django derives."""
    return hashlib.sha256(_SALT.encode() + force_bytes(key)).digest()


def _decoded(text: str) -> bytes:
    """The bytes of base64url. Raises ValueError for another spelling of them, so that each cursor has one text."""
    found = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    if urlsafe_b64encode(found).decode().rstrip("=") != text:
        raise binascii.Error("not the shortest spelling")
    return found


def _packed(value: Any) -> bytes:
    """A header and the value; microseconds are kept, and offsets are turned into UTC."""
    kind, data = _TEXT, b""
    if value is None:
        kind = _NULL
    elif type(value) is int:
        kind, data = _INTEGER, _integer(value)
    elif isinstance(value, datetime.datetime) and value.tzinfo is not None:
        kind, data = _MOMENT, _integer((value - _EPOCH) // _MICROSECOND)
    elif isinstance(value, uuid.UUID):
        kind, data = _UUID, value.bytes
    else:
        text = value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
        data = text.encode("utf-8", "surrogatepass")
    return _header(kind, len(data)) + data


def _integer(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _header(kind: int, length: int) -> bytes:
    rest, header = length << _KIND_BITS | kind, bytearray()
    while rest > 0x7F:
        header.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*header, rest])


_READ: Mapping[int, Callable[[bytes], str | None]] = {
    _NULL: lambda data: None,
    _TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
    _INTEGER: lambda data: str(int.from_bytes(data, "big", signed=True)),
    _UUID: lambda data: str(uuid.UUID(bytes=data)),
    _MOMENT: lambda data: (_EPOCH + int.from_bytes(data, "big", signed=True) * _MICROSECOND).isoformat(),
}


def _unpacked(body: bytes) -> Iterator[str | None]:
    """The values of a body whose MAC was right: they are as ``_packed`` wrote them."""
    place = 0
    while place < len(body):
        header, shift = 0, 0
        while True:
            byte = body[place]
            header |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte <= 0x7F:
                break
        end = place + (header >> _KIND_BITS)
        yield _READ[header & (1 << _KIND_BITS) - 1](body[place:end])
        place = end


def query_digest(*parts: Any) -> str:
    """A short name of a query: equal queries have equal digests."""
    from mcp_django.protocol.jsonrpc import encode

    return hashlib.sha256(encode(parts)).hexdigest()[:24]


def read_cursor(cursor: str, orders: Sequence[Order], digest: str, lineage: str) -> list[Any]:
    """The values that a page starts after. Raises InvalidQuery for a cursor that is not of this query."""
    values = read_values(cursor, digest, lineage)
    try:
        return [_typed(order, value) for order, value in zip(orders, values, strict=True)]
    except (ValueError, TypeError, ValidationError):
        raise invalid_cursor(cursor) from None


def _typed(order: Order, value: str | None) -> Any:
    return None if value is None else column_of(order.column.field).to_python(value)


def segments(orders: Sequence[Order], after: Sequence[Any], *, alias: str) -> Iterator[Q]:
    """Conditions that find all rows after ``after``: those of the first one in the order, then those of the next."""
    order, value, last = orders[0], after[0], len(orders) == 1
    path = order.column.path
    nullable = order.column.nullable
    nulls_last = sorts_nulls_last(connections[alias]) != order.descending
    if value is None:
        if not last:
            for rest in segments(orders[1:], after[1:], alias=alias):
                yield Q((f"{path}__isnull", True)) & rest
        if not nulls_last:
            yield Q((f"{path}__isnull", False))
        return
    beyond = Q((f"{path}__lt" if order.descending else f"{path}__gt", value))
    if last:
        yield beyond
    else:
        rests = list(segments(orders[1:], after[1:], alias=alias))
        equal = Q((path, value))
        if len(rests) == 1:
            yield Q((f"{path}__lte" if order.descending else f"{path}__gte", value)) & (beyond | (equal & rests[0]))
        else:
            yield from (equal & rest for rest in rests)
            yield beyond
    if nullable and nulls_last:
        yield Q((f"{path}__isnull", True))
